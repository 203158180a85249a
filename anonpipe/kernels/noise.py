"""Group means laid over the records, with or without noise."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.group_moments import BLOCK, group_mean
from anonpipe.kernels.orthogonal import triangularise
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def centre_groups(features: FloatArray, order: IntArray, starts: IntArray, out: FloatArray) -> None:
    """Write each group's mean into the rows of its members in `out`, shape (n_rows, width)."""
    mean = np.empty(features.shape[1])
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        group_mean(features, members, mean)
        for row in members:
            out[row] = mean


@nb.njit(cache=True, nogil=True)
def centre_draws(z: FloatArray, columns: int) -> None:
    """Subtract from the first `columns` columns of `z` their means."""
    size = z.shape[0]
    for c in range(columns):
        middle = 0.0
        for i in range(size):
            middle += z[i, c]
        middle /= size
        for i in range(size):
            z[i, c] -= middle


@nb.njit(cache=True, nogil=True)
def centre_in_groups(draws: FloatArray, starts: IntArray) -> None:
    """Subtract from `draws`, shape (rows of the groups, rank), group by group, the mean of each group."""
    for g in range(starts.shape[0] - 1):
        centre_draws(draws[starts[g] - starts[0] : starts[g + 1] - starts[0]], draws.shape[1])


@nb.njit(cache=True, nogil=True)
def fold_rows(root: FloatArray, rows: FloatArray) -> FloatArray:
    """The triangle S with S'S = R'R + A'A, R being the triangle `root` and A `rows`, all of one width.

    QR of R over the next rows, again and again: unlike a sum of products it
    does not square the condition of the rows.
    """
    width = root.shape[0]
    stack = np.zeros((width + BLOCK, width))
    stack[:width] = root
    v, sums = np.empty(width + BLOCK), np.empty(width)
    for begin in range(0, rows.shape[0], BLOCK):
        count = min(rows.shape[0] - begin, BLOCK)
        stack[width : width + count] = rows[begin : begin + count]
        triangularise(stack, width + count, v, sums)
    return stack[:width].copy()


@nb.njit(cache=True, nogil=True)
def perturb_groups(
    features: FloatArray,
    order: IntArray,
    starts: IntArray,
    draws: FloatArray,
    factor: FloatArray,
    centred: bool,
    out: FloatArray,
) -> None:
    """Write each group's mean plus noise into the rows of its members in `out`.

    Shapes: draws (rows of the groups, rank or more); factor (rank, width).
    """
    rank, width = factor.shape
    mean = np.empty(width)
    begin = starts[0]
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        size = members.shape[0]
        group_mean(features, members, mean)
        z = draws[starts[g] - begin : starts[g + 1] - begin]
        if centred:
            centre_draws(z, rank)
        for i in range(size):
            row = members[i]
            out[row] = mean
            for c in range(rank):
                for j in range(width):
                    out[row, j] += z[i, c] * factor[c, j]
