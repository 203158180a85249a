"""MDAV with variable group size (V-MDAV)."""

from __future__ import annotations

import math
from typing import Literal

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.kernels.points import mean_of, sum_rows
from anonpipe.kernels.remaining import (
    Remaining,
    furthest_record,
    nearest_records,
    remaining_records,
    take_group,
    tidied,
)
from anonpipe.methods.grouping._mdav_kernel import join_nearest
from anonpipe.methods.grouping._options import GroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class VMdavOptions(GroupingOptions):
    """MDAV with groups that grow to up to 2k-1 records where near ones are at hand."""

    method: Literal["v_mdav"]
    gamma: float = Field(default=0.2, ge=0)


def v_mdav(features: FloatArray, k: int, *, rng: np.random.Generator, gamma: float = 0.2) -> IntArray:
    """Group records by V-MDAV: groups of k that grow where the data are dense.

    While k or more records remain, the one furthest from the mean of the whole
    table and its k - 1 nearest form a group. Then, up to 2k - 1 records: e is
    the remaining record nearest to any member of the group, at distance d_in,
    and d_out its distance to the nearest other remaining record; e joins if
    d_in < gamma · d_out, else the group is closed. The last records, fewer
    than k, join the groups whose means are nearest; means do not move when
    they do. Ties go to the lower row number, of groups to the one formed
    earlier.

    The mean is computed once, of all records, which is one of the method's
    savings over MDAV; so gamma = 0 gives groups of k like `cbfs`, but not
    the same. Where one record remains it has no d_out and joins at the end.
    The last records may join a group that has grown, which then has up to
    3k - 2 records: the method has no rule against that.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; nothing is drawn from it.
    gamma
        How readily a group grows, 0 or more, a ratio of distances. 0 never
        grows one. The authors find about 0.2 best for scattered data and about
        1.1 for data in clusters.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    Raises
    ------
    ValueError
        `gamma` is negative, infinite or NaN.

    References
    ----------
    Solanas and Martínez-Ballesté 2006, V-MDAV: a multivariate microaggregation
    with variable group size, COMPSTAT 2006; as described by Kabir and Wang
    2010, doi:10.1109/ICDM.2010.111, section IV.

    Examples
    --------
    >>> features = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [9.0], [9.1]])
    >>> v_mdav(features, 2, rng=np.random.default_rng(0)).tolist()
    [1, 1, 1, 2, 2, 0, 0]
    """
    if not (gamma >= 0.0 and math.isfinite(gamma)):
        raise ValueError(f"gamma is {gamma}; give a number from 0 on, 0.2 for scattered and 1.1 for clustered data")
    labels = variable_groups(features, k, float(gamma))
    join_nearest(features, labels)
    return labels


METHOD = Grouping(
    function=v_mdav,
    options=VMdavOptions,
    published="MDAV with variable group size (V-MDAV)",
    reference="Solanas and Martínez-Ballesté 2006; Kabir and Wang 2010, doi:10.1109/ICDM.2010.111, section IV",
    cost="time O(n²·w) at worst, memory O(n·w)",
    about={
        "gamma": "how readily a group grows, a ratio of distances: 0.2 (default) for scattered data, 1.1 for clusters",
    },
    sizes="k to 2k-1; up to 3k-2 where the last fewer than k records join",
    largest=lambda k: max(k, 3 * k - 2),
)


# --- Groups of V-MDAV: k nearest records, extended while a further one is much nearer to them than to the rest --------


@nb.njit(cache=True, nogil=True)
def variable_groups(features: FloatArray, k: int, gamma: float) -> IntArray:
    """Form a group around the record furthest from the mean of all, and extend it, while k records remain.

    Labels from 0 in the order of forming, -1 for the records that remain.
    """
    n = features.shape[0]
    labels = np.full(n, -1, dtype=np.int64)
    every = np.arange(n)
    sums = sum_rows(features, every)
    mean = mean_of(sums, n)
    tree = remaining_records(features, every)
    group, distances = np.empty(2 * k - 1, dtype=np.int64), np.empty(2 * k - 1)
    nearest = np.empty(2 * k - 1, dtype=np.int64)
    left, label = n, 0
    while left >= k:
        tree = tidied(features, tree)
        nearest_records(tree, features[furthest_record(tree, mean)], group[:k], distances[:k])
        take_group(tree, features, sums, group[:k], labels, label)
        left -= k
        size = k
        while gamma > 0.0 and size < group.shape[0] and left >= 2:
            fresh = 0 if size == k else size - 1
            at = _closest_member(features, tree, group[:size], nearest, distances, fresh)
            # Roots, as the method is stated: 0.2 squared is rounded, and a tie would count as nearer.
            if not math.sqrt(distances[at]) < gamma * math.sqrt(_second_distance(features, tree, nearest[at])):
                break
            group[size] = nearest[at]
            take_group(tree, features, sums, group[size : size + 1], labels, label)
            size += 1
            left -= 1
        label += 1
    return labels


@nb.njit(cache=True, nogil=True)
def _closest_member(
    features: FloatArray, tree: Remaining, group: IntArray, nearest: IntArray, distances: FloatArray, fresh: int
) -> int:
    """Place in `group` of the member that has the nearest remaining record, of equals the lowest such record.

    `nearest` and `distances` hold each member's nearest remaining record; it is
    looked up again where it has left, and for members from place `fresh` on.
    """
    at = 0
    for i in range(group.shape[0]):
        if i >= fresh or tree.places[nearest[i]] < 0:
            nearest_records(tree, features[group[i]], nearest[i : i + 1], distances[i : i + 1])
        if distances[i] < distances[at] or (distances[i] == distances[at] and nearest[i] < nearest[at]):
            at = i
    return at


@nb.njit(cache=True, nogil=True)
def _second_distance(features: FloatArray, tree: Remaining, row: int) -> float:
    """Squared distance of a remaining record to the nearest other; its own, zero, is one of the two smallest."""
    rows, distances = np.empty(2, dtype=np.int64), np.empty(2)
    nearest_records(tree, features[row], rows, distances)
    return float(distances[1])
