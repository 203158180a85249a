"""What is known of a synthesizer, in one record; the table of all; the validating dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.synthesize._centroid import centroid
from anonpipe.synthesize._gaussian import gaussian
from anonpipe.synthesize._micro_perturbation import micro_perturbation
from anonpipe.synthesize._pca import pca

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Synthesizer:
    """One method that replaces the records of groups.

    Attributes
    ----------
    function
        `function(points, order, starts, *, rng, **options) -> new points`;
        without `rng` where `random` is false.
    name
        What the job calls it.
    published
        Name in the literature.
    reference
        DOI and place.
    cost
        Time and memory, in n records of width columns.
    options
        Its options and what each is for.
    required
        Options that have no default.
    promise
        Which moments are kept, exactly or on average, of group, stratum or table.
    random
        Whether it draws.
    identical_groups
        Whether all synthesized values of a group become equal.
    exact_group_moments
        Whether every group's mean and scatter are kept with the default options.
    exact_table_moments
        Whether the table's mean and covariance are kept with the default options.
    """

    function: Callable[..., FloatArray]
    name: str
    published: str
    reference: str
    cost: str
    options: Mapping[str, str]
    required: tuple[str, ...]
    promise: str
    random: bool
    identical_groups: bool
    exact_group_moments: bool
    exact_table_moments: bool


METHODS: dict[str, Synthesizer] = {
    method.name: method
    for method in (
        Synthesizer(
            function=centroid,
            name="centroid",
            published="microaggregation, mean substitution",
            reference="Domingo-Ferrer & Mateo-Sanz (2002), doi:10.1109/69.979982",
            cost="time n · width; memory: the result",
            options={},
            required=(),
            promise="keeps means of groups, strata and table exactly; covariances shrink to those of the group means",
            random=False,
            identical_groups=True,
            exact_group_moments=False,
            exact_table_moments=False,
        ),
        Synthesizer(
            function=gaussian,
            name="gaussian",
            published="normal data with the moments of the group (hybrid microdata)",
            reference="Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005",
            cost="time n · width · min(group - 1, width); memory: the result, one group, and its draws or 8 MiB",
            options={},
            required=(),
            promise=(
                "keeps mean and scatter of every group exactly, and so means and covariances of strata and table; "
                "groups of up to width + 1 records stay in the span of the originals, groups of two are the originals"
            ),
            random=True,
            identical_groups=False,
            exact_group_moments=True,
            exact_table_moments=True,
        ),
        Synthesizer(
            function=pca,
            name="pca",
            published="improved condensation, synthetic data generation",
            reference="Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 3 and Proposition 1",
            cost="time n · width · min(group - 1, width); memory: the result, one group, and its draws or 8 MiB",
            options={
                "moments": "'exact' (default): of the drawn sample, as gaussian; 'expected': of its distribution",
                "n_table": "records of the whole table; with moments='expected' only, and needed there",
            },
            required=(),
            promise=(
                "exact: as gaussian; expected: means and covariance of the table are unbiased (of a stratum up to a "
                "relative 1/N), those of a group are not kept"
            ),
            random=True,
            identical_groups=False,
            exact_group_moments=True,
            exact_table_moments=True,
        ),
        Synthesizer(
            function=micro_perturbation,
            name="micro_perturbation",
            published="micro-perturbation (CAMP)",
            reference="Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 5, eq. 10 to 12",
            cost="time n · width · rank of the noise; memory: the result, and draws of one group or 8 MiB",
            options={
                "factor": "noise_factor(s_delta(moments of the table or stratum, form)), width x width",
                "form": "'independent' (default), 'centred' or 'published'",
            },
            required=("factor",),
            promise=(
                "independent: means and covariance of the table (or of each stratum, where the factor is the "
                "stratum's) are unbiased; centred: group means and all means exact, the covariance unbiased; "
                "published: means unbiased, the covariance too large by (G-1)/(N-G) of what the groups lost"
            ),
            random=True,
            identical_groups=False,
            exact_group_moments=False,
            exact_table_moments=False,
        ),
    )
}
"""All synthesizers by name."""


def synthesize(
    points: FloatArray,
    order: IntArray,
    starts: IntArray,
    method: str,
    *,
    rng: np.random.Generator,
    **options: Any,
) -> FloatArray:
    """Replace the records of all groups by a method of `METHODS`, after checking its input.

    Parameters
    ----------
    points
        Finite float64, shape (n_rows, width).
    order, starts
        The groups; see `anonpipe.kernels.groups.sort_groups`. Every row is in
        one group, and no group is empty.
    method
        A key of `METHODS`.
    rng
        Source of all draws.
    **options
        The method's options; an unknown one is an error.

    Returns
    -------
    float64, shape (n_rows, width)
        Row i replaces row i; `points` is not changed.

    Raises
    ------
    JobError
        Unknown method or option, missing option, or a value that is not allowed.
    InputError
        Points that are not finite, or groups that do not hold every row once.

    Examples
    --------
    >>> points = np.array([[0.0], [4.0]])
    >>> synthesize(points, np.arange(2), np.array([0, 2]), "centroid", rng=np.random.default_rng()).tolist()
    [[2.0], [2.0]]
    """
    if method not in METHODS:
        raise JobError(f"unknown synthesizer {method!r}; known are: {', '.join(METHODS)}")
    entry = METHODS[method]
    known = ", ".join(entry.options) or "none"
    if unknown := [name for name in options if name not in entry.options]:
        raise JobError(f"{method} has no option {', '.join(unknown)}; its options: {known}")
    if missing := [name for name in entry.required if name not in options]:
        raise JobError(f"{method} needs the option {', '.join(missing)}; its options: {known}")
    _check_points(points)
    _check_groups(len(points), order, starts)
    drawn = {"rng": rng} if entry.random else {}
    return entry.function(np.ascontiguousarray(points), order, starts, **drawn, **options)


def _check_points(points: FloatArray) -> None:
    if points.ndim != 2 or points.dtype != np.float64:
        raise InputError(f"points are a float64 table, not {points.dtype} of {points.ndim} dimensions; convert them")
    bad = int(np.count_nonzero(~np.isfinite(points).all(axis=1)))
    if bad:
        raise InputError(f"{bad} of {len(points)} records have values that are not finite; fill or drop them first")


def _check_groups(n: int, order: IntArray, starts: IntArray) -> None:
    if order.dtype != np.int64 or starts.dtype != np.int64:
        raise InputError("order and starts are int64; take them from sort_groups")
    ends = len(starts) > 0 and starts[0] == 0 and starts[-1] == n == len(order)
    if not ends or (np.diff(starts) < 1).any():
        raise InputError(f"starts do not cut {n} records into groups of at least one; take them from sort_groups")
    seen = np.zeros(n, dtype=np.bool_)
    if n and order.min() >= 0 and order.max() < n:
        seen[order] = True
    if not seen.all():
        raise InputError(f"order does not hold each of {n} records once; take it from sort_groups")
