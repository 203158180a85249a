"""The nearest points of other points: a scan of all, and a search of a tree."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.distance import squared_distances
from anonpipe.kernels.remaining import nearest_records, remaining_records
from anonpipe.types import FloatArray, IntArray

_TILE = 512
"""Points whose columns are turned at a time; with their distances they stay in the fastest cache."""


@nb.njit(cache=True, nogil=True)
def scan_nearest(
    features: FloatArray, queries: FloatArray, without: IntArray, rows: IntArray, squared: FloatArray
) -> None:
    """Write the nearest rows of each query and their squared distances, by comparing all with all.

    Parameters
    ----------
    features, queries
        Shapes (n, width) and (m, width).
    without
        A row that the query must not find, -1 for none, shape (m,).
    rows, squared
        Shape (m, count), nearest first, ties by row; -1 and inf where there
        are fewer points.
    """
    rows[:] = -1
    squared[:] = np.inf
    last = rows.shape[1] - 1
    columns, out = np.empty((features.shape[1], _TILE)), np.empty(_TILE)
    for low in range(0, features.shape[0], _TILE):
        count = min(_TILE, features.shape[0] - low)
        for i in range(count):
            for j in range(features.shape[1]):
                columns[j, i] = features[low + i, j]
        for q in range(queries.shape[0]):
            squared_distances(columns, count, queries[q], out)
            border = squared[q, last]
            # Rows come in ascending order: one as far as the last that is kept is no nearer.
            for i in range(count):
                if out[i] < border and low + i != without[q]:
                    _insert(rows[q], squared[q], low + i, out[i])
                    border = squared[q, last]


@nb.njit(cache=True, nogil=True)
def _insert(rows: IntArray, squared: FloatArray, row: int, distance: float) -> None:
    at = rows.shape[0] - 1
    while at > 0 and distance < squared[at - 1]:
        squared[at] = squared[at - 1]
        rows[at] = rows[at - 1]
        at -= 1
    squared[at] = distance
    rows[at] = row


@nb.njit(cache=True, nogil=True)
def search_nearest(
    features: FloatArray,
    queries: FloatArray,
    without: IntArray,
    rows: IntArray,
    squared: FloatArray,
    trial: int,
    useful: int,
) -> int:
    """As `scan_nearest`, by a tree; returns how many queries were answered.

    All of them, or the first `trial` if these had to look into more than one
    of `useful` leaves, as happens with many columns: a scan is then faster.
    """
    tree = remaining_records(features, np.arange(features.shape[0]))
    rows[:] = -1
    squared[:] = np.inf
    room = min(rows.shape[1] + 1, features.shape[0])
    near, distances = np.empty(room, dtype=np.int64), np.empty(room)
    for q in range(queries.shape[0]):
        if q == trial and tree.looked[0] * useful > trial * tree.ids.shape[0]:
            return trial
        excluded = without[q] >= 0
        wanted = min(rows.shape[1] + excluded, room)
        nearest_records(tree, queries[q], near[:wanted], distances[:wanted])
        at = 0
        for i in range(wanted):
            if near[i] != without[q] and at < rows.shape[1]:
                rows[q, at] = near[i]
                squared[q, at] = distances[i]
                at += 1
    return int(queries.shape[0])
