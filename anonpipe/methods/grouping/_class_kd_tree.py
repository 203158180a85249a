"""Recursive median splits that mind the classes of the halves."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.methods.grouping._classes import checked_alpha
from anonpipe.methods.grouping._kd_tree_kernel import median_groups
from anonpipe.methods.grouping._options import ClassGroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class ClassKdTreeOptions(ClassGroupingOptions):
    """Median splits that weigh spread and class divergence by `alpha`."""

    method: Literal["class_kd_tree"]
    block_rows: int | None = Field(default=None, ge=10)
    alpha: float = Field(default=0.5, ge=0, le=1)


def class_kd_tree(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    alpha: float = 0.5,
) -> IntArray:
    """Group records like `kd_tree`, on columns that leave the classes mixed.

    Each part is split on the column of least alpha·(1 - s) + (1 - alpha)·D,
    with s its standard deviation among the part's records as a share of the
    largest, and D the weighted Jensen-Shannon divergence (base 2) of
    `class_shares` from its halves.

    The median fixes the halves of a column, so that the classes can be minded
    only as far as there are columns to choose from: the effect is much less
    than that of `crest` or `class_mdav`, and so is the price.

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
    alpha
        Weight of the spread against the divergence, 0 to 1; 1 gives `kd_tree`.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    Raises
    ------
    ValueError
        `alpha` is out of its range.

    References
    ----------
    Li and Sarkar 2013, Management Science 59(4), doi:10.1287/mnsc.1120.1584,
    section 8 proposes to mind classes in the method of their 2006 paper,
    doi:10.1109/TKDE.2006.136; the rule here is this project's.

    Examples
    --------
    >>> features = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 1.0]])
    >>> options = {"class_shares": np.array([0.5, 0.5]), "rng": np.random.default_rng(0)}
    >>> class_kd_tree(features, 2, classes=np.array([0, 1, 0, 1]), **options).tolist()
    [0, 0, 1, 1]
    >>> class_kd_tree(features, 2, classes=np.array([0, 0, 1, 1]), alpha=0.2, **options).tolist()
    [0, 1, 0, 1]
    """
    labels: IntArray = median_groups(features, k, classes, class_shares, checked_alpha(alpha))
    return labels


METHOD = Grouping(
    function=class_kd_tree,
    options=ClassKdTreeOptions,
    published="kd-tree partitioning with regard to classes",
    reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
    cost="time O(n·w·log n), memory O(n·w)",
    about={
        "alpha": "weight of the spread against the divergence of the classes, 0.5 by default; 1 is kd_tree",
    },
    sizes="k to 2k-1",
    largest=under_2k,
    classes=True,
)
