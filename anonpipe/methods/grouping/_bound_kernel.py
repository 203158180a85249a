"""Sums of the smallest squared distances of every record."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.remaining import nearest_records, remaining_records
from anonpipe.types import FloatArray


@nb.njit(cache=True, nogil=True)
def nearest_sums(features: FloatArray, k: int) -> FloatArray:
    """Sum of the squared distances of each record to its k - 1 nearest others, shape (n_rows,).

    A record is at distance zero from itself, so that the k smallest distances
    with its own have the same sum as the k - 1 smallest to others, whatever
    duplicates there are.
    """
    n = features.shape[0]
    tree = remaining_records(features, np.arange(n))
    rows, distances = np.empty(k, dtype=np.int64), np.empty(k)
    sums = np.zeros(n)
    fan = tree.counts.shape[1]
    # Leaf by leaf: what one query reads is still at hand for the next.
    for leaf in range(tree.ids.shape[0]):
        for place in range(tree.counts[leaf // fan, leaf % fan]):
            row = tree.ids[leaf, place]
            nearest_records(tree, features[row], rows, distances)
            for distance in distances:
                sums[row] += distance
    return sums
