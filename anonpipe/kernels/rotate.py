"""New records for every group from its own scatter, by random rotation or by normal draws.

All kernels go through the groups `order[starts[g]:starts[g + 1]]` and read
normal draws, made outside, from one array in the order of the groups.

A group of n records is centred and written in an orthonormal basis of the
n - 1 dimensions that sum to zero: the Householder reflector that maps the
vector of ones to the first axis, of which nothing needs to be stored. In this
basis a group of n - 1 <= width rows is used as it is; a taller one is reduced
to the triangle R of its QR decomposition, which has the same scatter. No
matrix is inverted and no rank is estimated: dependent or constant columns
give rows of zeros.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.group_moments import group_mean

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@nb.njit(cache=True, nogil=True)
def _contrasts(points: FloatArray, members: IntArray, mean: FloatArray, out: FloatArray) -> None:
    """Centre a group and write its n - 1 coordinates in the zero-sum basis into `out`."""
    n, width = members.shape[0], points.shape[1]
    share = 1.0 / (math.sqrt(n) + 1.0)
    first = members[0]
    for i in range(1, n):
        row = members[i]
        for j in range(width):
            out[i - 1, j] = (points[row, j] - mean[j]) - (points[first, j] - mean[j]) * share


@nb.njit(cache=True, nogil=True)
def _write_group(contrasts: FloatArray, mean: FloatArray, members: IntArray, out: FloatArray) -> None:
    """Write mean plus the records that have the given coordinates in the zero-sum basis."""
    n, width = members.shape[0], out.shape[1]
    root = math.sqrt(n)
    total = np.zeros(width)
    for i in range(n - 1):
        for j in range(width):
            total[j] += contrasts[i, j]
    for j in range(width):
        out[members[0], j] = mean[j] - total[j] / root
        total[j] /= n + root
    for i in range(1, n):
        row = members[i]
        for j in range(width):
            out[row, j] = mean[j] + (contrasts[i - 1, j] - total[j])


@nb.njit(cache=True, nogil=True)
def _reflect(a: FloatArray, top: int, left: int, v: FloatArray, size: int, flip: float, sums: FloatArray) -> None:
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
def _householder(x: FloatArray, size: int) -> float:
    """Turn `x` into the normal of the reflector that maps it to the first axis, scaled to its largest entry.

    Returns the sign that the image has there, or 0 for a vector of zeros.
    """
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
def _triangularise(a: FloatArray, rows: int, v: FloatArray, sums: FloatArray) -> None:
    """Replace `a` by the triangle of its QR decomposition (Householder), zeros below."""
    for j in range(min(rows, a.shape[1])):
        size = rows - j
        for i in range(size):
            v[i] = a[j + i, j]
        if _householder(v, size) != 0.0:
            _reflect(a, j, j, v, size, 1.0, sums)
        for i in range(j + 1, rows):
            a[i, j] = 0.0


@nb.njit(cache=True, nogil=True)
def _rotate(a: FloatArray, rows: int, rank: int, draws: FloatArray, v: FloatArray, sums: FloatArray) -> int:
    """Apply a random orthogonal matrix to `a`, whose rows after `rank` are zero; returns the draws used.

    The first `rank` columns of the matrix are uniform (Haar): reflectors
    that map the axes to normal vectors of falling length, each with the sign
    that makes the image the vector itself (Stewart 1980, SIAM J. Numer. Anal. 17).
    """
    used = rank * rows - rank * (rank - 1) // 2
    end = used
    for j in range(rank - 1, -1, -1):
        size = rows - j
        end -= size
        v[:size] = draws[end : end + size]
        sign = _householder(v, size)
        if sign != 0.0:
            _reflect(a, j, 0, v, size, sign, sums)
    return used


@nb.njit(cache=True, nogil=True)
def rotate_groups(points: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, out: FloatArray) -> None:
    """Write a random rotation of every group about its mean into `out`.

    Parameters
    ----------
    points, out
        Shape (n_rows, width); rows that are in no given group stay as they are in `out`.
    order, starts
        The groups.
    draws
        Standard normal, `rotation_draws(size, width)` for each group.
    """
    width = points.shape[1]
    largest = np.diff(starts).max()
    a, v = np.empty((largest, width)), np.empty(largest)
    mean, sums = np.empty(width), np.empty(width)
    at = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        rows = members.shape[0] - 1
        group_mean(points, members, mean)
        _contrasts(points, members, mean, a)
        if rows > width:
            _triangularise(a, rows, v, sums)
        at += _rotate(a, rows, min(rows, width), draws[at:], v, sums)
        _write_group(a, mean, members, out)


@nb.njit(cache=True, nogil=True)
def draw_groups(
    points: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, factor: float, out: FloatArray
) -> None:
    """Write normal records with each group's mean and scatter times `factor` over its size into `out`.

    `draws` holds size times min(size - 1, width) standard normal numbers for
    each group; the other parameters are those of `rotate_groups`.
    """
    width = points.shape[1]
    largest = np.diff(starts).max()
    a, v = np.empty((largest, width)), np.empty(largest)
    mean, sums = np.empty(width), np.empty(width)
    at = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        rows = members.shape[0] - 1
        group_mean(points, members, mean)
        _contrasts(points, members, mean, a)
        if rows > width:
            _triangularise(a, rows, v, sums)
        scale = math.sqrt(factor / members.shape[0])
        for row in members:
            out[row] = mean
            for i in range(min(rows, width)):
                weight = draws[at] * scale
                at += 1
                for j in range(width):
                    out[row, j] += weight * a[i, j]
