"""Local search for groups of less scatter."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import (
    block_order,
    by_first_row,
    checked_features,
    gather_columns,
    insert_nearest,
    mix,
    principal_direction,
    project_rows,
    sort_groups,
    split_rows,
    squared_distance,
    squared_distances,
)
from anonpipe.methods.grouping._loss import count_groups
from anonpipe.types import FloatArray, IntArray

BLOCK_ROWS = 640  # Records of the blocks in which the search for near groups begins
ListArray = npt.NDArray[np.int32]


def refine(
    features: FloatArray,
    labels: IntArray,
    k: int,
    effort: Literal["quick", "normal"] = "quick",
    *,
    block_rows: int = BLOCK_ROWS,
) -> IntArray:
    """Lower the information loss of a grouping by local search; it never rises.

    Groups of 2k or more are split. Then a record may move from a group of more than k to a near one with room, or swap
    places with a record there; a group may end by giving its records to near groups, and one may begin with records
    from near groups that have more than k. With n the sizes, c the means and u = x_j - x_i, a step adds to the scatter

        move i from a to b:   n_b/(n_b+1) |x_i - c_b|² - n_a/(n_a-1) |x_i - c_a|²
        swap i in a, j in b:  2 u·(c_b - c_a) - |u|² (1/n_a + 1/n_b)

    The groups are annealed in several runs. In a run such steps are taken where they add less than an allowance that
    shrinks from sweep to sweep, in units of each group's own scatter, and at last only steps that subtract. Then every
    region of the table keeps the better of its groups before and after the run, and the next run begins with those.

    Near groups are those of nearest mean in the whole table, so that the borders of blocks in which groups were formed
    do not stay. Time is linear in the rows: in a sweep each group tries one step. Memory is proportional to the points.

    Shapes: features (n_rows, width); labels (n_rows,).

    The formulas follow from the change of two means. Annealing is Kirkpatrick, Gelatt and Vecchi 1983,
    doi:10.1126/science.220.4598.671; here every group has a temperature of its own. See `combine` for the regions.
    """
    features = checked_features(features)
    if effort not in EFFORTS:
        raise ValueError(f"effort is {effort!r}; allowed are {', '.join(EFFORTS)}")
    if k < 1 or block_rows < 1:
        raise ValueError(f"k is {k} and block_rows {block_rows}; give 1 or more")
    count_groups(labels, len(features), k, "the grouping to be refined")
    if k == 1:
        return np.arange(len(features))
    if len(features) < 2 * k:
        return np.zeros(len(features), dtype=np.int64)
    refined = _search(features, labels, k, EFFORTS[effort], block_rows)
    count_groups(refined, len(features), k, "refine")
    return refined


LAYOUT_GROUPS = 64  # Groups whose records are kept side by side in memory
SWEEPS = 25  # In each run; in a sweep every group tries one step

HOT, COLD = 0.5, 0.05  # Mean allowance of first and last sweep, in mean squared distances to a group's centroid
EVERY = 5  # Sweeps of steps before one of whole groups
SETTLING = 2  # Most descents at the end, each with near groups found again
LEAST = 1e-14  # Smallest gain of a step, in units of the mean squared distance to the mean of all records


class Effort(NamedTuple):
    """How far a local search goes."""

    few: int  # How often the groups of large tables are annealed
    many: int  # Those of small ones
    trials: int  # Runs times sweeps times records, for tables in between
    near: int  # Near groups of each group


EFFORTS = {"quick": Effort(4, 20, 400_000, 12), "normal": Effort(40, 200, 4_000_000, 16)}


def _lay_out(features: FloatArray, labels: IntArray, k: int) -> tuple[FloatArray, IntArray, IntArray]:
    """Records in an order that keeps near groups together, all groups under 2k."""
    order, starts = sort_groups(labels)
    if np.diff(starts).max() >= 2 * k:
        labels = split_large(features, order, starts, k)
        order, starts = sort_groups(labels)
    centroids = np.add.reduceat(features[order], starts[:-1]) / np.diff(starts)[:, None]
    rank = np.empty(len(centroids), dtype=np.int64)
    rank[block_order(centroids, LAYOUT_GROUPS)[0]] = np.arange(len(centroids))
    home = rank[labels]
    order, _ = sort_groups(home)
    return features[order] - features.mean(axis=0), home[order], order


def _near_groups(groups: SearchGroups, count: int, block_rows: int) -> tuple[IntArray, ListArray]:
    """For each group the `count` groups of nearest centroid, and those that have it among theirs (`both_ways`)."""
    alive = np.flatnonzero(groups.sizes)
    block = block_rows * len(alive) // len(groups.home)
    starts, others = both_ways(near_records(groups.centroids[alive], count, block))
    all_starts = np.zeros(len(groups.sizes) + 1, dtype=np.int64)
    all_starts[alive + 1] = np.diff(starts)
    return np.cumsum(all_starts), alive[others].astype(np.int32)


def _search(features: FloatArray, labels: IntArray, k: int, effort: Effort, block_rows: int) -> IntArray:
    """The groups found; see `refine`."""
    x, home, order = _lay_out(features, labels, k)
    groups = open_groups(x, home.copy(), k)
    first = group_scatter(groups)
    least = LEAST * float(np.square(x).sum()) / len(x)
    runs = min(effort.many, max(effort.few, effort.trials // (len(x) * SWEEPS)))
    for key in np.arange(runs, dtype=np.uint64):
        # One run: anneal, descend, and keep the better groups of before and after in every region
        before, parts = groups.home.copy(), group_scatter(groups)
        near = _near_groups(groups, effort.near, block_rows)
        anneal(groups, *near, temperatures(groups), np.geomspace(HOT, COLD, SWEEPS), key)
        _run_down(groups, *near, least)
        _keep_better(groups, before, parts)
    _keep_better(groups, home, first)
    for _ in range(SETTLING):
        if not _run_down(groups, *_near_groups(groups, effort.near, block_rows), least):
            break
    found = np.empty(len(x), dtype=np.int64)
    found[order] = groups.home
    return by_first_row(found)


def _keep_better(groups: SearchGroups, before: IntArray, parts: FloatArray) -> None:
    """In every region the better groups of those before, whose scatter is `parts`, and those now."""
    groups.home[:] = by_first_row(combine(before, parts, groups.home, group_scatter(groups)))
    _settle(groups)


def _run_down(groups: SearchGroups, starts: IntArray, others: ListArray, least: float) -> int:
    """Descend by steps, by changes of whole groups, and by steps again; how many whole groups were changed."""
    changed = np.ones(len(groups.sizes), dtype=np.int64)
    descend(groups, starts, others, changed, least)
    changed[:] = 0
    reformed = reform(groups, starts, others, changed, least)
    descend(groups, starts, others, changed, least)
    return int(reformed)


# --- Annealing of a grouping: steps that raise the scatter, allowed ever more rarely ----------------------------------
# What is tried, and how much it may add, follows from a number alone, the key.


COLDEST = 1e-3  # Least temperature of a group, in units of that of all groups


@kernel
def temperatures(groups: SearchGroups) -> FloatArray:
    """Mean squared distance to the centroid in each group, or a thousandth of that over all if larger."""
    # Each group's own: groups in thin regions can have a thousand times the scatter of those in dense ones.
    mean = scatter(groups) / groups.home.shape[0]
    heat = np.full(groups.sizes.shape[0], mean)
    for g in range(groups.sizes.shape[0]):
        if groups.sizes[g] > 0:
            heat[g] = max(COLDEST * mean, _scatter_of(groups, g) / groups.sizes[g])
    return heat


@kernel
def _below(bits: np.uint64, limit: int) -> int:
    """One of 0 to limit - 1, from the lower half of the bits."""
    return int(((bits & np.uint64(0xFFFFFFFF)) * np.uint64(limit)) >> np.uint64(32))


@kernel
def _allowance(bits: np.uint64) -> float:
    """-log of a number in (0, 1], from the upper half of the bits: exponential of mean 1."""
    return -math.log((float(bits >> np.uint64(32)) + 1.0) / 4294967296.0)


@kernel
def _anneal_steps(
    groups: SearchGroups, starts: IntArray, others: ListArray, heat: FloatArray, factor: float, key: np.uint64
) -> None:
    """One sweep: every group takes its best step with one near group, if that adds less than allowed."""
    # The allowance is exponential with mean `factor` times the group's `heat`, so that a step that adds x is taken with
    # the probability exp(-x/mean) of Metropolis.
    for a in range(groups.sizes.shape[0]):
        if groups.sizes[a] == 0 or starts[a] == starts[a + 1]:
            continue
        bits = mix(key + np.uint64(a))
        b = others[starts[a] + _below(bits, starts[a + 1] - starts[a])]
        if groups.sizes[b] == 0:
            continue
        _, i, partner = best_step(groups, a, b, factor * heat[a] * _allowance(bits))
        if partner != NONE:
            take(groups, a, b, i, partner)


@kernel
def _anneal_groups(
    groups: SearchGroups, starts: IntArray, others: ListArray, heat: FloatArray, factor: float, key: np.uint64
) -> None:
    """One sweep: every other group is dissolved, the rest begin one next to them, where `_anneal_steps` would."""
    moved = np.empty(2 * groups.k, dtype=np.int64)
    partners = np.empty(2 * groups.k, dtype=np.int64)
    free = _free_groups(groups)
    for a in range(groups.sizes.shape[0]):
        size = groups.sizes[a]
        if size == 0:
            continue
        bits = mix(key + np.uint64(a))
        limit = factor * heat[a] * _allowance(bits)
        near = others[starts[a] : starts[a + 1]]
        choice = _below(bits, 2 * size)
        if choice >= size:
            if dissolve(groups, a, near, limit, moved, partners) > 0:
                free.append(a)
        elif size > groups.k and len(free) > 0:
            seed = groups.members[a, choice]
            if create(groups, seed, free[-1], near, limit, moved, partners) > 0:
                heat[free.pop()] = heat[a]


@kernel
def anneal(
    groups: SearchGroups, starts: IntArray, others: ListArray, heat: FloatArray, schedule: FloatArray, key: np.uint64
) -> None:
    """One sweep of steps for each factor of `schedule`, and after each `EVERY` of them one of whole groups."""
    for at in range(schedule.shape[0]):
        number = np.uint64(at)
        _anneal_steps(groups, starts, others, heat, schedule[at], mix(key ^ mix(number)))
        if at % EVERY == EVERY - 1:
            _anneal_groups(groups, starts, others, heat, schedule[at], mix(~key ^ mix(number)))


# --- Groups that end and groups that begin ----------------------------------------------------------------------------
# A group ends when each of its records joins a near group with room; one begins with a record and the k - 1 that are
# cheapest to take from near groups with more than k. Both are tried on the groups themselves and taken back where they
# add too much to the scatter.


@kernel
def _cheapest_host(groups: SearchGroups, i: int, near: ListArray) -> tuple[float, int]:
    """The group of `near` with room that record i adds least to, and what it adds; inf and -1 where all are full."""
    best, host = np.inf, -1
    for b in near:
        size = groups.sizes[b]
        if size == 0 or size == groups.members.shape[1]:
            continue
        added = size / (size + 1.0) * squared_distance(groups.x[i], groups.centroids[b])
        if added < best:
            best, host = added, b
    return best, int(host)


@kernel
def dissolve(groups: SearchGroups, a: int, near: ListArray, limit: float, moved: IntArray, hosts: IntArray) -> int:
    """Give group a's records to groups of `near`, last first, if that adds less than `limit`; how many went, or 0."""
    credit = _scatter_of(groups, a)
    # A host that takes several records asks less for each, but no less than this share.
    discount = groups.k / (groups.k + 1.0)
    alone = 0.0
    for at in range(groups.sizes[a]):
        alone += _cheapest_host(groups, groups.members[a, at], near)[0]
        if not discount * alone < credit + limit:
            return 0
    added = -credit
    count = 0
    while groups.sizes[a] > 0:
        i = groups.members[a, groups.sizes[a] - 1]
        cost, host = _cheapest_host(groups, i, near)
        added += cost
        if not added < limit:
            _take_back(groups, moved[:count], np.full(count, a))
            return 0
        _put(groups, i, host)
        _recentre(groups, host)
        moved[count], hosts[count] = i, host
        count += 1
    return count


