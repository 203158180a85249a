"""Blocks of near records as a sorted view: what clustering and local search work through."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.points import checked_points
from anonpipe.kernels.principal import split_recursively

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def block_order(points: FloatArray, rows: int, *, turned: bool = False) -> tuple[IntArray, IntArray]:
    """Records sorted by block; `anonpipe.partition.blocks.principal_blocks` says which blocks.

    Returns
    -------
    order : int64, shape (n_rows,)
        Row numbers, block by block, ascending inside each.
    starts : int64, shape (n_blocks + 1,)
        `order[starts[b]:starts[b + 1]]` are the rows of block b.

    Raises
    ------
    ValueError
        `points` is not a finite matrix (see `checked_points`) or `rows` is less than 1.

    Examples
    --------
    >>> order, starts = block_order(np.array([[9.0], [1.0], [8.0], [0.0]]), 2)
    >>> order.tolist(), starts.tolist()
    ([1, 3, 0, 2], [0, 2, 4])
    """
    points = checked_points(points)
    if rows < 1:
        raise ValueError(f"rows of a block is {rows}; give 1 or more")
    leaves = max(1, -(-len(points) // rows))
    order, starts = split_recursively(points, leaves, turned)
    return order, starts
