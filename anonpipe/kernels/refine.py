"""Descent of the within-group scatter by moving and swapping records and dissolving groups.

Groups are handled in blocks. Inside a block records, groups and centroids
carry local numbers; names are those of the formulas:

    a, b   the group of record i, and one that it may go to
    u      x_j - x_i, for a swap of i in a with j in b
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.distance import gather_columns, squared_distances

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STAY, MOVE = -2, -1
"""What to do with a record, in place of the number of its partner in a swap."""

TOLERANCE = 1e-12
"""Smallest gain of a step, in units of the mean squared distance to the centroids."""


class Block(NamedTuple):
    """The state of one block's descent; the arrays change in place.

    Attributes
    ----------
    k
        Smallest size of a group.
    least
        Smallest gain that counts as one.
    depth, stake
        Most steps of a chain (less than 2: no chains), and by how much the
        scatter may rise on the way, in units of the squared distance of the
        chain's first record to its centroid.
    x
        Points, shape (n, width).
    near
        Groups that a record may go to, shape (n, candidates).
    home
        Group of each record, shape (n,).
    sizes, centroids
        Of each group, shapes (n_groups,) and (n_groups, width).
    room, members
        Records of group g: `members[room[g] : room[g] + sizes[g]]`.
    changed
        When a group changed last, in steps, shape (n_groups,).
    """

    k: int
    least: float
    depth: int
    stake: float
    x: FloatArray
    near: IntArray
    home: IntArray
    sizes: IntArray
    centroids: FloatArray
    room: IntArray
    members: IntArray
    changed: IntArray


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
    depth: int,
    stake: float,
    labels: IntArray,
) -> int:
    """Descend in every block of groups and write the new groups to `labels`; the number of steps taken.

    `order`, `starts` are the records by group (`sort_groups`); `group_order`,
    `block_starts` the groups by block. Groups can become empty.
    """
    steps = 0
    for block in range(block_starts.shape[0] - 1):
        groups = group_order[block_starts[block] : block_starts[block + 1]]
        if groups.shape[0] < 2:
            continue
        rows, home, room = lay_out(groups, order, starts, k)
        steps += descend(open_block(points[rows], k, home, room, candidates, depth, stake), sweeps)
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
def open_block(
    x: FloatArray, k: int, home: IntArray, room: IntArray, candidates: int, depth: int, stake: float
) -> Block:
    """Member lists, centroids and near groups of one block."""
    sizes = np.zeros(room.shape[0] - 1, dtype=np.int64)
    members = np.empty(room[-1], dtype=np.int64)
    for i in range(x.shape[0]):
        members[room[home[i]] + sizes[home[i]]] = i
        sizes[home[i]] += 1
    centroids = np.empty((sizes.shape[0], x.shape[1]))
    least = TOLERANCE * recentre(x, home, sizes, centroids) / x.shape[0]
    near = nearest_groups(x, centroids, min(candidates, sizes.shape[0]))
    changed = np.zeros(sizes.shape[0], dtype=np.int64)
    return Block(k, least, depth, stake, x, near, home, sizes, centroids, room, members, changed)


@nb.njit(cache=True, nogil=True)
def recentre(x: FloatArray, home: IntArray, sizes: IntArray, centroids: FloatArray) -> float:
    """Compute all centroids afresh; the within-group scatter."""
    centroids[:] = 0.0
    for i in range(x.shape[0]):
        for t in range(x.shape[1]):
            centroids[home[i], t] += x[i, t]
    for g in range(sizes.shape[0]):
        for t in range(x.shape[1]):
            centroids[g, t] /= max(1, sizes[g])
    total = 0.0
    for i in range(x.shape[0]):
        total += squared_distance(x[i], centroids[home[i]])
    return total


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
def descend(block: Block, sweeps: int) -> int:
    """Sweep until nothing improves or `sweeps` are over; the number of steps taken.

    Single steps come first; where they are exhausted, whole groups are
    dissolved; where that helps no more, chains of steps are tried.
    """
    seen = np.full(block.x.shape[0], -1, dtype=np.int64)
    tried = seen.copy()
    steps = 0
    for _ in range(sweeps):
        before = steps
        steps = take_steps(block, seen, steps)
        if steps == before:
            steps = dissolve_groups(block, steps)
        if steps == before and block.depth > 1:
            steps = follow_chains(block, tried, steps)
        if steps == before:
            break
        recentre(block.x, block.home, block.sizes, block.centroids)
    return steps


@nb.njit(cache=True, nogil=True)
def take_steps(block: Block, seen: IntArray, steps: int) -> int:
    """Take the best improving step of each record in turn; the count of steps so far.

    A record is tried against a group again only where its own or that group
    has changed since it was tried last.
    """
    for i in range(block.x.shape[0]):
        gain, group, partner = best_step(block, i, seen[i], block.home[:0])
        seen[i] = steps
        if gain < -block.least:
            steps += 1
            block.changed[block.home[i]] = steps
            block.changed[group] = steps
            take(block, i, group, partner)
    return steps


@nb.njit(cache=True, nogil=True)
def best_step(block: Block, i: int, since: int, locked: IntArray) -> tuple[float, int, int]:
    """The step of record i that adds least to the scatter: (what it adds, group, MOVE or partner).

    Groups unchanged since step `since` together with i's own are passed over,
    and so are partners among `locked`; (inf, own group, STAY) where none is left.
    """
    a = block.home[i]
    own = block.sizes[a]
    best, group, partner = np.inf, a, STAY
    leaving = 0.0
    if own > block.k:
        leaving = own / (own - 1.0) * squared_distance(block.x[i], block.centroids[a])
    for b in block.near[i]:
        size = block.sizes[b]
        if b == a or size == 0 or (block.changed[a] <= since and block.changed[b] <= since):
            continue
        if own > block.k and size < 2 * block.k - 1:
            gain = size / (size + 1.0) * squared_distance(block.x[i], block.centroids[b]) - leaving
            if gain < best:
                best, group, partner = gain, b, MOVE
        if size < 2 * block.k:
            for place in range(block.room[b], block.room[b] + size):
                gain = swap_gain(block, i, a, block.members[place], b)
                if gain < best and not holds(locked, block.members[place]):
                    best, group, partner = gain, b, block.members[place]
    return best, group, partner


@nb.njit(cache=True, nogil=True)
def holds(records: IntArray, i: int) -> bool:
    """Whether i is among the few `records`."""
    for j in records:  # noqa: SIM110 - compiled
        if j == i:
            return True
    return False


@nb.njit(cache=True, nogil=True)
def swap_gain(block: Block, i: int, a: int, j: int, b: int) -> float:
    """What the swap of i in a with j in b adds to the scatter: 2 u·(c_b - c_a) - |u|²(1/n_a + 1/n_b)."""
    inverse = 1.0 / block.sizes[a] + 1.0 / block.sizes[b]
    gain = 0.0
    for t in range(block.x.shape[1]):
        u = block.x[j, t] - block.x[i, t]
        gain += u * (2.0 * (block.centroids[b, t] - block.centroids[a, t]) - inverse * u)
    return gain


@nb.njit(cache=True, nogil=True)
def take(block: Block, i: int, group: int, partner: int) -> None:
    """Move record i to `group`, or swap it with its partner there."""
    if partner == MOVE:
        move(block, i, group)
    else:
        swap(block, i, partner)


@nb.njit(cache=True, nogil=True)
def move(block: Block, i: int, b: int) -> None:
    """Take record i out of its group and put it into group b."""
    a = block.home[i]
    block.members[place_of(block, i)] = block.members[block.room[a] + block.sizes[a] - 1]
    block.members[block.room[b] + block.sizes[b]] = i
    block.sizes[a] -= 1
    block.sizes[b] += 1
    block.home[i] = b
    for t in range(block.x.shape[1]):
        block.centroids[a, t] += (block.centroids[a, t] - block.x[i, t]) / max(1, block.sizes[a])
        block.centroids[b, t] += (block.x[i, t] - block.centroids[b, t]) / block.sizes[b]


@nb.njit(cache=True, nogil=True)
def swap(block: Block, i: int, j: int) -> None:
    """Exchange the groups of records i and j."""
    a, b = block.home[i], block.home[j]
    at, to = place_of(block, i), place_of(block, j)
    block.members[at], block.members[to] = j, i
    block.home[i], block.home[j] = b, a
    for t in range(block.x.shape[1]):
        u = block.x[j, t] - block.x[i, t]
        block.centroids[a, t] += u / block.sizes[a]
        block.centroids[b, t] -= u / block.sizes[b]


@nb.njit(cache=True, nogil=True)
def place_of(block: Block, i: int) -> int:
    """Where record i stands in `members`."""
    place = block.room[block.home[i]]
    while block.members[place] != i:
        place += 1
    return int(place)


@nb.njit(cache=True, nogil=True)
def dissolve_groups(block: Block, steps: int) -> int:
    """Give away all records of every group for which that lowers the scatter; the count of steps so far."""
    moved = np.empty(2 * block.k, dtype=np.int64)
    for a in range(block.sizes.shape[0]):
        if block.sizes[a] == 0 or block.sizes[a] >= 2 * block.k:
            continue
        gain = 0.0
        for place in range(block.room[a], block.room[a] + block.sizes[a]):
            gain -= squared_distance(block.x[block.members[place]], block.centroids[a])
        count = 0
        while block.sizes[a] > 0:
            i = block.members[block.room[a]]
            cost, group = cheapest_host(block, i)
            gain += cost
            if not gain < -block.least:
                break
            move(block, i, group)
            moved[count] = i
            count += 1
        if block.sizes[a] == 0:
            steps += 1
            for i in moved[:count]:
                block.changed[block.home[i]] = steps
        else:
            for i in moved[:count][::-1]:
                move(block, i, a)
    return steps


@nb.njit(cache=True, nogil=True)
def cheapest_host(block: Block, i: int) -> tuple[float, int]:
    """The near group to whose scatter record i adds least, and what it adds; inf where all are full."""
    best, group = np.inf, block.home[i]
    for b in block.near[i]:
        size = block.sizes[b]
        if b == block.home[i] or size == 0 or size >= 2 * block.k - 1:
            continue
        cost = size / (size + 1.0) * squared_distance(block.x[i], block.centroids[b])
        if cost < best:
            best, group = cost, b
    return best, group


@nb.njit(cache=True, nogil=True)
def follow_chains(block: Block, tried: IntArray, steps: int) -> int:
    """Try a chain of steps from every record; the count of steps so far, a chain counting as one."""
    actors = np.empty(block.depth, dtype=np.int64)
    partners = np.empty(block.depth, dtype=np.int64)
    groups = np.empty((block.depth, 2), dtype=np.int64)
    for start in range(block.x.shape[0]):
        count, paid = follow_chain(block, start, tried[start], actors, partners, groups)
        tried[start] = steps
        if paid:
            steps += 1
            for at in range(count):
                block.changed[groups[at, 0]] = steps
                block.changed[groups[at, 1]] = steps
        else:
            for at in range(count - 1, -1, -1):
                take(block, actors[at], groups[at, 0], partners[at])
    return steps


@nb.njit(cache=True, nogil=True)
def follow_chain(
    block: Block, start: int, since: int, actors: IntArray, partners: IntArray, groups: IntArray
) -> tuple[int, bool]:
    """Take a chain of steps that may first raise the scatter; how many, and whether they lower it in all.

    The first is the best step of record `start`, each further one the best
    of any record of the two groups that the last one changed. No record acts
    twice. The steps are noted in the arrays, for their undoing.
    """
    locked = np.full(2 * block.depth, STAY, dtype=np.int64)
    limit = block.stake * squared_distance(block.x[start], block.centroids[block.home[start]])
    total, group, partner = best_step(block, start, since, locked)
    i = start
    count = 0
    while total < limit:
        actors[count], partners[count] = i, partner
        groups[count, 0], groups[count, 1] = block.home[i], group
        locked[2 * count], locked[2 * count + 1] = i, partner
        take(block, i, group, partner)
        count += 1
        if total < -block.least:
            return count, True
        if count == block.depth:
            break
        gain, i, group, partner = best_of_groups(block, groups[count - 1], locked[: 2 * count])
        total += gain
    return count, False


@nb.njit(cache=True, nogil=True)
def best_of_groups(block: Block, groups: IntArray, locked: IntArray) -> tuple[float, int, int, int]:
    """The best step of the records of `groups` that are not locked: (what it adds, record, group, partner)."""
    best, record, group, partner = np.inf, 0, 0, STAY
    for g in groups:
        for place in range(block.room[g], block.room[g] + block.sizes[g]):
            i = block.members[place]
            if holds(locked, i):
                continue
            gain, to, other = best_step(block, i, -1, locked)
            if gain < best:
                best, record, group, partner = gain, i, to, other
    return best, record, group, partner