@kernel
def create(
    groups: SearchGroups, seed: int, g: int, near: ListArray, limit: float, moved: IntArray, donors: IntArray
) -> int:
    """Begin the empty group g with record `seed`, whose group has more than k, if that adds less than `limit`.

    The others come from the seed's group and those of `near`: always the record whose step adds least. How many went, 0
    if none; who and where from is in `moved` and `donors`.
    """
    home = groups.home[seed]
    size = groups.sizes[home]
    i, added = seed, -size / (size - 1.0) * groups.reach[seed] ** 2
    for count in range(1, groups.k + 1):
        moved[count - 1], donors[count - 1] = i, groups.home[i]
        _put(groups, i, g)
        _recentre(groups, donors[count - 1])
        _recentre(groups, g)
        if count == groups.k and added < limit:
            return count
        cost, i = np.inf, -1
        for at in range(-1, near.shape[0]):
            b = home if at < 0 else near[at]
            if count < groups.k and groups.sizes[b] > groups.k:
                least, record = _cheapest_guest(groups, b, g, cost)
                if least < cost:
                    cost, i = least, record
        if i < 0:
            _take_back(groups, moved[:count], donors[:count])
            return 0
        added += cost
    return 0


@kernel
def _cheapest_guest(groups: SearchGroups, b: int, g: int, limit: float) -> tuple[float, int]:
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


