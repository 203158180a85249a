"""Squared distances from one point to many, over columns stored one after another.

Rows lie in the last axis, so that the compiler handles several rows at once;
the squares of one row are still added column by column, so that its distance
has the same bits wherever the row stands.
"""

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
