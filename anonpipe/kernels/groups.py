"""Records sorted by group: the view that every per-group loop works on."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import IntArray


@nb.njit(cache=True, nogil=True)
def sort_groups(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Sort records by label, ties in record order (counting sort).

    Shapes: labels (n_rows,).

    Examples
    --------
    >>> order, starts = sort_groups(np.array([1, 0, 1, 0, 0]))
    >>> order.tolist(), starts.tolist()
    ([1, 3, 4, 0, 2], [0, 3, 5])
    """
    n = labels.shape[0]
    n_groups = 0
    for i in range(n):
        n_groups = max(n_groups, labels[i] + 1)
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    for i in range(n):
        starts[labels[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    order = np.empty(n, dtype=np.int64)
    cursor = starts[:-1].copy()
    for i in range(n):
        g = labels[i]
        order[cursor[g]] = i
        cursor[g] += 1
    return order, starts
