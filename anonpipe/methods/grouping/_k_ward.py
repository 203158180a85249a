"""Multivariate k-Ward."""

from __future__ import annotations

from typing import Literal

import numba as nb
import numpy as np

from anonpipe.kernels.points import gather_columns, sort_groups, squared_distances
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class KWardOptions(GroupingOptions):
    """Multivariate k-Ward."""

    method: Literal["k_ward"]


def k_ward(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by Ward's method, never merging two groups of k or more.

    Of 2k or more records, the two that are furthest apart each form a group
    with their k - 1 nearest; every other record is a group of its own. Then
    the two groups a, b with the smallest cost n_a n_b / (n_a + n_b) |c_a - c_b|²
    are merged, n their sizes and c their means, until every group has k
    records; a pair of groups that both have k is never merged. The method is
    applied again to each group of 2k or more, so that groups have k to 2k - 1.
    It ends because the two seeds' groups are never merged with each other.

    Where the paper leaves a choice: the seed of the lower row number takes its
    neighbours first and leaves the other seed out; the second takes its own
    among the rest. Of equal costs the smaller group goes first, then the one
    with the lower first row. Where several pairs cost the same, chains of
    nearest neighbours may merge them in another order than a global search.

    Memory is linear in the rows. Time is quadratic; a set that gives one group
    of nearly all its records again and again would make it cubic.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; nothing is drawn from it.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    References
    ----------
    Domingo-Ferrer and Mateo-Sanz 2002, IEEE TKDE 14(1), doi:10.1109/69.979982,
    the multivariate k-Ward algorithm.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> k_ward(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    labels = np.empty(len(features), dtype=np.int64)
    ward_recursively(features, k, labels)
    return labels


METHOD = Grouping(
    function=k_ward,
    options=KWardOptions,
    published="k-Ward, multivariate",
    reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, the multivariate k-Ward algorithm",
    cost="time O(n²·w), memory O(n·w)",
    sizes="k to 2k-1",
    largest=under_2k,
)


# --- Ward merging that never joins two large groups, and the seeds it starts from -------------------------------------


@nb.njit(cache=True, nogil=True)
def ward_recursively(features: FloatArray, k: int, labels: IntArray) -> None:
    """Write the group of every record to `labels`: sets of 2k and more are grouped again, smaller ones are groups."""
    order = np.arange(features.shape[0])
    label = 0
    stack = [(0, features.shape[0])]
    while len(stack) > 0:
        low, high = stack.pop()
        if high - low < 2 * k:
            labels[order[low:high]] = label
            label += 1
            continue
        rows = order[low:high].copy()
        inside, starts = sort_groups(ward_once(features, rows, k))
        order[low:high] = rows[inside]
        for g in range(starts.shape[0] - 2, -1, -1):
            stack.append((low + starts[g], low + starts[g + 1]))


@nb.njit(cache=True, nogil=True)
def ward_once(features: FloatArray, rows: IntArray, k: int) -> IntArray:
    """Group of each of `rows` (2k or more) after two seed groups and merging, 0 to n_groups - 1.

    A group is called by its lowest place in `rows`; `into` leads from a name
    to the name that has taken it over, which is never higher.
    """
    n = rows.shape[0]
    columns = gather_columns(features, rows)
    into = seed_groups(columns, furthest_pair(features, rows), k)
    names = np.flatnonzero(into == np.arange(n))
    sizes = np.zeros(n, dtype=np.int64)
    for i in range(n):
        sizes[into[i]] += 1
    centres = np.zeros((columns.shape[0], names.shape[0]))
    for j in range(columns.shape[0]):
        total = np.zeros(n)
        for i in range(n):
            total[into[i]] += columns[j, i]
        centres[j] = total[names] / sizes[names]
    merge_until_large(centres, sizes[names], names, k, into)
    found = np.empty(n, dtype=np.int64)
    groups = 0
    for i in range(n):
        if into[i] == i:
            found[i] = groups
            groups += 1
        else:
            found[i] = found[into[i]]
    return found


@nb.njit(cache=True, nogil=True)
def furthest_pair(features: FloatArray, rows: IntArray) -> tuple[int, int]:
    """Places in `rows` of the two records that are furthest apart; of equal pairs the lowest.

    Records are taken in descending order of their distance to one reference
    point: a pair is no further apart than the sum of the two distances, so
    that most pairs need no look.
    """
    n, width = rows.shape[0], features.shape[1]
    columns = gather_columns(features, rows)
    centre = np.empty(width)
    for j in range(width):
        centre[j] = columns[j].mean()
    radius = np.empty(n)
    squared_distances(columns, n, centre, radius)
    radius = np.sqrt(radius)
    order = np.argsort(-radius, kind="mergesort")
    best = -1.0
    pair = (0, 1)
    for at in range(n - 1):
        i = order[at]
        for other in range(at + 1, n):
            j = order[other]
            # The slack covers the rounding of the roots.
            if (radius[i] + radius[j]) ** 2 * (1.0 + 1e-9) < best:
                break
            distance = 0.0
            for c in range(width):
                distance += (features[rows[i], c] - features[rows[j], c]) ** 2
            found = (min(i, j), max(i, j))
            if distance > best or (distance == best and found < pair):
                best = distance
                pair = found
        if 4.0 * radius[i] ** 2 * (1.0 + 1e-9) < best:
            break
    return pair


@nb.njit(cache=True, nogil=True)
def seed_groups(columns: FloatArray, seeds: tuple[int, int], k: int) -> IntArray:
    """Name of each record's group: each seed with the k - 1 records nearest to it, the others alone.

    The lower seed chooses first; it cannot take the other one.
    """
    n = columns.shape[1]
    into = np.arange(n)
    distances = np.empty(n)
    taken = np.zeros(n, dtype=np.bool_)
    taken[seeds[1]] = True
    for seed in seeds:
        squared_distances(columns, n, columns[:, seed].copy(), distances)
        distances[taken] = np.inf
        distances[seed] = -1.0
        nearest = np.argsort(distances, kind="mergesort")[:k]
        taken[nearest] = True
        into[nearest] = nearest.min()
    return into


@nb.njit(cache=True, nogil=True)
def merge_until_large(centres: FloatArray, sizes: IntArray, names: IntArray, k: int, into: IntArray) -> None:
    """Merge groups by Ward's cost until each has k records; two of k and more are never merged.

    Follows chains of nearest neighbours: each group in `chain` is the nearest
    allowed one to its predecessor, and two that are nearest to each other
    merge. This gives the merges of always taking the cheapest pair, because a
    merged group is never cheaper to join than the cheaper of its parts; that
    some pairs are not allowed only makes pairs dearer. `at` is a group's place
    in the chain or -1. The arrays change in place.
    """
    count = names.shape[0]
    small = (sizes < k).sum()
    costs = np.empty(count)
    chain = np.empty(count, dtype=np.int64)
    at = np.full(count, -1)
    length = 0
    while small > 0:
        if length == 0:
            chain[0] = first_small(sizes, names, count, k)
            at[chain[0]] = 0
            length = 1
        top = chain[length - 1]
        before = chain[length - 2] if length > 1 else -1
        near = cheapest(centres, sizes, names, count, k, top, before, at, costs)
        if near != before:
            chain[length] = near
            at[near] = length
            length += 1
            continue
        length -= 2
        keep, gone = (top, before) if names[top] < names[before] else (before, top)
        into[names[gone]] = names[keep]
        total = sizes[keep] + sizes[gone]
        small -= (sizes[keep] < k) + (sizes[gone] < k) - (total < k)
        for j in range(centres.shape[0]):
            centres[j, keep] = (sizes[keep] * centres[j, keep] + sizes[gone] * centres[j, gone]) / total
        sizes[keep] = total
        at[keep] = -1
        at[gone] = -1
        # The last group moves to the place that has become free.
        count -= 1
        centres[:, gone] = centres[:, count]
        sizes[gone] = sizes[count]
        names[gone] = names[count]
        at[gone] = at[count]
        if at[gone] >= 0:
            chain[at[gone]] = gone


@nb.njit(cache=True, nogil=True)
def first_small(sizes: IntArray, names: IntArray, count: int, k: int) -> int:
    """Place of the group under k with the lowest name."""
    found = -1
    for p in range(count):
        if sizes[p] < k and (found < 0 or names[p] < names[found]):
            found = p
    return found


@nb.njit(cache=True, nogil=True)
def cheapest(
    centres: FloatArray,
    sizes: IntArray,
    names: IntArray,
    count: int,
    k: int,
    top: int,
    before: int,
    at: IntArray,
    costs: FloatArray,
) -> int:
    """Place of the group that is cheapest to merge with the one at `top`, among those allowed.

    Of equals `before`, so that chains end; then the smaller group, so that
    equal records form many groups; then the lower name. Other groups of the
    chain can be cheaper by rounding only and are passed over.
    """
    squared_distances(centres, count, centres[:, top].copy(), costs)
    found = -1
    for p in range(count):
        if p == top or (sizes[p] >= k and sizes[top] >= k) or (at[p] >= 0 and p != before):
            continue
        costs[p] *= sizes[p] * sizes[top] / (sizes[p] + sizes[top])
        if found < 0 or costs[p] < costs[found]:
            found = p
        elif costs[p] == costs[found] and found != before:
            same = sizes[p] == sizes[found]
            if p == before or sizes[p] < sizes[found] or (same and names[p] < names[found]):
                found = p
    return found
