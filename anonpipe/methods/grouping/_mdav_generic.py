"""MDAV-generic: MDAV whose last two groups are formed from up to 3k - 1 records."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._mdav_kernel import outermost_group, pairs_of_groups
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class MdavGenericOptions(GroupingOptions):
    """MDAV-generic: MDAV whose last two groups are formed from up to 3k - 1 records."""

    method: Literal["mdav_generic"]


def mdav_generic(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by MDAV-generic.

    While 3k or more records remain, two groups a round as in `mdav`. Of 2k to
    3k - 1 that remain, the one furthest from their mean and its k - 1 nearest
    form a group and the others another; fewer than 2k form one group. So all
    groups have k records but the last, which has up to 2k - 1. Ties go to the
    lower row number.

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
    Domingo-Ferrer and Torra 2005, doi:10.1007/s10618-005-0007-5, algorithm MDAV-generic.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0], [5.0], [4.5]])
    >>> mdav_generic(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 2, 2, 2]
    """
    labels = pairs_of_groups(features, k, 3 * k)
    label = labels.max() + 1
    remaining = np.flatnonzero(labels < 0)
    if len(remaining) >= 2 * k:
        labels[outermost_group(features, remaining, k)] = label
        label += 1
    labels[labels < 0] = label
    return labels


METHOD = Grouping(
    function=mdav_generic,
    options=MdavGenericOptions,
    published="MDAV-generic",
    reference="Domingo-Ferrer and Torra 2005, doi:10.1007/s10618-005-0007-5, algorithm MDAV-generic",
    cost="time O(n²·w/k) at worst, memory O(n·w)",
    sizes="k, and k to 2k-1 for the last group",
    largest=under_2k,
)
