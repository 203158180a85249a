"""Which records meet each of many predicates: intervals of some columns, all of which hold."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def find_met(
    cells: FloatArray,
    orders: IntArray,
    begins: IntArray,
    ends: IntArray,
    columns: IntArray,
    low: FloatArray,
    high: FloatArray,
    most: int,
) -> tuple[IntArray, IntArray]:
    """Count records, looking only at those that meet each predicate's rarest interval.

    Shapes: cells (n_columns, n_rows); orders (n_columns, n_rows); begins, ends (n_predicates, size); returns
    (n_predicates,).

    Examples
    --------
    >>> cells, one = np.array([[1.0, 2.0, 3.0]]), np.array([[0]])
    >>> find_met(cells, np.array([[0, 1, 2]]), np.array([[1]]), np.array([[3]]), one, one + 2.0, one + 9.0, 5)
    (array([2]), array([3]))
    """
    n, size = columns.shape
    counts, rows = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for q in range(n):
        rarest = np.argmin(ends[q] - begins[q])
        order = orders[columns[q, rarest]]
        for at in range(begins[q, rarest], ends[q, rarest]):
            row, met = order[at], True
            for j in range(size):
                value = cells[columns[q, j], row]
                if value < low[q, j] or value > high[q, j]:
                    met = False
                    break
            if met:
                counts[q] += 1
                rows[q] += row
                if counts[q] > most:
                    break
    return counts, rows
