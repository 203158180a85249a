"""Groups of V-MDAV: k nearest records, extended while a further one is much nearer to them than to the rest."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from anonpipe.kernels.exact_sum import mean_of, sum_rows
from anonpipe.kernels.remaining import (
    Remaining,
    furthest_record,
    nearest_records,
    remaining_records,
    take_group,
    tidied,
)
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def variable_groups(features: FloatArray, k: int, gamma: float) -> IntArray:
    """Form a group around the record furthest from the mean of all, and extend it, while k records remain.

    Labels from 0 in the order of forming, -1 for the records that remain.
    """
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    mean = mean_of(sums, n)
    tree = remaining_records(features, every)
    group, distances = np.empty(2 * k - 1, dtype=np.int64), np.empty(2 * k - 1)
    nearest = np.empty(2 * k - 1, dtype=np.int64)
    left, label = n, 0
    while left >= k:
        tree = tidied(features, tree)
        nearest_records(tree, features[furthest_record(tree, mean)], group[:k], distances[:k])
        take_group(tree, features, sums, group[:k], labels, label)
        left -= k
        size = k
        while gamma > 0.0 and size < group.shape[0] and left >= 2:
            fresh = 0 if size == k else size - 1
            at = _closest_member(features, tree, group[:size], nearest, distances, fresh)
            # Roots, as the method is stated: 0.2 squared is rounded, and a tie would count as nearer.
            if not math.sqrt(distances[at]) < gamma * math.sqrt(_second_distance(features, tree, nearest[at])):
                break
            group[size] = nearest[at]
            take_group(tree, features, sums, group[size : size + 1], labels, label)
            size += 1
            left -= 1
        label += 1
    return labels


@nb.njit(cache=True, nogil=True)
def _closest_member(
    features: FloatArray, tree: Remaining, group: IntArray, nearest: IntArray, distances: FloatArray, fresh: int
) -> int:
    """Place in `group` of the member that has the nearest remaining record, of equals the lowest such record.

    `nearest` and `distances` hold each member's nearest remaining record; it is
    looked up again where it has left, and for members from place `fresh` on.
    """
    at = 0
    for i in range(group.shape[0]):
        if i >= fresh or tree.places[nearest[i]] < 0:
            nearest_records(tree, features[group[i]], nearest[i : i + 1], distances[i : i + 1])
        if distances[i] < distances[at] or (distances[i] == distances[at] and nearest[i] < nearest[at]):
            at = i
    return at


@nb.njit(cache=True, nogil=True)
def _second_distance(features: FloatArray, tree: Remaining, row: int) -> float:
    """Squared distance of a remaining record to the nearest other; its own, zero, is one of the two smallest."""
    rows, distances = np.empty(2, dtype=np.int64), np.empty(2)
    nearest_records(tree, features[row], rows, distances)
    return float(distances[1])
