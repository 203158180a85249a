"""Groups that end and groups that begin.

A group ends when each of its records joins a near group with room; one begins
with a record and the k - 1 that are cheapest to take from near groups with
more than k. Both are tried on the groups themselves and taken back where they
add too much to the scatter.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.distance import squared_distance
from anonpipe.methods.grouping._regroup_kernel import Groups, put, recentre, scatter_of
from anonpipe.types import IntArray

ListArray = npt.NDArray[np.int32]


@nb.njit(cache=True, nogil=True)
def cheapest_host(groups: Groups, i: int, near: ListArray) -> tuple[float, int]:
    """The group of `near` with room that record i adds least to, and what it adds; inf and -1 where all are full."""
    best, host = np.inf, -1
    for b in near:
        size = groups.sizes[b]
        if size == 0 or size == groups.members.shape[1]:
            continue
        added = size / (size + 1.0) * squared_distance(groups.x[i], groups.centroids[b])
        if added < best:
            best, host = added, b
    return best, host


@nb.njit(cache=True, nogil=True)
def dissolve(groups: Groups, a: int, near: ListArray, limit: float, moved: IntArray, hosts: IntArray) -> int:
    """Give the records of group a to the groups of `near`, last first, if that adds less than `limit` to the scatter.

    How many went, 0 if none; who and where to is in `moved` and `hosts`.
    """
    credit = scatter_of(groups, a)
    # A host that takes several records asks less for each, but no less than this share.
    discount = groups.k / (groups.k + 1.0)
    alone = 0.0
    for at in range(groups.sizes[a]):
        alone += cheapest_host(groups, groups.members[a, at], near)[0]
        if not discount * alone < credit + limit:
            return 0
    added = -credit
    count = 0
    while groups.sizes[a] > 0:
        i = groups.members[a, groups.sizes[a] - 1]
        cost, host = cheapest_host(groups, i, near)
        added += cost
        if not added < limit:
            take_back(groups, moved[:count], np.full(count, a))
            return 0
        put(groups, i, host)
        recentre(groups, host)
        moved[count], hosts[count] = i, host
        count += 1
    return count


@nb.njit(cache=True, nogil=True)
def create(groups: Groups, seed: int, g: int, near: ListArray, limit: float, moved: IntArray, donors: IntArray) -> int:
    """Begin the empty group g with record `seed`, whose group has more than k, if that adds less than `limit`.

    The others come from the seed's group and those of `near`: always the
    record whose step adds least. How many went, 0 if none; who and where from
    is in `moved` and `donors`.
    """
    home = groups.home[seed]
    size = groups.sizes[home]
    i, added = seed, -size / (size - 1.0) * groups.reach[seed] ** 2
    for count in range(1, groups.k + 1):
        moved[count - 1], donors[count - 1] = i, groups.home[i]
        put(groups, i, g)
        recentre(groups, donors[count - 1])
        recentre(groups, g)
        if count == groups.k and added < limit:
            return count
        cost, i = np.inf, -1
        for at in range(-1, near.shape[0]):
            b = home if at < 0 else near[at]
            if count < groups.k and groups.sizes[b] > groups.k:
                least, record = cheapest_guest(groups, b, g, cost)
                if least < cost:
                    cost, i = least, record
        if i < 0:
            take_back(groups, moved[:count], donors[:count])
            return 0
        added += cost
    return 0


@nb.njit(cache=True, nogil=True)
def cheapest_guest(groups: Groups, b: int, g: int, limit: float) -> tuple[float, int]:
    """The record of b whose move to g adds least, if less than `limit`: (what it adds, record or -1)."""
    leaving = groups.sizes[b] / (groups.sizes[b] - 1.0)
    joining = groups.sizes[g] / (groups.sizes[g] + 1.0)
    best, guest = limit, -1
    for at in range(groups.sizes[b]):
        j = groups.members[b, at]
        added = joining * squared_distance(groups.x[j], groups.centroids[g]) - leaving * groups.reach[j] ** 2
        if added < best:
            best, guest = added, j
    return best, guest


@nb.njit(cache=True, nogil=True)
def take_back(groups: Groups, moved: IntArray, homes: IntArray) -> None:
    """Return the `moved` records, last first, to the groups they came from."""
    for at in range(moved.shape[0] - 1, -1, -1):
        left, home = groups.home[moved[at]], int(homes[at])
        put(groups, moved[at], home)
        recentre(groups, left)
        recentre(groups, home)


@nb.njit(cache=True, nogil=True)
def reform(groups: Groups, starts: IntArray, others: ListArray, changed: IntArray, least: float) -> int:
    """Dissolve every group, and begin one beside it, where that lowers the scatter; how many such steps.

    A new group begins with the record furthest from its centroid. Groups that
    took or gave records are set in `changed`.
    """
    moved = np.empty(2 * groups.k, dtype=np.int64)
    partners = np.empty(2 * groups.k, dtype=np.int64)
    free = free_groups(groups)
    steps = 0
    for a in range(groups.sizes.shape[0]):
        if groups.sizes[a] == 0:
            continue
        near = others[starts[a] : starts[a + 1]]
        count = dissolve(groups, a, near, -least, moved, partners)
        if count > 0:
            free.append(a)
        elif groups.sizes[a] > groups.k and len(free) > 0:
            seed = groups.members[a, 0]
            for at in range(groups.sizes[a]):
                if groups.reach[groups.members[a, at]] > groups.reach[seed]:
                    seed = groups.members[a, at]
            count = create(groups, seed, free[-1], near, -least, moved, partners)
            if count > 0:
                changed[free.pop()] = 1
        steps += count > 0
        for b in partners[:count]:
            changed[b] = 1
    return steps


@nb.njit(cache=True, nogil=True)
def free_groups(groups: Groups) -> list[int]:
    """Numbers of the groups without records, the lowest last."""
    free = [0 for _ in range(0)]
    for g in range(groups.sizes.shape[0] - 1, -1, -1):
        if groups.sizes[g] == 0:
            free.append(g)
    return free
