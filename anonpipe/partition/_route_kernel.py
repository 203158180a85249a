"""Routing of records through a tree of splits."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.principal import projection
from anonpipe.types import FloatArray, IntArray

KeyArray = npt.NDArray[np.uint64]


@nb.njit(cache=True, nogil=True)
def project_rows(features: FloatArray, rows: IntArray, direction: FloatArray) -> FloatArray:
    """Projections of `rows` of `features`, each by the same loop as in `route_rows`."""
    out = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        out[i] = projection(features[rows[i]], direction)
    return out


@nb.njit(cache=True, nogil=True)
def route_rows(
    features: FloatArray,
    keys: KeyArray,
    directions: FloatArray,
    thresholds: FloatArray,
    key_thresholds: KeyArray,
    children: IntArray,
) -> IntArray:
    """Leaf of each record, shape (n_rows,); a child is a node, or -1 - leaf."""
    leaves = np.zeros(features.shape[0], dtype=np.int64)
    if children.shape[0] == 0:
        return leaves
    for i in range(features.shape[0]):
        node = 0
        while node >= 0:
            value = projection(features[i], directions[node])
            border = thresholds[node]
            left = value < border or (value == border and keys[i] < key_thresholds[node])
            node = children[node, 0] if left else children[node, 1]
        leaves[i] = -1 - node
    return leaves
