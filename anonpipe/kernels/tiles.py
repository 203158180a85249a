"""Rows cut into tiles of near ones with a box around each, for searches that pass most tiles by."""

from __future__ import annotations

from typing import NamedTuple, Self

import numba as nb
import numpy as np

from anonpipe.kernels.remaining import halve
from anonpipe.types import Float32Array, FloatArray, IntArray

TILE = 128  # Rows of a tile, the last one excepted

_LOOKED_AT = 64  # Rows from which is judged along which column others are halved

_CHUNK = 512  # Queries whose distances from a box are summed together, in the fastest cache


class Tiles(NamedTuple):
    """The rows of a table, every `TILE` of them near each other, and the box of each such tile."""

    order: IntArray  # Rows tile by tile, shape (n_rows,)
    low: FloatArray  # Least of each tile and column, shape (n_tiles, width)
    high: FloatArray  # Most of each

    @classmethod
    def of(cls, features: FloatArray, order: IntArray | None = None) -> Self:
        """Of points (n_rows, width), one or more; `order`: of an earlier search for rows that were near there too."""
        order = near_order(features, TILE) if order is None else order
        low = np.full((-(-len(order) // TILE), features.shape[1]), np.inf)
        high = -low
        _enclose_tiles(features, order, low, high)
        return cls(order, low, high)

    def nearest_middle(self, centre: FloatArray, unit: float, scaled: Float32Array) -> IntArray:
        """The tile whose box has its middle nearest to each query, (n_queries,): a guess, not exact."""
        middles = (((self.low + self.high) / 2.0 - centre) / unit).astype(np.float32)
        norms, first = np.einsum("ij,ij->i", middles, middles), np.empty(len(scaled), dtype=np.int64)
        for start in range(0, len(scaled), _CHUNK):
            part = slice(start, start + _CHUNK)
            first[part] = (norms - 2.0 * (scaled[part] @ middles.T)).argmin(axis=1)
        return first


def near_order(features: FloatArray, room: int) -> IntArray:
    """Rows in an order in which every `room` of them are near each other."""
    order = np.arange(len(features))
    halve(features, order, room, _LOOKED_AT)
    return order


@nb.njit(cache=True, nogil=True)
def _enclose_tiles(features: FloatArray, order: IntArray, low: FloatArray, high: FloatArray) -> None:
    """Widen the boxes (n_tiles, width) by the points of each tile."""
    for i in range(order.shape[0]):
        at, row = i // TILE, order[i]
        for j in range(features.shape[1]):
            value = features[row, j]
            low[at, j] = value if value < low[at, j] else low[at, j]
            high[at, j] = value if value > high[at, j] else high[at, j]


@nb.njit(cache=True, nogil=True)
def queries_near_box(
    low: FloatArray,
    high: FloatArray,
    columns: FloatArray,
    borders: FloatArray,
    near: IntArray,
) -> int:
    """Write which queries, given as `columns` (width, n), are no further from a box than their border; how many."""
    apart, count = np.empty(_CHUNK), 0
    for start in range(0, columns.shape[1], _CHUNK):
        length = min(_CHUNK, columns.shape[1] - start)
        apart[:length] = 0.0
        for j in range(low.shape[0]):
            least, most, column = low[j], high[j], columns[j, start : start + length]
            for i in range(length):
                below, above = least - column[i], column[i] - most
                step = below if below > above else above
                step = step if step > 0.0 else 0.0
                apart[i] += step * step
        for i in range(length):
            if apart[i] <= borders[start + i]:
                near[count] = start + i
                count += 1
    return count
