"""Groups around the records furthest from two fixed reference points."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.remaining import nearest_records, remaining_records, take_out, tidied
from anonpipe.methods.grouping._mdav_kernel import join_nearest
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def group_by_reference_points(features: FloatArray, k: int) -> IntArray:
    """Group of each record, 0 to n_groups - 1 in order of formation (see `anonpipe.methods.grouping.tfrp_1`)."""
    n = features.shape[0]
    orders = (from_furthest(features, float(features.min())), from_furthest(features, float(features.max())))
    at = np.zeros(2, dtype=np.int64)
    nearest = np.empty(k, dtype=np.int64)
    distances = np.empty(k)
    labels = np.full(n, -1, dtype=np.int64)
    tree = remaining_records(features, np.arange(n))
    groups = n // k
    for label in range(groups):
        turn = label % 2
        order = orders[turn]
        while labels[order[at[turn]]] >= 0:
            at[turn] += 1
        tree = tidied(features, tree)
        nearest_records(tree, features[order[at[turn]]], nearest, distances)
        for row in nearest:
            take_out(tree, int(row))
            labels[row] = label
    join_nearest(features, labels)
    return labels


@nb.njit(cache=True, nogil=True)
def from_furthest(features: FloatArray, value: float) -> IntArray:
    """Rows from the one furthest from the point with `value` in all columns; of equals, the lower first."""
    distances = np.zeros(features.shape[0])
    for i in range(features.shape[0]):
        for j in range(features.shape[1]):
            distances[i] += (features[i, j] - value) ** 2
    return np.argsort(-distances, kind="mergesort")
