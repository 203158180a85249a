"""Rounds of MDAV and its relatives; ties go to the lower row number, of groups to the one formed earlier."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import ascending, gather_columns, insert_nearest, mean_of, squared_distances, sum_rows
from anonpipe.kernels.remaining import (
    FEW,
    Remaining,
    furthest_record,
    nearest_records,
    remaining_records,
    take_group,
    tidied,
)
from anonpipe.methods.grouping._classes import diagonal, jensen_shannon
from anonpipe.methods.options import ClassGroupingOptions, GroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


@kernel
def groups_from_outside(features: FloatArray, k: int, least: int, pairs: bool) -> IntArray:
    """Form groups around r furthest from the mean and, in `pairs`, s furthest from r, while `least` remain (-1)."""
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    tree = remaining_records(features, every, int(FEW))
    rows, distances = np.empty(k, dtype=np.int64), np.empty(k)
    label = int(0)
    for left in range(n, least - 1, -2 * k if pairs else -k):
        tree = tidied(features, tree)
        r = features[furthest_record(tree, mean_of(sums, left), nb.boolean(False))]
        nearest_records(tree, r, rows, distances)
        s = features[furthest_record(tree, r, nb.boolean(True))] if pairs else r
        take_group(tree, features, sums, rows, labels, label)
        label += 1
        if pairs:
            nearest_records(tree, s, rows, distances)
            take_group(tree, features, sums, rows, labels, label)
            label += 1
    return labels


@kernel
def outermost_group(features: FloatArray, rows: IntArray, k: int) -> IntArray:
    """Of `rows` (k or more, ascending) the one furthest from their mean and its k - 1 nearest."""
    n, columns = rows.shape[0], gather_columns(features, rows)
    distances, nearest, squared = np.empty(n), np.full(k, -1, dtype=np.int64), np.full(k, np.inf)
    squared_distances(columns, n, mean_of(sum_rows(features, rows), n), distances)
    squared_distances(columns, n, features[rows[furthest(distances, n, rows)]], distances)
    for i in range(n):
        insert_nearest(nearest, squared, i, distances[i])
    return rows[nearest]


@kernel
def group_means(features: FloatArray, labels: IntArray, n_groups: int) -> FloatArray:
    """Mean of each group, shape (n_groups, width); records with label -1 count for none."""
    means = np.zeros((n_groups, features.shape[1]))
    sizes = np.zeros(n_groups)
    for i in range(labels.shape[0]):
        if labels[i] >= 0:
            sizes[labels[i]] += 1.0
            for j in range(features.shape[1]):
                means[labels[i], j] += features[i, j]
    for g in range(n_groups):
        for j in range(features.shape[1]):
            means[g, j] = means[g, j] / sizes[g] if sizes[g] > 0.0 else np.nan
    return means


def join_nearest(features: FloatArray, labels: IntArray) -> IntArray:
    """Give each record with label -1 the group whose mean, before any joins, is nearest, ties to the lower label."""
    means = group_means(features, labels, labels.max() + 1)
    columns = means.T.copy()
    distances = np.empty(means.shape[0])
    for i in np.flatnonzero(labels < 0):
        squared_distances(columns, len(means), features[i], distances)
        labels[i] = np.argmin(distances)
    return labels


@kernel
def smallest(key: FloatArray, count: int, ids: IntArray) -> int:
    """Place of the smallest of the first `count` keys; of equals, of the lowest id."""
    at = 0
    least = key[0]
    for i in range(1, count):
        if key[i] <= least and (key[i] < least or ids[i] < ids[at]):
            at = i
            least = key[i]
    return at


@kernel
def furthest(distances: FloatArray, count: int, ids: IntArray) -> int:
    """Place of the largest of the first `count` distances; of equals, of the lowest id."""
    return smallest(-distances[:count], count, ids)


@kernel
def _nearer(distances: FloatArray, ids: IntArray, a: int, b: int) -> bool:
    """Whether place `a` comes before place `b` by (distance, id)."""
    return bool(distances[a] < distances[b] or (distances[a] == distances[b] and ids[a] < ids[b]))


@kernel
def sink(heap: IntArray, at: int, distances: FloatArray, ids: IntArray) -> None:
    """Restore the order of a heap whose root is the furthest place, from entry `at` down."""
    size = heap.shape[0]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _nearer(distances, ids, heap[child], heap[child + 1]):
            child += 1
        if not _nearer(distances, ids, heap[at], heap[child]):
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


def with_rest(
    features: FloatArray, labels: IntArray, k: int, join: Callable[[FloatArray, IntArray], IntArray] = join_nearest
) -> IntArray:
    """The labels once k or more records that remain (-1) have formed a group, or fewer have joined others."""
    if np.count_nonzero(labels < 0) < k:
        return join(features, labels)
    labels[labels < 0] = labels.max() + 1
    return labels


class MdavOptions(GroupingOptions):
    """Maximum distance to average vector."""

    method: Literal["mdav"] = "mdav"


def mdav(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by MDAV.

    While 2k or more records remain: r is the record furthest from their mean, s the record furthest from r; r and its
    k - 1 nearest form a group, then s and its k - 1 nearest among the others. k to 2k - 1 records that remain form one
    more group; fewer than k join the groups whose means are nearest.

    Several variants go by this name. This is the one that Kabir and Wang describe, and that Lin et al. improve to
    MDAV-1; `mdav_generic` stops at 3k. The text leaves open whether a mean moves when a record joins. Here it does not,
    so that the order of the last records decides nothing. On the Tarragona table (z-scores) all of row order or nearest
    first, means moving or not, give the published 19.545786 % (k = 4) and 22.461282 % (k = 5).

    The groups are those of a loop over all remaining records, ties included. Bounds of small boxes of near records tell
    which of them a search can leave out (`anonpipe.kernels.remaining`): with ten columns that have something to do with
    each other, time then grows with about the rows to the power of 1.5 instead of 2. With many unrelated columns it
    does not.
    """
    return with_rest(features, groups_from_outside(features, k, 2 * k, True), k)


