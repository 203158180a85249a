"""The two most distant of the remaining records, again and again."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.points import mean_of, squared_distance, sum_rows
from anonpipe.kernels.remaining import (
    Remaining,
    furthest_record,
    nearest_records,
    remaining_records,
    take_group,
    tidied,
)
from anonpipe.methods.grouping._mdav_kernel import group_means, sink
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def first_bounds(features: FloatArray) -> FloatArray:
    """More than the squared distance of each record to any other: (own distance to the mean + the largest)²."""
    n = features.shape[0]
    mean = mean_of(sum_rows(features, np.arange(n)), n)
    bounds = np.empty(n)
    for i in range(n):
        bounds[i] = np.sqrt(squared_distance(features[i], mean))
    # The slack covers all rounding here and in the distances.
    bounds += bounds.max()
    out: FloatArray = np.square(bounds) * (1.0 + 1e-14 * (16 + features.shape[1])) + np.finfo(np.float64).tiny
    return out


@nb.njit(cache=True, nogil=True)
def most_distant(
    features: FloatArray,
    tree: Remaining,
    heap: IntArray,
    size: int,
    bounds: FloatArray,
    partners: IntArray,
    ids: IntArray,
) -> int:
    """Bring the record with the furthest partner to the root of the heap; how many entries it has left.

    `bounds` are upper bounds of the squared distance of each record to those
    that remain. A distance once computed stays one while records leave, and is
    exact while its partner is there; so only a record that comes to the root
    without such a partner is looked at again. Of equals the lowest row wins.
    """
    while True:
        row = heap[0]
        if tree.places[row] < 0:
            size -= 1
            heap[0] = heap[size]
        elif partners[row] >= 0 and tree.places[partners[row]] >= 0:
            return size
        else:
            partners[row] = furthest_record(tree, features[row])
            bounds[row] = squared_distance(features[partners[row]], features[row])
        sink(heap[:size], 0, bounds, ids)


@nb.njit(cache=True, nogil=True)
def maximum_distance_groups(features: FloatArray, k: int) -> IntArray:
    """Form two groups a round, around the two most distant records, while 2k or more remain.

    Labels from 0 in the order of forming, -1 for the records that remain.
    """
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    tree = remaining_records(features, every)
    bounds, partners, heap, size = first_bounds(features), np.full(n, -1, dtype=np.int64), every.copy(), n
    for at in range(n // 2 - 1, -1, -1):
        sink(heap, at, bounds, -every)
    rows, distances = np.empty(k, dtype=np.int64), np.empty(k)
    label = 0
    for left in range(n, 2 * k - 1, -2 * k):
        tree = tidied(features, tree)
        size = most_distant(features, tree, heap, size, bounds, partners, -every)
        first, second = heap[0], partners[heap[0]]
        mean = mean_of(sums, left)
        if squared_distance(features[second], mean) > squared_distance(features[first], mean):
            first, second = second, first
        for row in (first, second):
            nearest_records(tree, features[row], rows, distances)
            take_group(tree, features, sums, rows, labels, label)
            label += 1
    return labels


@nb.njit(cache=True, nogil=True)
def join_together(features: FloatArray, labels: IntArray) -> None:
    """Give all records with label -1 the group whose mean is nearest to theirs, ties to the lower label."""
    remaining = np.flatnonzero(labels < 0)
    if remaining.shape[0] == 0:
        return
    mean = mean_of(sum_rows(features, remaining), remaining.shape[0])
    means = group_means(features, labels, labels.max() + 1)
    nearest = 0
    for g in range(means.shape[0]):
        if squared_distance(means[g], mean) < squared_distance(means[nearest], mean):
            nearest = g
    labels[remaining] = nearest
