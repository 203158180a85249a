"""The smallest distances of some records to many."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.distance import squared_distances
from anonpipe.types import FloatArray

_TILE = 512  # Records whose columns are turned at a time; with their distances they stay in the fastest cache


@nb.njit(cache=True, nogil=True)
def keep_smallest(features: FloatArray, queries: FloatArray, kept: FloatArray) -> None:
    """Write the smallest squared distances of each query to all points, ascending."""
    columns, out = np.empty((features.shape[1], _TILE)), np.empty(_TILE)
    last = kept.shape[1] - 1
    for low in range(0, features.shape[0], _TILE):
        count = min(_TILE, features.shape[0] - low)
        for i in range(count):
            for j in range(features.shape[1]):
                columns[j, i] = features[low + i, j]
        for q in range(queries.shape[0]):
            squared_distances(columns, count, queries[q], out)
            own = kept[q]
            for i in range(count):
                if out[i] < own[last]:
                    at = last
                    while at > 0 and out[i] < own[at - 1]:
                        own[at] = own[at - 1]
                        at -= 1
                    own[at] = out[i]
