"""MDAV-1: MDAV whose last group has k records too."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._mdav_kernel import join_nearest, outermost_group, pairs_of_groups
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class Mdav1Options(GroupingOptions):
    """MDAV-1: MDAV whose last group has k records too."""

    method: Literal["mdav_1"]


def mdav_1(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by MDAV-1.

    Two groups a round as in `mdav` while 2k or more records remain. Of k to
    2k - 1 that remain, the one furthest from their mean and its k - 1 nearest
    form a group. The others, fewer than k, join the groups whose means are
    nearest. Ties go to the lower row number, of groups to the one formed
    earlier. No group can pass 2k - 1 records.

    The means do not move when records join them, so that the order of the last
    records decides nothing. On the Tarragona table (z-scores, k = 10) this
    gives the published 33.192358 %, and so do moving means in row order; the
    outermost record first with moving means gives 33.192336 % and is not what
    was published.

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
    Lin, Wen, Hsieh and Chang 2010, Expert Systems with Applications
    37(4):3256-3263, doi:10.1016/j.eswa.2009.09.054; as described by Kabir and
    Wang 2010, doi:10.1109/ICDM.2010.111, section IV.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [20.0], [21.0], [5.0], [12.0], [16.0]])
    >>> mdav_1(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 0, 1, 1, 2, 2, 1]
    """
    labels = pairs_of_groups(features, k, 2 * k)
    remaining = np.flatnonzero(labels < 0)
    if len(remaining) >= k:
        labels[outermost_group(features, remaining, k)] = labels.max() + 1
    join_nearest(features, labels)
    return labels


METHOD = Grouping(
    function=mdav_1,
    options=Mdav1Options,
    published="MDAV-1",
    reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, MDAV-1",
    cost="time O(n²·w/k) at worst, memory O(n·w)",
    sizes="k; up to 2k-1 where the last fewer than k records join",
    largest=under_2k,
)
