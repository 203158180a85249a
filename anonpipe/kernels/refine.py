"""Descent of the within-group scatter by moving single records and swapping pairs.

Groups are handled in blocks. Inside a block records, groups and centroids
carry local numbers; names are those of the formulas:

    A, B   the group of record i, and one that it may go to
    u      x_j - x_i, for a swap of i in A with j in B
    delta  c_B - c_A, difference of the centroids
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.distance import gather_columns, squared_distances

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STAY, MOVE = -2, -1
"""What to do with a record, beside the number of its partner in a swap."""


@nb.njit(cache=True, nogil=True)
def refine_blocks(
    points: FloatArray,
    k: int,
    order: IntArray,
    starts: IntArray,
    group_order: IntArray,
    block_starts: IntArray,
    candidates: int,
    sweeps: int,
    labels: IntArray,
) -> int:
    """Descend in every block of groups, write the new groups to `labels`; how many records moved or swapped.

    `order`, `starts` are the records by group (`sort_groups`); `group_order`,
    `block_starts` the groups by block.
    """
    steps = 0
    for block in range(block_starts.shape[0] - 1):
        groups = group_order[block_starts[block] : block_starts[block + 1]]
        if groups.shape[0] < 2:
            continue
        rows, home, room = lay_out(groups, order, starts, k)
        steps += descend(points, k, rows, home, room, candidates, sweeps)
        for i in range(rows.shape[0]):
            labels[rows[i]] = groups[home[i]]
    return steps


@nb.njit(cache=True, nogil=True)
def lay_out(groups: IntArray, order: IntArray, starts: IntArray, k: int) -> tuple[IntArray, IntArray, IntArray]:
    """Rows of a block, the local group of each, and where the groups' member lists begin (with room for 2k)."""
    room = np.zeros(groups.shape[0] + 1, dtype=np.int64)
    count = 0
    for g in range(groups.shape[0]):
        size = starts[groups[g] + 1] - starts[groups[g]]
        room[g + 1] = room[g] + max(size, 2 * k)
        count += size
    rows = np.empty(count, dtype=np.int64)
    home = np.empty(count, dtype=np.int64)
    at = 0
    for g in range(groups.shape[0]):
        for place in range(starts[groups[g]], starts[groups[g] + 1]):
            rows[at] = order[place]
            home[at] = g
            at += 1
    return rows, home, room


@nb.njit(cache=True, nogil=True)
def descend(
    points: FloatArray, k: int, rows: IntArray, home: IntArray, room: IntArray, candidates: int, sweeps: int
) -> int:
    """Sweep over the records of one block until nothing improves or `sweeps` are over; the number of steps taken.

    A record is looked at again only where its group or the other group has
    changed since it was looked at last.
    """
    x = points[rows]
    sizes = np.zeros(room.shape[0] - 1, dtype=np.int64)
    members = np.empty(room[-1], dtype=np.int64)
    for i in range(x.shape[0]):
        members[room[home[i]] + sizes[home[i]]] = i
        sizes[home[i]] += 1
    centroids = np.empty((sizes.shape[0], x.shape[1]))
    least = 1e-12 * recentre(x, home, sizes, centroids)
    near = nearest_groups(x, centroids, min(candidates, sizes.shape[0]))
    changed = np.zeros(sizes.shape[0], dtype=np.int64)
    seen = np.full(x.shape[0], -1, dtype=np.int64)
    steps = 0
    for _ in range(sweeps):
        before = steps
        for i in range(x.shape[0]):
            group, partner = best_step(i, k, x, home, room, sizes, members, centroids, near, changed, seen[i], least)
            seen[i] = steps
            if partner == STAY:
                continue
            steps += 1
            changed[home[i]] = steps
            changed[group] = steps
            if partner == MOVE:
                move(i, group, x, home, room, sizes, members, centroids)
            else:
                swap(i, partner, x, home, room, sizes, members, centroids)
        if steps == before:
            break
        recentre(x, home, sizes, centroids)
    return steps


@nb.njit(cache=True, nogil=True)
def recentre(x: FloatArray, home: IntArray, sizes: IntArray, centroids: FloatArray) -> float:
    """Compute all centroids afresh; the mean squared distance to them."""
    centroids[:] = 0.0
    for i in range(x.shape[0]):
        for t in range(x.shape[1]):
            centroids[home[i], t] += x[i, t]
    for g in range(sizes.shape[0]):
        for t in range(x.shape[1]):
            centroids[g, t] /= sizes[g]
    total = 0.0
    for i in range(x.shape[0]):
        total += squared_distance(x[i], centroids[home[i]])
    return total / x.shape[0]


