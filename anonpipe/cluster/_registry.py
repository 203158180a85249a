"""The clustering methods by name, and the one way to run them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.cluster._kmeans import kmeans
from anonpipe.cluster._mdav import mdav
from anonpipe.cluster._sizes import count_groups
from anonpipe.kernels.points import checked_points

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Method:
    """One clustering method.

    Attributes
    ----------
    function
        `function(points, k, *, rng, **options) -> labels`; its keyword-only
        parameters besides `rng` are the method's options.
    name
        What the job calls it.
    published
        Name in the literature.
    reference
        DOI and place.
    cost
        Time and memory, in n records, w columns, blocks of b records.
    needs
        What it needs besides points, for example class labels; often nothing.
    sizes
        What group sizes it gives.
    """

    function: Callable[..., IntArray]
    name: str
    published: str
    reference: str
    cost: str
    needs: tuple[str, ...]
    sizes: str

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that `cluster` passes on."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "rng")


METHODS: dict[str, Method] = {
    "mdav": Method(
        function=mdav,
        name="mdav",
        published="Maximum distance to average vector (MDAV-generic)",
        reference="Domingo-Ferrer and Torra 2005, doi:10.1007/s10618-005-0007-5, algorithm MDAV-generic",
        cost="time O(n·b·w/k) in blocks of b records, O(n²·w/k) without; memory O(n + b·w)",
        needs=(),
        sizes="k, and k to 2k-1 for the last group of a block",
    ),
    "kmeans": Method(
        function=kmeans,
        name="kmeans",
        published="Improved condensation: k-means with small clusters filled up",
        reference="Gal et al. 2014, doi:10.1016/j.jbi.2014.01.001, Algorithm 2, steps 2a to 2c",
        cost="time O(iterations·n·b·w/k) in blocks of b records; memory O(n + b·w)",
        needs=(),
        sizes="k or more, without an upper limit",
    ),
}


def cluster(
    points: FloatArray, k: int, method: str = "mdav", *, rng: np.random.Generator, **options: int | float | str | None
) -> IntArray:
    """Group records by a method of `METHODS`, and count the groups whatever the method promises.

    Parameters
    ----------
    points
        Finite numbers up to 1e100 in size, shape (n_rows, width), n_rows >= k.
        Not changed.
    k
        Smallest size of a group, 1 or more.
    method
        A key of `METHODS`.
    rng
        For methods that draw.
    options
        The method's own, see `METHODS[method].options`.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1, every one in use.

    Raises
    ------
    ValueError
        Unknown method or option, points that are not a finite matrix, k below
        1 or above n_rows, or an option out of its range.
    AnonpipeError
        The method broke its promise: a group under k, a record without group.

    Examples
    --------
    >>> points = np.array([[0.0], [9.0], [1.0], [10.0]])
    >>> cluster(points, 2, "mdav", rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; allowed are {', '.join(METHODS)}")
    entry = METHODS[method]
    for name in options:
        if name not in entry.options:
            raise ValueError(f"{method} has no option {name!r}; allowed are {', '.join(entry.options)}")
    points = checked_points(points)
    if not 1 <= k <= len(points):
        raise ValueError(f"k is {k} for {len(points)} records; give 1 to as many as there are records")
    labels = entry.function(points, k, rng=rng, **options)
    count_groups(labels, len(points), k, method)
    return labels
