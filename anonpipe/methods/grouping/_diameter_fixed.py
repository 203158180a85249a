"""Diameter-based fixed-size microaggregation."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._maximum_distance_kernel import maximum_distance_groups
from anonpipe.methods.grouping._mdav_kernel import join_nearest
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class DiameterFixedOptions(GroupingOptions):
    """Diameter-based fixed-size microaggregation."""

    method: Literal["diameter_fixed"]


def diameter_fixed(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by maximum distance, each of the last ones by itself.

    As `md` but for the end: of fewer than k records that remain, each joins
    the group whose mean is nearest to it. The means do not move when records
    join, so that their order decides nothing.

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
    Laszlo and Mukherjee 2005, IEEE TKDE 17(7), doi:10.1109/TKDE.2005.112, algorithm D.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> diameter_fixed(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    labels = maximum_distance_groups(features, k)
    remaining = np.flatnonzero(labels < 0)
    if len(remaining) >= k:
        labels[remaining] = labels.max() + 1
    else:
        join_nearest(features, labels)
    return labels


METHOD = Grouping(
    function=diameter_fixed,
    options=DiameterFixedOptions,
    published="Diameter-based fixed-size microaggregation (D)",
    reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
    cost="time O(n²·w) usually, memory O(n·w)",
    sizes="k; up to 2k-1 for the last group, or where the last fewer than k records join",
    largest=under_2k,
)
