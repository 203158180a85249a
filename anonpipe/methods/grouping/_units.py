"""Groups of k rows become groups of k units: persons, households, enterprises."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numba as nb
import numpy as np

from anonpipe.errors import LOWER_K, InfeasibleError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import ascending, checked_features, sort_groups, squared_distance, squared_distances
from anonpipe.types import BoolArray, FloatArray, IntArray


def hold_units(features: FloatArray, labels: IntArray, units: IntArray, k: int) -> IntArray:
    """Change any grouping until every group has records of k units or more.

    A unit (a person, say) may have several records, and those of one unit are near each other: a method that forms
    groups of near records forms groups of one unit. First such groups are merged: the one of fewest units takes in the
    group that raises the within-group scatter least (Ward's criterion) among those that have a unit which it lacks.
    Then each group that came of this is cut again, into as many groups as its units allow, in the manner of MDAV, but
    with one record of each of k units in a group: the record furthest from the mean of the rest, and the nearest
    records of the k - 1 units nearest to it. Records that are left join, in their order, the group with fewest of their
    unit, of these the nearest, so that few groups are mostly of one unit. Groups that had k units stay as they are,
    unless another one needs them.

    Merging alone would leave groups of all rows of k units: of 259 firms with 16 months, 80 rows in place of 5.

    Time O(wrong groups · groups · width) and, of n records in a group that is cut again, O(n² / k · width); memory
    O(n_rows + groups · width).

    Shapes: features (n_rows, width); labels (n_rows,); units (n_rows,).

    Domingo-Ferrer & Torra 2005, doi:10.1007/s10618-005-0007-5 (MDAV); Ward 1963, doi:10.1080/01621459.1963.10500845; of
    units with several records Hundepool et al. 2012, section 3.2 (households).
    """
    features = checked_features(features)
    labels, units = (unit_codes(each, name, len(features)) for each, name in ((labels, "labels"), (units, "units")))
    found = int(units.max()) + 1
    if found < k:
        raise InfeasibleError(
            f"{len(features):,} records are of {found:,} units, fewer than k={k}, and make no group; take fewer "
            f"strata, join strata (strata.small: merge; not with a design), or {LOWER_K}"
        )
    order, starts = sort_groups(labels)
    into = _merge_until(features, order, starts, units, k)
    joined, kept = into[labels], np.flatnonzero(into == np.arange(len(into)))
    merged = np.bincount(into, minlength=len(into))[kept] > 1
    return group_again(np.searchsorted(kept, joined), merged, lambda rows: _cut_again(features, rows, units, k))


def group_again(labels: IntArray, chosen: BoolArray, regroup: Callable[[IntArray], IntArray]) -> IntArray:
    """Labels after each of the `chosen` groups (n_groups,) has been divided by `regroup(rows) -> labels from 0`."""
    order, starts = sort_groups(labels)
    again = np.empty_like(labels)
    label = 0
    for group, (low, high) in enumerate(pairwise(starts.tolist())):
        rows = order[low:high]
        again[rows] = label
        if chosen[group]:
            again[rows] += regroup(rows)
            label = int(again[rows].max())
        label += 1
    return again


def units_in_groups(labels: IntArray, units: IntArray) -> IntArray:
    """How many units each group has records of, shape (n_groups,); labels (n_rows,); units (n_rows,)."""
    return np.bincount(_pairs(labels, units)[0])


def largest_share(labels: IntArray, units: IntArray) -> float:
    """Of the rows of a group, the largest share that one unit has."""
    groups, rows = _pairs(labels, units)
    return float((rows / np.bincount(labels)[groups]).max())


def _pairs(labels: IntArray, units: IntArray) -> tuple[IntArray, IntArray]:
    """The group of each pair of a group and a unit that has rows in it, and how many."""
    pairs, rows = np.unique(labels * (int(units.max(initial=0)) + 1) + units, return_counts=True)
    return pairs // (int(units.max(initial=0)) + 1), rows


def unit_codes(values: IntArray, name: str, rows: int) -> IntArray:
    """The values as numbers from 0 without gaps."""
    values = np.asarray(values)
    if values.shape != (rows,) or not rows or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(
            f"{name} has shape {values.shape} and type {values.dtype} for {rows} records; give one whole number a "
            "record, for 1 record or more"
        )
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def unit_points(features: FloatArray, units: IntArray) -> tuple[FloatArray, IntArray]:
    """One point a unit, to be grouped in place of its records, and which one stands for each record.

    The point is the mean of the unit's features, and the logarithm of how many records it has, in standard deviations
    over the units, where these differ: so units of like sizes share groups, and large ones are seldom most of a group.

    Time O(n_rows · (width + log n_rows)); memory O(n_rows · width).

    Shapes: features (n_rows, width); units (n_rows,); returns (n_units, width or width + 1); returns (n_rows,).

    Hundepool et al. 2012, section 3.2 (households), doi:10.1002/9781118348239.
    """
    features = checked_features(features)
    own = unit_codes(units, "units", len(features))
    order = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[order], np.arange(int(own[order[-1]]) + 1))
    rows = np.diff(np.append(starts, len(own)))
    means = np.add.reduceat(features[order], starts) / rows[:, None]
    if (rows == rows[0]).all():
        return np.ascontiguousarray(means), own
    size = np.log(rows)
    return np.column_stack([means, (size - size.mean()) / size.std()]), own


# --- Groups of enough units: groups are merged until each has them, and cut again where they allow it -----------------

NO_UNIT = -1


@kernel
def _merge_until(features: FloatArray, order: IntArray, starts: IntArray, units: IntArray, k: int) -> IntArray:
    """For each group the lowest number among those it is merged with, shape (n_groups,); see `hold_units`."""
    n_groups, width = len(starts) - 1, features.shape[1]
    following = np.full(len(order), -1, dtype=np.int64)  # the next record of the group, by record
    first, last = np.empty(n_groups, dtype=np.int64), np.empty(n_groups, dtype=np.int64)
    means, sizes = np.zeros((width, n_groups)), np.zeros(n_groups)
    held, seen = np.zeros(n_groups, dtype=np.int64), np.full(units.max() + 1, NO_UNIT)
    for g in range(n_groups):
        first[g], last[g] = order[starts[g]], order[starts[g + 1] - 1]
        sizes[g] = starts[g + 1] - starts[g]
        for i in range(starts[g], starts[g + 1]):
            if i + 1 < starts[g + 1]:
                following[order[i]] = order[i + 1]
            if seen[units[order[i]]] != g:
                seen[units[order[i]]] = g
                held[g] += 1
            for j in range(width):
                means[j, g] += features[order[i], j] / sizes[g]
    ids, into = np.arange(n_groups), np.arange(n_groups)
    mark = np.zeros(len(seen), dtype=np.bool_)
    left = n_groups
    a = _fewest(held, sizes, ids, left, k)
    while a >= 0 and left > 1:
        _mark(mark, units, following, first[a], nb.boolean(True))
        b, costs = int(-1), ward_costs(means, sizes, left, a)
        for g in range(left):  # the group with a unit that a lacks which costs least; of equals the lowest number
            if g != a and cheaper(b, g, costs, ids) == g and _adds(mark, units, following, first[g]):
                b = g
        held[a] += _lacking(mark, units, following, first[b])
        _mark(mark, units, following, first[a], nb.boolean(False))
        following[last[a]], last[a] = first[b], last[b]
        left -= 1
        for j in range(width):
            means[j, a] = (sizes[a] * means[j, a] + sizes[b] * means[j, b]) / (sizes[a] + sizes[b])
            means[j, b] = means[j, left]
        sizes[a] += sizes[b]
        low, high = min(ids[a], ids[b]), max(ids[a], ids[b])
        into[high], ids[a] = low, low
        ids[b], sizes[b], held[b], first[b], last[b] = ids[left], sizes[left], held[left], first[left], last[left]
        a = _fewest(held, sizes, ids, left, k)
    for g in range(n_groups):
        into[g] = into[into[g]]
    return into


@kernel
def _fewest(held: IntArray, sizes: FloatArray, ids: IntArray, left: int, k: int) -> int:
    """Place of the group of fewest units under k, of equals of fewest records, of equals of lowest number; or -1."""
    at = -1
    for g in range(left):
        if held[g] >= k:
            continue
        if at < 0 or (held[g], sizes[g], ids[g]) < (held[at], sizes[at], ids[at]):
            at = g
    return at


@kernel
def _mark(mark: BoolArray, units: IntArray, following: IntArray, record: int, value: bool) -> None:
    """Mark the units of a group, or take the marks away."""
    while record >= 0:
        mark[units[record]] = value
        record = following[record]


@kernel
def _lacking(mark: BoolArray, units: IntArray, following: IntArray, record: int) -> int:
    """How many units of a group are not marked; afterwards no unit of it is, whether the other group has it or not."""
    found = 0
    begin = record
    while record >= 0:
        if not mark[units[record]]:
            mark[units[record]] = True
            found += 1
        record = following[record]
    _mark(mark, units, following, begin, False)
    return found


@kernel
def _adds(mark: BoolArray, units: IntArray, following: IntArray, record: int) -> bool:
    """Whether a group has a unit that is not marked."""
    while record >= 0:
        if not mark[units[record]]:
            return True
        record = following[record]
    return False


@kernel
def ward_costs(means: FloatArray, sizes: FloatArray | IntArray, left: int, a: int) -> FloatArray:
    """By how much the within-group scatter rises when group a takes in each of the first `left` groups, (left,)."""
    costs = np.empty(left)
    squared_distances(means, left, means[:, a].copy(), costs)
    for g in range(left):
        costs[g] *= sizes[a] * sizes[g] / (sizes[a] + sizes[g])
    return costs


@kernel
def cheaper(best: int, g: int, costs: FloatArray, ids: IntArray) -> int:
    """The one of lower cost, of equals the one of lower number; g where there is no best (-1) yet."""
    if best < 0 or costs[g] < costs[best] or (costs[g] == costs[best] and ids[g] < ids[best]):
        return g
    return best


@kernel
def _most_groups(counts: IntArray, k: int) -> int:
    """Most groups with a record of each of k units, by the records of units: most g of sum(min(counts, g)) >= k g."""
    most, last = int(counts.sum()) // k, 1
    for g in range(2, most + 1):
        if _places(counts, g) < k * g:
            break
        last = g
    return last


@kernel
def _places(counts: IntArray, groups: int) -> int:
    """Records that so many groups can take where each has one of a unit at most."""
    found = 0
    for count in counts:
        found += min(count, groups)
    return found


@kernel
def _cut_again(features: FloatArray, rows: IntArray, units: IntArray, k: int) -> IntArray:
    """Groups of k or more units inside one group of records, shape (n_rows,): numbers from 0; see `hold_units`."""
    # Of units with fewer records than there are groups to be made a group takes only so many as leave enough for the
    # others. Of equals the first record counts, or the lowest unit or group.
    inside = features[rows]
    codes = np.unique(units[rows])
    unit = np.searchsorted(codes, units[rows])
    counts, group = np.bincount(unit), np.full(len(rows), -1, dtype=np.int64)
    groups = _most_groups(counts, k)
    means, total = np.zeros((groups, inside.shape[1])), inside.sum(axis=0)
    nearest, closest = np.empty(len(codes)), np.empty(len(codes), dtype=np.int64)
    for made in range(groups):
        wanted = groups - made
        spare = _places(counts, wanted - 1) - k * (wanted - 1)  # records of units with few that this group may take
        seed = _seed(inside, group, unit, counts, total / (len(rows) - k * made), 1 if spare > 0 else wanted)
        _nearest_of_units(inside, group, unit, seed, nearest, closest)
        taken = 0
        for c in ascending(nearest):
            few = counts[c] < wanted
            if taken == k or closest[c] < 0 or (few and spare <= 0):
                continue
            spare -= few
            taken += 1
            counts[c] -= 1
            group[closest[c]] = made
            total -= inside[closest[c]]
            means[made] += inside[closest[c]] / k
    _join(inside, group, unit, means)
    return group


@kernel
def _join(inside: FloatArray, group: IntArray, unit: IntArray, means: FloatArray) -> None:
    """Let each record that is left join the group with fewest of its unit, of these the one whose mean is nearest."""
    own = np.zeros(len(means), dtype=np.int64)
    order = ascending(unit)
    for at in range(len(order)):
        if at == 0 or unit[order[at]] != unit[order[at - 1]]:
            own[:] = 0
            for other in order[at:]:
                if unit[other] != unit[order[at]]:
                    break
                if group[other] >= 0:
                    own[group[other]] += 1
        i = order[at]
        if group[i] < 0:
            best, least = 0, np.inf
            for g in range(len(means)):
                if own[g] > own[best]:
                    continue
                distance = squared_distance(inside[i], means[g])
                if own[g] < own[best] or distance < least:
                    best, least = g, distance
            group[i] = best
            own[best] += 1


@kernel
def _seed(inside: FloatArray, group: IntArray, unit: IntArray, counts: IntArray, middle: FloatArray, least: int) -> int:
    """The record without group furthest from a point, of units with so many of these at least."""
    seed, furthest = -1, -1.0
    for i in range(len(group)):
        if group[i] < 0 and counts[unit[i]] >= least:
            distance = squared_distance(inside[i], middle)
            if distance > furthest:
                seed, furthest = i, distance
    return seed


@kernel
def _nearest_of_units(
    inside: FloatArray, group: IntArray, unit: IntArray, seed: int, nearest: FloatArray, closest: IntArray
) -> None:
    """Of each unit the record without group that is nearest to the seed, and its distance; -1 and infinity for none."""
    nearest[:] = np.inf
    closest[:] = -1
    for i in range(len(group)):
        if group[i] < 0:
            distance = squared_distance(inside[i], inside[seed])
            if distance < nearest[unit[i]]:
                nearest[unit[i]], closest[unit[i]] = distance, i
    nearest[unit[seed]], closest[unit[seed]] = -1.0, seed
