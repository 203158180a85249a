"""Filling small clusters up with the nearest records of larger ones."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.points import gather_columns, squared_distances
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def fill_small(features: FloatArray, rows: IntArray, k: int, assigned: IntArray, centres: FloatArray) -> None:
    """Move records until every cluster of one block has k; `assigned` and `centres` change in place.

    `assigned[i]` is the cluster of row `rows[i]`. `centres` become the means
    of their records; a cluster without any keeps the given centre. Clusters
    are filled in ascending order of their size, ties by number. A cluster
    under k never gives a record away, so that its size and mean on its turn
    are those at the start.
    """
    columns = gather_columns(features, rows)
    sizes = np.zeros(centres.shape[0], dtype=np.int64)
    for c in assigned:
        sizes[c] += 1
    centre_on_means(columns, assigned, sizes, centres)
    distances = np.empty(rows.shape[0])
    for c in np.argsort(sizes, kind="mergesort"):
        if sizes[c] >= k:
            continue
        squared_distances(columns, rows.shape[0], centres[c], distances)
        while sizes[c] < k:
            i = nearest_to_spare(distances, assigned, sizes, k, rows)
            sizes[assigned[i]] -= 1
            assigned[i] = c
            sizes[c] += 1


@nb.njit(cache=True, nogil=True)
def centre_on_means(columns: FloatArray, assigned: IntArray, sizes: IntArray, centres: FloatArray) -> None:
    """Write the mean of every cluster that has records to `centres`."""
    for c in range(sizes.shape[0]):
        if sizes[c] > 0:
            centres[c] = 0.0
    for i in range(assigned.shape[0]):
        for j in range(columns.shape[0]):
            centres[assigned[i], j] += columns[j, i]
    for c in range(sizes.shape[0]):
        if sizes[c] > 0:
            for j in range(columns.shape[0]):
                centres[c, j] /= sizes[c]


@nb.njit(cache=True, nogil=True)
def nearest_to_spare(distances: FloatArray, assigned: IntArray, sizes: IntArray, k: int, rows: IntArray) -> int:
    """The nearest record whose cluster has more than k; of equals, that of the lowest row."""
    at = -1
    for i in range(distances.shape[0]):
        if sizes[assigned[i]] <= k:
            continue
        if at < 0 or distances[i] < distances[at] or (distances[i] == distances[at] and rows[i] < rows[at]):
            at = i
    return at
