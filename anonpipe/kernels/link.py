"""Nearest released records inside groups."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@nb.njit(cache=True, nogil=True)
def link_in_groups(original: FloatArray, released: FloatArray, order: IntArray, starts: IntArray) -> FloatArray:
    """Expected number of records of each group that link to their own row, shape (n_groups,).

    A record whose own row is among t nearest ones that tie counts 1/t. Time
    O(width · sum of squared group sizes).
    """
    credits = np.zeros(starts.shape[0] - 1)
    for group in range(starts.shape[0] - 1):
        members = order[starts[group] : starts[group + 1]]
        for i in members:
            own = _squared(original[i], released[i])
            ties, nearer = 0, False
            for j in members:
                distance = _squared(original[i], released[j])
                nearer = nearer or distance < own
                ties += distance == own
            if not nearer:
                credits[group] += 1.0 / ties
    return credits


@nb.njit(cache=True, nogil=True)
def _squared(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for j in range(a.shape[0]):
        total += (a[j] - b[j]) ** 2
    return total
