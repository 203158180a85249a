"""Methods of two phases: TFRP, DBA and MDAV-2. The second gives up groups whose records fit better into others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import ascending, sort_groups, squared_distances
from anonpipe.kernels.remaining import FEW, nearest_records, remaining_records, take_rows, tidied
from anonpipe.methods.grouping._mdav import mdav_1, with_rest
from anonpipe.methods.grouping._units import group_again
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


@kernel
def _group_by_reference_points(features: FloatArray, k: int) -> IntArray:
    """Group of each record, from 0 in order of formation, -1 for the rest (see `anonpipe.methods.grouping.tfrp_1`)."""
    n = features.shape[0]
    orders = (_from_furthest(features, float(features.min())), _from_furthest(features, float(features.max())))
    at = np.zeros(2, dtype=np.int64)
    nearest = np.empty(k, dtype=np.int64)
    distances = np.empty(k)
    labels = np.full(n, -1, dtype=np.int64)
    tree = remaining_records(features, np.arange(n), int(FEW))
    groups = n // k
    for label in range(groups):
        turn = label % 2
        order = orders[turn]
        while labels[order[at[turn]]] >= 0:
            at[turn] += 1
        tree = tidied(features, tree)
        nearest_records(tree, features[order[at[turn]]], nearest, distances)
        take_rows(tree, nearest)
        labels[nearest] = label
    return labels


@kernel
def _from_furthest(features: FloatArray, value: float) -> IntArray:
    """Rows from the one furthest from the point with `value` in all columns; of equals, the lower first."""
    distances = np.zeros(features.shape[0])
    for column in features.T:
        distances += (column - value) ** 2
    return ascending(-distances)


KNOWN = 2  # Nearest records known of each, in units of k: the more, the fewer searches when neighbours leave


@kernel
def _group_by_density(features: FloatArray, k: int) -> IntArray:
    """Group of each record, from 0 in order of formation, -1 for the rest (see `anonpipe.methods.grouping.dba_1`)."""
    # `near[i, :known[i]]` are the records nearest to i, nearest first; the first k of them are without a group and are
    # its neighbourhood, of which `scatter` holds the scatter times k. Only records that have lost a neighbour are
    # looked at again, and searched for only if fewer than k known ones are left.
    n = features.shape[0]
    most = min(KNOWN * k, n)
    near, known = np.empty((n, most), dtype=np.int64), np.full(n, most)
    distances, offsets = np.empty(most), np.empty(features.shape[1])
    scatter = np.empty(n)
    labels = np.full(n, -1, dtype=np.int64)
    tree = remaining_records(features, np.arange(n), int(FEW))
    for i in range(n):
        nearest_records(tree, features[i], near[i], distances)
        scatter[i] = scatter_times_size(features, near[i, :k], offsets)
    groups = n // k
    for label in range(groups):
        densest = near[np.argmin(scatter), :k]
        take_rows(tree, densest)
        labels[densest], scatter[densest] = label, np.inf
        left = n - (label + 1) * k
        if left < k:
            break
        tree = tidied(features, tree)
        for i in range(n):
            if labels[i] >= 0 or not _has_lost(near[i, :k], labels):
                continue
            free = 0  # those without a group move to the front, in their order
            for row in near[i, : known[i]]:
                if labels[row] < 0:
                    near[i, free] = row
                    free += 1
            known[i] = free
            if known[i] < k:
                known[i] = min(most, left)
                nearest_records(tree, features[i], near[i, : known[i]], distances[: known[i]])
            scatter[i] = scatter_times_size(features, near[i, :k], offsets)
    return labels


@kernel
def _has_lost(neighbours: IntArray, labels: IntArray) -> bool:
    """Whether one of the neighbours has a group by now."""
    lost = False
    for row in neighbours:
        lost |= labels[row] >= 0
    return bool(lost)


def decompose(features: FloatArray, labels: IntArray, sequence: IntArray, *, most: int) -> IntArray:
    """Give up every group, in `sequence`, whose records add less scatter to other groups than their own has.

    Each record of the group in turn is assigned to the other group whose mean is nearest and that has fewer than `most`
    records, counting those assigned before it. The means are those before any record of the group moves. If the scatter
    of the groups that would grow, after all joins, exceeds their present scatter by less than the scatter of the group
    in turn, the records move; otherwise all stay. A group that has grown is treated as any other on its turn. A gain
    under 1e-12 of the mean squared distance to the mean of all records is rounding. The last group stays.
    """
    order, starts = sort_groups(labels)
    labels = _decompose_groups(features, order, starts, sequence, most)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def group_large_again(
    features: FloatArray, labels: IntArray, k: int, method: Callable[..., IntArray], rng: np.random.Generator
) -> IntArray:
    """Labels after every group of 2k and more has been grouped by `method` as a table of its own."""
    return group_again(labels, np.bincount(labels) >= 2 * k, lambda rows: method(features[rows], k, rng=rng))


def by_falling_scatter(features: FloatArray, labels: IntArray) -> IntArray:
    """Numbers of the groups from the largest sum of squared distances to the mean down, ties by number."""
    return np.argsort(-_group_scatters(features, *sort_groups(labels)), kind="stable")


TOLERANCE = 1e-12  # Smallest gain that counts, in units of the mean squared distance to the mean of all records


@kernel
def _decompose_groups(
    features: FloatArray, order: IntArray, starts: IntArray, sequence: IntArray, most: int
) -> IntArray:
    """Labels after each group, in `sequence`, has been given up if that lowers the scatter; its number stays unused."""
    # `centres` (width, n_groups) are infinite for groups that are given up; the records of a group are a list from its
    # `first` on.
    n, width = features.shape
    groups = starts.shape[0] - 1
    scatter = _group_scatters(features, order, starts)
    least = TOLERANCE * _group_scatters(features, np.arange(n), np.array([0, n]))[0] / n
    sizes = starts[1:] - starts[:-1]
    sums = np.zeros((width, groups))
    labels = np.empty(n, dtype=np.int64)
    first, last, following = order[starts[:-1]].copy(), order[starts[1:] - 1].copy(), np.empty(n, dtype=np.int64)
    for g in range(groups):
        for at in range(starts[g], starts[g + 1]):
            labels[order[at]] = g
            following[order[at]] = order[at + 1] if at + 1 < starts[g + 1] else -1
            for j in range(width):
                sums[j, g] += features[order[at], j]
    centres = sums / sizes
    alive = groups
    for g in sequence:
        if alive == 1:
            break
        members, record = np.empty(sizes[g], dtype=np.int64), first[g]
        for at in range(sizes[g]):
            members[at], record = record, following[record]
        hosts = _nearest_hosts(features, members, g, centres, sizes, most)
        if hosts[-1] < 0:
            continue
        by_host = ascending(hosts)
        members, hosts = members[by_host], hosts[by_host]
        added = _added_scatter(features, members, hosts, centres, sizes)
        if not added.sum() < scatter[g] - least:
            continue
        alive -= 1
        centres[:, g] = np.inf
        for at in range(members.shape[0]):
            i, host = members[at], hosts[at]
            labels[i] = host
            following[last[host]] = i
            following[i] = -1
            last[host] = i
            sizes[host] += 1
            scatter[host] += added[at]
            for j in range(width):
                sums[j, host] += features[i, j]
                centres[j, host] = sums[j, host] / sizes[host]
    return labels


@kernel
def _nearest_hosts(
    features: FloatArray, members: IntArray, group: int, centres: FloatArray, sizes: IntArray, most: int
) -> IntArray:
    """Nearest other group (of equals the lower) with room below `most`, a member; -1 from the first that finds none."""
    hosts = np.full(members.shape[0], -1, dtype=np.int64)
    distances, coming = np.empty(sizes.shape[0]), np.zeros(sizes.shape[0], dtype=np.int64)  # members before take room
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
    return hosts


@kernel
def _added_scatter(
    features: FloatArray, members: IntArray, hosts: IntArray, centres: FloatArray, sizes: IntArray
) -> FloatArray:
    """What each member adds to its host's scatter, after those before it; `hosts` ascend."""
    # A record x that joins n others of mean c adds n/(n+1) |x - c|² and moves the mean by (x - c)/(n+1).
    added = np.zeros(members.shape[0])
    centre, host, size = np.empty(0), -1, 0
    for at in range(members.shape[0]):
        if hosts[at] != host:
            host = hosts[at]
            size = sizes[host]
            centre = centres[:, host].copy()
        for j in range(features.shape[1]):
            step = features[members[at], j] - centre[j]
            added[at] += step * step * size / (size + 1.0)
            centre[j] += step / (size + 1.0)
        size += 1
    return added


