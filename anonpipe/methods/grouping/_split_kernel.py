"""Splitting groups that are large enough for two."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.principal import principal_direction, projection, split_rows
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def split_large(features: FloatArray, order: IntArray, starts: IntArray, k: int) -> IntArray:
    """Labels for groups of less than 2k records: those given, the larger ones split into parts of k or more.

    A group is cut across its principal direction at a multiple of k near its
    middle, and so on with the parts. No cut raises the within-group scatter.
    """
    labels = np.empty(order.shape[0], dtype=np.int64)
    order = order.copy()
    projections = np.empty(order.shape[0])
    label = 0
    for g in range(starts.shape[0] - 1):
        stack = [(starts[g], starts[g + 1])]
        while len(stack) > 0:
            low, high = stack.pop()
            rows = order[low:high]
            if high - low < 2 * k:
                labels[rows] = label
                label += 1
                continue
            direction = principal_direction(features, rows, nb.boolean(False))
            for at in range(low, high):
                projections[at] = projection(features[order[at]], direction)
            left = (high - low) // k // 2 * k
            split_rows(rows, projections[low:high], left)
            stack.append((low + left, high))
            stack.append((low, low + left))
    return labels
