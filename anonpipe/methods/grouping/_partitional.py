"""Filling small clusters up with the nearest records of larger ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from anonpipe.environment import one_thread
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import ascending, gather_columns, sort_groups, squared_distance, squared_distances
from anonpipe.methods.grouping._mdav import group_means
from anonpipe.methods.grouping._units import ward_costs
from anonpipe.methods.options import GroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


@kernel
def fill_small(features: FloatArray, rows: IntArray, k: int, assigned: IntArray, centres: FloatArray) -> None:
    """Move records until every cluster of one block has k; `assigned` and `centres` change in place.

    `assigned[i]` is the cluster of row `rows[i]`. `centres` become the means of their records; a cluster without any
    keeps the given centre. Clusters are filled in ascending order of their size, ties by number. A cluster under k
    never gives a record away, so that its size and mean on its turn are those at the start.
    """
    columns = gather_columns(features, rows)
    sizes = np.bincount(assigned, minlength=centres.shape[0])
    means = group_means(features[rows], assigned, centres.shape[0])
    for c in range(sizes.shape[0]):
        for j in range(centres.shape[1] if sizes[c] > 0 else 0):
            centres[c, j] = means[c, j]
    distances = np.empty(rows.shape[0])
    for c in ascending(sizes):
        if sizes[c] >= k:
            continue
        squared_distances(columns, rows.shape[0], centres[c], distances)
        while sizes[c] < k:
            i = _nearest_to_spare(distances, assigned, sizes, k, rows)
            sizes[assigned[i]] -= 1
            assigned[i] = c
            sizes[c] += 1


@kernel
def _nearest_to_spare(distances: FloatArray, assigned: IntArray, sizes: IntArray, k: int, rows: IntArray) -> int:
    """The nearest record whose cluster has more than k; of equals, that of the lowest row."""
    at = -1
    for i in range(distances.shape[0]):
        if sizes[assigned[i]] <= k:
            continue
        if at < 0 or distances[i] < distances[at] or (distances[i] == distances[at] and rows[i] < rows[at]):
            at = i
    return at


class KmeansOptions(GroupingOptions):
    """Weighted k-means with small clusters filled up (Gal 2014, Algorithm 2, steps 2a to 2c).

    As published (`refine: false`) it fills nearly every cluster to exactly k from far away and loses about twice what
    `mdav` loses; the local search that follows by default brings it level.
    """

    method: Literal["kmeans"]
    block_rows: int | None = Field(default=5_000, ge=10)
    iterations: int = Field(default=10, ge=1)
    response_weight: float | None = Field(default=0.5, gt=0, lt=1)


def kmeans(
    features: FloatArray, k: int, *, rng: np.random.Generator, iterations: Annotated[int, Field(ge=1)] = 10
) -> IntArray:
    """Group records by k-means, then give every cluster k records.

    Of n records Lloyd's algorithm forms floor(n/k) clusters from random records as first centres. Then, from the
    smallest cluster up, each that has fewer than k takes the records nearest to its mean out of clusters that have more
    than k; a cluster that is down to k gives no more. Weights: scale a column by the root of its weight.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    clusters, seed = len(features) // k, int(rng.integers(0, 2**31))
    model = KMeans(clusters, init="random", n_init=1, max_iter=iterations, algorithm="lloyd", random_state=seed)
    with one_thread(), warnings.catch_warnings():  # one thread, so that sums are added in one order
        # Fewer distinct records than clusters: some stay empty and are filled up.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features)
    labels, centres = model.labels_.astype(np.int64), np.ascontiguousarray(model.cluster_centers_, dtype=np.float64)
    fill_small(features, np.arange(len(features)), k, labels, centres)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def k_ward(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by Ward's method, never merging two groups of k or more.

    Of 2k or more records, the two that are furthest apart each form a group with their k - 1 nearest; every other
    record is a group of its own. Then the two groups a, b with the smallest cost n_a n_b / (n_a + n_b) |c_a - c_b|² are
    merged, n their sizes and c their means, until every group has k records; a pair of groups that both have k is never
    merged. The method is applied again to each group of 2k or more, so that groups have k to 2k - 1. It ends because
    the two seeds' groups are never merged with each other.

    Where the paper leaves a choice: the seed of the lower row number takes its neighbours first and leaves the other
    seed out; the second takes its own among the rest. Of equal costs the smaller group goes first, then the one with
    the lower first row. Where several pairs cost the same, chains of nearest neighbours may merge them in another order
    than a global search. A set that gives one group of nearly all its records again and again would make time cubic.
    """
    return _divided(features, np.arange(len(features)), k, _ward_once)


def _divided(
    features: FloatArray, order: IntArray, k: int, divide: Callable[[FloatArray, IntArray, int], IntArray]
) -> IntArray:
    """Group of each record, of all rows in `order`: sets of 2k and more are divided again, smaller ones are groups."""
    labels = np.empty(len(order), dtype=np.int64)
    label, stack = 0, [(0, len(order))]
    while stack:
        low, high = stack.pop()
        if high - low < 2 * k:
            labels[order[low:high]] = label
            label += 1
            continue
        rows = order[low:high].copy()
        inside, starts = sort_groups(divide(features, rows, k))
        order[low:high] = rows[inside]
        stack += [(low + begin, low + end) for begin, end in pairwise(starts.tolist()) if begin < end][::-1]
    return labels


@kernel
def _ward_once(features: FloatArray, rows: IntArray, k: int) -> IntArray:
    """Group of each of `rows` (2k or more) after two seed groups and merging, 0 to n_groups - 1."""
    n = rows.shape[0]
    columns = gather_columns(features, rows)
    into = _seed_groups(columns, furthest_pair(features, rows), k)
    names = np.flatnonzero(into == np.arange(n))
    sizes = np.bincount(into, minlength=n)
    centres = gather_columns(group_means(features[rows], into, n), names)
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


@kernel
def furthest_pair(features: FloatArray, rows: IntArray) -> tuple[int, int]:
    """Places in `rows` of the two records that are furthest apart; of equal pairs the lowest."""
    # By falling distance to a reference point: a pair is no further apart than the sum, so most need no look.
    n = rows.shape[0]
    columns = gather_columns(features, rows)
    centre = np.array([column.mean() for column in columns])
    radius = np.empty(n)
    squared_distances(columns, n, centre, radius)
    radius = np.sqrt(radius)
    order = ascending(-radius)
    best = -1.0
    pair = (0, 1)
    for at in range(n - 1):
        i = order[at]
        for other in range(at + 1, n):
            j = order[other]
            # The slack covers the rounding of the roots.
            if (radius[i] + radius[j]) ** 2 * (1.0 + 1e-9) < best:
                break
            distance = squared_distance(features[rows[i]], features[rows[j]])
            found = (min(i, j), max(i, j))
            if distance > best or (distance == best and found < pair):
                best = distance
                pair = found
        if 4.0 * radius[i] ** 2 * (1.0 + 1e-9) < best:
            break
    return pair


@kernel
def _seed_groups(columns: FloatArray, seeds: tuple[int, int], k: int) -> IntArray:
    """Name of each record's group: each seed, the lower first, with its k - 1 nearest records, the others alone."""
    n = columns.shape[1]
    into = np.arange(n)
    distances = np.empty(n)
    taken = np.zeros(n, dtype=np.bool_)
    taken[seeds[1]] = True
    for seed in seeds:
        squared_distances(columns, n, columns[:, seed].copy(), distances)
        distances[taken] = np.inf
        distances[seed] = -1.0
        nearest = ascending(distances)[:k]
        taken[nearest] = True
        into[nearest] = nearest.min()
    return into


@kernel
def merge_until_large(centres: FloatArray, sizes: IntArray, names: IntArray, k: int, into: IntArray) -> None:
    """Merge groups by Ward's cost until each has k records; two of k and more are never merged.

    Follows chains of nearest neighbours: each group in `chain` is the nearest allowed one to its predecessor, and two
    that are nearest to each other merge. This gives the merges of always taking the cheapest pair, because a merged
    group is never cheaper to join than the cheaper of its parts; that some pairs are not allowed only makes pairs
    dearer. `at` is a group's place in the chain or -1. The arrays change in place.
    """
    count = names.shape[0]
    small = (sizes < k).sum()
    chain = np.empty(count, dtype=np.int64)
    at = np.full(count, -1)
    length = 0
    while small > 0:
        if length == 0:
            first = -1  # the group under k with the lowest name
            for p in range(count):
                if sizes[p] < k and (first < 0 or names[p] < names[first]):
                    first = p
            chain[0] = first
            at[first] = 0
            length = 1
        top = chain[length - 1]
        before = chain[length - 2] if length > 1 else -1
        near = _cheapest(centres, sizes, names, count, k, top, before, at)
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
        count -= 1  # The last group moves to the place that has become free
        for j in range(centres.shape[0]):
            centres[j, keep] = (sizes[keep] * centres[j, keep] + sizes[gone] * centres[j, gone]) / total
            centres[j, gone] = centres[j, count]
        sizes[keep] = total
        at[keep] = -1
        at[gone] = -1
        sizes[gone] = sizes[count]
        names[gone] = names[count]
        at[gone] = at[count]
        if at[gone] >= 0:
            chain[at[gone]] = gone


@kernel
def _cheapest(
    centres: FloatArray, sizes: IntArray, names: IntArray, count: int, k: int, top: int, before: int, at: IntArray
) -> int:
    """Place of the group that is cheapest to merge with the one at `top`, among those allowed."""
    # Of equals `before`, so that chains end; then the smaller group, so that equal records form many groups; then the
    # lower name. Other groups of the chain can be cheaper by rounding only and are passed over.
    costs = ward_costs(centres, sizes, count, top)
    found = -1
    for p in range(count):
        if p == top or (sizes[p] >= k and sizes[top] >= k) or (at[p] >= 0 and p != before):
            continue
        here = (costs[p], p != before, sizes[p], names[p])
        if found < 0 or here < (costs[found], found != before, sizes[found], names[found]):
            found = p
    return found


def fuzzy_c_means(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    fuzziness: Annotated[float, Field(ge=1.01, allow_inf_nan=False)] = 1.1,
    step: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.02,
    shrink: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    iterations: Annotated[int, Field(ge=1)] = 20,
) -> IntArray:
    """Group records by fuzzy c-means with fewer and fewer clusters.

    A set of n >= 2k records is clustered by fuzzy c-means with c = floor(n/k) clusters and the exponent
    m = `fuzziness`, and each record goes to the cluster of its largest membership. Where a cluster has from 1 to k - 1
    records, or all are in one, c is lowered to `shrink` · c, m is raised by `step`, and it is tried again. The clusters
    found are divided further in the same way, until all have fewer than 2k.

    The published method does not say what happens to a set that cannot be divided, as one far outlier can make any: two
    clusters are the last try, and then the smaller one takes the records nearest to its mean out of the other until it
    has k. So it always ends, and groups have k to 2k - 1 records. Equal records are divided as they come. The method
    says that c is large and m small at first, not how they change: the options do. With many columns and a large m all
    centres fall together, so that m starts low.

    `fuzziness` is the exponent m at first, 1.01 or more; `step` is added to it each time; `shrink` multiplies c each
    time, which falls by one at least; `iterations` limits one run of fuzzy c-means.
    """
    order = rng.permutation(len(features)).astype(np.int64)
    divide = partial(_divide, fuzziness=float(fuzziness), step=float(step), shrink=float(shrink), iterations=iterations)
    return _divided(features, order, k, divide)


# Distances of a record to two centres that differ by less than this share are equal: coinciding centres are one
SAME = 1e-9


@kernel
def _divide(
    features: FloatArray, rows: IntArray, k: int, fuzziness: float, step: float, shrink: float, iterations: int
) -> IntArray:
    """Cluster of each of `rows` (2k or more); at least two are in use, each of k records; equal ones as they come."""
    count = rows.shape[0] // k
    found: IntArray = np.minimum(np.arange(rows.shape[0]) // k, count - 1)
    if (features[rows] == features[rows[0]]).all():
        return found
    while True:
        centres = gather_columns(features, rows[:count])
        fuzzy_centres(features, rows, centres, fuzziness, iterations)
        _assign(features, rows, centres, found)
        sizes = np.bincount(found, minlength=count)
        if (sizes > 0).sum() > 1 and not ((sizes > 0) & (sizes < k)).any():
            return found
        if count == 2:
            fill_small(features, rows, k, found, np.ascontiguousarray(centres.T))
            return found
        count = max(2, min(count - 1, int(count * shrink)))
        fuzziness += step


@kernel
def fuzzy_centres(features: FloatArray, rows: IntArray, centres: FloatArray, fuzziness: float, iterations: int) -> None:
    """Move `centres` (width, c) by fuzzy c-means over `rows`, in place.

    The membership of record x in cluster i is 1 / Σ_j (d_i / d_j)^(1/(m-1)), d the squared distances to the centres and
    m `fuzziness`; a centre is the mean of the records weighted by their memberships to the power m. Records are taken
    one by one, so that no table of memberships is held. Stops where no centre moves by more than a thousandth of the
    records' spread.
    """
    width, count = centres.shape
    power = 1.0 / (fuzziness - 1.0)
    distances = np.empty(count)
    shares = np.empty(count)
    weights = np.empty(count)
    sums = np.empty((width, count))
    limit = 1e-6 * _spread(features, rows)
    for _ in range(iterations):
        weights[:] = 0.0
        sums[:] = 0.0
        for row in rows:
            squared_distances(centres, count, features[row], distances)
            memberships(distances, power, shares)
            for c in range(count):
                if shares[c] > 0.0:
                    weight = shares[c] ** fuzziness
                    weights[c] += weight
                    for j in range(width):
                        sums[j, c] += weight * features[row, j]
        moved = 0.0
        for c in range(count):
            if weights[c] > 0.0:
                step = 0.0
                for j in range(width):
                    value = sums[j, c] / weights[c]
                    step += (value - centres[j, c]) ** 2
                    centres[j, c] = value
                moved = max(moved, step)
        if moved <= limit:
            return


@kernel
def _spread(features: FloatArray, rows: IntArray) -> float:
    """Mean squared distance of `rows` to their mean."""
    total = 0.0
    for j in range(features.shape[1]):
        mean = 0.0
        for row in rows:
            mean += features[row, j]
        mean /= rows.shape[0]
        for row in rows:
            total += (features[row, j] - mean) ** 2
    return float(total / rows.shape[0])


@kernel
def memberships(distances: FloatArray, power: float, shares: FloatArray) -> None:
    """Write the memberships of one record to `shares`, given its squared distances to all centres.

    Those in centres that lie on the record are equal and the others zero. All are relative to the nearest centre, so
    that nothing overflows; memberships that add less than 1e-16 are left out.
    """
    least = distances.min()
    total = 0.0
    lowest = 1e-16 ** (1.0 / power)
    for c in range(distances.shape[0]):
        shares[c] = 0.0
        if distances[c] == least:
            shares[c] = 1.0
        elif least > 0.0 and least > lowest * distances[c]:
            shares[c] = (least / distances[c]) ** power
        total += shares[c]
    for c in range(distances.shape[0]):
        shares[c] /= total


@kernel
def _assign(features: FloatArray, rows: IntArray, centres: FloatArray, found: IntArray) -> None:
    """Write the cluster of largest membership, which is the nearest centre, to `found`; of equals the first."""
    distances = np.empty(centres.shape[1])
    for i in range(rows.shape[0]):
        squared_distances(centres, centres.shape[1], features[rows[i]], distances)
        border = distances.min() * (1.0 + SAME)
        for c in range(centres.shape[1]):
            if distances[c] <= border:
                found[i] = c
                break


METHODS = (
    Grouping(
        function=kmeans,
        options=KmeansOptions,
        published="Improved condensation: k-means with small clusters filled up",
        reference="Gal et al. 2014, doi:10.1016/j.jbi.2014.01.001, Algorithm 2, steps 2a to 2c",
        cost="time O(iterations·n²·w/k), memory O(n·w)",
        about={"iterations": "most iterations of Lloyd's algorithm, 10 by default, the limit that the authors name"},
        sizes="k or more, without an upper limit",
        largest=None,
        draws=True,
    ),
    Grouping(
        function=k_ward,
        summary="Multivariate k-Ward.",
        published="k-Ward, multivariate",
        reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, the multivariate k-Ward algorithm",
        cost="time O(n²·w), memory O(n·w)",
    ),
    Grouping(
        function=fuzzy_c_means,
        summary="Fuzzy c-means, run with fewer and softer clusters until all have k records.",
        published="Microaggregation by fuzzy c-means",
        reference="Domingo-Ferrer and Torra 2003, doi:10.20965/jaciii.2003.p0153",
        cost="time O(iterations·n²·w/k), more with many far records; memory O(n·w)",
        about={
            "fuzziness": "the exponent m at first, 1.1 by default: the nearer to 1, the harder the clusters",
            "step": "what is added to m each time that a cluster has fewer than k records, 0.02 by default",
            "shrink": "what the number of clusters is multiplied by each time, 0.5 by default",
            "iterations": "most iterations of one run of fuzzy c-means, 20 by default",
        },
        draws=True,
    ),
)
