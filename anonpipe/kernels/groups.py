"""Means and scatters of tables and of their groups, summed in a fixed order.

No BLAS: its order follows its threads. Rows are centred first and summed in blocks, so that no digits are lost.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from anonpipe.kernels.compiled import kernel
from anonpipe.types import FloatArray, IntArray

BLOCK = 256  # Rows multiplied at a time; a multiple of 4


@kernel
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


@kernel
def add_products(a: FloatArray, b: FloatArray, out: FloatArray, symmetric: bool) -> None:
    """Add a'b to `out`, four rows at a time; `symmetric` fills the upper triangle only."""
    for i in range(0, a.shape[0], 4):
        for j in range(a.shape[1]):
            a0, a1, a2, a3 = a[i, j], a[i + 1, j], a[i + 2, j], a[i + 3, j]
            for h in range(j if symmetric else 0, b.shape[1]):
                out[j, h] += (a0 * b[i, h] + a1 * b[i + 1, h]) + (a2 * b[i + 2, h] + a3 * b[i + 3, h])


@kernel
def add_matrix(a: FloatArray, out: FloatArray) -> None:
    """Add `a` to `out`; numba compiles `+=` of arrays three times as long."""
    for j in range(a.shape[0]):
        for h in range(a.shape[1]):
            out[j, h] += a[j, h]


@kernel
def copy_rows(rows: FloatArray, out: FloatArray) -> None:
    """Write `rows` into the first of `out`; an assignment brings texts of errors that take 2 s to compile."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j]


@kernel
def _mirror(upper: FloatArray) -> None:
    for j in range(upper.shape[0]):
        for h in range(j):
            upper[j, h] = upper[h, j]


@kernel
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
        for j in range(width):
            mean[j] += part[j]
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
        add_matrix(block, scatter)
    _mirror(scatter)
    return mean, scatter


@kernel
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
                add_matrix(block, within)
                filled = 0
    rows[filled:] = 0.0
    block[:] = 0.0
    add_products(rows, rows, block, nb.boolean(True))
    add_matrix(block, within)
    _mirror(within)
    return within


@kernel
def cross_products(a: FloatArray, b: FloatArray) -> FloatArray:
    """The product a'b of two tables with the same rows, shape (columns of a, columns of b)."""
    n = a.shape[0]
    total = np.zeros((a.shape[1], b.shape[1]))
    block = np.zeros((a.shape[1], b.shape[1]))
    left, right = np.zeros((BLOCK, a.shape[1])), np.zeros((BLOCK, b.shape[1]))
    for begin in range(0, n, BLOCK):
        count = min(n - begin, BLOCK)
        copy_rows(a[begin : begin + count], left)
        copy_rows(b[begin : begin + count], right)
        left[count:] = 0.0
        block[:] = 0.0
        add_products(left, right, block, nb.boolean(False))
        add_matrix(block, total)
    return total


@kernel
def spread_sums(
    features: FloatArray, order: IntArray, starts: IntArray, centre: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Sums over groups of products of group means and scatters (see `moments.GroupSpread`), (width, width) each."""
    # With u the group's mean less `centre`, W its scatter and n its size: W_jj W_hh / n + W_jh² / n, u_j² W_hh, u_j u_h
    # W_jh, u_j W_hh, u_j W_jh, and the largest (√(W_jj W_hh) + |W_jh|) / 2n
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


# --- Reflectors, triangles and random rotations of small matrices, and the zero-sum coordinates of a group ------------
# The basis of n - 1 dimensions is the Householder reflector that maps the ones to the first axis: nothing is stored.


@kernel
def contrasts(features: FloatArray, members: IntArray, mean: FloatArray, out: FloatArray) -> None:
    """Centre a group and write its n - 1 coordinates in the zero-sum basis into `out`."""
    n, width = members.shape[0], features.shape[1]
    share = 1.0 / (math.sqrt(n) + 1.0)
    first = members[0]
    for i in range(1, n):
        row = members[i]
        for j in range(width):
            out[i - 1, j] = (features[row, j] - mean[j]) - (features[first, j] - mean[j]) * share


@kernel
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


@kernel
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


@kernel
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


@kernel
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


@kernel
def rotate(a: FloatArray, rows: int, rank: int, draws: FloatArray, v: FloatArray, sums: FloatArray) -> int:
    """Apply a random orthogonal matrix to `a`, whose rows after `rank` are zero; returns the draws used."""
    # Its first `rank` columns are uniform (Haar): reflectors that map the axes to normal vectors of falling length,
    # with the sign that makes the image the vector itself (Stewart 1980, SIAM J. Numer. Anal. 17).
    used = rank * rows - rank * (rank - 1) // 2
    end = used
    for j in range(rank - 1, -1, -1):
        size = rows - j
        end -= size
        for i in range(size):
            v[i] = draws[end + i]
        sign = householder(v, size)
        if sign != 0.0:
            reflect(a, j, int(0), v, size, sign, sums)
    return used


@kernel
def centre_groups(features: FloatArray, order: IntArray, starts: IntArray, out: FloatArray) -> None:
    """Write each group's mean into the rows of its members in `out`, shape (n_rows, width)."""
    mean = np.empty(features.shape[1])
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        group_mean(features, members, mean)
        for row in members:
            for j in range(mean.shape[0]):
                out[row, j] = mean[j]


@kernel
def centre_in_groups(draws: FloatArray, starts: IntArray) -> None:
    """Subtract from `draws`, shape (rows of the groups, rank), group by group, the mean of each group."""
    for g in range(starts.shape[0] - 1):
        z = draws[starts[g] - starts[0] : starts[g + 1] - starts[0]]
        for c in range(z.shape[1]):
            middle = 0.0
            for i in range(z.shape[0]):
                middle += z[i, c]
            middle /= z.shape[0]
            for i in range(z.shape[0]):
                z[i, c] -= middle


@kernel
def fold_rows(root: FloatArray, rows: FloatArray) -> FloatArray:
    """The triangle S with S'S = R'R + A'A, R being the triangle `root` and A `rows`, all of one width."""
    # QR of R over the next rows: unlike a sum of products it does not square the condition of the rows.
    width = root.shape[0]
    stack = np.zeros((width + BLOCK, width))
    copy_rows(root, stack)
    v, sums = np.empty(width + BLOCK), np.empty(width)
    for begin in range(0, rows.shape[0], BLOCK):
        count = min(rows.shape[0] - begin, BLOCK)
        copy_rows(rows[begin : begin + count], stack[width:])
        triangularise(stack, width + count, v, sums)
    return stack[:width].copy()


@kernel
def perturb_groups(
    features: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, factor: FloatArray, out: FloatArray
) -> None:
    """Write each group's mean plus noise into `out`; draws (rows of the groups, rank or more), factor (rank, width)."""
    rank, width = factor.shape
    mean = np.empty(width)
    begin = starts[0]
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        group_mean(features, members, mean)
        z = draws[starts[g] - begin : starts[g + 1] - begin]
        for i in range(members.shape[0]):
            row = members[i]
            for j in range(width):
                out[row, j] = mean[j]
            for c in range(rank):
                for j in range(width):
                    out[row, j] += z[i, c] * factor[c, j]
