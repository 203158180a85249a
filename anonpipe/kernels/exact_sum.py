"""Column sums that do not depend on the order in which rows come and go."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def add_row(sums: FloatArray, features: FloatArray, row: int, sign: float) -> None:
    """Add `sign` (1 or -1) times a row to `sums`, shape (2, width): the rounded sums and what rounding left out.

    The second row collects the exact rounding error of every addition to the
    first (Knuth's two-sum), so that both together have about 32 digits.
    """
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
