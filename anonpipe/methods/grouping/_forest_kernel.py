"""A forest of near records with at least k to a tree."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.distance import gather_columns, squared_distances
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.grouping._mdav_kernel import outermost_group
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def grow_forest(features: FloatArray, k: int) -> tuple[IntArray, IntArray]:
    """Link trees of fewer than k records to others until there is none.

    The root of a small tree is linked to the record nearest to it in another
    tree. Records are passed in row order, again and again; each that is the
    root of a small tree then is linked.
    """
    n = features.shape[0]
    columns = gather_columns(features, np.arange(n))
    distances = np.empty(n)
    parent = np.full(n, -1)
    tree = np.arange(n)
    sizes = np.ones(n, dtype=np.int64)
    # The records of a tree in a circle, so that two trees join in one step.
    following = np.arange(n)
    linked = True
    while linked:
        linked = False
        for u in range(n):
            if parent[u] >= 0 or sizes[u] >= k:
                continue
            squared_distances(columns, n, features[u], distances)
            member = u
            for _ in range(sizes[u]):
                distances[member] = np.inf
                member = following[member]
            v = np.argmin(distances)
            parent[u] = v
            root = tree[v]
            sizes[root] += sizes[u]
            for _ in range(sizes[u]):
                tree[member] = root
                member = following[member]
            following[u], following[v] = following[v], following[u]
            linked = True
    return parent, tree


@nb.njit(cache=True, nogil=True)
def split_large_parts(features: FloatArray, k: int, labels: IntArray) -> None:
    """From each part of 2k or more take the record furthest from its centroid and its k - 1 nearest, in place.

    New groups have new labels; what is left keeps the old one.
    """
    order, starts = sort_groups(labels)
    label = starts.shape[0] - 1
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]].copy()
        while rows.shape[0] >= 2 * k:
            labels[outermost_group(features, rows, k)] = label
            label += 1
            rows = rows[labels[rows] == g]
