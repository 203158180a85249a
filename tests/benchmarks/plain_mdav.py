"""MDAV as a plain compiled loop over all remaining records: what the fast one is compared with."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.points import add_row, gather_columns, mean_of, squared_distances, sum_rows
from anonpipe.methods.grouping._mdav import furthest, k_nearest


@nb.njit(cache=True, nogil=True)
def plain_pairs(features, k, least):
    """The labels of `anonpipe.methods.grouping._mdav.pairs_of_groups`."""
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
