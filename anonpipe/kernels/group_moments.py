"""Means and scatters of tables and of their groups, summed in a fixed order.

No BLAS: its order follows its threads. Rows are centred first and summed in blocks, so that no digits are lost.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray

BLOCK = 256  # Rows multiplied at a time; a multiple of 4


@nb.njit(cache=True, nogil=True)
def group_mean(features: FloatArray, members: IntArray, mean: FloatArray) -> None:
    """Write the mean of the `members` rows into `mean`, by differences to the first: exact for equal rows."""
    first = members[0]
    width = features.shape[1]
    mean[:] = 0.0
    for at in range(1, members.shape[0]):
        row = members[at]
        for j in range(width):
            mean[j] += features[row, j] - features[first, j]
    for j in range(width):
        mean[j] = features[first, j] + mean[j] / members.shape[0]


@nb.njit(cache=True, nogil=True)
def add_products(a: FloatArray, b: FloatArray, out: FloatArray, symmetric: bool) -> None:
    """Add a'b to `out`, four rows at a time; `symmetric` fills the upper triangle only."""
    for i in range(0, a.shape[0], 4):
        for j in range(a.shape[1]):
            a0, a1, a2, a3 = a[i, j], a[i + 1, j], a[i + 2, j], a[i + 3, j]
            for h in range(j if symmetric else 0, b.shape[1]):
                out[j, h] += (a0 * b[i, h] + a1 * b[i + 1, h]) + (a2 * b[i + 2, h] + a3 * b[i + 3, h])


@nb.njit(cache=True, nogil=True)
def _mirror(upper: FloatArray) -> None:
    for j in range(upper.shape[0]):
        for h in range(j):
            upper[j, h] = upper[h, j]


@nb.njit(cache=True, nogil=True)
def mean_and_scatter(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean, shape (width,), and scatter about it, shape (width, width), of all rows."""
    n, width = features.shape
    mean = np.zeros(width)
    scatter = np.zeros((width, width))
    if n == 0:
        return mean, scatter
    for begin in range(0, n, BLOCK):
        part = np.zeros(width)
        for i in range(begin, min(n, begin + BLOCK)):
            for j in range(width):
                part[j] += features[i, j] - features[0, j]
        mean += part
    for j in range(width):
        mean[j] = features[0, j] + mean[j] / n
    rows = np.zeros((BLOCK, width))
    block = np.zeros((width, width))
    for begin in range(0, n, BLOCK):
        rows[:] = 0.0
        for i in range(begin, min(n, begin + BLOCK)):
            for j in range(width):
                rows[i - begin, j] = features[i, j] - mean[j]
        block[:] = 0.0
        add_products(rows, rows, block, nb.boolean(True))
        scatter += block
    _mirror(scatter)
    return mean, scatter


@nb.njit(cache=True, nogil=True)
def within_scatter(features: FloatArray, order: IntArray, starts: IntArray) -> FloatArray:
    """Scatter of all rows about their group's mean, summed over groups, shape (width, width)."""
    width = features.shape[1]
    within = np.zeros((width, width))
    rows = np.zeros((BLOCK, width))
    block = np.zeros((width, width))
    mean = np.empty(width)
    filled = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        group_mean(features, members, mean)
        for row in members:
            for j in range(width):
                rows[filled, j] = features[row, j] - mean[j]
            filled += 1
            if filled == BLOCK:
                block[:] = 0.0
                add_products(rows, rows, block, nb.boolean(True))
                within += block
                filled = 0
    rows[filled:] = 0.0
    block[:] = 0.0
    add_products(rows, rows, block, nb.boolean(True))
    within += block
    _mirror(within)
    return within


@nb.njit(cache=True, nogil=True)
def cross_products(a: FloatArray, b: FloatArray) -> FloatArray:
    """The product a'b of two tables with the same rows, shape (columns of a, columns of b)."""
    n = a.shape[0]
    total = np.zeros((a.shape[1], b.shape[1]))
    block = np.zeros((a.shape[1], b.shape[1]))
    left, right = np.zeros((BLOCK, a.shape[1])), np.zeros((BLOCK, b.shape[1]))
    for begin in range(0, n, BLOCK):
        count = min(n - begin, BLOCK)
        left[:count] = a[begin : begin + count]
        right[:count] = b[begin : begin + count]
        left[count:] = 0.0
        block[:] = 0.0
        add_products(left, right, block, nb.boolean(False))
        total += block
    return total


@nb.njit(cache=True, nogil=True)
def spread_sums(
    features: FloatArray, order: IntArray, starts: IntArray, centre: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Sums over groups of products of group means and scatters (see `moments.GroupSpread`), (width, width) each."""
    # With u the group's mean less `centre`, W its scatter and n its size: W_jj W_hh / n + W_jh² / n, u_j² W_hh,
    # u_j u_h W_jh, u_j W_hh, u_j W_jh, and the largest (√(W_jj W_hh) + |W_jh|) / 2n
    width = features.shape[1]
    shape = (width, width)
    noise, square, product = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    linear, mixed, largest = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    mean, x, w = np.empty(width), np.empty(width), np.empty(shape)
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        group_mean(features, members, mean)
        w[:] = 0.0
        for row in members:
            for j in range(width):
                x[j] = features[row, j] - mean[j]
            for j in range(width):
                for h in range(width):
                    w[j, h] += x[j] * x[h]
        size = members.shape[0]
        for j in range(width):
            u = mean[j] - centre[j]
            for h in range(width):
                noise[j, h] += (w[j, j] * w[h, h] + w[j, h] * w[j, h]) / size
                square[j, h] += u * u * w[h, h]
                product[j, h] += u * (mean[h] - centre[h]) * w[j, h]
                linear[j, h] += u * w[h, h]
                mixed[j, h] += u * w[j, h]
                largest[j, h] = max(largest[j, h], (np.sqrt(w[j, j] * w[h, h]) + abs(w[j, h])) / (2.0 * size))
    return noise, square, product, linear, mixed, largest
