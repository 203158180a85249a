"""MDAV as a plain compiled loop over all remaining records: what the fast one is compared with."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.points import add_row, ascending, gather_columns, mean_of, squared_distances, sum_rows
from anonpipe.methods.grouping._mdav import _nearer, furthest, sink


@nb.njit(cache=True, nogil=True)
def k_nearest(distances, count, ids, nearest):
    """Write the places of the smallest distances among the first `count` to `nearest`, in descending order of place."""
    k = nearest.shape[0]
    for i in range(k):
        nearest[i] = i
    for i in range(k // 2 - 1, -1, -1):
        sink(nearest, i, distances, ids)
    for i in range(k, count):
        if _nearer(distances, ids, i, nearest[0]):
            nearest[0] = i
            sink(nearest, 0, distances, ids)
    nearest[:] = nearest[ascending(-nearest)]


@nb.njit(cache=True, nogil=True)
def plain_pairs(features, k, least):
    """The labels of `anonpipe.methods.grouping._mdav.groups_from_outside` in pairs."""
    n = features.shape[0]
    rows = np.arange(n)
    columns, ids, labels = gather_columns(features, rows), rows.copy(), np.full(n, -1)
    sums = sum_rows(features, rows)
    distances, nearest = np.empty(n), np.empty(k, dtype=np.int64)
    left, label = n, 0
    while left >= least:
        squared_distances(columns, left, mean_of(sums, left), distances)
        r = columns[:, furthest(distances, left, ids)].copy()
        squared_distances(columns, left, r, distances)
        s = columns[:, furthest(distances, left, ids)].copy()
        for turn in range(2):
            if turn == 1:
                squared_distances(columns, left, s, distances)
            k_nearest(distances, left, ids, nearest)
            for place in nearest:
                left -= 1
                labels[ids[place]] = label
                add_row(sums, features, ids[place], -1.0)
                ids[place] = ids[left]
                columns[:, place] = columns[:, left]
            label += 1
    return labels
