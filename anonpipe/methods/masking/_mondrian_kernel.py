"""Mondrian: records cut again and again at the median of their widest column."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.principal import split_rows
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def relative_widths(features: FloatArray, rows: IntArray, scale: FloatArray, out: FloatArray) -> None:
    """Range of `rows` in each column over that of all records (`scale`), 0 for a constant column."""
    width = features.shape[1]
    low, high = features[rows[0]].copy(), features[rows[0]].copy()
    for row in rows:
        for j in range(width):
            low[j] = min(low[j], features[row, j])
            high[j] = max(high[j], features[row, j])
    for j in range(width):
        out[j] = (high[j] - low[j]) / scale[j] if scale[j] > 0.0 else 0.0


@nb.njit(cache=True, nogil=True)
def records_left(values: FloatArray, strict: bool) -> int:
    """How many records a cut at the median puts left: half of them, or all up to the (lower) median value."""
    n = values.shape[0]
    if not strict:
        return int(n // 2)
    median = np.partition(values, (n - 1) // 2)[(n - 1) // 2]
    left = 0
    for value in values:
        if value <= median:
            left += 1
    return left


@nb.njit(cache=True, nogil=True)
def cut(features: FloatArray, rows: IntArray, k: int, widths: FloatArray, strict: bool, values: FloatArray) -> int:
    """Sort `rows` by one cut, along the widest column that allows it; records left, or 0 where none does.

    `widths` is used up.
    """
    n = rows.shape[0]
    while True:
        widest = int(np.argmax(widths))
        if not widths[widest] > 0.0:
            return 0
        for i in range(n):
            values[i] = features[rows[i], widest]
        left = records_left(values[:n], strict)
        if left >= k and n - left >= k:
            split_rows(rows, values[:n], left)
            return left
        widths[widest] = 0.0


@nb.njit(cache=True, nogil=True)
def mondrian_groups(features: FloatArray, k: int, scale: FloatArray, strict: bool) -> tuple[IntArray, IntArray]:
    """Cut all records into groups of at least k.

    Shapes: scale (width,).

    Examples
    --------
    >>> order, starts = mondrian_groups(np.array([[4.0], [0.0], [5.0], [1.0]]), 2, np.array([5.0]), False)
    >>> order.tolist(), starts.tolist()
    ([1, 3, 0, 2], [0, 2, 4])
    """
    n, width = features.shape
    order = np.arange(n)
    values, widths = np.empty(n), np.empty(width)
    ends = np.zeros(n, dtype=np.bool_)
    stack = [(0, n)]
    while len(stack) > 0:
        low, high = stack.pop()
        left = 0
        if high - low >= 2 * k:
            rows = order[low:high]
            relative_widths(features, rows, scale, widths)
            left = cut(features, rows, k, widths, strict, values)
        if left == 0:
            ends[high - 1] = True
        else:
            stack.append((low, low + left))
            stack.append((low + left, high))
    return order, np.append(0, np.flatnonzero(ends) + 1)
