"""The nearest points in all attributes but one, for every attribute in one pass."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray

_TILE = 512  # Points whose columns are turned at a time; with their distances they stay in the fastest cache


@nb.njit(cache=True, nogil=True)
def nearest_but_one(
    features: FloatArray, queries: FloatArray, ends: IntArray, jumps: FloatArray, wanted: int
) -> tuple[IntArray, FloatArray]:
    """The points that are nearest to each query in all attributes but one, ties to the lower row.

    Shapes: features, queries (n, width); ends (n_attributes,); jumps (n_attributes,); returns (m, n_attributes,
    wanted).

    Examples
    --------
    >>> nearest_but_one(np.array([[0.0, 9.0], [9.0, 0.0]]), np.array([[0.0, 0.0]]), np.array([1, 2]), np.zeros(2), 1)
    (array([[[1],
            [0]]]), array([[[0.],
            [0.]]]))
    """
    n, m, attributes = features.shape[0], queries.shape[0], ends.shape[0]
    rows = np.zeros((m, attributes, wanted), dtype=np.int64)
    best = np.full((m, attributes, wanted), np.inf)
    columns = np.empty((features.shape[1], _TILE))
    part, total, largest = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE)
    parts = np.empty(attributes)
    for low in range(0, n, _TILE):
        count = min(_TILE, n - low)
        for i in range(count):
            for j in range(features.shape[1]):
                columns[j, i] = features[low + i, j]
        for q in range(m):
            _add_up(columns, count, queries[q], ends, jumps, part, total, largest)
            border = best[q, :, -1].max()
            for i in range(count):
                # No attribute can leave out more than the largest; the difference is rounded.
                if total[i] - largest[i] <= border + 1e-12 * total[i]:
                    _improve(features[low + i], queries[q], ends, jumps, parts, low + i, rows[q], best[q])
                    border = best[q, :, -1].max()
    return rows, best


@nb.njit(cache=True, nogil=True)
def _add_up(
    columns: FloatArray,
    count: int,
    query: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    part: FloatArray,
    total: FloatArray,
    largest: FloatArray,
) -> None:
    """Squared distances of the points of a tile, and what the attribute with most has of each."""
    total[:count] = 0.0
    largest[:count] = 0.0
    begin = 0
    for a in range(ends.shape[0]):
        value, jump = query[begin], jumps[a]
        if jump > 0:
            for i in range(count):
                part[i] = 0.0 if columns[begin, i] == value else jump
        else:
            for i in range(count):
                part[i] = (columns[begin, i] - value) ** 2
        for j in range(begin + 1, ends[a]):
            for i in range(count):
                part[i] += _apart(columns[j, i], query[j], jump)
        for i in range(count):
            total[i] += part[i]
            largest[i] = max(largest[i], part[i])
        begin = ends[a]


@nb.njit(cache=True, nogil=True)
def _apart(one: float, other: float, jump: float) -> float:
    """Squared distance of two entries."""
    if jump > 0:
        return 0.0 if one == other else jump
    return (one - other) ** 2


@nb.njit(cache=True, nogil=True)
def _improve(
    point: FloatArray,
    query: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    parts: FloatArray,
    row: int,
    rows: IntArray,
    best: FloatArray,
) -> None:
    """Take the point for the attributes that it is nearer without: sums before plus sums after, no difference."""
    begin, after = 0, 0.0
    for a in range(ends.shape[0]):
        parts[a] = 0.0
        for j in range(begin, ends[a]):
            parts[a] += _apart(point[j], query[j], jumps[a])
        begin = ends[a]
    # From the last attribute back, parts become the sums after each.
    for a in range(ends.shape[0] - 1, -1, -1):
        parts[a], after = after, after + parts[a]
    before, begin = 0.0, 0
    for a in range(ends.shape[0]):
        distance, at = before + parts[a], best.shape[1] - 1
        if distance < best[a, at]:
            while at > 0 and distance < best[a, at - 1]:
                best[a, at], rows[a, at] = best[a, at - 1], rows[a, at - 1]
                at -= 1
            best[a, at], rows[a, at] = distance, row
        for j in range(begin, ends[a]):
            before += _apart(point[j], query[j], jumps[a])
        begin = ends[a]
