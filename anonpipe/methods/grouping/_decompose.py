"""The second phase of TFRP-2, DBA-2 and MDAV-2: groups whose records fit better into others are given up."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.points import sort_groups, squared_distances
from anonpipe.types import FloatArray, IntArray


def decompose(features: FloatArray, labels: IntArray, turn: IntArray, *, most: int) -> IntArray:
    """Give up every group, in `turn`, whose records add less scatter to other groups than their own has.

    Each record of the group in turn is assigned to the other group whose mean
    is nearest and that has fewer than `most` records, counting those assigned
    before it. The means are those before any record of the group moves. If
    the scatter of the groups that would grow, after all joins, exceeds their
    present scatter by less than the scatter of the group in turn, the records
    move; otherwise all stay. A group that has grown is treated as any
    other on its turn. A gain under 1e-12 of the mean squared distance to the
    mean of all records is taken for rounding. The last group is never given
    up.

    Shapes: features (n_rows, width).

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [1.5], [8.5], [9.0], [10.0]])
    >>> decompose(features, np.array([0, 0, 1, 1, 2, 2]), np.array([1, 0, 2]), most=6).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    order, starts = sort_groups(labels)
    labels = decompose_groups(features, order, starts, turn, most)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def by_falling_scatter(features: FloatArray, labels: IntArray) -> IntArray:
    """Numbers of the groups from the largest sum of squared distances to the mean down, ties by number."""
    return np.argsort(-group_scatters(features, *sort_groups(labels)), kind="stable")


# --- Groups given up where their records add less scatter to other groups ---------------------------------------------

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


# --- Scatter of a few records, with true ties -------------------------------------------------------------------------


@nb.njit(cache=True, nogil=True)
def scatter_times_size(features: FloatArray, members: IntArray, offsets: FloatArray) -> float:
    """Size times the sum of squared distances to the mean; `offsets` is room for a row.

    With u the differences to the first member this is n Σ|u|² - |Σu|². As the
    first is one of the members, |Σu|² is at most (1 - 1/n) n Σ|u|², so that
    the subtraction costs no more than the digits of n; whole numbers give an
    exact result, and with it true ties.
    """
    first = members[0]
    squares = 0.0
    offsets[:] = 0.0
    for i in members[1:]:
        for j in range(features.shape[1]):
            step = features[i, j] - features[first, j]
            squares += step * step
            offsets[j] += step
    total = members.shape[0] * squares
    for j in range(features.shape[1]):
        total -= offsets[j] * offsets[j]
    return float(total)


@nb.njit(cache=True, nogil=True)
def group_scatters(features: FloatArray, order: IntArray, starts: IntArray) -> FloatArray:
    """Sum of squared distances to the mean of each group, shape (n_groups,)."""
    scatter = np.empty(starts.shape[0] - 1)
    offsets = np.empty(features.shape[1])
    for g in range(scatter.shape[0]):
        rows = order[starts[g] : starts[g + 1]]
        scatter[g] = scatter_times_size(features, rows, offsets) / rows.shape[0]
    return scatter


@nb.njit(cache=True, nogil=True)
def scatter_in_groups(features: FloatArray, order: IntArray, starts: IntArray) -> float:
    """Sum of squared distances to the group means, two passes a group."""
    width = features.shape[1]
    mean = np.empty(width)
    total = 0.0
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]]
        mean[:] = 0.0
        for i in rows:
            for j in range(width):
                mean[j] += features[i, j]
        for j in range(width):
            mean[j] /= max(1, rows.shape[0])
        for i in rows:
            for j in range(width):
                total += (features[i, j] - mean[j]) ** 2
    return total