@kernel
def _take_back(groups: SearchGroups, moved: IntArray, homes: IntArray) -> None:
    """Return the `moved` records, last first, to the groups they came from."""
    for at in range(moved.shape[0] - 1, -1, -1):
        left, home = groups.home[moved[at]], int(homes[at])
        _put(groups, moved[at], home)
        _recentre(groups, left)
        _recentre(groups, home)


@kernel
def reform(groups: SearchGroups, starts: IntArray, others: ListArray, changed: IntArray, least: float) -> int:
    """Dissolve every group, and begin one next to it, where that lowers the scatter; how many such steps."""
    moved = np.empty(2 * groups.k, dtype=np.int64)
    partners = np.empty(2 * groups.k, dtype=np.int64)
    free = _free_groups(groups)
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


@kernel
def _free_groups(groups: SearchGroups) -> list[int]:
    """Numbers of the groups without records, the lowest last."""
    free = [0 for _ in range(0)]
    for g in range(groups.sizes.shape[0] - 1, -1, -1):
        if groups.sizes[g] == 0:
            free.append(g)
    return free


# --- A grouping under change: who is in which group, and where the groups' means are ----------------------------------


class SearchGroups(NamedTuple):
    """Groups of k to 2k - 1 records; the arrays change in place."""

    k: int  # Smallest size of a group, 2 or more
    x: FloatArray  # Points, shape (n, width)
    home: IntArray  # Group of each record, shape (n,)
    place: IntArray  # Where a record stands among the members of its group, shape (n,)
    sizes: IntArray  # Of each group, shape (n_groups,); 0 for an unused number
    centroids: FloatArray  # Of each group, shape (n_groups, width)
    members: IntArray  # Records of group g: `members[g, : sizes[g]]`, shape (n_groups, 2k - 1)
    reach: FloatArray  # Distance of each record to its centroid, shape (n,)
    radius: FloatArray  # Largest reach in each group, shape (n_groups,)


