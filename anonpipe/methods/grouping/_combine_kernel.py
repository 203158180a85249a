"""The best of two groupings, region by region."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def root_of(parent: IntArray, node: int) -> int:
    """The root of a node's tree; the path to it is halved on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@nb.njit(cache=True, nogil=True)
def combine(first: IntArray, first_scatter: FloatArray, second: IntArray, second_scatter: FloatArray) -> IntArray:
    """Labels that are in every region those of the better of two groupings.

    A region is a smallest set of records that both groupings divide into
    whole groups: the connected parts of the graph of all groups, in which two
    are joined that share a record. So each choice leaves whole groups. The
    idea is that of partition crossover, Whitley, Hains and Howe 2009,
    doi:10.1145/1569901.1570026, for the travelling salesman.

    Shapes: first, second (n,).

    Examples
    --------
    >>> first, second = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 2, 3, 2, 3])
    >>> combine(first, np.array([1.0, 1.0, 9.0, 1.0]), second, np.array([2.0, 2.0, 2.0, 2.0])).tolist()
    [0, 0, 1, 1, 2, 3, 2, 3]
    """
    offset = first_scatter.shape[0]
    parent = np.arange(offset + second_scatter.shape[0])
    for i in range(first.shape[0]):
        a, b = root_of(parent, first[i]), root_of(parent, offset + second[i])
        parent[max(a, b)] = min(a, b)
    gain = np.zeros(parent.shape[0])
    for g in range(offset):
        gain[root_of(parent, g)] += first_scatter[g]
    for g in range(second_scatter.shape[0]):
        gain[root_of(parent, offset + g)] -= second_scatter[g]
    number = np.full(parent.shape[0], -1, dtype=np.int64)
    labels = np.empty_like(first)
    count = 0
    for i in range(first.shape[0]):
        g = offset + second[i] if gain[root_of(parent, first[i])] > 0.0 else first[i]
        if number[g] < 0:
            number[g] = count
            count += 1
        labels[i] = number[g]
    return labels
