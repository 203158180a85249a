"""Cutting a minimum spanning tree by the divergence of classes and the length of edges."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._options import ClassGroupingOptions
from anonpipe.methods.grouping._spanning_tree_kernel import cut_by_ratio, shortest_tree
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class CrestPartialOptions(ClassGroupingOptions):
    """A plain spanning tree, cut where class divergence rises least for the length (their alpha of 1)."""

    method: Literal["crest_partial"]


def crest_partial(
    features: FloatArray, k: int, *, rng: np.random.Generator, classes: IntArray, class_shares: FloatArray
) -> IntArray:
    """Group records by a plain minimum spanning tree, cut with regard to the classes.

    Again and again the removable edge of least ratio is cut: the increase in
    weighted Jensen-Shannon divergence from the class shares of the whole
    table (base 2) when its group falls in two, divided by its length. An edge
    is removable where both parts have k records. Cheaper than `crest`, which
    minds the classes in the tree as well.

    Where no class is lost or won many ratios are 0: of equal ratios the longer
    edge, then the one to the lower row number is cut first. An edge of length
    0 is cut only where no other is removable.

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

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1, in the order of their lowest rows.

    References
    ----------
    Li and Sarkar 2013, Management Science 59(4), doi:10.1287/mnsc.1120.1584,
    section 4, eq. 7 and 9, and section 6, "partial CAMP-CREST".

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [4.0], [5.0], [9.0], [10.0]])
    >>> classes = np.array([0, 1, 0, 1, 0, 1])
    >>> options = {"class_shares": np.array([0.5, 0.5]), "rng": np.random.default_rng(0)}
    >>> crest_partial(features, 2, classes=classes, **options).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    if len(features) < 2 * k:
        return np.zeros(len(features), dtype=np.int64)
    labels: IntArray = cut_by_ratio(*shortest_tree(features), k, classes, class_shares)
    return labels


METHOD = Grouping(
    function=crest_partial,
    options=CrestPartialOptions,
    published="Partial CREST: minimum spanning tree cut by divergence and length",
    reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, sections 4 and 6",
    cost="time O(n²·w), memory O(n·(w + classes))",
    sizes="k or more, without an upper limit",
    largest=None,
    classes=True,
)
