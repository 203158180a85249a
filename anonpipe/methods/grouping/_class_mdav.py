"""MDAV that minds the classes of a group."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.methods.grouping._class_mdav_kernel import mixed_groups
from anonpipe.methods.grouping._classes import checked_alpha, diagonal
from anonpipe.methods.grouping._options import ClassGroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class ClassMdavOptions(ClassGroupingOptions):
    """MDAV whose groups weigh distance and class divergence by `alpha`."""

    method: Literal["class_mdav"]
    alpha: float = Field(default=0.5, ge=0, le=1)


def class_mdav(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    alpha: float = 0.5,
) -> IntArray:
    """Group records by MDAV whose groups are filled by distance and classes.

    Groups form as in `mdav_generic`: around the record r furthest from the
    mean and around s furthest from r while 3k records are left, then one
    around r, and the rest. But only a group's first record is the nearest.
    Each of the k - 1 others is the record of least alpha·L + (1 - alpha)·JSD,
    with L its distance to r (or s) as a share of the diagonal of the box
    around all points and JSD the Jensen-Shannon divergence (base 2) of
    `class_shares` from the group with it. Ties go to the lower row number.

    The last group takes what is left: records of the class that the others
    had no use for, from wherever they are. It is the one that may hold one
    class only.

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
        Weight of the distance against the divergence, 0 to 1; 1 gives the
        groups of `mdav_generic`.

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
    section 8 proposes to carry their eq. 6 over to other methods; the rule
    here is this project's.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> classes = np.array([0, 0, 1, 1, 1, 0])
    >>> options = {"class_shares": np.array([0.5, 0.5]), "rng": np.random.default_rng(0)}
    >>> class_mdav(features, 2, classes=classes, **options).tolist()
    [0, 2, 0, 2, 1, 1]
    """
    alpha = checked_alpha(alpha)
    labels: IntArray = mixed_groups(features, k, classes, class_shares, alpha, diagonal(features))
    return labels


METHOD = Grouping(
    function=class_mdav,
    options=ClassMdavOptions,
    published="MDAV with the composite distance of CREST",
    reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
    cost="time O(n²·w/k + n²), memory O(n·w)",
    about={
        "alpha": "weight of the distance against the divergence of the classes, 0.5 by default; 1 is mdav_generic",
    },
    sizes="k, and k to 2k-1 for the last group",
    largest=under_2k,
    classes=True,
)
