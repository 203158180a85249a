"""Figures of every group's classes."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.methods.grouping._divergence_kernel import entropy, jensen_shannon, ordered_distance, total_variation
from anonpipe.types import FloatArray, IntArray

CHI_SQUARE, DIVERGENCE, DISTINCT, SINGLES, ENTROPY, VARIATION, ORDERED = range(7)  # Rows of what `class_figures` gives


@nb.njit(cache=True, nogil=True)
def class_figures(order: IntArray, starts: IntArray, classes: IntArray, shares: FloatArray) -> FloatArray:
    """Figures of every group, shape (7, n_groups), for records sorted by group.

    Chi-square (Li and Sarkar 2013, one term of eq. 13), Jensen-Shannon
    divergence, number of classes, number of classes with one record, entropy,
    total variation and ordered distance. Time O(n + n_groups·n_classes).
    """
    n_groups = starts.shape[0] - 1
    out = np.zeros((7, n_groups))
    counts = np.empty(shares.shape[0])
    for g in range(n_groups):
        total = float(starts[g + 1] - starts[g])
        counts[:] = 0.0
        for i in order[starts[g] : starts[g + 1]]:
            counts[classes[i]] += 1.0
        for c in range(shares.shape[0]):
            expected = total * shares[c]
            if expected > 0.0:
                out[CHI_SQUARE, g] += (counts[c] - expected) ** 2 / expected
            if counts[c] > 0.0:
                out[DISTINCT, g] += 1.0
            if counts[c] == 1.0:
                out[SINGLES, g] += 1.0
        out[DIVERGENCE, g] = jensen_shannon(counts, total, shares)
        out[ENTROPY, g] = entropy(counts, total)
        out[VARIATION, g] = total_variation(counts, total, shares)
        out[ORDERED, g] = ordered_distance(counts, total, shares)
    return out
