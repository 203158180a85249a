"""Groups given up where their records add less scatter to other groups."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.distance import squared_distances
from anonpipe.methods.grouping._scatter_kernel import group_scatters
from anonpipe.types import FloatArray, IntArray

TOLERANCE = 1e-12  # Smallest gain that counts, in units of the mean squared distance to the mean of all records


@nb.njit(cache=True, nogil=True)
def decompose_groups(features: FloatArray, order: IntArray, starts: IntArray, turn: IntArray, most: int) -> IntArray:
    """Labels after each group, in `turn`, has been given up if that lowers the scatter.

    A group that is given up keeps its number, unused. `anonpipe.methods.grouping._decompose`
    says what is done; here `centres` (width, n_groups) are infinite for groups
    that are given up, and the records of a group are a list from `heads` on.
    """
    n, width = features.shape
    groups = starts.shape[0] - 1
    scatter = group_scatters(features, order, starts)
    least = TOLERANCE * group_scatters(features, np.arange(n), np.array([0, n]))[0] / n
    sizes = np.diff(starts)
    sums = np.zeros((width, groups))
    labels = np.empty(n, dtype=np.int64)
    heads, tails, after = order[starts[:-1]].copy(), order[starts[1:] - 1].copy(), np.empty(n, dtype=np.int64)
    for g in range(groups):
        for at in range(starts[g], starts[g + 1]):
            labels[order[at]] = g
            after[order[at]] = order[at + 1] if at + 1 < starts[g + 1] else -1
            for j in range(width):
                sums[j, g] += features[order[at], j]
    centres = sums / sizes
    coming = np.zeros(groups, dtype=np.int64)
    distances = np.empty(groups)
    alive = groups
    for g in turn:
        if alive == 1:
            break
        members = records_from(heads[g], after, sizes[g])
        hosts = nearest_hosts(features, members, g, centres, sizes, coming, most, distances)
        if hosts[-1] < 0:
            continue
        by_host = np.argsort(hosts, kind="mergesort")
        members, hosts = members[by_host], hosts[by_host]
        added = added_scatter(features, members, hosts, centres, sizes)
        if not added.sum() < scatter[g] - least:
            continue
        alive -= 1
        centres[:, g] = np.inf
        for at in range(members.shape[0]):
            i, host = members[at], hosts[at]
            labels[i] = host
            after[tails[host]] = i
            after[i] = -1
            tails[host] = i
            sizes[host] += 1
            scatter[host] += added[at]
            for j in range(width):
                sums[j, host] += features[i, j]
                centres[j, host] = sums[j, host] / sizes[host]
    return labels


@nb.njit(cache=True, nogil=True)
def records_from(head: int, after: IntArray, size: int) -> IntArray:
    """The `size` records of a list."""
    members = np.empty(size, dtype=np.int64)
    for at in range(size):
        members[at] = head
        head = after[head]
    return members


@nb.njit(cache=True, nogil=True)
def nearest_hosts(
    features: FloatArray,
    members: IntArray,
    group: int,
    centres: FloatArray,
    sizes: IntArray,
    coming: IntArray,
    most: int,
    distances: FloatArray,
) -> IntArray:
    """Nearest other group of each member that has room below `most`; -1 from the first that finds none.

    Room is counted with the members before it; of equals the lower number.
    `coming` is zero on entry and on return.
    """
    hosts = np.full(members.shape[0], -1, dtype=np.int64)
    for at in range(members.shape[0]):
        squared_distances(centres, centres.shape[1], features[members[at]], distances)
        distances[group] = np.inf
        host, nearest = -1, np.inf
        for g in range(distances.shape[0]):
            if distances[g] < nearest and sizes[g] + coming[g] < most:
                host, nearest = g, distances[g]
        if host < 0:
            break
        hosts[at] = host
        coming[host] += 1
    coming[hosts[hosts >= 0]] = 0
    return hosts


@nb.njit(cache=True, nogil=True)
def added_scatter(
    features: FloatArray, members: IntArray, hosts: IntArray, centres: FloatArray, sizes: IntArray
) -> FloatArray:
    """What each member adds to its host's scatter, after those before it; `hosts` ascend.

    A record x that joins n others of mean c adds n/(n+1) |x - c|² and moves
    the mean by (x - c)/(n+1).
    """
    added = np.zeros(members.shape[0])
    centre = np.empty(features.shape[1])
    host, size = -1, 0
    for at in range(members.shape[0]):
        if hosts[at] != host:
            host = hosts[at]
            size = sizes[host]
            centre[:] = centres[:, host]
        for j in range(features.shape[1]):
            step = features[members[at], j] - centre[j]
            added[at] += step * step * size / (size + 1.0)
            centre[j] += step / (size + 1.0)
        size += 1
    return added