@nb.njit(cache=True, nogil=True)
def squared_distance(a: FloatArray, b: FloatArray) -> float:
    """|a - b|²."""
    total = 0.0
    for t in range(a.shape[0]):
        total += (a[t] - b[t]) ** 2
    return total


@nb.njit(cache=True, nogil=True)
def nearest_groups(x: FloatArray, centroids: FloatArray, count: int) -> IntArray:
    """The `count` groups of nearest centroid of each record, nearest first, ties by number."""
    columns = gather_columns(centroids, np.arange(centroids.shape[0]))
    distances = np.empty(centroids.shape[0])
    near = np.empty((x.shape[0], count), dtype=np.int64)
    best = np.empty(count)
    for i in range(x.shape[0]):
        squared_distances(columns, distances.shape[0], x[i], distances)
        filled = 0
        for g in range(distances.shape[0]):
            if filled == count and not distances[g] < best[count - 1]:
                continue
            at = min(filled, count - 1)
            while at > 0 and distances[g] < best[at - 1]:
                best[at] = best[at - 1]
                near[i, at] = near[i, at - 1]
                at -= 1
            best[at] = distances[g]
            near[i, at] = g
            filled = min(filled + 1, count)
    return near


@nb.njit(cache=True, nogil=True)
def best_step(
    i: int,
    k: int,
    x: FloatArray,
    home: IntArray,
    room: IntArray,
    sizes: IntArray,
    members: IntArray,
    centroids: FloatArray,
    near: IntArray,
    changed: IntArray,
    since: int,
    least: float,
) -> tuple[int, int]:
    """The step of record i that lowers the scatter most: (group, STAY | MOVE | partner)."""
    a = home[i]
    own = sizes[a]
    best, group, partner = -least, a, STAY
    leaving = 0.0
    if own > k:
        leaving = own / (own - 1.0) * squared_distance(x[i], centroids[a])
    for b in near[i]:
        if b == a or (changed[a] <= since and changed[b] <= since):
            continue
        size = sizes[b]
        if own > k and size < 2 * k - 1:
            gain = size / (size + 1.0) * squared_distance(x[i], centroids[b]) - leaving
            if gain < best:
                best, group, partner = gain, b, MOVE
        if size < 2 * k:
            inverse = 1.0 / own + 1.0 / size
            for place in range(room[b], room[b] + size):
                j = members[place]
                gain = 0.0
                for t in range(x.shape[1]):
                    u = x[j, t] - x[i, t]
                    gain += u * (2.0 * (centroids[b, t] - centroids[a, t]) - inverse * u)
                if gain < best:
                    best, group, partner = gain, b, j
    return group, partner


@nb.njit(cache=True, nogil=True)
def move(
    i: int,
    b: int,
    x: FloatArray,
    home: IntArray,
    room: IntArray,
    sizes: IntArray,
    members: IntArray,
    centroids: FloatArray,
) -> None:
    """Take record i out of its group and put it into group b."""
    a = home[i]
    place = place_of(i, a, room, members)
    members[place] = members[room[a] + sizes[a] - 1]
    members[room[b] + sizes[b]] = i
    sizes[a] -= 1
    sizes[b] += 1
    home[i] = b
    for t in range(x.shape[1]):
        centroids[a, t] += (centroids[a, t] - x[i, t]) / sizes[a]
        centroids[b, t] += (x[i, t] - centroids[b, t]) / sizes[b]


@nb.njit(cache=True, nogil=True)
def swap(
    i: int,
    j: int,
    x: FloatArray,
    home: IntArray,
    room: IntArray,
    sizes: IntArray,
    members: IntArray,
    centroids: FloatArray,
) -> None:
    """Exchange the groups of records i and j."""
    a, b = home[i], home[j]
    members[place_of(i, a, room, members)] = j
    members[place_of(j, b, room, members)] = i
    home[i], home[j] = b, a
    for t in range(x.shape[1]):
        u = x[j, t] - x[i, t]
        centroids[a, t] += u / sizes[a]
        centroids[b, t] -= u / sizes[b]


@nb.njit(cache=True, nogil=True)
def place_of(i: int, group: int, room: IntArray, members: IntArray) -> int:
    """Where record i stands in the member list of its group."""
    place = room[group]
    while members[place] != i:
        place += 1
    return place
