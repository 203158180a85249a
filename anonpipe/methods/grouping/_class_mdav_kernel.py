"""MDAV over one block, with members chosen by distance and by the classes of the group."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.distance import gather_columns, squared_distances
from anonpipe.methods.grouping._divergence_kernel import jensen_shannon
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def mixed_groups(
    features: FloatArray, k: int, classes: IntArray, shares: FloatArray, alpha: float, unit: float
) -> IntArray:
    """Group of each record, shape (n,); `anonpipe.methods.grouping.METHODS["class_mdav"]` says by which rule.

    The records still to be grouped are the first `left` of `columns`; one that
    leaves is overwritten by the last. Ties are broken by row number.
    """
    n = features.shape[0]
    ids = np.arange(n)
    columns = gather_columns(features, ids)
    labels = np.empty(n, dtype=np.int64)
    distances = np.empty(n)
    front = np.empty(shares.shape[0], dtype=np.int64)
    counts = np.empty(shares.shape[0])
    places = np.empty(k, dtype=np.int64)
    left = n
    label = 0
    while left >= 2 * k:
        squared_distances(columns, left, mean_of(columns, left), distances)
        r = columns[:, furthest_place(distances, left, ids)].copy()
        squared_distances(columns, left, r, distances)
        s = columns[:, furthest_place(distances, left, ids)].copy()
        pair = left >= 3 * k
        choose_mixed(distances, left, ids, classes, shares, alpha, unit, front, counts, places)
        left = take_places(columns, ids, left, places, labels, label)
        label += 1
        if pair:
            squared_distances(columns, left, s, distances)
            choose_mixed(distances, left, ids, classes, shares, alpha, unit, front, counts, places)
            left = take_places(columns, ids, left, places, labels, label)
            label += 1
    for i in range(left):
        labels[ids[i]] = label
    return labels


@nb.njit(cache=True, nogil=True)
def mean_of(columns: FloatArray, left: int) -> FloatArray:
    """Mean of the first `left` records, shape (width,)."""
    mean = np.empty(columns.shape[0])
    for j in range(columns.shape[0]):
        total = 0.0
        for i in range(left):
            total += columns[j, i]
        mean[j] = total / left
    return mean


@nb.njit(cache=True, nogil=True)
def furthest_place(distances: FloatArray, left: int, ids: IntArray) -> int:
    """Place of the largest distance; of equals, of the lowest row."""
    at = 0
    for i in range(1, left):
        if distances[i] > distances[at] or (distances[i] == distances[at] and ids[i] < ids[at]):
            at = i
    return at


@nb.njit(cache=True, nogil=True)
def choose_mixed(
    distances: FloatArray,
    left: int,
    ids: IntArray,
    classes: IntArray,
    shares: FloatArray,
    alpha: float,
    unit: float,
    front: IntArray,
    counts: FloatArray,
    places: IntArray,
) -> None:
    """Write the places of a group's records to `places`, in descending order; `distances` become infinite there.

    The first is the nearest of all. The next is always the nearest of its
    class, so that one candidate a class is compared.
    """
    counts[:] = 0.0
    for c in range(front.shape[0]):
        front[c] = -1
    for i in range(left):
        c = classes[ids[i]]
        if front[c] < 0 or before(distances, ids, i, front[c]):
            front[c] = i
    for m in range(places.shape[0]):
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
        front[c] = next_of_class(distances, left, ids, classes, c)
    places[:] = np.sort(places)[::-1]


@nb.njit(cache=True, nogil=True)
def before(distances: FloatArray, ids: IntArray, a: int, b: int) -> bool:
    """Whether place `a` comes before place `b` by (distance, row)."""
    return bool(distances[a] < distances[b] or (distances[a] == distances[b] and ids[a] < ids[b]))


@nb.njit(cache=True, nogil=True)
def next_of_class(distances: FloatArray, left: int, ids: IntArray, classes: IntArray, c: int) -> int:
    """Place of the nearest record of class c that is not taken, or -1."""
    at = -1
    for i in range(left):
        if classes[ids[i]] == c and distances[i] < np.inf and (at < 0 or before(distances, ids, i, at)):
            at = i
    return at


@nb.njit(cache=True, nogil=True)
def take_places(columns: FloatArray, ids: IntArray, left: int, places: IntArray, labels: IntArray, label: int) -> int:
    """Give the records at `places` (descending) their label and remove them; how many are left."""
    for place in places:
        left -= 1
        labels[ids[place]] = label
        ids[place] = ids[left]
        for j in range(columns.shape[0]):
            columns[j, place] = columns[j, left]
    return left
