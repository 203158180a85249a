"""Reflectors, triangles and random rotations of small matrices, and the zero-sum coordinates of a group.

The basis of n - 1 dimensions is the Householder reflector that maps the ones to the first axis: nothing is stored.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from anonpipe.kernels.group_moments import BLOCK, group_mean
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def contrasts(features: FloatArray, members: IntArray, mean: FloatArray, out: FloatArray) -> None:
    """Centre a group and write its n - 1 coordinates in the zero-sum basis into `out`."""
    n, width = members.shape[0], features.shape[1]
    share = 1.0 / (math.sqrt(n) + 1.0)
    first = members[0]
    for i in range(1, n):
        row = members[i]
        for j in range(width):
            out[i - 1, j] = (features[row, j] - mean[j]) - (features[first, j] - mean[j]) * share


@nb.njit(cache=True, nogil=True)
def write_group(a: FloatArray, mean: FloatArray, members: IntArray, out: FloatArray) -> None:
    """Write mean plus the records that have the coordinates `a` in the zero-sum basis."""
    n, width = members.shape[0], out.shape[1]
    root = math.sqrt(n)
    total = np.zeros(width)
    for i in range(n - 1):
        for j in range(width):
            total[j] += a[i, j]
    for j in range(width):
        out[members[0], j] = mean[j] - total[j] / root
        total[j] /= n + root
    for i in range(1, n):
        row = members[i]
        for j in range(width):
            out[row, j] = mean[j] + (a[i - 1, j] - total[j])


@nb.njit(cache=True, nogil=True)
def reflect(a: FloatArray, top: int, left: int, v: FloatArray, size: int, flip: float, sums: FloatArray) -> None:
    """Reflect rows `top` to `top + size` of `a`, column `left` on, by the normal `v`; first flip row `top`."""
    norm = 0.0
    for i in range(size):
        norm += v[i] * v[i]
    width = a.shape[1]
    for j in range(left, width):
        sums[j] = v[0] * flip * a[top, j]
    for i in range(1, size):
        for j in range(left, width):
            sums[j] += v[i] * a[top + i, j]
    for j in range(left, width):
        sums[j] *= 2.0 / norm
        a[top, j] = flip * a[top, j] - v[0] * sums[j]
    for i in range(1, size):
        for j in range(left, width):
            a[top + i, j] -= v[i] * sums[j]


@nb.njit(cache=True, nogil=True)
def householder(x: FloatArray, size: int) -> float:
    """Turn `x` into the normal of the reflector that maps it to the first axis; the image's sign, 0 for zeros."""
    largest = 0.0
    for i in range(size):
        largest = max(largest, abs(x[i]))
    if largest == 0.0:
        return 0.0
    norm = 0.0
    for i in range(size):
        x[i] /= largest
        norm += x[i] * x[i]
    sign = -1.0 if x[0] > 0.0 else 1.0
    x[0] -= sign * math.sqrt(norm)
    return sign


@nb.njit(cache=True, nogil=True)
def triangularise(a: FloatArray, rows: int, v: FloatArray, sums: FloatArray) -> None:
    """Replace `a` by the triangle of its QR decomposition (Householder), zeros below."""
    for j in range(min(rows, a.shape[1])):
        size = rows - j
        for i in range(size):
            v[i] = a[j + i, j]
        if householder(v, size) != 0.0:
            reflect(a, j, j, v, size, 1.0, sums)
        for i in range(j + 1, rows):
            a[i, j] = 0.0


@nb.njit(cache=True, nogil=True)
def rotate(a: FloatArray, rows: int, rank: int, draws: FloatArray, v: FloatArray, sums: FloatArray) -> int:
    """Apply a random orthogonal matrix to `a`, whose rows after `rank` are zero; returns the draws used."""
    # Its first `rank` columns are uniform (Haar): reflectors that map the axes to normal vectors of falling
    # length, with the sign that makes the image the vector itself (Stewart 1980, SIAM J. Numer. Anal. 17).
    used = rank * rows - rank * (rank - 1) // 2
    end = used
    for j in range(rank - 1, -1, -1):
        size = rows - j
        end -= size
        v[:size] = draws[end : end + size]
        sign = householder(v, size)
        if sign != 0.0:
            reflect(a, j, 0, v, size, sign, sums)
    return used


# --- Group means laid over the records, with or without noise ---------------------------------------------------------


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
def _centre_draws(z: FloatArray, columns: int) -> None:
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
        _centre_draws(draws[starts[g] - starts[0] : starts[g + 1] - starts[0]], draws.shape[1])


@nb.njit(cache=True, nogil=True)
def fold_rows(root: FloatArray, rows: FloatArray) -> FloatArray:
    """The triangle S with S'S = R'R + A'A, R being the triangle `root` and A `rows`, all of one width."""
    # QR of R over the next rows: unlike a sum of products it does not square the condition of the rows.
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
    """Write each group's mean plus noise into `out`; draws (rows of the groups, rank or more), factor (rank, width)."""
    rank, width = factor.shape
    mean = np.empty(width)
    begin = starts[0]
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        size = members.shape[0]
        group_mean(features, members, mean)
        z = draws[starts[g] - begin : starts[g + 1] - begin]
        if centred:
            _centre_draws(z, rank)
        for i in range(size):
            row = members[i]
            out[row] = mean
            for c in range(rank):
                for j in range(width):
                    out[row, j] += z[i, c] * factor[c, j]
