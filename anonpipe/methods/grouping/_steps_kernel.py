"""Steps of single records between two groups, and the descent by them.

With n the sizes, c the means, p the distance of a record to its own mean and
e that to the other one, a step adds to the within-group scatter

    move i from a to b:      n_b/(n_b+1) e² - n_a/(n_a-1) p²
    swap i in a with j in b: 2 u·d - |u|²/h,  u = x_j - x_i,  d = c_b - c_a,
                             1/h = 1/n_a + 1/n_b

and the second is h |d|² - |x_j - y|²/h with y = x_i + h d. So the best partner
of i in b is the record furthest from y, and none is good enough where
|c_b - y| plus the radius of b is too short: most swaps are ruled out by
distances that are known already, without a look at the record.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.distance import squared_distance
from anonpipe.methods.grouping._regroup_kernel import Groups, exchange, put, recentre
from anonpipe.types import IntArray

ListArray = npt.NDArray[np.int32]

NONE, MOVE = -2, -1  # No step, or a move, in place of the partner in a swap

TOLERANCE = 1e-12  # Smallest gain of a step, in units of the squared sum of the two radii

PATIENCE = 100  # Most steps of a descent, in units of the groups: the end even where rounding would go in circles


@nb.njit(cache=True, nogil=True)
def best_step(groups: Groups, a: int, b: int, limit: float) -> tuple[float, int, int]:
    """The move or swap between a and b that adds least to the scatter, if less than `limit`."""
    n_a, n_b = groups.sizes[a], groups.sizes[b]
    apart = np.sqrt(squared_distance(groups.centroids[a], groups.centroids[b]))
    h = n_a * n_b / (n_a + n_b)
    best, i, partner = limit, NONE, NONE
    # No |x_j - y| is longer than this, whatever i.
    longest = abs(h - 1.0) * apart + groups.radius[a] + groups.radius[b]
    if longest * longest > h * (h * apart * apart - best):
        best, i, partner = best_swap(groups, a, b, apart, best)
    if n_a > groups.k and n_b < groups.members.shape[1]:
        added, mover = best_move(groups, a, b, apart, best)
        if added < best:
            best, i, partner = added, mover, MOVE
    if n_b > groups.k and n_a < groups.members.shape[1]:
        added, mover = best_move(groups, b, a, apart, best)
        if added < best:
            best, i, partner = added, mover, MOVE
    return best, i, partner


@nb.njit(cache=True, nogil=True, inline="always")
def best_move(groups: Groups, a: int, b: int, apart: float, limit: float) -> tuple[float, int]:
    """The move from a to b that adds least, if less than `limit`: (what it adds, record)."""
    leaving = groups.sizes[a] / (groups.sizes[a] - 1.0)
    joining = groups.sizes[b] / (groups.sizes[b] + 1.0)
    best, mover = limit, NONE
    for at in range(groups.sizes[a]):
        i = groups.members[a, at]
        p = groups.reach[i]
        nearest = max(0.0, apart - p)
        if joining * nearest * nearest - leaving * p * p < best:
            added = joining * squared_distance(groups.x[i], groups.centroids[b]) - leaving * p * p
            if added < best:
                best, mover = added, i
    return best, mover


@nb.njit(cache=True, nogil=True, inline="always")
def best_swap(groups: Groups, a: int, b: int, apart: float, limit: float) -> tuple[float, int, int]:
    """The swap between a and b that adds least, if less than `limit`: (what it adds, record of a, record of b)."""
    h = groups.sizes[a] * groups.sizes[b] / (groups.sizes[a] + groups.sizes[b])
    best, i, j = limit, NONE, NONE
    border = h * (h * apart * apart - best)
    for at in range(groups.sizes[a]):
        here = groups.members[a, at]
        p = groups.reach[here]
        longest = abs(h - 1.0) * apart + p + groups.radius[b]
        if longest * longest <= border:
            continue
        e = squared_distance(groups.x[here], groups.centroids[b])
        middle = np.sqrt(max(0.0, e + h * (h * apart * apart - (e + apart * apart - p * p))))
        longest = middle + groups.radius[b]
        if longest * longest <= border:
            continue
        for to in range(groups.sizes[b]):
            there = groups.members[b, to]
            longest = middle + groups.reach[there]
            if longest * longest <= border:
                continue
            added = swap_adds(groups, here, there, h)
            if added < best:
                best, i, j = added, here, there
                border = h * (h * apart * apart - best)
    return best, i, j


@nb.njit(cache=True, nogil=True, inline="always")
def swap_adds(groups: Groups, i: int, j: int, h: float) -> float:
    """What the swap of i and j adds to the scatter."""
    here, there = groups.x[i], groups.x[j]
    c_a, c_b = groups.centroids[groups.home[i]], groups.centroids[groups.home[j]]
    inverse = 1.0 / h
    added = 0.0
    for t in range(here.shape[0]):
        u = there[t] - here[t]
        added += u * (2.0 * (c_b[t] - c_a[t]) - inverse * u)
    return added


@nb.njit(cache=True, nogil=True)
def take(groups: Groups, a: int, b: int, i: int, partner: int) -> None:
    """Take a step between a and b that `best_step` found."""
    if partner != MOVE:
        exchange(groups, i, partner)
    elif groups.home[i] == a:
        put(groups, i, b)
    else:
        put(groups, i, a)
    recentre(groups, a)
    recentre(groups, b)


@nb.njit(cache=True, nogil=True)
def descend(groups: Groups, starts: IntArray, others: ListArray, changed: IntArray, least: float) -> int:
    """Take steps between near groups until none lowers the scatter; how many were taken.

    Groups wait in a queue, those with `changed` set at first. Each looks at
    its near groups in turn, takes the best step with each, calls the other one
    into the queue, and leaves when a full turn has brought nothing. A pair is
    passed over where neither has changed since it was last looked at.

    Shapes: changed (n_groups,).
    """
    count = groups.sizes.shape[0]
    queue = np.flatnonzero(changed)
    waiting = changed > 0
    ring = np.empty(count, dtype=np.int64)
    ring[: queue.shape[0]] = queue
    head, length = 0, queue.shape[0]
    seen = np.zeros(count, dtype=np.int64)
    now = 1
    while length > 0 and now < PATIENCE * count:
        a = ring[head]
        head, length = (head + 1) % count, length - 1
        waiting[a] = False
        degree = starts[a + 1] - starts[a] if groups.sizes[a] > 0 else 0
        at, quiet = 0, 0
        while quiet < degree and now < PATIENCE * count:
            b = others[starts[a] + at]
            at = (at + 1) % degree
            quiet += 1
            if groups.sizes[b] == 0 or max(changed[a], changed[b]) <= max(seen[a], seen[b]):
                continue
            radii = groups.radius[a] + groups.radius[b]
            _, i, partner = best_step(groups, a, b, -max(least, TOLERANCE * radii * radii))
            if partner == NONE:
                continue
            take(groups, a, b, i, partner)
            quiet = 0
            now += 1
            changed[a] = changed[b] = now
            if not waiting[b]:
                ring[(head + length) % count] = b
                length += 1
                waiting[b] = True
        seen[a] = now
    return now - 1