def open_groups(x: FloatArray, home: IntArray, k: int) -> SearchGroups:
    """The groups of `home` (used, not copied), with room for as many as there can be."""
    n, width = x.shape
    count = n // k
    groups = SearchGroups(
        k=k,
        x=x,
        home=home,
        place=np.zeros(n, dtype=np.int64),
        sizes=np.zeros(count, dtype=np.int64),
        centroids=np.zeros((count, width)),
        members=np.zeros((count, 2 * k - 1), dtype=np.int64),
        reach=np.zeros(n),
        radius=np.zeros(count),
    )
    _settle(groups)
    return groups


@kernel
def _settle(groups: SearchGroups) -> None:
    """Set everything from `home`."""
    groups.sizes[:] = 0
    for i in range(groups.home.shape[0]):
        g = groups.home[i]
        groups.place[i] = groups.sizes[g]
        groups.members[g, groups.sizes[g]] = i
        groups.sizes[g] += 1
    for g in range(groups.sizes.shape[0]):
        _recentre(groups, g)


@kernel
def _recentre(groups: SearchGroups, g: int) -> None:
    """Compute a group's centroid and the distances to it afresh."""
    size = groups.sizes[g]
    centroid = groups.centroids[g]
    centroid[:] = 0.0
    for at in range(size):
        point = groups.x[groups.members[g, at]]
        for t in range(centroid.shape[0]):
            centroid[t] += point[t]
    share = 1.0 / max(1, size)
    for t in range(centroid.shape[0]):
        centroid[t] *= share
    radius = 0.0
    for at in range(size):
        i = groups.members[g, at]
        groups.reach[i] = np.sqrt(squared_distance(groups.x[i], centroid))
        radius = max(radius, groups.reach[i])
    groups.radius[g] = radius


