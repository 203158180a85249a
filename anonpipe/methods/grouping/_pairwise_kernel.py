"""Groups of the pairwise systematic method: seeds from the ends of an order, members by least scatter."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.exact_sum import add_row, mean_of
from anonpipe.kernels.remaining import Remaining, nearest_records, remaining_records, take_out, take_rows, tidied
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def systematic_groups(features: FloatArray, k: int, order: IntArray) -> IntArray:
    """Form groups around the first and the last remaining record of `order` in turn.

    Two groups a round while 3k or more records remain, one around the first of
    2k to 3k - 1, one of all of the rest. Labels from 0 in the order of forming.
    """
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    tree = remaining_records(features, np.arange(n))
    first, last, left, label = 0, n - 1, n, 0
    while left >= 2 * k:
        tree = tidied(features, tree)
        while tree.places[order[first]] < 0:
            first += 1
        take_out(tree, order[first])
        pair = left >= 3 * k
        if pair:
            # The last record seeds the second group: the first must not take it.
            while tree.places[order[last]] < 0:
                last -= 1
            take_out(tree, order[last])
        _grow(features, k, tree, order[first], labels, label)
        label += 1
        left -= k
        if pair:
            _grow(features, k, tree, order[last], labels, label)
            label += 1
            left -= k
    for i in range(n):
        if labels[i] < 0:
            labels[i] = label
    return labels


@nb.njit(cache=True, nogil=True)
def _grow(features: FloatArray, k: int, tree: Remaining, seed: int, labels: IntArray, label: int) -> None:
    """Give `seed`, already taken out, and k - 1 others the label; each adds least to the group's scatter.

    A record at squared distance d from the mean of m adds d · m/(m + 1), so
    that it is the record nearest to the mean.
    """
    sums = np.zeros((2, features.shape[1]))
    row, distance = np.empty(1, dtype=np.int64), np.empty(1)
    labels[seed] = label
    add_row(sums, features, seed, 1.0)
    for size in range(1, k):
        nearest_records(tree, mean_of(sums, size), row, distance)
        labels[row[0]] = label
        take_rows(tree, row)
        add_row(sums, features, row[0], 1.0)