@kernel
def scatter_times_size(features: FloatArray, members: IntArray, offsets: FloatArray) -> float:
    """Size times the sum of squared distances to the mean; `offsets` is room for a row.

    With u the differences to the first member this is n Σ|u|² - |Σu|². As the first is one of the members, |Σu|² is at
    most (1 - 1/n) n Σ|u|², so that the subtraction costs no more than the digits of n; whole numbers give an exact
    result, and with it true ties.
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


@kernel
def _group_scatters(features: FloatArray, order: IntArray, starts: IntArray) -> FloatArray:
    """Sum of squared distances to the mean of each group, shape (n_groups,)."""
    scatter = np.empty(starts.shape[0] - 1)
    offsets = np.empty(features.shape[1])
    for g in range(scatter.shape[0]):
        rows = order[starts[g] : starts[g + 1]]
        scatter[g] = scatter_times_size(features, rows, offsets) / rows.shape[0]
    return scatter


def tfrp_1(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group the records furthest from two fixed points, by turns, with their k - 1 nearest.

    The first reference point has the smallest value of the table in all its columns, the second the largest. The record
    without a group that is furthest from the first point and its k - 1 nearest form a group, then the one furthest from
    the second point and its nearest, and so on until fewer than k records are left; each of these joins the group whose
    mean is nearest. Groups are numbered in the order of formation.

    Smallest and largest value are those of the whole table, not of each column: so say Kabir and Wang, and so the
    published figures come out. Columns should therefore be of one scale. The two points change places by turns down to
    the last group, and the means that leftovers look at are those before any of them joins.
    """
    return with_rest(features, _group_by_reference_points(features, k), k)


