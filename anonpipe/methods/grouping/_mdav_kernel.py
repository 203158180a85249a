"""Rounds of MDAV and its relatives, and what they do with the last records."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.points import gather_columns, mean_of, squared_distances, sum_rows
from anonpipe.kernels.remaining import furthest_record, nearest_records, remaining_records, take_group, tidied
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def pairs_of_groups(features: FloatArray, k: int, least: int) -> IntArray:
    """Form two groups a round while at least `least` (2k or more) records remain.

    One around the record r furthest from the mean of the remaining, one around
    the record furthest from r. Labels from 0 in the order of forming, -1 for
    the records that remain.
    """
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    tree = remaining_records(features, every)
    rows, distances = np.empty(k, dtype=np.int64), np.empty(k)
    label = 0
    for left in range(n, least - 1, -2 * k):
        tree = tidied(features, tree)
        r = features[furthest_record(tree, mean_of(sums, left))]
        nearest_records(tree, r, rows, distances)
        s = features[furthest_record(tree, r, True)]
        take_group(tree, features, sums, rows, labels, label)
        nearest_records(tree, s, rows, distances)
        take_group(tree, features, sums, rows, labels, label + 1)
        label += 2
    return labels


@nb.njit(cache=True, nogil=True)
def single_groups(features: FloatArray, k: int) -> IntArray:
    """Form one group a round, around the record furthest from the mean of the remaining, while k remain.

    Labels from 0 in the order of forming, -1 for the records that remain.
    """
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    tree = remaining_records(features, every)
    rows, distances = np.empty(k, dtype=np.int64), np.empty(k)
    for label in range(n // k):
        tree = tidied(features, tree)
        r = features[furthest_record(tree, mean_of(sums, n - label * k))]
        nearest_records(tree, r, rows, distances)
        take_group(tree, features, sums, rows, labels, label)
    return labels


@nb.njit(cache=True, nogil=True)
def outermost_group(features: FloatArray, rows: IntArray, k: int) -> IntArray:
    """Of `rows` (k or more, ascending) the one furthest from their mean and its k - 1 nearest."""
    columns = gather_columns(features, rows)
    count = rows.shape[0]
    distances = np.empty(count)
    squared_distances(columns, count, mean_of(sum_rows(features, rows), count), distances)
    r = features[rows[furthest(distances, count, rows)]]
    squared_distances(columns, count, r, distances)
    nearest = np.empty(k, dtype=np.int64)
    k_nearest(distances, count, rows, nearest)
    return rows[nearest]


@nb.njit(cache=True, nogil=True)
def group_means(features: FloatArray, labels: IntArray, n_groups: int) -> FloatArray:
    """Mean of each group, shape (n_groups, width); records with label -1 count for none."""
    means = np.zeros((n_groups, features.shape[1]))
    sizes = np.zeros(n_groups)
    for i in range(labels.shape[0]):
        if labels[i] >= 0:
            sizes[labels[i]] += 1.0
            means[labels[i]] += features[i]
    for g in range(n_groups):
        means[g] /= sizes[g]
    return means


@nb.njit(cache=True, nogil=True)
def join_nearest(features: FloatArray, labels: IntArray) -> None:
    """Give each record with label -1 the group whose mean is nearest, ties to the lower label.

    The means are those before any of them joins, so that their order decides nothing.
    """
    means = group_means(features, labels, labels.max() + 1)
    columns = means.T.copy()
    distances = np.empty(means.shape[0])
    for i in np.flatnonzero(labels < 0):
        squared_distances(columns, means.shape[0], features[i], distances)
        labels[i] = np.argmin(distances)


@nb.njit(cache=True, nogil=True)
def furthest(distances: FloatArray, count: int, ids: IntArray) -> int:
    """Place of the largest of the first `count` distances; of equals, of the lowest id."""
    at = 0
    largest = distances[0]
    for i in range(1, count):
        value = distances[i]
        if value >= largest and (value > largest or ids[i] < ids[at]):
            largest = value
            at = i
    return at


@nb.njit(cache=True, nogil=True)
def nearer(distances: FloatArray, ids: IntArray, a: int, b: int) -> bool:
    """Whether place `a` comes before place `b` by (distance, id)."""
    return bool(distances[a] < distances[b] or (distances[a] == distances[b] and ids[a] < ids[b]))


@nb.njit(cache=True, nogil=True)
def sink(heap: IntArray, at: int, distances: FloatArray, ids: IntArray) -> None:
    """Restore the order of a heap whose root is the furthest place, from entry `at` down."""
    size = heap.shape[0]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and nearer(distances, ids, heap[child], heap[child + 1]):
            child += 1
        if not nearer(distances, ids, heap[at], heap[child]):
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@nb.njit(cache=True, nogil=True)
def k_nearest(distances: FloatArray, count: int, ids: IntArray, nearest: IntArray) -> None:
    """Write the places of the smallest distances among the first `count` to `nearest`, in descending order of place."""
    k = nearest.shape[0]
    for i in range(k):
        nearest[i] = i
    for i in range(k // 2 - 1, -1, -1):
        sink(nearest, i, distances, ids)
    border = distances[nearest[0]]
    for i in range(k, count):
        if distances[i] <= border and nearer(distances, ids, i, nearest[0]):
            nearest[0] = i
            sink(nearest, 0, distances, ids)
            border = distances[nearest[0]]
    nearest[:] = np.sort(nearest)[::-1]


@nb.njit(cache=True, nogil=True)
def take_out(
    columns: FloatArray,
    ids: IntArray,
    left: int,
    places: IntArray,
    total: FloatArray,
    labels: IntArray,
    label: int,
) -> int:
    """Give the records at `places` (descending) their label and remove them; how many are left."""
    for place in places:
        labels[ids[place]] = label
        left -= 1
        ids[place] = ids[left]
        for j in range(columns.shape[0]):
            total[j] -= columns[j, place]
            columns[j, place] = columns[j, left]
    return left
