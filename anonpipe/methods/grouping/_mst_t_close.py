"""Cutting the longest edges of a minimum spanning tree that leave t-close parts."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.methods.grouping._options import ClassGroupingOptions
from anonpipe.methods.grouping._spanning_tree_kernel import cut_longest, shortest_tree
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class MstTCloseOptions(ClassGroupingOptions):
    """Minimum spanning tree, cut only where both parts stay `t`-close to the table's classes."""

    method: Literal["mst_t_close"]
    t: float = Field(default=0.25, gt=0, le=1)


def mst_t_close(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    t: float = 0.25,
) -> IntArray:
    """Group records like `mst`, cutting only where both parts are t-close.

    A part is t-close where its class shares lie no further than t from those
    of the whole table, by total variation. The classes have no say in the
    tree. Each edge is tried once here too: were a part that is not t-close
    to become so by losing a t-close piece, both its pieces would be t-close
    and so would have been their mixture, since the distance is convex.

    For the same reason nothing is cut where all records together are not
    t-close, as in one block of a table: they stay one group and not t-close.
    `constrain_classes` mends that, or refuses.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; nothing is drawn from it.
    classes
        Class of each record, codes from 0, shape (n_rows,).
    class_shares
        Share of each class in the whole table, shape (n_classes,).
    t
        Largest distance of a group, 0 to 1; 1 allows any. The authors change
        it from table to table. Shares in a group of k records come in steps
        of 1/k and name k classes at most: a t much under 1/k, or few records
        for many classes, makes groups far larger than k.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1, in the order of their lowest rows.

    Raises
    ------
    ValueError
        `t` is not a number from 0 to 1.

    References
    ----------
    Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 6, "benchmark";
    t-closeness: Li, Li and Venkatasubramanian 2007,
    doi:10.1109/ICDE.2007.367856.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> options = {"class_shares": np.array([0.5, 0.5]), "rng": np.random.default_rng(0)}
    >>> mst_t_close(features, 2, classes=np.array([0, 1, 0, 1]), **options).tolist()
    [0, 0, 1, 1]
    >>> mst_t_close(features, 2, classes=np.array([0, 0, 1, 1]), **options).tolist()
    [0, 0, 0, 0]
    """
    if not 0 <= t <= 1:
        raise ValueError(f"t is {t}; give a number from 0 to 1")
    if len(features) < 2 * k:
        return np.zeros(len(features), dtype=np.int64)
    labels: IntArray = cut_longest(*shortest_tree(features), k, classes, class_shares, t)
    return labels


METHOD = Grouping(
    function=mst_t_close,
    options=MstTCloseOptions,
    published="Minimum spanning tree partitioning with t-closeness (benchmark of CREST)",
    reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 6",
    cost="time O(n²·w), memory O(n·(w + classes))",
    about={
        "t": "largest distance of a group's classes from the table's, 0.25 by default; below 1/k groups grow large",
    },
    sizes="k or more, without an upper limit",
    largest=None,
    classes=True,
)
