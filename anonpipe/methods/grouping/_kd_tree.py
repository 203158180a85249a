"""Recursive splits at the median of the widest column."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.methods.grouping._kd_tree_kernel import median_groups
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class KdTreeOptions(GroupingOptions):
    """Recursive splits at the median of the widest column."""

    method: Literal["kd_tree"]
    block_rows: int | None = Field(default=None, ge=10)


def kd_tree(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by halving them at medians until a group has fewer than 2k.

    Each part of 2k or more records is split by rank on the column of largest
    variance among them, floor(n/2) records to the lower half. Records that
    tie at the median are divided in row order, of columns that tie the first
    is taken. So groups have k to 2k - 1 records whatever the ties.

    The authors scale the columns first; here the variance is that of the
    points as given.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; nothing is drawn from it.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    References
    ----------
    Li and Sarkar 2006, IEEE TKDE 18(9):1278-1283, doi:10.1109/TKDE.2006.136.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> kd_tree(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    labels: IntArray = median_groups(features, k, np.zeros(len(features), dtype=np.int64), np.ones(1), 1.0)
    return labels


METHOD = Grouping(
    function=kd_tree,
    options=KdTreeOptions,
    published="kd-tree partitioning",
    reference="Li and Sarkar 2006, doi:10.1109/TKDE.2006.136",
    cost="time O(n·w·log n), memory O(n·w)",
    sizes="k to 2k-1",
    largest=under_2k,
)
