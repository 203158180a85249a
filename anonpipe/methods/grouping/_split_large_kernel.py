"""Groups of 2k records and more, each grouped again as a table of its own."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.methods.grouping._maximum_distance_kernel import maximum_distance_groups
from anonpipe.methods.grouping._mdav_kernel import join_nearest, outermost_group, pairs_of_groups
from anonpipe.methods.grouping._reference_points_kernel import group_by_reference_points
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def split_by_reference_points(features: FloatArray, order: IntArray, starts: IntArray, k: int) -> IntArray:
    """Labels after every group of 2k and more has been grouped by TFRP-1."""
    labels = np.empty(features.shape[0], dtype=np.int64)
    label = 0
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]]
        labels[rows] = label
        if rows.shape[0] >= 2 * k:
            labels[rows] += group_by_reference_points(features[rows], k)
        label = labels[rows].max() + 1
    return labels


@nb.njit(cache=True, nogil=True)
def split_by_mdav_1(features: FloatArray, order: IntArray, starts: IntArray, k: int) -> IntArray:
    """Labels after every group of 2k and more has been grouped by MDAV-1."""
    labels = np.empty(features.shape[0], dtype=np.int64)
    label = 0
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]]
        labels[rows] = label
        if rows.shape[0] >= 2 * k:
            labels[rows] += group_by_mdav_1(features[rows], k)
        label = labels[rows].max() + 1
    return labels


@nb.njit(cache=True, nogil=True)
def split_by_maximum_distance(features: FloatArray, order: IntArray, starts: IntArray, k: int) -> IntArray:
    """Labels after every group of 2k and more has been grouped by the diameter-based fixed-size method."""
    labels = np.empty(features.shape[0], dtype=np.int64)
    label = 0
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]]
        labels[rows] = label
        if rows.shape[0] >= 2 * k:
            labels[rows] += group_by_maximum_distance(features[rows], k)
        label = labels[rows].max() + 1
    return labels


@nb.njit(cache=True, nogil=True)
def group_by_maximum_distance(features: FloatArray, k: int) -> IntArray:
    """Group of each record by maximum distance, the last fewer than k each joining the nearest; 2k records or more."""
    labels = maximum_distance_groups(features, k)
    left = np.flatnonzero(labels < 0)
    if left.shape[0] >= k:
        labels[left] = labels.max() + 1
    else:
        join_nearest(features, labels)
    return labels


@nb.njit(cache=True, nogil=True)
def group_by_mdav_1(features: FloatArray, k: int) -> IntArray:
    """Group of each record by MDAV-1, 2k records or more."""
    labels = pairs_of_groups(features, k, 2 * k)
    left = np.flatnonzero(labels < 0)
    if left.shape[0] >= k:
        labels[outermost_group(features, left, k)] = labels.max() + 1
    join_nearest(features, labels)
    return labels
