"""Blocks of near records of bounded size, by recursive splits along principal directions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.blocks import block_order

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def principal_blocks(points: FloatArray, rows: int, *, turned: bool = False) -> IntArray:
    """Split records into ceil(n_rows / rows) blocks whose sizes differ by one at most.

    A set of records that is to become L blocks is ordered by its projections
    on its first principal direction and cut at the rank that leaves floor(L/2)
    blocks on the lower side. It is cut by rank, never by value: records that
    tie at the border are divided in row order, so that heavily tied or even
    constant data give blocks of the same sizes. Time O(n_rows · width · log L).

    Parameters
    ----------
    points
        Finite, shape (n_rows, width).
    rows
        Largest size of a block, in records.
    turned
        Cut along directions halfway between the first and the second
        principal one: the borders cross those of the plain splits, so that
        near records that these part come together.

    Returns
    -------
    int64, shape (n_rows,)
        Block of each record, 0 to n_blocks - 1.

    Raises
    ------
    ValueError
        `points` is not a finite matrix (see `checked_points`) or `rows` is less than 1.

    Examples
    --------
    >>> principal_blocks(np.array([[9.0], [1.0], [8.0], [0.0]]), 2).tolist()
    [1, 0, 1, 0]
    """
    order, starts = block_order(points, rows, turned=turned)
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return labels
