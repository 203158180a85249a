"""New records for every group from its own scatter, by random rotation or by normal draws.

All kernels go through the groups `order[starts[g]:starts[g + 1]]` and read
normal draws, made outside, from one array in the order of the groups.

A group of n records is centred and written in n - 1 zero-sum coordinates
(`anonpipe.kernels.orthogonal`). With n - 1 <= width rows these are used as
they are; a taller matrix is reduced to the triangle R of its QR
decomposition, which has the same scatter. So the work of a group is
n · width · min(n - 1, width), and no matrix of width x width is made for a
group of few records. No matrix is inverted and no rank is estimated:
dependent or constant columns give rows of zeros.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from anonpipe.kernels.group_moments import group_mean
from anonpipe.kernels.orthogonal import contrasts, householder, reflect, rotate, triangularise, write_group
from anonpipe.types import FloatArray, IntArray

# A kept column counts as a combination of those before it if less than this part of its length is new
DEPENDENT = 1e-10


@nb.njit(cache=True, nogil=True)
def rotation_draws(rows: int, width: int) -> int:
    """Normal draws that a random rotation of a matrix of that shape takes.

    Examples
    --------
    >>> rotation_draws(4, 2)
    7
    """
    rank: int = min(rows, width)
    return rank * rows - rank * (rank - 1) // 2


@nb.njit(cache=True, nogil=True)
def _coordinates(
    features: FloatArray, members: IntArray, mean: FloatArray, a: FloatArray, v: FloatArray, sums: FloatArray
) -> int:
    """Write a group's mean, and coordinates of its scatter into `a`; returns how many rows of `a` these may fill."""
    rows, width = members.shape[0] - 1, features.shape[1]
    group_mean(features, members, mean)
    contrasts(features, members, mean, a)
    if rows > width:
        triangularise(a, rows, v, sums)
    return int(min(rows, width))


@nb.njit(cache=True, nogil=True)
def rotate_groups(features: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, out: FloatArray) -> None:
    """Write a random rotation of every group about its mean into `out`."""
    width = features.shape[1]
    largest = np.diff(starts).max()
    a, v = np.empty((largest, width)), np.empty(largest)
    mean, sums = np.empty(width), np.empty(width)
    at = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        rank = _coordinates(features, members, mean, a, v, sums)
        at += rotate(a, members.shape[0] - 1, rank, draws[at:], v, sums)
        write_group(a, mean, members, out)


@nb.njit(cache=True, nogil=True)
def draw_groups(
    features: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, factor: float, out: FloatArray
) -> None:
    """Write normal records with each group's mean and scatter times `factor` over its size into `out`.

    `draws` holds size times min(size - 1, width) standard normal numbers for
    each group; the other parameters are those of `rotate_groups`.
    """
    width = features.shape[1]
    largest = np.diff(starts).max()
    a, v = np.empty((largest, width)), np.empty(largest)
    mean, sums = np.empty(width), np.empty(width)
    at = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        rank = _coordinates(features, members, mean, a, v, sums)
        scale = math.sqrt(factor / members.shape[0])
        for row in members:
            out[row] = mean
            for i in range(rank):
                weight = draws[at] * scale
                at += 1
                for j in range(width):
                    out[row, j] += weight * a[i, j]


@nb.njit(cache=True, nogil=True)
def _set_apart(k: FloatArray, x: FloatArray, rows: int, normals: FloatArray, sums: FloatArray) -> int:
    """Reflect `k` and `x` so that the first rows of `x` are what the columns of `k` explain.

    `normals` gets the reflectors, row by row; returns their number, the rank
    of `k`, which is destroyed.
    """
    rank = 0
    for j in range(k.shape[1]):
        if rank == rows:
            break
        whole, new = 0.0, 0.0
        for i in range(rows):
            whole += k[i, j] * k[i, j]
            if i >= rank:
                new += k[i, j] * k[i, j]
        if new <= DEPENDENT * DEPENDENT * whole:
            continue
        size, v = rows - rank, normals[rank]
        for i in range(size):
            v[i] = k[rank + i, j]
        householder(v, size)
        reflect(k, rank, j + 1, v, size, 1.0, sums)
        reflect(x, rank, 0, v, size, 1.0, sums)
        rank += 1
    return rank


@nb.njit(cache=True, nogil=True)
def rotate_residuals(
    features: FloatArray, kept: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, out: FloatArray
) -> None:
    """Write into `out` what `kept` explains of every group, plus a random rotation of what it does not.

    Shapes: kept (n_rows, n_kept).
    """
    width, n_kept = features.shape[1], kept.shape[1]
    largest = np.diff(starts).max()
    k, x = np.empty((largest, n_kept)), np.empty((largest, width))
    normals, v = np.empty((min(largest, n_kept), largest)), np.empty(largest)
    middle, mean, sums = np.empty(n_kept), np.empty(width), np.empty(max(width, n_kept))
    at = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        rows = members.shape[0] - 1
        group_mean(kept, members, middle)
        contrasts(kept, members, middle, k)
        group_mean(features, members, mean)
        contrasts(features, members, mean, x)
        explained = _set_apart(k, x, rows, normals, sums)
        free = rows - explained
        residuals = x[explained:]
        if free > width:
            triangularise(residuals, free, v, sums)
        rotate(residuals, free, min(free, width), draws[at:], v, sums)
        at += rotation_draws(rows, width)
        for i in range(explained - 1, -1, -1):
            reflect(x, i, 0, normals[i], rows - i, 1.0, sums)
        write_group(x, mean, members, out)