def tfrp_2(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by TFRP-1, then give up groups whose records fit better into others.

    The groups of TFRP-1 are tried in the order of falling scatter. A record goes to the nearest other group of fewer
    than 4k - 1 records (see `decompose`). Then each group of 2k and more is grouped by TFRP-1 as a table of its own.

    The text leaves open the order of the groups, how near is measured, whether means move with every record, and how
    large groups are split. All combinations lie within 0.11 % of the published figures on Tarragona; this one alone
    meets all of them to the last digit. No group there comes near 4k - 1: here a record then goes to the next nearest
    group with room, and a group of which a record finds none is kept.
    """
    labels = tfrp_1(features, k, rng=rng)
    labels = decompose(features, labels, by_falling_scatter(features, labels), most=4 * k - 1)
    return group_large_again(features, labels, k, tfrp_1, rng)


def dba_1(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group the densest record without a group with its k - 1 nearest, again and again.

    The neighbourhood of a record are the k records nearest to it among those without a group, itself among them; its
    density is one over the scatter of the neighbourhood, the sum of squared distances to the neighbourhood's mean. The
    neighbourhood of the densest record becomes a group. When fewer than k records are left, each joins the group whose
    mean is nearest. Groups are numbered in the order of formation. Ties go to the lower row.

    Kabir and Wang do not say what the density is; of all that were tried, only this one gives the published figures,
    and to all digits. The densest groups are cut out of their surroundings, which leaves ragged remains: on most tables
    MDAV loses less. The second phase, `dba_2`, mends that in part.
    """
    return with_rest(features, _group_by_density(features, k), k)


def dba_2(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by DBA-1, then give up groups whose records fit better into others.

    The groups of DBA-1 are tried in the reverse order of their formation, the least dense first. A record goes to the
    nearest other group, however large (see `decompose`). Then each group of 2k and more is grouped by MDAV-1. Means
    stay until a group is given up, which Kabir and Wang leave open: so the published figures come out to all digits.
    """
    labels = dba_1(features, k, rng=rng)
    labels = decompose(features, labels, np.arange(labels.max(), -1, -1), most=len(features))
    return group_large_again(features, labels, k, mdav_1, rng)


def mdav_2(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by MDAV-1, then give up groups whose records fit better into others.

    The groups of MDAV-1 are tried in the order of falling scatter. A record goes to the nearest other group (see
    `decompose`). Then each group of 2k and more is grouped by MDAV-1.

    Kabir and Wang describe the second phase for DBA only, where it goes back through the order of formation, the
    densest groups being first. MDAV-1 has no such order. Falling scatter, which is rising density, gives the published
    figures to all digits at k = 4, 5 and 10, and 16.68261429 at k = 3, where 16.38261429 is printed.
    """
    labels = mdav_1(features, k, rng=rng)
    labels = decompose(features, labels, by_falling_scatter(features, labels), most=len(features))
    return group_large_again(features, labels, k, mdav_1, rng)


METHODS = (
    Grouping(
        function=tfrp_1,
        summary="Two fixed reference points, first phase (TFRP-1).",
        reference="Chang et al. 2007, doi:10.1016/j.jss.2007.02.014, first phase",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        sizes="k; up to 2k-1 where the last fewer than k records join",
    ),
    Grouping(
        function=tfrp_2,
        summary="Two fixed reference points, both phases (TFRP-2).",
        reference="Chang et al. 2007, doi:10.1016/j.jss.2007.02.014",
        cost="time O(n²·w/k), memory O(n·w)",
    ),
    Grouping(
        function=dba_1,
        summary="Density-based microaggregation, first phase (DBA-1).",
        published="Density-based algorithm, first phase (DBA-1)",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, DBA-1",
        cost="time O(n²·w) usually, memory O(n·(w + k))",
        sizes="k; up to 2k-1 where the last fewer than k records join",
    ),
    Grouping(
        function=dba_2,
        summary="Density-based microaggregation, both phases (DBA-2).",
        published="Density-based algorithm, both phases (DBA-2)",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, DBA-2",
        cost="time O(n²·w) usually, memory O(n·(w + k))",
    ),
    Grouping(
        function=mdav_2,
        summary="MDAV-1 with the second phase of DBA (MDAV-2).",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, MDAV-2",
        cost="time O(n²·w/k), memory O(n·w)",
    ),
)