@kernel
def _put(groups: SearchGroups, i: int, b: int) -> None:
    """Take record i out of its group and put it into group b; the centroids stay where they were."""
    a = groups.home[i]
    last = groups.members[a, groups.sizes[a] - 1]
    groups.members[a, groups.place[i]] = last
    groups.place[last] = groups.place[i]
    groups.sizes[a] -= 1
    groups.members[b, groups.sizes[b]] = i
    groups.place[i] = groups.sizes[b]
    groups.sizes[b] += 1
    groups.home[i] = b


@kernel
def _exchange(groups: SearchGroups, i: int, j: int) -> None:
    """Let records i and j trade groups; the centroids stay where they were."""
    a, b = groups.home[i], groups.home[j]
    groups.members[a, groups.place[i]], groups.members[b, groups.place[j]] = j, i
    groups.place[i], groups.place[j] = groups.place[j], groups.place[i]
    groups.home[i], groups.home[j] = b, a


@kernel
def scatter(groups: SearchGroups) -> float:
    """Sum of the squared distances to the centroids."""
    total = 0.0
    for distance in groups.reach:
        total += distance * distance
    return total


@kernel
def _scatter_of(groups: SearchGroups, g: int) -> float:
    """The part of `scatter` that lies in group g."""
    total = 0.0
    for at in range(groups.sizes[g]):
        distance = groups.reach[groups.members[g, at]]
        total += distance * distance
    return total


@kernel
def group_scatter(groups: SearchGroups) -> FloatArray:
    """The part of `scatter` that lies in each group, shape (n_groups,)."""
    parts = np.empty(groups.sizes.shape[0])
    for g in range(parts.shape[0]):
        parts[g] = _scatter_of(groups, g)
    return parts


# --- Steps of single records between two groups, and the descent by them ----------------------------------------------
# With n the sizes, c the means, p the distance of a record to its own mean and e that to the other one, a step adds to
# the within-group scatter
#
#     move i from a to b:      n_b/(n_b+1) e² - n_a/(n_a-1) p²
#     swap i in a with j in b: 2 u·d - |u|²/h,  u = x_j - x_i,  d = c_b - c_a,
#                              1/h = 1/n_a + 1/n_b
#
# and the second is h |d|² - |x_j - y|²/h with y = x_i + h d. So the best partner of i in b is the record furthest from
# y, and none is good enough where |c_b - y| plus the radius of b is too short: most swaps are ruled out by distances
# that are known already, without a look at the record.


NONE, MOVE = -2, -1  # No step, or a move, in place of the partner in a swap
TOLERANCE = 1e-12  # Smallest gain of a step, in units of the squared sum of the two radii
PATIENCE = 100  # Most steps of a descent, in units of the groups: the end even where rounding would go in circles