def mdav_generic(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by MDAV-generic.

    While 3k or more records remain, two groups a round as in `mdav`. Of 2k to 3k - 1 that remain, the one furthest from
    their mean and its k - 1 nearest form a group and the others another; fewer than 2k form one group. So all groups
    have k records but the last, which has up to 2k - 1.
    """
    labels = groups_from_outside(features, k, 3 * k, True)
    label = labels.max() + 1
    remaining = np.flatnonzero(labels < 0)
    if len(remaining) >= 2 * k:
        labels[outermost_group(features, remaining, k)] = label
        label += 1
    labels[labels < 0] = label
    return labels


def mdav_1(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by MDAV-1.

    Two groups a round as in `mdav` while 2k or more records remain. Of k to 2k - 1 that remain, the one furthest from
    their mean and its k - 1 nearest form a group. The others, fewer than k, join the groups whose means are nearest; no
    group can pass 2k - 1 records. Means do not move when records join them, so that the order of the last records
    decides nothing, and the published figures come out.
    """
    labels = groups_from_outside(features, k, 2 * k, True)
    remaining = np.flatnonzero(labels < 0)
    if len(remaining) >= k:
        labels[outermost_group(features, remaining, k)] = labels.max() + 1
    return join_nearest(features, labels)


def v_mdav(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    gamma: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.2,
) -> IntArray:
    """Group records by V-MDAV: groups of k that grow where the data are dense.

    While k or more records remain, the one furthest from the mean of the whole table and its k - 1 nearest form a
    group. Then, up to 2k - 1 records: e is the remaining record nearest to any member of the group, at distance d_in,
    and d_out its distance to the nearest other remaining record; e joins if d_in < gamma · d_out, else the group is
    closed. The last records, fewer than k, join the groups whose means are nearest; means do not move when they do.

    The mean is computed once, of all records, which is one of the method's savings over MDAV; so gamma = 0 gives groups
    of k like `cbfs`, but not the same. Where one record remains it has no d_out and joins at the end. The last records
    may join a group that has grown, which then has up to 3k - 2 records: the method has no rule against that.

    A `gamma` of 0 never grows a group. The authors find about 0.2 best for scattered and 1.1 for clustered data.

    Solanas and Martínez-Ballesté 2006, V-MDAV: a multivariate microaggregation with variable group size, COMPSTAT 2006;
    as described by Kabir and Wang 2010, doi:10.1109/ICDM.2010.111, section IV.
    """
    return join_nearest(features, _variable_groups(features, k, float(gamma)))


@kernel
def _variable_groups(features: FloatArray, k: int, gamma: float) -> IntArray:
    """Form a group around the record furthest from the mean of all, and extend it, while k records remain (-1)."""
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    mean = mean_of(sums, n)
    tree = remaining_records(features, every, int(FEW))
    group, distances = np.empty(2 * k - 1, dtype=np.int64), np.empty(2 * k - 1)
    nearest = np.empty(2 * k - 1, dtype=np.int64)
    two, apart = np.empty(2, dtype=np.int64), np.empty(2)
    left, label = n, int(0)
    while left >= k:
        tree = tidied(features, tree)
        outermost = features[furthest_record(tree, mean, nb.boolean(False))]
        nearest_records(tree, outermost, group[:k], distances[:k])
        take_group(tree, features, sums, group[:k], labels, label)
        left -= k
        size = k
        while gamma > 0.0 and size < group.shape[0] and left >= 2:
            fresh = 0 if size == k else size - 1
            at = _closest_member(features, tree, group[:size], nearest, distances, fresh)
            nearest_records(tree, features[nearest[at]], two, apart)  # Its own, 0, is one of the two
            # Roots, as the method is stated: 0.2 squared is rounded, and a tie would count as nearer.
            if not math.sqrt(distances[at]) < gamma * math.sqrt(apart[1]):
                break
            group[size] = nearest[at]
            take_group(tree, features, sums, group[size : size + 1], labels, label)
            size += 1
            left -= 1
        label += 1
    return labels


@kernel
def _closest_member(
    features: FloatArray, tree: Remaining, group: IntArray, nearest: IntArray, distances: FloatArray, fresh: int
) -> int:
    """Place in `group` of the member that has the nearest remaining record, of equals the lowest such record."""
    # `nearest` and `distances` hold it for each member; looked up again where it has left, and from place `fresh` on.
    at = 0
    for i in range(group.shape[0]):
        if i >= fresh or tree.places[nearest[i]] < 0:
            nearest_records(tree, features[group[i]], nearest[i : i + 1], distances[i : i + 1])
        if distances[i] < distances[at] or (distances[i] == distances[at] and nearest[i] < nearest[at]):
            at = i
    return at


def cbfs(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records one group at a time, from the outside in.

    While k or more records remain, the one furthest from the mean of those that remain and its k - 1 nearest form a
    group. The last ones, fewer than k, join the groups whose means are nearest; those means are of the k first records
    and do not move, so that the order of the last records decides nothing.
    """
    return join_nearest(features, groups_from_outside(features, k, k, False))


def class_mdav(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> IntArray:
    """Group records by MDAV whose groups are filled by distance and classes.

    Groups form as in `mdav_generic`: around the record r furthest from the mean and around s furthest from r while 3k
    records are left, then one around r, and the rest. But only a group's first record is the nearest. Each of the k - 1
    others is the record of least alpha·L + (1 - alpha)·JSD, with L its distance to r (or s) as a share of the box's
    diagonal and JSD the Jensen-Shannon divergence (base 2) of `class_shares` from the group with it.

    The last group takes what is left: records of the class that the others had no use for, from wherever they are. It
    is the one that may hold one class only.

    With `alpha` 1 the groups are those of `mdav_generic`. Li and Sarkar propose to carry their eq. 6 over to other
    methods; the rule here is this project's.
    """
    return np.asarray(_mixed_groups(features, k, classes, class_shares, float(alpha), diagonal(features)))


@kernel
def _mixed_groups(
    features: FloatArray, k: int, classes: IntArray, shares: FloatArray, alpha: float, unit: float
) -> IntArray:
    """Group of each record, shape (n,); `anonpipe.methods.grouping.METHODS["class_mdav"]` says by which rule."""
    # The records still to be grouped are the first `left` of `columns`; one that leaves is overwritten by the last.
    # Ties are broken by row number.
    n = features.shape[0]
    ids = np.arange(n)
    columns = gather_columns(features, ids)
    labels = np.empty(n, dtype=np.int64)
    distances = np.empty(n)
    left = n
    label = int(0)
    while left >= 2 * k:
        middle = np.array([column[:left].mean() for column in columns])
        squared_distances(columns, left, middle, distances)
        r = columns[:, furthest(distances, left, ids)].copy()
        squared_distances(columns, left, r, distances)
        s = columns[:, furthest(distances, left, ids)].copy()
        for at in range(2 if left >= 3 * k else 1):
            if at:
                squared_distances(columns, left, s, distances)
            places = _choose_mixed(distances[:left], ids, classes, shares, alpha, unit, k)
            left = _take_places(columns, ids, left, places, labels, label)
            label += 1
    labels[ids[:left]] = label
    return labels


@kernel
def _choose_mixed(
    distances: FloatArray, ids: IntArray, classes: IntArray, shares: FloatArray, alpha: float, unit: float, k: int
) -> IntArray:
    """The places of a group's records, in descending order, shape (k,); `distances` become infinite there."""
    # The first is the nearest of all; the next always the nearest of its class, so one candidate a class is compared.
    counts, front = np.zeros(shares.shape[0]), np.full(shares.shape[0], -1)
    places = np.empty(k, dtype=np.int64)
    for i in range(distances.shape[0]):
        c = classes[ids[i]]
        if front[c] < 0 or _nearer(distances, ids, i, front[c]):
            front[c] = i
    for m in range(k):
        best = -1
        least = np.inf
        for c in range(front.shape[0]):
            at = front[c]
            if at < 0:
                continue
            value = distances[at]
            if m > 0:
                counts[c] += 1.0
                value = alpha * (np.sqrt(value) / unit) + (1.0 - alpha) * jensen_shannon(counts, m + 1.0, shares)
                counts[c] -= 1.0
            if best < 0 or value < least or (value == least and ids[at] < ids[best]):
                best = at
                least = value
        places[m] = best
        distances[best] = np.inf
        c = classes[ids[best]]
        counts[c] += 1.0
        front[c] = _next_of_class(distances, ids, classes, c)
    return places[ascending(-places)]


@kernel
def _next_of_class(distances: FloatArray, ids: IntArray, classes: IntArray, c: int) -> int:
    """Place of the nearest record of class c that is not taken, or -1."""
    at = int(-1)
    for i in range(distances.shape[0]):
        if classes[ids[i]] == c and distances[i] < np.inf and (at < 0 or _nearer(distances, ids, i, at)):
            at = i
    return at


@kernel
def _take_places(columns: FloatArray, ids: IntArray, left: int, places: IntArray, labels: IntArray, label: int) -> int:
    """Give the records at `places` (descending) their label and remove them; how many are left."""
    for place in places:
        left -= 1
        labels[ids[place]] = label
        ids[place] = ids[left]
        for j in range(columns.shape[0]):
            columns[j, place] = columns[j, left]
    return left


METHODS = (
    Grouping(
        function=mdav,
        options=MdavOptions,
        published="Maximum distance to average vector (MDAV)",
        reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, as Kabir and Wang 2010, section IV",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        sizes="k; up to 2k-1 for the last group, or where the last fewer than k records join",
    ),
    Grouping(
        function=mdav_generic,
        summary="MDAV-generic: MDAV whose last two groups are formed from up to 3k - 1 records.",
        published="MDAV-generic",
        reference="Domingo-Ferrer and Torra 2005, doi:10.1007/s10618-005-0007-5, algorithm MDAV-generic",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        sizes="k, and k to 2k-1 for the last group",
    ),
    Grouping(
        function=mdav_1,
        summary="MDAV-1: MDAV whose last group has k records too.",
        published="MDAV-1",
        reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, MDAV-1",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        sizes="k; up to 2k-1 where the last fewer than k records join",
    ),
    Grouping(
        function=v_mdav,
        summary="MDAV with groups that grow to up to 2k-1 records where near ones are at hand.",
        published="MDAV with variable group size (V-MDAV)",
        reference="Solanas and Martínez-Ballesté 2006; Kabir and Wang 2010, doi:10.1109/ICDM.2010.111, section IV",
        cost="time O(n²·w) at worst, memory O(n·w)",
        about={
            "gamma": "how readily a group grows, a ratio of distances: 0.2 (default) for scattered data, "
            "1.1 for clusters"
        },
        sizes="k to 2k-1; up to 3k-2 where the last fewer than k records join",
        largest=lambda k: max(k, 3 * k - 2),
    ),
    Grouping(
        function=cbfs,
        summary="Centroid-based fixed-size microaggregation (CBFS).",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w/k) at worst, memory O(n·w)",
        sizes="k; up to 2k-1 where the last fewer than k records join",
    ),
    Grouping(
        function=class_mdav,
        base=ClassGroupingOptions,
        summary="MDAV whose groups weigh distance and class divergence by `alpha`.",
        published="MDAV with the composite distance of CREST",
        reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
        cost="time O(n²·w/k + n²), memory O(n·w)",
        about={
            "alpha": "weight of the distance against the divergence of the classes, 0.5 by default; 1 is mdav_generic"
        },
        sizes="k, and k to 2k-1 for the last group",
        classes=True,
    ),
)
