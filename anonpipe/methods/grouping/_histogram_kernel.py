"""Recursive splits at medians: in all columns at once, or in the widest one."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.principal import split_rows
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def split_at_all_medians(features: FloatArray, k: int, labels: IntArray) -> None:
    """Write the cell of every record to `labels`: cells of more than 2k are split by all columns' medians.

    A cell of equal records is not split.
    """
    order = np.arange(features.shape[0])
    label = 0
    stack = [(0, features.shape[0])]
    while len(stack) > 0:
        low, high = stack.pop()
        if high - low > 2 * k:
            borders = split_cell(features, order[low:high])
            if borders.shape[0] > 2:
                for cell in range(borders.shape[0] - 2, -1, -1):
                    stack.append((low + borders[cell], low + borders[cell + 1]))
                continue
        labels[order[low:high]] = label
        label += 1


@nb.njit(cache=True, nogil=True)
def split_cell(features: FloatArray, rows: IntArray) -> IntArray:
    """Sort `rows` by the halves of all columns they lie in; where the cells begin, and the number of rows."""
    count, width = rows.shape[0], features.shape[1]
    values = np.empty(count)
    medians = np.empty(width)
    for j in range(width):
        for i in range(count):
            values[i] = features[rows[i], j]
        medians[j] = highest_of_lower_half(values)
    borders = np.array([0, count])
    for j in range(width):
        cut = np.empty(2 * borders.shape[0] - 1, dtype=np.int64)
        used = 0
        for cell in range(borders.shape[0] - 1):
            low, high = borders[cell], borders[cell + 1]
            cut[used] = low
            used += 1
            below = move_lower_first(features, rows[low:high], j, medians[j])
            if 0 < below < high - low:
                cut[used] = low + below
                used += 1
        cut[used] = count
        borders = cut[: used + 1]
    return borders


@nb.njit(cache=True, nogil=True)
def highest_of_lower_half(values: FloatArray) -> float:
    """The median, of an even number of values the lower one; the next lower value where none lies above it."""
    median = np.partition(values, (values.shape[0] - 1) // 2)[(values.shape[0] - 1) // 2]
    highest = -np.inf
    above = False
    for value in values:
        above |= value > median
        if value < median:
            highest = max(highest, value)
    return median if above or highest == -np.inf else highest


@nb.njit(cache=True, nogil=True)
def move_lower_first(features: FloatArray, rows: IntArray, column: int, border: float) -> int:
    """Move the rows of values up to `border` to the front, both parts in their old order; how many there are."""
    behind = np.empty(rows.shape[0], dtype=np.int64)
    front, back = 0, 0
    for i in range(rows.shape[0]):
        row = rows[i]
        if features[row, column] <= border:
            rows[front] = row
            front += 1
        else:
            behind[back] = row
            back += 1
    rows[front:] = behind[:back]
    return front


@nb.njit(cache=True, nogil=True)
def split_widest(columns: FloatArray, k: int, labels: IntArray) -> None:
    """Write the group of every record to `labels`: more than 2k are halved by rank in the column of largest range.

    Of equal ranges the first column is taken; records of equal value are
    ranked by row number. Of an odd number the upper half has one more.
    """
    n = columns.shape[1]
    order = np.arange(n)
    values = np.empty(n)
    label = 0
    stack = [(0, n)]
    while len(stack) > 0:
        low, high = stack.pop()
        if high - low <= 2 * k:
            labels[order[low:high]] = label
            label += 1
            continue
        rows = order[low:high]
        column = columns[widest_column(columns, rows)]
        for i in range(low, high):
            values[i] = column[order[i]]
        half = (high - low) // 2
        split_rows(rows, values[low:high], half)
        stack.append((low + half, high))
        stack.append((low, low + half))


@nb.njit(cache=True, nogil=True)
def widest_column(columns: FloatArray, rows: IntArray) -> int:
    """Number of the column in which `rows` have the largest range; of equals the first."""
    best, widest = 0, -1.0
    for j in range(columns.shape[0]):
        low, high = np.inf, -np.inf
        for row in rows:
            low = min(low, columns[j, row])
            high = max(high, columns[j, row])
        if high - low > widest:
            best, widest = j, high - low
    return best


@nb.njit(cache=True, nogil=True)
def rotated_columns(features: FloatArray, centre: FloatArray, axes: FloatArray) -> FloatArray:
    """The columns of (features - centre) · axes, shape (n_axes, n_rows).

    Added column by column, so that equal records have equal bits.
    """
    out = np.zeros((axes.shape[1], features.shape[0]))
    tile = 512
    for low in range(0, features.shape[0], tile):
        high = min(low + tile, features.shape[0])
        for j in range(features.shape[1]):
            for a in range(axes.shape[1]):
                for i in range(low, high):
                    out[a, i] += (features[i, j] - centre[j]) * axes[j, a]
    return out
