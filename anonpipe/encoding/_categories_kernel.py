"""Assignment of categories to records under fixed counts per group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

_SORT_FROM = 64


@njit(cache=True, nogil=True)
def assign_by_counts(
    scores: npt.NDArray[np.float64],
    order: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    sequence: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Give exactly `targets[g, c]` records of group g the category c.

    Shapes: scores (n, q); targets (n_groups, q); returns (n,).
    """
    chosen = np.empty(len(scores), dtype=np.int64)
    free = np.empty(np.max(np.diff(starts)), dtype=np.int64)
    for group in range(len(starts) - 1):
        count = starts[group + 1] - starts[group]
        for i in range(count):
            free[i] = order[starts[group] + i]
        for category in sequence:
            wanted = targets[group, category]
            if wanted == 0:
                continue
            if wanted < count:
                _bring_forward(free[:count], scores, category, wanted)
            for i in range(wanted):
                chosen[free[i]] = category
            for i in range(wanted, count):
                free[i - wanted] = free[i]
            count -= wanted
    return chosen


@njit(cache=True, nogil=True)
def _bring_forward(free: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], category: int, wanted: int) -> None:
    """Move the `wanted` best records of a category to the front; all others keep their order."""
    count = len(free)
    if count < _SORT_FROM:
        for rank in range(wanted):
            best_at = rank
            for i in range(rank + 1, count):
                if scores[free[i], category] > scores[free[best_at], category]:
                    best_at = i
            row = free[best_at]
            for i in range(best_at, rank, -1):
                free[i] = free[i - 1]
            free[rank] = row
        return
    values = np.empty(count, dtype=np.float64)
    for i in range(count):
        values[i] = -scores[free[i], category]
    best = np.argsort(values, kind="mergesort")[:wanted]
    taken = np.zeros(count, dtype=np.bool_)
    taken[best] = True
    front, back = free[taken], free[~taken]
    free[:wanted] = front
    free[wanted:] = back
