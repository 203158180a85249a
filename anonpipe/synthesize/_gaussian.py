"""Normal records that have exactly the mean and the scatter of their group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.rotate import rotate_groups
from anonpipe.synthesize._draws import draw_in_chunks

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def gaussian(points: FloatArray, order: IntArray, starts: IntArray, *, rng: np.random.Generator) -> FloatArray:
    """Replace each group by normal records conditioned on the group's mean and scatter.

    Parameters
    ----------
    points
        Finite, shape (n_rows, width), C order.
    order, starts
        The groups; see `anonpipe.kernels.groups.sort_groups`.
    rng
        Source of the draws.

    Returns
    -------
    float64, shape (n_rows, width)
        Row i replaces row i. Every group's mean and scatter, and with them
        the table's mean and covariance, are those of `points` to rounding.

    Notes
    -----
    Normal records of n members whose sample mean and scatter are forced to
    given values are distributed as the group's mean plus Q X_c: X_c the
    centred group and Q uniform among the orthogonal matrices that keep the
    vector of ones. So the group is rotated, in O(n · width · min(n - 1,
    width)), and nothing is inverted; singular scatters, constant columns and
    equal records need no special case.

    A group of n <= width + 1 stays in the affine span of its records; a group
    of two keeps its two records, perhaps swapped; in a group of three one angle
    is free, which one known value of a record gives away.

    References
    ----------
    Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005
    (the condition on the moments); Stewart (1980), SIAM J. Numer.
    Anal. 17 (uniform orthogonal matrices).

    Examples
    --------
    >>> rng = np.random.default_rng()
    >>> points = rng.normal(size=(6, 2))
    >>> new = gaussian(points, np.arange(6), np.array([0, 6]), rng=rng)
    >>> np.allclose(np.cov(new.T), np.cov(points.T)), np.allclose(new, points)
    (True, False)
    """
    out = np.empty_like(points)
    rows = np.diff(starts) - 1
    rank = np.minimum(rows, points.shape[1])
    for first, after, draws in draw_in_chunks(rank * rows - rank * (rank - 1) // 2, rng):
        rotate_groups(points, order, starts[first : after + 1], draws, out)
    return out
