"""Cutting the longest edges of a minimum spanning tree."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._options import GroupingOptions
from anonpipe.methods.grouping._spanning_tree_kernel import cut_longest, shortest_tree
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class MstOptions(GroupingOptions):
    """Cutting the longest edges of a minimum spanning tree."""

    method: Literal["mst"]


def mst(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by cutting the longest removable edges of their minimum spanning tree.

    An edge is removable where both parts that it joins have k records. The
    edges are tried in descending length, each once: parts only shrink, so
    that an edge that is not removable never becomes so. Of equal lengths the
    edge to the record of lower row number is cut first.

    Groups have no upper limit. A chain or a star of records that hangs
    together may not be divisible at all: on few columns groups of many k
    occur. The authors also split groups of 2k or more by fixed-size methods
    afterwards (`mst_d`).

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
        Group of each record, 0 to n_groups - 1, in the order of their lowest rows.

    References
    ----------
    Laszlo and Mukherjee 2005, IEEE TKDE 17(7):902-911,
    doi:10.1109/TKDE.2005.112.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> mst(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    one_class = np.zeros(len(features), dtype=np.int64)
    if len(features) < 2 * k:
        return one_class
    labels: IntArray = cut_longest(*shortest_tree(features), k, one_class, np.ones(1), 1.0)
    return labels


METHOD = Grouping(
    function=mst,
    options=MstOptions,
    published="Minimum spanning tree partitioning",
    reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
    cost="time O(n²·w), memory O(n·w)",
    sizes="k or more, without an upper limit",
    largest=None,
)