@kernel
def best_step(groups: SearchGroups, a: int, b: int, limit: float) -> tuple[float, int, int]:
    """The move or swap between a and b that adds least to the scatter, if less than `limit`."""
    n_a, n_b = groups.sizes[a], groups.sizes[b]
    apart = np.sqrt(squared_distance(groups.centroids[a], groups.centroids[b]))
    h = n_a * n_b / (n_a + n_b)
    best, i, partner = limit, NONE, NONE
    # No |x_j - y| is longer than this, whatever i.
    longest = abs(h - 1.0) * apart + groups.radius[a] + groups.radius[b]
    if longest * longest > h * (h * apart * apart - best):
        best, i, partner = _best_swap(groups, a, b, apart, best)
    if n_a > groups.k and n_b < groups.members.shape[1]:
        added, mover = _best_move(groups, a, b, apart, best)
        if added < best:
            best, i, partner = added, mover, MOVE
    if n_b > groups.k and n_a < groups.members.shape[1]:
        added, mover = _best_move(groups, b, a, apart, best)
        if added < best:
            best, i, partner = added, mover, MOVE
    return best, i, partner


@nb.njit(cache=True, nogil=True, inline="always")
def _best_move(groups: SearchGroups, a: int, b: int, apart: float, limit: float) -> tuple[float, int]:
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
def _best_swap(groups: SearchGroups, a: int, b: int, apart: float, limit: float) -> tuple[float, int, int]:
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
            added = _swap_adds(groups, here, there, h)
            if added < best:
                best, i, j = added, here, there
                border = h * (h * apart * apart - best)
    return best, i, j


@nb.njit(cache=True, nogil=True, inline="always")
def _swap_adds(groups: SearchGroups, i: int, j: int, h: float) -> float:
    """What the swap of i and j adds to the scatter."""
    here, there = groups.x[i], groups.x[j]
    c_a, c_b = groups.centroids[groups.home[i]], groups.centroids[groups.home[j]]
    inverse = 1.0 / h
    added = 0.0
    for t in range(here.shape[0]):
        u = there[t] - here[t]
        added += u * (2.0 * (c_b[t] - c_a[t]) - inverse * u)
    return added


@kernel
def take(groups: SearchGroups, a: int, b: int, i: int, partner: int) -> None:
    """Take a step between a and b that `best_step` found."""
    if partner != MOVE:
        _exchange(groups, i, partner)
    else:
        _put(groups, i, b if groups.home[i] == a else a)
    _recentre(groups, a)
    _recentre(groups, b)


@kernel
def descend(groups: SearchGroups, starts: IntArray, others: ListArray, changed: IntArray, least: float) -> None:
    """Take steps between near groups until none lowers the scatter.

    Groups wait in a queue, those with `changed` set at first. Each looks at its near groups in turn, takes the best
    step with each, calls the other one into the queue, and leaves when a full turn has brought nothing. A pair is
    passed over where neither has changed since it was last looked at.
    """
    count = groups.sizes.shape[0]
    waiting = changed > 0
    ring = np.empty(count, dtype=np.int64)
    head, length = 0, 0
    for a in range(count):
        ring[length] = a
        length += waiting[a]
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


# --- Near points of every point, in time linear in the points ---------------------------------------------------------
# Each point looks at the others of its block, under two ways of cutting blocks, and then at the near points of its near
# points. The second look crosses the borders of the blocks and finds nearly all of the nearest ones. Up to `EXACT`
# points are compared all with all.


EXACT = 1_000


def near_records(features: FloatArray, count: int, block: int) -> ListArray:
    """Numbers of about the `count` nearest other points of each, nearest first, shape (n, count)."""
    # A neighbour of a neighbour is likely one: Dong, Moses and Li 2011, doi:10.1145/1963405.1963487. Nothing is drawn.
    n = len(features)
    count = max(0, min(count, n - 1))
    near = np.full((n, count), -1, dtype=np.int32)
    distances = np.full((n, count), np.inf)
    if count == 0:
        return near
    if n <= EXACT:
        _compare_in_blocks(features, np.arange(n), np.array([0, n]), near, distances)
        return near
    for turned in (False, True):
        # A block never has fewer points than a list can hold.
        _compare_in_blocks(features, *block_order(features, max(block, 2 * count + 2), turned=turned), near, distances)
    _ask_neighbours(features, near, distances)
    return near


