"""Squared distances from one point to many, and records turned: the same bits wherever the row stands."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.compiled import kernel
from anonpipe.types import BoolArray, FloatArray, IntArray


@nb.njit(cache=True, nogil=True, inline="always")
def squared_distance(a: FloatArray, b: FloatArray) -> float:
    """|a - b|², summed column by column as `squared_distances` does."""
    total = 0.0
    for j in range(a.shape[0]):
        step = a[j] - b[j]
        total += step * step
    return total


@kernel
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


@kernel
def gather_columns(features: FloatArray, rows: IntArray) -> FloatArray:
    """Copy `rows` of `features` (n_rows, width) into an array (width, len(rows))."""
    columns = np.empty((features.shape[1], rows.shape[0]))
    for i in range(rows.shape[0]):
        for j in range(features.shape[1]):
            columns[j, i] = features[rows[i], j]
    return columns


@nb.njit(cache=True, nogil=True, inline="always")
def mix(number: np.uint64) -> np.uint64:
    """64 bits that look random, another set for each number.

    The step and the finaliser of SplitMix64: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195, figure 13.
    """
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@kernel
def insert_nearest(rows: IntArray | npt.NDArray[np.int32], squared: FloatArray, row: int, distance: float) -> bool:
    """Put a row at its place among the nearest if it is nearer than the last, or as near and lower; whether it was."""
    at = rows.shape[0] - 1  # Places that are not taken yet hold row -1 at infinity
    if distance > squared[at] or (distance == squared[at] and row > rows[at] >= 0):
        return False
    while at > 0 and (distance < squared[at - 1] or (distance == squared[at - 1] and row < rows[at - 1])):
        rows[at], squared[at] = rows[at - 1], squared[at - 1]
        at -= 1
    rows[at], squared[at] = row, distance
    return True


@kernel
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


@kernel
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


@kernel
def dot(one: FloatArray | IntArray, other: FloatArray) -> float:
    """The dot product, added from the first number on: the same bits in whatever batch a row arrives."""
    total = 0.0
    for j in range(other.shape[0]):
        total += one[j] * other[j]
    return total


@kernel
def project_rows(features: FloatArray, rows: IntArray, direction: FloatArray) -> FloatArray:
    """Projections of `rows` of `features`, each by `dot`, as every batch has them."""
    out = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        out[i] = dot(features[rows[i]], direction)
    return out


@kernel
def largest(values: FloatArray) -> float:
    """The largest number, NaN where there is one; numba compiles `values.max()` ten times as long."""
    most = values[0]
    for value in values:
        if value > most or value != value:
            most = value
    return float(most)


@kernel
def largest_group(starts: IntArray) -> int:
    """Records of the largest group, as `starts` (n_groups + 1,) delimit them; 0 for no group."""
    # `np.diff` brings texts of errors that take 2 s to compile
    largest = 0
    for g in range(starts.shape[0] - 1):
        largest = max(largest, starts[g + 1] - starts[g])
    return largest


@kernel
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


@kernel
def add_row(sums: FloatArray, features: FloatArray, row: int, sign: float) -> None:
    """Add `sign` (1 or -1) times a row to `sums` (2, width): the rounded sums and what rounding left out."""
    # Knuth's two-sum: the second row collects the exact rounding error of the first, about 32 digits together.
    for j in range(features.shape[1]):
        value = sign * features[row, j]
        total = sums[0, j] + value
        part = total - sums[0, j]
        sums[1, j] += (sums[0, j] - (total - part)) + (value - part)
        sums[0, j] = total


@kernel
def sum_rows(features: FloatArray, rows: IntArray) -> FloatArray:
    """Sums of `rows` of `features` (n_rows, width) as `add_row` keeps them, shape (2, width)."""
    sums = np.zeros((2, features.shape[1]))
    for i in rows:
        add_row(sums, features, i, 1.0)
    return sums


@kernel
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


@kernel
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


# --- Records ordered along principal axes -----------------------------------------------------------------------------

SAMPLE_ROWS = 1024
_ITERATIONS = 60


@kernel
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


@kernel
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


@kernel
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


@kernel
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


@kernel
def put_first(rows: IntArray, first: BoolArray) -> int:
    """Move the rows marked `first` to the front, both parts in their old order; how many these are."""
    # Slices are never assigned: that brings texts of errors which take 2 s to compile
    behind, front = np.empty(rows.shape[0], dtype=np.int64), 0
    for i in range(rows.shape[0]):
        if first[i]:
            rows[front] = rows[i]
            front += 1
        else:
            behind[i - front] = rows[i]
    for i in range(front, rows.shape[0]):
        rows[i] = behind[i - front]
    return front


@kernel
def split_rows(rows: IntArray, projections: FloatArray, left: int) -> None:
    """Move the `left` rows of smallest projection to the front, both parts in their old order, ties in row order."""
    border, ties = kth_smallest(projections, left), left
    for value in projections:
        ties -= value < border
    goes_left = np.empty(rows.shape[0], dtype=np.bool_)
    for i in range(rows.shape[0]):
        goes_left[i] = projections[i] < border
        if projections[i] == border and ties > 0:
            goes_left[i] = True
            ties -= 1
    put_first(rows, goes_left)


@kernel
def split_recursively(features: FloatArray, leaves: int, turned: bool) -> tuple[IntArray, IntArray]:
    """Split all rows into `leaves` parts whose sizes differ by one at most."""
    n = features.shape[0]
    order = np.arange(n)
    starts = np.zeros(leaves + 1, dtype=np.int64)
    stack = [(0, n, 0, leaves)]
    while len(stack) > 0:
        low, high, leaf, count = stack.pop()
        if count == 1:
            starts[leaf + 1] = high
            continue
        rows = order[low:high]
        projections = project_rows(features, rows, principal_direction(features, rows, turned))
        left_leaves = count // 2
        base, extra = divmod(high - low, count)
        left = base * left_leaves + min(extra, left_leaves)
        split_rows(rows, projections, left)
        stack.append((low, low + left, leaf, left_leaves))
        stack.append((low + left, high, leaf + left_leaves, count - left_leaves))
    return order, starts


def block_order(features: FloatArray, rows: int, *, turned: bool = False) -> tuple[IntArray, IntArray]:
    """Split records into ceil(n_rows / rows) blocks whose sizes differ by one at most, and sort them by block."""
    # A set for L blocks is cut across its first principal direction at the rank that leaves floor(L/2) of them below.
    # Cut by rank, never by value: tied or constant data give blocks of the same sizes. Time O(n_rows · width · log L).
    features = checked_features(features)
    if rows < 1:
        raise ValueError(f"rows of a block is {rows}; give 1 or more")
    return split_recursively(features, max(1, -(-len(features) // rows)), turned)
