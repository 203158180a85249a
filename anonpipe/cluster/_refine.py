"""Local search for groups of less scatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from anonpipe.cluster._sizes import count_groups
from anonpipe.kernels.blocks import block_order
from anonpipe.kernels.groups import sort_groups
from anonpipe.kernels.points import checked_points
from anonpipe.kernels.refine import refine_blocks

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SWEEPS = 200


@dataclass(frozen=True)
class Effort:
    """How far the local search goes.

    Attributes
    ----------
    rounds
        How often groups are put into new blocks and searched.
    candidates
        Near groups that a record may go to, its own included.
    depth
        Most steps of a chain.
    stake
        By how much the scatter may rise on the way of a chain, in units of
        the squared distance of its first record to its centroid.
    chain_k
        Largest k with chains: their cost grows with the cube of k.
    """

    rounds: int
    candidates: int
    depth: int
    stake: float
    chain_k: int


EFFORTS = {
    "quick": Effort(rounds=2, candidates=10, depth=8, stake=0.5, chain_k=10),
    "normal": Effort(rounds=4, candidates=16, depth=8, stake=2.0, chain_k=20),
}


def refine(
    points: FloatArray,
    labels: IntArray,
    k: int,
    *,
    effort: Literal["quick", "normal"] = "quick",
    block_rows: int = 4_000,
) -> IntArray:
    """Lower the information loss of a grouping by local search; it never rises.

    A record may move from a group of more than k records to a near one of
    fewer than 2k - 1, or swap places with a record there. With n the sizes, c
    the means and u = x_j - x_i these steps add to the scatter

        move i from a to b:   n_b/(n_b+1) |x_i - c_b|² - n_a/(n_a-1) |x_i - c_a|²
        swap i in a, j in b:  2 u·(c_b - c_a) - |u|² (1/n_a + 1/n_b)

    and the best step of each record is taken where it subtracts, in sweeps
    over all records until none does. Then each group under 2k is dissolved
    into its neighbours where that subtracts, and last, chains of steps are
    tried whose first ones add and whose sum subtracts.

    All this happens inside blocks of whole groups, by their means. The second
    round cuts the blocks along other directions, so that groups the first
    round held apart come together. Nothing is drawn at random. Time is linear
    in the rows.

    Parameters
    ----------
    points
        Finite, shape (n_rows, width).
    labels
        Group of each record, 0 to n_groups - 1, shape (n_rows,); every group
        has at least k. Larger groups than 2k - 1 may give records away and
        are not split.
    k
        Smallest size of a group.
    effort
        "quick" or "normal", see `EFFORTS`.
    block_rows
        Size of a block, in records on average, 1 or more.

    Returns
    -------
    int64, shape (n_rows,)
        New labels, 0 to n_groups - 1; there can be fewer groups than before.

    Raises
    ------
    ValueError
        The points are not a finite matrix, k or block_rows is below 1, or the
        effort is unknown.
    AnonpipeError
        A group of `labels` is under k, or a record has none.

    References
    ----------
    The formulas follow from the change of two means. Chains of steps are the
    idea of Kernighan and Lin 1970, doi:10.1002/j.1538-7305.1970.tb01770.x.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> refine(points, np.array([0, 1, 0, 1]), 2).tolist()
    [1, 1, 0, 0]
    """
    points = checked_points(points)
    if effort not in EFFORTS:
        raise ValueError(f"effort is {effort!r}; allowed are {', '.join(EFFORTS)}")
    if k < 1 or block_rows < 1:
        raise ValueError(f"k is {k} and block_rows {block_rows}; give 1 or more")
    count_groups(labels, len(points), k, "the grouping to be refined")
    labels = labels.copy()
    for number in range(EFFORTS[effort].rounds if len(points) else 0):
        if not _search(points, labels, k, EFFORTS[effort], block_rows, turned=number % 2 == 0):
            break
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    count_groups(labels, len(points), k, "refine")
    return labels


def _search(points: FloatArray, labels: IntArray, k: int, effort: Effort, block_rows: int, turned: bool) -> int:
    """One round, on `labels` in place; the number of steps taken."""
    order, starts = sort_groups(labels)
    centroids = np.add.reduceat(points[order], starts[:-1]) / np.diff(starts)[:, None]
    in_block = max(2, block_rows * len(centroids) // len(points))
    blocks = block_order(centroids, in_block, turned=turned)
    depth = effort.depth if k <= effort.chain_k else 1
    return int(refine_blocks(points, k, order, starts, *blocks, effort.candidates, SWEEPS, depth, effort.stake, labels))
