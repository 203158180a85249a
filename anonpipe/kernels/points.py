"""Squared distances from one point to many, and records turned: the same bits wherever the row stands."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True, inline="always")
def squared_distance(a: FloatArray, b: FloatArray) -> float:
    """|a - b|², summed column by column as `squared_distances` does."""
    total = 0.0
    for j in range(a.shape[0]):
        step = a[j] - b[j]
        total += step * step
    return total


@nb.njit(cache=True, nogil=True)
def squared_distances(columns: FloatArray, count: int, point: FloatArray, out: FloatArray) -> None:
    """Write |x_i - point|² of the first `count` rows of `columns` (width, n_rows) to `out`."""
    tile = 512
    for low in range(0, count, tile):
        high = min(low + tile, count)
        part = out[low:high]
        part[:] = 0.0
        for j in range(columns.shape[0]):
            column = columns[j, low:high]
            at = point[j]
            for i in range(high - low):
                step = column[i] - at
                part[i] += step * step


@nb.njit(cache=True, nogil=True)
def gather_columns(features: FloatArray, rows: IntArray) -> FloatArray:
    """Copy `rows` of `features` (n_rows, width) into an array (width, len(rows))."""
    columns = np.empty((features.shape[1], rows.shape[0]))
    for i in range(rows.shape[0]):
        for j in range(features.shape[1]):
            columns[j, i] = features[rows[i], j]
    return columns


@nb.njit(cache=True, nogil=True)
def kth_smallest(values: FloatArray, k: int) -> float:
    """The value at place `k`, from 0, of the values in order; they stay as they are."""
    # Hoare's selection: numba compiles it in a tenth of the time of `np.partition`
    left = np.empty(values.shape[0])
    for i in range(values.shape[0]):
        left[i] = values[i]
    low, high = 0, values.shape[0] - 1
    while low < high:
        pivot = left[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while left[i] < pivot:
                i += 1
            while left[j] > pivot:
                j -= 1
            if i <= j:
                left[i], left[j] = left[j], left[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return float(left[k])


@nb.njit(cache=True, nogil=True)
def ascending(values: FloatArray | IntArray) -> IntArray:
    """Row numbers by value, ties in row order, shape (n_rows,)."""
    # Runs of doubled length are merged; numba compiles `np.argsort` ten times as long
    n, length = values.shape[0], 1
    order, merged = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        order[i] = i
    while length < n:
        for begin in range(0, n, 2 * length):
            middle, end = min(begin + length, n), min(begin + 2 * length, n)
            left, right = begin, middle
            for at in range(begin, end):
                if left < middle and (right == end or not values[order[right]] < values[order[left]]):
                    merged[at] = order[left]
                    left += 1
                else:
                    merged[at] = order[right]
                    right += 1
        order, merged = merged, order
        length *= 2
    return order


@nb.njit(cache=True, nogil=True)
def dot(one: FloatArray | IntArray, other: FloatArray) -> float:
    """The dot product, added from the first number on: the same bits in whatever batch a row arrives."""
    total = 0.0
    for j in range(other.shape[0]):
        total += one[j] * other[j]
    return total


@nb.njit(cache=True, nogil=True)
def largest(values: FloatArray) -> float:
    """The largest number, NaN where there is one; numba compiles `values.max()` ten times as long."""
    most = values[0]
    for value in values:
        if value > most or value != value:
            most = value
    return float(most)


@nb.njit(cache=True, nogil=True)
def largest_group(starts: IntArray) -> int:
    """Records of the largest group, as `starts` (n_groups + 1,) delimit them; 0 for no group."""
    # `np.diff` brings texts of errors that take 2 s to compile
    largest = 0
    for g in range(starts.shape[0] - 1):
        largest = max(largest, starts[g + 1] - starts[g])
    return largest


@nb.njit(cache=True, nogil=True)
def _turn(features: FloatArray, before: FloatArray, matrix: FloatArray, after: FloatArray) -> FloatArray:
    # No BLAS: the order in which it sums follows the number of records it is given, and of its threads.
    n, width = features.shape
    channels = matrix.shape[1]
    out = np.zeros((n, channels))
    for i in range(n):
        for h in range(width):
            value = features[i, h] - before[h]
            for j in range(channels):
                out[i, j] += value * matrix[h, j]
        for j in range(channels):
            out[i, j] += after[j]
    return out


def turn_rows(
    features: FloatArray, matrix: FloatArray, *, before: FloatArray | None = None, after: FloatArray | None = None
) -> FloatArray:
    """(features - before) · matrix + after, one record at a time; before (width,), after (channels,)."""
    width, channels = matrix.shape
    before, after = np.zeros(width) if before is None else before, np.zeros(channels) if after is None else after
    return np.asarray(_turn(np.ascontiguousarray(features), before, np.ascontiguousarray(matrix), after))


@nb.njit(cache=True, nogil=True)
def add_row(sums: FloatArray, features: FloatArray, row: int, sign: float) -> None:
    """Add `sign` (1 or -1) times a row to `sums` (2, width): the rounded sums and what rounding left out."""
    # Knuth's two-sum: the second row collects the exact rounding error of the first, about 32 digits together.
    for j in range(features.shape[1]):
        value = sign * features[row, j]
        total = sums[0, j] + value
        part = total - sums[0, j]
        sums[1, j] += (sums[0, j] - (total - part)) + (value - part)
        sums[0, j] = total


@nb.njit(cache=True, nogil=True)
def sum_rows(features: FloatArray, rows: IntArray) -> FloatArray:
    """Sums of `rows` of `features` (n_rows, width) as `add_row` keeps them, shape (2, width)."""
    sums = np.zeros((2, features.shape[1]))
    for i in rows:
        add_row(sums, features, i, 1.0)
    return sums


@nb.njit(cache=True, nogil=True)
def mean_of(sums: FloatArray, count: int) -> FloatArray:
    """The mean of `count` rows from their sums, shape (width,)."""
    mean: FloatArray = (sums[0] + sums[1]) / count
    return mean


LARGEST = 1e100  # Squares of larger numbers, summed, could leave the range of float64


def checked_features(features: FloatArray) -> FloatArray:
    """Points as a float64 matrix in C order, the same array where it is one already."""
    features = np.asarray(features)
    if features.dtype.kind not in "fiub":
        raise ValueError(f"features has type {features.dtype}; give real numbers")
    if features.ndim != 2:
        raise ValueError(f"features has {features.ndim} dimensions; give an array of shape (n_rows, width)")
    features = np.ascontiguousarray(features, dtype=np.float64)
    if features.size and not (features.min() >= -LARGEST and features.max() <= LARGEST):
        raise ValueError("features holds NaN, infinity or numbers above 1e100 in size; encode nulls and scale first")
    return features


def by_first_row(labels: IntArray) -> IntArray:
    """The same groups, numbered from 0 in the order of their first records."""
    _, firsts, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts)).astype(np.int64)[labels]


@nb.njit(cache=True, nogil=True)
def sort_groups(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Sort records by label, ties in record order (counting sort)."""
    n = labels.shape[0]
    n_groups = 0
    for i in range(n):
        n_groups = max(n_groups, labels[i] + 1)
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    for i in range(n):
        starts[labels[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(n, dtype=np.int64)
    cursor = starts[:-1].copy()
    for i in range(n):
        g = labels[i]
        order[cursor[g]] = i
        cursor[g] += 1
    return order, starts


def places(sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Of runs of these sizes, one after the other, each member's run and its place in that, both (sizes.sum(),)."""
    run = np.repeat(np.arange(len(sizes)), sizes)
    return run, np.arange(len(run)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
