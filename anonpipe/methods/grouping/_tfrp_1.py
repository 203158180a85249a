"""Two fixed reference points, first phase (TFRP-1)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.grouping._reference_points_kernel import group_by_reference_points
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class Tfrp1Options(GroupingOptions):
    """Two fixed reference points, first phase (TFRP-1)."""

    method: Literal["tfrp_1"]


def tfrp_1(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group the records furthest from two fixed points, by turns, with their k - 1 nearest.

    The first reference point has the smallest value of the table in all its
    columns, the second the largest. The record without a group that is
    furthest from the first point and its k - 1 nearest form a group, then the
    one furthest from the second point and its nearest, and so on until fewer
    than k records are left; each of these joins the group whose mean is
    nearest. Groups are numbered in the order of formation.

    Smallest and largest value are those of the whole table, not of each
    column: so say Kabir and Wang, and so the published information losses
    come out (Tarragona, z-scores: 17.228, 19.396, 22.110 and 33.186 % at k =
    3, 4, 5 and 10, to the last digit). Columns should therefore be of one
    scale. The two points change places by turns down to the last group,
    and the means that leftovers look at are those before any of them joins.

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
    Chang, Li and Huang 2007, J. Syst. Softw. 80(11):1866-1878,
    doi:10.1016/j.jss.2007.02.014, first phase; Kabir and Wang 2010, ICDM,
    doi:10.1109/ICDM.2010.111, section IV.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> tfrp_1(features, 2, rng=np.random.default_rng(0)).tolist()
    [1, 0, 1, 0, 0]
    """
    return np.asarray(group_by_reference_points(features, k))


METHOD = Grouping(
    function=tfrp_1,
    options=Tfrp1Options,
    published="Two fixed reference points, first phase (TFRP-1)",
    reference="Chang et al. 2007, doi:10.1016/j.jss.2007.02.014, first phase",
    cost="time O(n²·w/k) at worst, memory O(n·w)",
    sizes="k; up to 2k-1 where the last fewer than k records join",
    largest=under_2k,
)