@kernel
def _offer(near: ListArray, distances: FloatArray, other: int, distance: float) -> None:
    """Put `other` into one point's sorted list if it belongs there and is not in it."""
    if not _names(near, other):
        insert_nearest(near, distances, other, distance)


@kernel
def _compare_in_blocks(
    features: FloatArray, order: IntArray, starts: IntArray, near: ListArray, distances: FloatArray
) -> None:
    """Offer every point all others of its block."""
    last = near.shape[1] - 1
    for block in range(starts.shape[0] - 1):
        rows = order[starts[block] : starts[block + 1]]
        columns = gather_columns(features, rows)
        out = np.empty(rows.shape[0])
        for i in rows:
            squared_distances(columns, rows.shape[0], features[i], out)
            for at in range(rows.shape[0]):
                if out[at] <= distances[i, last] and rows[at] != i:
                    _offer(near[i], distances[i], rows[at], out[at])


@kernel
def _ask_neighbours(features: FloatArray, near: ListArray, distances: FloatArray) -> None:
    """Offer every point the near points of its near points, and itself to them."""
    asked = np.full(features.shape[0], -1, dtype=np.int64)
    last = near.shape[1] - 1
    for i in range(features.shape[0]):
        first = near[i].copy()
        asked[i] = i
        for j in first:
            asked[j] = i
        for j in first:
            for h in near[j]:
                if asked[h] == i:
                    continue
                asked[h] = i
                distance = squared_distance(features[h], features[i])
                if distance <= distances[i, last]:
                    _offer(near[i], distances[i], h, distance)
                if distance <= distances[h, last]:
                    _offer(near[h], distances[h], i, distance)


@kernel
def both_ways(near: ListArray) -> tuple[IntArray, ListArray]:
    """Lists in which j is one of i's wherever i is one of j's."""
    n = near.shape[0]
    starts = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        starts[i + 1] += near.shape[1]
        for j in near[i]:
            if not _names(near[j], i):
                starts[j + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
    others = np.empty(starts[n], dtype=np.int32)
    ends = starts[:n] + near.shape[1]
    for i in range(n):
        for at in range(near.shape[1]):
            others[starts[i] + at] = near[i, at]
        for j in near[i]:
            if not _names(near[j], i):
                others[ends[j]] = i
                ends[j] += 1
    return starts, others


@kernel
def _names(numbers: ListArray, i: int) -> bool:
    """Whether i is among the few `numbers`."""
    for j in numbers:  # noqa: SIM110 - compiled
        if j == i:
            return True
    return False


@kernel
def split_large(features: FloatArray, order: IntArray, starts: IntArray, k: int) -> IntArray:
    """Labels for groups of less than 2k records: those given, the larger ones cut across their principal direction."""
    labels = np.empty(order.shape[0], dtype=np.int64)
    order = order.copy()
    label = 0
    for g in range(starts.shape[0] - 1):
        stack = [(starts[g], starts[g + 1])]
        while len(stack) > 0:
            low, high = stack.pop()
            rows = order[low:high]
            if high - low < 2 * k:
                labels[rows] = label
                label += 1
                continue
            projections = project_rows(features, rows, principal_direction(features, rows, nb.boolean(False)))
            left = (high - low) // k // 2 * k
            split_rows(rows, projections, left)
            stack.append((low + left, high))
            stack.append((low, low + left))
    return labels


def combine(first: IntArray, first_scatter: FloatArray, second: IntArray, second_scatter: FloatArray) -> IntArray:
    """Groups (n,) that are in every region those of the better of two groupings, numbered through.

    A region is a smallest set of records that both groupings divide into whole groups: the connected parts of the graph
    of all groups, in which two are joined that share a record. So each choice leaves whole groups. The idea is that of
    partition crossover, Whitley, Hains and Howe 2009, doi:10.1145/1569901.1570026, for the travelling salesman.
    """
    renumbered, gains = second + len(first_scatter), np.concatenate([first_scatter, -second_scatter])
    shared = coo_array((np.ones(len(first), dtype=np.int8), (first, renumbered)), shape=(len(gains), len(gains)))
    region = connected_components(shared, directed=False)[1]
    gain = np.bincount(region, gains)
    return np.where(gain[region[first]] > 0.0, renumbered, first)
