"""Density-based microaggregation, first phase (DBA-1)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._density_kernel import group_by_density
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class Dba1Options(GroupingOptions):
    """Density-based microaggregation, first phase (DBA-1)."""

    method: Literal["dba_1"]


def dba_1(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group the densest record without a group with its k - 1 nearest, again and again.

    The neighbourhood of a record are the k records nearest to it among those
    without a group, itself among them; its density is one over the scatter of
    the neighbourhood, the sum of squared distances to the neighbourhood's
    mean. The neighbourhood of the densest record becomes a group. When fewer
    than k records are left, each joins the group whose mean is nearest. Groups
    are numbered in the order of formation. Ties go to the lower row.

    Kabir and Wang do not say what the density is. Of sums of distances and of
    squared distances to the record, to the mean or among all pairs, and the
    distance of the k-th neighbour, each with densities that are or are not
    looked up again when neighbours leave, only the one above gives the
    published information losses, and to all digits (Tarragona, z-scores:
    20.69948803, 23.82761456, 26.00129826 and 35.39295837 % at k = 3, 4, 5 and
    10).

    The densest groups are cut out of their surroundings, which leaves ragged
    remains: on most tables MDAV loses less. The second phase, `dba_2`, mends
    that in part.

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
    Lin, Wen, Hsieh and Chang 2010, Expert Syst. Appl. 37(4):3256-3263,
    doi:10.1016/j.eswa.2009.09.054, DBA-1; Kabir and Wang 2010, ICDM,
    doi:10.1109/ICDM.2010.111, section IV.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.1], [8.9]])
    >>> dba_1(features, 2, rng=np.random.default_rng(0)).tolist()
    [1, 0, 1, 0, 0]
    """
    return np.asarray(group_by_density(features, k))


METHOD = Grouping(
    function=dba_1,
    options=Dba1Options,
    published="Density-based algorithm, first phase (DBA-1)",
    reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, DBA-1",
    cost="time O(n²·w) usually, memory O(n·(w + k))",
    sizes="k; up to 2k-1 where the last fewer than k records join",
    largest=under_2k,
)
