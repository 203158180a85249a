"""Multivariate k-Ward."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.grouping._ward_kernel import ward_recursively
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class KWardOptions(GroupingOptions):
    """Multivariate k-Ward."""

    method: Literal["k_ward"]


def k_ward(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by Ward's method, never merging two groups of k or more.

    Of 2k or more records, the two that are furthest apart each form a group
    with their k - 1 nearest; every other record is a group of its own. Then
    the two groups a, b with the smallest cost n_a n_b / (n_a + n_b) |c_a - c_b|²
    are merged, n their sizes and c their means, until every group has k
    records; a pair of groups that both have k is never merged. The method is
    applied again to each group of 2k or more, so that groups have k to 2k - 1.
    It ends because the two seeds' groups are never merged with each other.

    Where the paper leaves a choice: the seed of the lower row number takes its
    neighbours first and leaves the other seed out; the second takes its own
    among the rest. Of equal costs the smaller group goes first, then the one
    with the lower first row. Where several pairs cost the same, chains of
    nearest neighbours may merge them in another order than a global search.

    Memory is linear in the rows. Time is quadratic; a set that gives one group
    of nearly all its records again and again would make it cubic.

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
    Domingo-Ferrer and Mateo-Sanz 2002, IEEE TKDE 14(1), doi:10.1109/69.979982,
    the multivariate k-Ward algorithm.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> k_ward(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    labels = np.empty(len(features), dtype=np.int64)
    ward_recursively(features, k, labels)
    return labels


METHOD = Grouping(
    function=k_ward,
    options=KWardOptions,
    published="k-Ward, multivariate",
    reference="Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982, the multivariate k-Ward algorithm",
    cost="time O(n²·w), memory O(n·w)",
    sizes="k to 2k-1",
    largest=under_2k,
)
