"""Groups that are the neighbourhoods of the densest records."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.remaining import nearest_records, remaining_records, take_out, tidied
from anonpipe.methods.grouping._decompose import scatter_times_size
from anonpipe.methods.grouping._mdav_kernel import join_nearest
from anonpipe.types import FloatArray, IntArray

KNOWN = 2  # Nearest records known of each, in units of k: the more, the fewer searches when neighbours leave


@nb.njit(cache=True, nogil=True)
def group_by_density(features: FloatArray, k: int) -> IntArray:
    """Group of each record, 0 to n_groups - 1 in order of formation (see `anonpipe.methods.grouping.dba_1`).

    `near[i, :known[i]]` are the records nearest to i, nearest first; the first
    k of them are without a group and are its neighbourhood, of which `scatter`
    holds the scatter times k. Only records that have lost a neighbour are
    looked at again, and searched for only if fewer than k known ones are left.
    """
    n = features.shape[0]
    most = min(KNOWN * k, n)
    near, known = np.empty((n, most), dtype=np.int64), np.full(n, most)
    distances, offsets = np.empty(most), np.empty(features.shape[1])
    scatter = np.empty(n)
    labels = np.full(n, -1, dtype=np.int64)
    tree = remaining_records(features, np.arange(n))
    for i in range(n):
        nearest_records(tree, features[i], near[i], distances)
        scatter[i] = scatter_times_size(features, near[i, :k], offsets)
    groups = n // k
    for label in range(groups):
        for row in near[np.argmin(scatter), :k]:
            take_out(tree, row)
            labels[row] = label
            scatter[row] = np.inf
        left = n - (label + 1) * k
        if left < k:
            break
        tree = tidied(features, tree)
        for i in range(n):
            if labels[i] >= 0 or not has_lost(near[i, :k], labels):
                continue
            known[i] = keep_free(near[i, : known[i]], labels)
            if known[i] < k:
                known[i] = min(most, left)
                nearest_records(tree, features[i], near[i, : known[i]], distances[: known[i]])
            scatter[i] = scatter_times_size(features, near[i, :k], offsets)
    join_nearest(features, labels)
    return labels


@nb.njit(cache=True, nogil=True)
def has_lost(neighbours: IntArray, labels: IntArray) -> bool:
    """Whether one of the neighbours has a group by now."""
    lost = False
    for row in neighbours:
        lost |= labels[row] >= 0
    return bool(lost)


@nb.njit(cache=True, nogil=True)
def keep_free(neighbours: IntArray, labels: IntArray) -> int:
    """Move the neighbours without a group to the front, in their order; how many they are."""
    free = 0
    for row in neighbours:
        if labels[row] < 0:
            neighbours[free] = row
            free += 1
    return free
