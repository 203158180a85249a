"""MDAV over the records of one block."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.distance import gather_columns, squared_distances

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@nb.njit(cache=True, nogil=True)
def mdav_block(points: FloatArray, k: int, rows: IntArray, labels: IntArray, label: int) -> int:
    """Write labels from `label` on to `rows`; the next free label.

    The records still to be grouped are the first `left` of `columns`; a record
    that leaves is overwritten by the last one. Ties are broken by row number,
    so that their place in `columns` decides nothing.
    """
    columns = gather_columns(points, rows)
    ids = rows.copy()
    left = ids.shape[0]
    distances = np.empty(left)
    nearest = np.empty(k, dtype=np.int64)
    total = np.empty(columns.shape[0])
    fresh = left
    sum_columns(columns, left, total)
    while left >= 2 * k:
        if 2 * left < fresh:
            fresh = left
            sum_columns(columns, left, total)
        squared_distances(columns, left, total / left, distances)
        r = columns[:, furthest(distances, left, ids)].copy()
        squared_distances(columns, left, r, distances)
        s = columns[:, furthest(distances, left, ids)].copy()
        pair = left >= 3 * k
        k_nearest(distances, left, ids, nearest)
        left = take_out(columns, ids, left, nearest, total, labels, label)
        label += 1
        if pair:
            squared_distances(columns, left, s, distances)
            k_nearest(distances, left, ids, nearest)
            left = take_out(columns, ids, left, nearest, total, labels, label)
            label += 1
    for i in range(left):
        labels[ids[i]] = label
    return label + 1 if left > 0 else label


@nb.njit(cache=True, nogil=True)
def sum_columns(columns: FloatArray, count: int, total: FloatArray) -> None:
    """Write the sums of the first `count` entries of every column to `total`."""
    for j in range(columns.shape[0]):
        value = 0.0
        for i in range(count):
            value += columns[j, i]
        total[j] = value


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
