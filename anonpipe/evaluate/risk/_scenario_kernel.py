"""The nearest points of the same block, how many are equally near, and how much of them is one's own."""

from __future__ import annotations

from typing import TypeVar

import numba as nb
import numpy as np
from numba.extending import register_jitable

from anonpipe.types import FloatArray, IntArray

Squared = TypeVar("Squared", float, FloatArray)

SAME = 1e-9  # Squared distances that differ by no more than this share are equal: their sums are rounded

# So are squared distances that differ by no more than this: coordinates in standard deviations are rounded themselves,
# and where two points lie on the query one would be told from the other by that
NOUGHT = 1e-24


@register_jitable
def reach(squared: Squared) -> Squared:
    """Up to where squared distances are equal to this smaller one."""
    return squared * (1.0 + SAME) + NOUGHT


@nb.njit(cache=True, nogil=True)
def nearest_of_block(
    points: FloatArray,
    told: IntArray,
    begins: IntArray,
    ends: IntArray,
    queries: FloatArray,
    starts: IntArray,
    places: IntArray,
    weights: FloatArray,
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Search each query's block.

    Shapes: points (n, width); told (n,); begins, ends (m,); returns (m,).

    Examples
    --------
    >>> points, told = np.array([[1.0], [1.0], [3.0]]), np.array([7, 8, 7])
    >>> nearest_of_block(points, told, np.array([0]), np.array([3]), np.array([[0.0]]),
    ...                  np.array([0, 1]), np.array([7]), np.array([0.5]))
    (array([1.]), array([2]), array([0.5]))
    """
    m = queries.shape[0]
    squared, ties, own = np.full(m, np.inf), np.zeros(m, dtype=np.int64), np.zeros(m)
    for q in range(m):
        best = np.inf
        for i in range(begins[q], ends[q]):
            distance = 0.0
            for j in range(queries.shape[1]):
                distance += (points[i, j] - queries[q, j]) ** 2
            if distance > reach(best):
                continue
            if best > reach(distance):
                best, ties[q], own[q] = distance, 0, 0.0
            ties[q] += 1
            for at in range(starts[q], starts[q + 1]):
                if places[at] == told[i]:
                    own[q] += weights[at]
        squared[q] = best
    return squared, ties, own
