"""Group means laid over the records, with or without noise."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.group_moments import group_mean

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@nb.njit(cache=True, nogil=True)
def centre_groups(points: FloatArray, order: IntArray, starts: IntArray, out: FloatArray) -> None:
    """Write each group's mean into the rows of its members in `out`, shape (n_rows, width)."""
    mean = np.empty(points.shape[1])
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        group_mean(points, members, mean)
        for row in members:
            out[row] = mean


@nb.njit(cache=True, nogil=True)
def perturb_groups(
    points: FloatArray,
    order: IntArray,
    starts: IntArray,
    draws: FloatArray,
    factor: FloatArray,
    centred: bool,
    out: FloatArray,
) -> None:
    """Write each group's mean plus noise into the rows of its members in `out`.

    Parameters
    ----------
    points, out
        Shape (n_rows, width).
    order, starts
        The groups.
    draws
        Standard normal, shape (rows of the groups, rank), group by group;
        changed where `centred`.
    factor
        Transposed factor of the noise covariance, shape (rank, width).
    centred
        Whether the group's mean of the draws is subtracted first.
    """
    rank, width = factor.shape
    mean = np.empty(width)
    begin = starts[0]
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        size = members.shape[0]
        group_mean(points, members, mean)
        z = draws[starts[g] - begin : starts[g + 1] - begin]
        if centred:
            for c in range(rank):
                middle = 0.0
                for i in range(size):
                    middle += z[i, c]
                middle /= size
                for i in range(size):
                    z[i, c] -= middle
        for i in range(size):
            row = members[i]
            out[row] = mean
            for c in range(rank):
                for j in range(width):
                    out[row, j] += z[i, c] * factor[c, j]
