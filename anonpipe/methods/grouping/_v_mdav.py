"""MDAV with variable group size (V-MDAV)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.methods.grouping._mdav_kernel import join_nearest
from anonpipe.methods.grouping._options import GroupingOptions
from anonpipe.methods.grouping._v_mdav_kernel import variable_groups
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
