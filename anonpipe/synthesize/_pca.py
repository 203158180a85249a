"""Independent normal principal components in each group."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from anonpipe.errors import JobError
from anonpipe.kernels.rotate import draw_groups
from anonpipe.synthesize._draws import draw_in_chunks
from anonpipe.synthesize._gaussian import gaussian

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def pca(
    points: FloatArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator,
    moments: Literal["exact", "expected"] = "exact",
    n_table: int | None = None,
) -> FloatArray:
    """Replace each group by normal draws of its principal components, turned back.

    Parameters
    ----------
    points
        Finite, shape (n_rows, width), C order.
    order, starts
        The groups; see `anonpipe.kernels.groups.sort_groups`.
    rng
        Source of the draws.
    moments
        `exact`: the drawn components have exactly the means and variances of
        the group's components and no correlation. `expected`: they have them
        on average.
    n_table
        Records of the whole table, of which `points` may be a part; for
        `expected` only, and required there.

    Returns
    -------
    float64, shape (n_rows, width)
        Row i replaces row i. `exact`: as `gaussian`. `expected`: the table's
        mean and covariance are unbiased; a group's are not.

    Raises
    ------
    JobError
        Unknown `moments`, or `n_table` missing or out of place.

    Notes
    -----
    The step of the paper's Algorithm 3 that gives a component "mean and
    standard deviation" of the original leaves open whether this is meant of
    the drawn sample or of its distribution. `exact` takes it of the sample:
    uncorrelated normal components of fixed mean and variance, turned back, are
    a uniform random rotation of the centred group, so that the law, and the
    kernel, are those of `gaussian`.

    `expected` takes it of the distribution. Each record then has the
    covariance W/n · N/(N-1), W being the group's scatter, n its size and N the
    records of the table: with W/(n-1) the records would spread too far, as
    their draws move the group's mean too. Any A with A'A = W serves in place of
    the eigenvectors: the group's own centred coordinates where it has no more
    records than columns (where the paper's Proposition 1 turns to the small
    matrix of inner products), else the triangle of their QR decomposition.

    References
    ----------
    Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 3 and Proposition 1.

    Examples
    --------
    >>> rng = np.random.default_rng()
    >>> points = np.repeat([[1.0, 2.0]], 4, axis=0)
    >>> pca(points, np.arange(4), np.array([0, 4]), rng=rng, moments="expected", n_table=100).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    if moments == "exact":
        if n_table is not None:
            raise JobError("pca takes n_table with moments='expected' only; leave it out")
        return gaussian(points, order, starts, rng=rng)
    if moments != "expected":
        raise JobError(f"pca was given moments={moments!r}; known are 'exact' and 'expected'")
    if n_table is None or n_table < max(len(points), 2):
        raise JobError("pca in expectation needs n_table: the records of the whole table, two or more")
    out = np.empty_like(points)
    sizes = np.diff(starts)
    scale = n_table / (n_table - 1)
    for first, after, draws in draw_in_chunks(sizes * np.minimum(sizes - 1, points.shape[1]), rng):
        draw_groups(points, order, starts[first : after + 1], draws, scale, out)
    return out
