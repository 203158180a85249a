"""Principal directions, and recursive splits of records along them."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.points import checked_features, dot, kth_smallest
from anonpipe.types import FloatArray, IntArray

SAMPLE_ROWS = 1024
_ITERATIONS = 60


@nb.njit(cache=True, nogil=True)
def covariance(features: FloatArray, rows: IntArray, step: int) -> FloatArray:
    """Covariance (times a constant) of every `step`-th of `rows`, shape (width, width)."""
    width = features.shape[1]
    mean = np.zeros(width)
    count = 0
    for at in range(0, rows.shape[0], step):
        count += 1
        for j in range(width):
            mean[j] += features[rows[at], j]
    for j in range(width):
        mean[j] /= count
    scatter = np.zeros((width, width))
    centred = np.empty(width)
    for at in range(0, rows.shape[0], step):
        for j in range(width):
            centred[j] = features[rows[at], j] - mean[j]
        for j in range(width):
            for h in range(j + 1):
                scatter[j, h] += centred[j] * centred[h]
    for j in range(width):
        for h in range(j):
            scatter[h, j] = scatter[j, h]
    return scatter


@nb.njit(cache=True, nogil=True)
def _multiply_and_normalize(matrix: FloatArray, unit: float, vector: FloatArray) -> float:
    """Replace `vector` by matrix / unit · vector at length one; the largest change of an entry."""
    width = matrix.shape[0]
    product = np.empty(width)
    squares = 0.0
    for j in range(width):
        product[j] = dot(matrix[j], vector) / unit
        squares += product[j] * product[j]
    if not squares > 0.0:
        return 0.0
    moved = 0.0
    for j in range(width):
        value = product[j] / np.sqrt(squares)
        moved = max(moved, abs(value - vector[j]))
        vector[j] = value
    return moved


@nb.njit(cache=True, nogil=True)
def _leading_eigenvector(matrix: FloatArray) -> FloatArray:
    """Power iteration from the column of the largest diagonal entry, largest entry positive; zero for zeros."""
    width = matrix.shape[0]
    vector = np.zeros(width)
    widest = 0
    for j in range(width):
        if matrix[j, j] > matrix[widest, widest]:
            widest = j
    if width == 0 or not matrix[widest, widest] > 0.0:
        return vector
    vector[widest] = 1.0
    for _ in range(_ITERATIONS):
        if _multiply_and_normalize(matrix, matrix[widest, widest], vector) < 1e-9:
            break
    largest = np.argmax(np.abs(vector))
    if vector[largest] < 0.0:
        vector *= -1.0
    return vector


@nb.njit(cache=True, nogil=True)
def principal_direction(features: FloatArray, rows: IntArray, turned: bool) -> FloatArray:
    """Unit vector along which `rows` of `features` spread most, shape (width,); zero where they do not."""
    # Evenly spaced rows decide, all if those do not differ. `turned` gives one halfway to the second direction, each in
    # units of its spread: splits along it cross the borders of splits along the first.
    step = max(1, rows.shape[0] // SAMPLE_ROWS)
    matrix = covariance(features, rows, step)
    if step > 1 and not np.trace(matrix) > 0.0:
        matrix = covariance(features, rows, int(1))
    first = _leading_eigenvector(matrix)
    if not turned:
        return first
    width = matrix.shape[0]
    spread = np.zeros(2)
    for j in range(width):
        spread[0] += dot(matrix[j], first) * first[j]
    rest = matrix.copy()
    for j in range(width):
        for h in range(width):
            rest[j, h] -= spread[0] * first[j] * first[h]
    second = _leading_eigenvector(rest)
    for j in range(width):
        spread[1] += dot(matrix[j], second) * second[j]
    if not spread[1] > 1e-9 * spread[0]:
        return first
    for j in range(width):
        first[j] = first[j] / np.sqrt(spread[0]) + second[j] / np.sqrt(spread[1])
    return first


@nb.njit(cache=True, nogil=True)
def split_rows(rows: IntArray, projections: FloatArray, left: int) -> None:
    """Move the `left` rows of smallest projection to the front, both parts in their old order, ties in row order."""
    count = rows.shape[0]
    border = kth_smallest(projections, left)
    below = 0
    for i in range(count):
        if projections[i] < border:
            below += 1
    ties = left - below
    behind = np.empty(count - left, dtype=np.int64)
    front = 0
    back = 0
    for i in range(count):
        goes_left = projections[i] < border
        if projections[i] == border and ties > 0:
            goes_left = True
            ties -= 1
        if goes_left:
            rows[front] = rows[i]
            front += 1
        else:
            behind[back] = rows[i]
            back += 1
    for i in range(count - left):
        rows[left + i] = behind[i]


@nb.njit(cache=True, nogil=True)
def split_recursively(features: FloatArray, leaves: int, turned: bool) -> tuple[IntArray, IntArray]:
    """Split all rows into `leaves` parts whose sizes differ by one at most."""
    n = features.shape[0]
    order = np.arange(n)
    projections = np.empty(n)
    sizes = np.zeros(leaves + 1, dtype=np.int64)
    stack = [(0, n, 0, leaves)]
    while len(stack) > 0:
        low, high, leaf, count = stack.pop()
        if count == 1:
            sizes[leaf + 1] = high - low
            continue
        rows = order[low:high]
        direction = principal_direction(features, rows, turned)
        for i in range(low, high):
            projections[i] = dot(features[order[i]], direction)
        left_leaves = count // 2
        base, extra = divmod(high - low, count)
        left = base * left_leaves + min(extra, left_leaves)
        split_rows(rows, projections[low:high], left)
        stack.append((low, low + left, leaf, left_leaves))
        stack.append((low + left, high, leaf + left_leaves, count - left_leaves))
    return order, np.cumsum(sizes)


def block_order(features: FloatArray, rows: int, *, turned: bool = False) -> tuple[IntArray, IntArray]:
    """Split records into ceil(n_rows / rows) blocks whose sizes differ by one at most, and sort them by block."""
    # A set for L blocks is cut across its first principal direction at the rank that leaves floor(L/2) of them below.
    # Cut by rank, never by value: tied or constant data give blocks of the same sizes. Time O(n_rows · width · log L).
    features = checked_features(features)
    if rows < 1:
        raise ValueError(f"rows of a block is {rows}; give 1 or more")
    leaves = max(1, -(-len(features) // rows))
    order, starts = split_recursively(features, leaves, turned)
    return order, starts
