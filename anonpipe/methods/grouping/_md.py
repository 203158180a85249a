"""The two most distant of the remaining records, again and again; ties as in `_mdav`."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import add_row, largest, mean_of, squared_distance, squared_distances, sum_rows
from anonpipe.kernels.remaining import (
    FEW,
    Remaining,
    furthest_record,
    nearest_records,
    remaining_records,
    take_group,
    take_rows,
    tidied,
)
from anonpipe.methods.grouping._mdav import group_means, sink, with_rest
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


@kernel
def _first_bounds(features: FloatArray) -> FloatArray:
    """More than the squared distance of each record to any other: (own distance to the mean + the largest)²."""
    n = features.shape[0]
    mean = mean_of(sum_rows(features, np.arange(n)), n)
    bounds = np.empty(n)
    for i in range(n):
        bounds[i] = np.sqrt(squared_distance(features[i], mean))
    bounds += largest(bounds)  # The slack covers all rounding here and in the distances
    out: FloatArray = np.square(bounds) * (1.0 + 1e-14 * (16 + features.shape[1])) + np.finfo(np.float64).tiny
    return out


@kernel
def _most_distant(
    features: FloatArray,
    tree: Remaining,
    heap: IntArray,
    size: int,
    bounds: FloatArray,
    partners: IntArray,
    ids: IntArray,
) -> int:
    """Bring the record with the furthest partner to the root of the heap; how many entries it has left."""
    # `bounds` are upper bounds of the squared distance of each record to those that remain. A distance once computed
    # stays one while records leave, and is exact while its partner is there; so only a record that comes to the root
    # without such a partner is looked at again. Of equals the lowest row wins.
    while True:
        row = heap[0]
        if tree.places[row] < 0:
            size -= 1
            heap[0] = heap[size]
        elif partners[row] >= 0 and tree.places[partners[row]] >= 0:
            return size
        else:
            partners[row] = furthest_record(tree, features[row], nb.boolean(False))
            bounds[row] = squared_distance(features[partners[row]], features[row])
        sink(heap[:size], int(0), bounds, ids)


@kernel
def _maximum_distance_groups(features: FloatArray, k: int) -> IntArray:
    """Form two groups a round, around the two most distant records, while 2k or more remain (-1)."""
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    tree = remaining_records(features, every, int(FEW))
    bounds, partners, heap, size = _first_bounds(features), np.full(n, -1, dtype=np.int64), every.copy(), n
    for at in range(n // 2 - 1, -1, -1):
        sink(heap, at, bounds, -every)
    rows, distances = np.empty(k, dtype=np.int64), np.empty(k)
    label = int(0)
    for left in range(n, 2 * k - 1, -2 * k):
        tree = tidied(features, tree)
        size = _most_distant(features, tree, heap, size, bounds, partners, -every)
        first, second = heap[0], partners[heap[0]]
        mean = mean_of(sums, left)
        if squared_distance(features[second], mean) > squared_distance(features[first], mean):
            first, second = second, first
        for row in (first, second):
            nearest_records(tree, features[row], rows, distances)
            take_group(tree, features, sums, rows, labels, label)
            label += 1
    return labels


def _join_together(features: FloatArray, labels: IntArray) -> IntArray:
    """Give all records with label -1 the group whose mean is nearest to theirs, ties to the lower label."""
    remaining = np.flatnonzero(labels < 0)
    if len(remaining):
        means = group_means(features, labels, labels.max() + 1)
        distances = np.empty(len(means))
        mean = mean_of(sum_rows(features, remaining), len(remaining))
        squared_distances(means.T.copy(), len(means), mean, distances)
        labels[remaining] = np.argmin(distances)
    return labels


def md(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by maximum distance.

    While 2k or more records remain, the two most distant ones each form a group with their k - 1 nearest, the one
    further from the mean of the remaining first. k to 2k - 1 records that remain form one more group; fewer than k all
    join the group whose mean is nearest to theirs, so that only one group is larger than k.

    The two groups can want the same records, and the papers do not say which one chooses first. The one further out
    does here, because its record has fewer near ones. Published figures named "M-d" are not of this method: they belong
    to a spanning-tree partition whose large parts are split by `diameter_fixed`.

    As published, a search of all pairs in every round takes O(n³/k) steps. Here each record keeps an upper bound of its
    distance to the others, and only those whose bound leads are looked at again: the groups are the same.
    """
    return with_rest(features, _maximum_distance_groups(features, k), k, _join_together)


