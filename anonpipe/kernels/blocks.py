"""Blocks of near records as a sorted view: what clustering and local search work through."""

from __future__ import annotations

from anonpipe.kernels.features import checked_features
from anonpipe.kernels.principal import split_recursively
from anonpipe.types import FloatArray, IntArray


def block_order(features: FloatArray, rows: int, *, turned: bool = False) -> tuple[IntArray, IntArray]:
    """Split records into ceil(n_rows / rows) blocks whose sizes differ by one at most, and sort them by block.

    A set of records that is to become L blocks is ordered by its projections
    on its first principal direction and cut at the rank that leaves floor(L/2)
    blocks on the lower side. It is cut by rank, never by value: records that
    tie at the border are divided in row order, so that heavily tied or even
    constant data give blocks of the same sizes. Time O(n_rows · width · log L).

    Shapes: features (n_rows, width).

    Examples
    --------
    >>> import numpy as np
    >>> order, starts = block_order(np.array([[9.0], [1.0], [8.0], [0.0]]), 2)
    >>> order.tolist(), starts.tolist()
    ([1, 3, 0, 2], [0, 2, 4])
    """
    features = checked_features(features)
    if rows < 1:
        raise ValueError(f"rows of a block is {rows}; give 1 or more")
    leaves = max(1, -(-len(features) // rows))
    order, starts = split_recursively(features, leaves, turned)
    return order, starts
