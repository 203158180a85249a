"""Centroids: every record of a group becomes the group's mean."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.noise import centre_groups

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def centroid(points: FloatArray, order: IntArray, starts: IntArray) -> FloatArray:
    """Replace every record by the mean of its group.

    Parameters
    ----------
    points
        Finite, shape (n_rows, width).
    order, starts
        The groups; see `anonpipe.kernels.groups.sort_groups`.

    Returns
    -------
    float64, shape (n_rows, width)
        Row i replaces row i. Group means and the table's mean are kept; the
        covariance loses what lay within the groups.

    References
    ----------
    Domingo-Ferrer & Mateo-Sanz (2002), doi:10.1109/69.979982.

    Examples
    --------
    >>> centroid(np.array([[1.0], [7.0], [3.0]]), np.array([0, 2, 1]), np.array([0, 2, 3])).tolist()
    [[2.0], [7.0], [2.0]]
    """
    out = np.empty_like(points)
    centre_groups(points, order, starts, out)
    return out
