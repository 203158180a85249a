"""Density-based microaggregation, both phases (DBA-2)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping._dba_1 import dba_1
from anonpipe.methods.grouping._decompose import decompose
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.grouping._split_large_kernel import split_by_mdav_1
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class Dba2Options(GroupingOptions):
    """Density-based microaggregation, both phases (DBA-2)."""

    method: Literal["dba_2"]


def dba_2(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by DBA-1, then give up groups whose records fit better into others.

    The groups of DBA-1 are tried in the reverse order of their formation, so
    that the least dense go first. Each record of a group goes to the nearest
    other group, however large; if the scatter of all falls by that, the group
    is given up (see `decompose`). Then each group of 2k and more is grouped by
    MDAV-1.

    What Kabir and Wang leave open is whether means move with every record that
    joins: the published information losses come out to all digits if they stay
    until the group is given up (Tarragona, z-scores: 16.15265063, 22.67107728,
    25.45039236 and 34.80675148 % at k = 3, 4, 5 and 10), and not otherwise.

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
    doi:10.1016/j.eswa.2009.09.054, DBA-2; Kabir and Wang 2010, ICDM,
    doi:10.1109/ICDM.2010.111, section IV.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [1.5], [8.5], [9.0], [10.0]])
    >>> dba_2(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    labels = dba_1(features, k, rng=rng)
    last_first = np.arange(labels.max(), -1, -1)
    labels = decompose(features, labels, last_first, most=len(features))
    return np.asarray(split_by_mdav_1(features, *sort_groups(labels), k))


METHOD = Grouping(
    function=dba_2,
    options=Dba2Options,
    published="Density-based algorithm, both phases (DBA-2)",
    reference="Lin et al. 2010, doi:10.1016/j.eswa.2009.09.054, DBA-2",
    cost="time O(n²·w) usually, memory O(n·(w + k))",
    sizes="k to 2k-1",
    largest=under_2k,
)