def diameter_fixed(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by maximum distance, each of the last ones by itself.

    As `md` but for the end: of fewer than k records that remain, each joins the group whose mean is nearest to it. The
    means do not move when records join, so that their order decides nothing.
    """
    return with_rest(features, _maximum_distance_groups(features, k), k)


def pairwise_systematic(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records from both ends of an order, two groups a round.

    Records are sorted by the sum over columns of value minus column mean (equation 4), equal ones by row number. While
    3k or more remain, the first and the last remaining record each form a group of k, the first one before the other.
    Of 2k to 3k - 1 that remain the first forms a group and the others another; fewer than 2k form one group. A group
    takes, one by one, the remaining record that adds least to its sum of squares; ties go to the lower row number.

    "The k - 1 nearest" of the algorithm's steps could also mean nearest to the seed; the text says "chosen in such a
    way that the inclusion of these records causes less SSE", and that reading is nearer to the published figures, which
    are of raw columns and which no reading tried gives exactly. The two seeds of a round are chosen together, so that
    the first group cannot take the other's seed.
    """
    key = np.zeros(len(features))
    for column in features.T:
        key += column - column.mean()  # One column after the other: the same bits whatever the table's layout
    return _systematic_groups(features, k, np.argsort(key, kind="stable"))


@kernel
def _systematic_groups(features: FloatArray, k: int, order: IntArray) -> IntArray:
    """Form groups around the first and the last remaining record of `order` in turn, down to one of all the rest."""
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    tree = remaining_records(features, np.arange(n), int(FEW))
    first, last, left, label = 0, n - 1, n, int(0)
    while left >= 2 * k:
        tree = tidied(features, tree)
        while tree.places[order[first]] < 0:
            first += 1
        take_rows(tree, order[first : first + 1])
        pair = left >= 3 * k
        if pair:
            # The last record seeds the second group: the first must not take it.
            while tree.places[order[last]] < 0:
                last -= 1
            take_rows(tree, order[last : last + 1])
        _grow(features, k, tree, order[first], labels, label)
        label += 1
        left -= k
        if pair:
            _grow(features, k, tree, order[last], labels, label)
            label += 1
            left -= k
    labels[labels < 0] = label
    return labels


@kernel
def _grow(features: FloatArray, k: int, tree: Remaining, seed: int, labels: IntArray, label: int) -> None:
    """Give `seed`, already taken out, and k - 1 others the label; each adds least to the group's scatter."""
    # A record at squared distance d from the mean of m adds d · m/(m + 1): the nearest to the mean adds least.
    sums = np.zeros((2, features.shape[1]))
    row, distance = np.empty(1, dtype=np.int64), np.empty(1)
    labels[seed] = label
    add_row(sums, features, seed, 1.0)
    for size in range(1, k):
        nearest_records(tree, mean_of(sums, size), row, distance)
        labels[row[0]] = label
        take_rows(tree, row)
        add_row(sums, features, row[0], 1.0)


# --- Condensation: random seeds and their nearest records -------------------------------------------------------------


def condensation(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records around seeds drawn at random.

    While k records are left, one of them is drawn and forms a group with the k - 1 nearest to it; ties go to the lower
    row number. Each of the last, fewer than k, joins the nearest group, measured to its centroid as it is before any of
    them has joined: the paper names no measure, and this one does not depend on their order.

    The paper's loop from 0 to s = floor(n/k) would form one group too many; s are formed, as its text says. Labels are
    in the order of formation.
    """
    # The first free record of a random order is any free one with the same chance.
    seeds = rng.permutation(len(features)).astype(np.int64)
    return with_rest(features, condense(features, k, seeds), k)


@kernel
def condense(features: FloatArray, k: int, seeds: IntArray) -> IntArray:
    """The group of every record, -1 for the rest; `seeds` are all rows, in the order in which they are drawn."""
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    tree = remaining_records(features, np.arange(n), int(FEW))
    near, distances = np.empty(k - 1, dtype=np.int64), np.empty(k - 1)
    label = 0
    for seed in seeds:
        if label == n // k:
            break
        if labels[seed] >= 0:
            continue
        tree = tidied(features, tree)
        labels[seed] = label
        take_rows(tree, np.array([seed]))
        if k > 1:
            nearest_records(tree, features[seed], near, distances)
            take_rows(tree, near)
            labels[near] = label
        label += 1
    return labels


METHODS = (
    Grouping(
        function=md,
        summary="Maximum distance (MD).",
        reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, as Kabir and Wang 2010, section IV",
        cost="time O(n²·w) usually, memory O(n·w)",
        sizes="k; up to 2k-1 for the last group, or for one that the last records join",
    ),
    Grouping(
        function=diameter_fixed,
        summary="Diameter-based fixed-size microaggregation.",
        published="Diameter-based fixed-size microaggregation (D)",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w) usually, memory O(n·w)",
        sizes="k; up to 2k-1 for the last group, or where the last fewer than k records join",
    ),
    Grouping(
        function=pairwise_systematic,
        summary="Pairwise systematic microaggregation (P-S).",
        reference="Kabir, Wang and Zhang 2010, doi:10.1109/ICDM.2010.111, section V",
        cost="time O(n²·w) at worst, memory O(n·w)",
        sizes="k, and k to 2k-1 for the last group",
    ),
    Grouping(
        function=condensation,
        summary="Condensation: random seeds and their nearest records.",
        published="Condensation, static",
        reference="Aggarwal and Yu 2004, doi:10.1007/978-3-540-24741-8_12; Gal et al. 2014, Algorithm 1, steps 1 to 4",
        cost="time O(n²·w/k), memory O(n·w)",
        sizes="k, and up to 2k-1 for groups that leftovers join",
        draws=True,
    ),
)
