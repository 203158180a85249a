"""Centroid-based fixed-size microaggregation (CBFS)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._mdav_kernel import join_nearest, single_groups
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class CbfsOptions(GroupingOptions):
    """Centroid-based fixed-size microaggregation (CBFS)."""

    method: Literal["cbfs"]


def cbfs(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records one group at a time, from the outside in.

    While k or more records remain, the one furthest from the mean of those
    that remain and its k - 1 nearest form a group. The last ones, fewer than
    k, join the groups whose means are nearest; those means are of the k first
    records and do not move, so that the order of the last records decides
    nothing. Ties go to the lower row number, of groups to the one formed
    earlier.

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
        Group of each record, 0 to n_groups - 1; at most 2k - 1 records in each.

    References
    ----------
    Laszlo and Mukherjee 2005, IEEE TKDE 17(7), doi:10.1109/TKDE.2005.112, algorithm C.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> cbfs(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    labels = single_groups(features, k)
    join_nearest(features, labels)
    return labels


METHOD = Grouping(
    function=cbfs,
    options=CbfsOptions,
    published="Centroid-based fixed-size microaggregation (CBFS)",
    reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
    cost="time O(n²·w/k) at worst, memory O(n·w)",
    sizes="k; up to 2k-1 where the last fewer than k records join",
    largest=under_2k,
)
