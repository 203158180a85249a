"""Scatter of a few records, with true ties."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def scatter_times_size(features: FloatArray, members: IntArray, offsets: FloatArray) -> float:
    """Size times the sum of squared distances to the mean; `offsets` is room for a row.

    With u the differences to the first member this is n Σ|u|² - |Σu|². As the
    first is one of the members, |Σu|² is at most (1 - 1/n) n Σ|u|², so that
    the subtraction costs no more than the digits of n; whole numbers give an
    exact result, and with it true ties.
    """
    first = members[0]
    squares = 0.0
    offsets[:] = 0.0
    for i in members[1:]:
        for j in range(features.shape[1]):
            step = features[i, j] - features[first, j]
            squares += step * step
            offsets[j] += step
    total = members.shape[0] * squares
    for j in range(features.shape[1]):
        total -= offsets[j] * offsets[j]
    return float(total)


@nb.njit(cache=True, nogil=True)
def group_scatters(features: FloatArray, order: IntArray, starts: IntArray) -> FloatArray:
    """Sum of squared distances to the mean of each group, shape (n_groups,)."""
    scatter = np.empty(starts.shape[0] - 1)
    offsets = np.empty(features.shape[1])
    for g in range(scatter.shape[0]):
        rows = order[starts[g] : starts[g + 1]]
        scatter[g] = scatter_times_size(features, rows, offsets) / rows.shape[0]
    return scatter


@nb.njit(cache=True, nogil=True)
def scatter_in_groups(features: FloatArray, order: IntArray, starts: IntArray) -> float:
    """Sum of squared distances to the group means, two passes a group."""
    width = features.shape[1]
    mean = np.empty(width)
    total = 0.0
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]]
        mean[:] = 0.0
        for i in rows:
            for j in range(width):
                mean[j] += features[i, j]
        for j in range(width):
            mean[j] /= max(1, rows.shape[0])
        for i in rows:
            for j in range(width):
                total += (features[i, j] - mean[j]) ** 2
    return total
