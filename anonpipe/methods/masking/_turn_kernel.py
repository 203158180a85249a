"""Records times a matrix, in the same bits in whatever part of a table a record arrives."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray


@nb.njit(cache=True, nogil=True)
def turn_rows(features: FloatArray, before: FloatArray, matrix: FloatArray, after: FloatArray) -> FloatArray:
    """(features - before) · matrix + after, one record at a time.

    No BLAS: the order in which it sums follows the number of records it is
    given, and of its threads.

    Shapes: before (width,); after (channels,).

    Examples
    --------
    >>> turn_rows(np.array([[3.0, 1.0]]), np.ones(2), np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([0.5, 0.0])).tolist()
    [[0.5, 4.0]]
    """
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
