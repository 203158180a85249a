"""Optimal microaggregation of one column."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.errors import InfeasibleError
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.grouping._paths_kernel import cut_path
from anonpipe.methods.record import Features, Grouping
from anonpipe.types import FloatArray, IntArray


class OptimalUnivariateOptions(GroupingOptions):
    """Optimal microaggregation of one column."""

    method: Literal["optimal_univariate"]


def optimal_univariate(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group the records of one column with the least scatter that groups of at least k allow.

    Best groups are runs of the sorted records, of k to 2k - 1 each; the best
    runs are the shortest path through a graph that has an edge for each run,
    with its scatter for length. Equal values are sorted by row. Of equally
    good partitions the one with the shorter last group is taken, and so on
    towards the first.

    Time O(n·(k + log n)), memory O(n).

    Parameters
    ----------
    features
        Finite, shape (n_rows, 1), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; nothing is drawn from it.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1, in ascending order of values.

    Raises
    ------
    InfeasibleError
        More than one column.

    References
    ----------
    Hansen and Mukherjee 2003, IEEE TKDE 15(4):1043-1044,
    doi:10.1109/TKDE.2003.1209020.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> optimal_univariate(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    if features.shape[1] != 1:
        raise InfeasibleError(f"optimal_univariate takes one column, not {features.shape[1]}; use mhm for several")
    return np.asarray(cut_path(features, np.argsort(features[:, 0], kind="stable"), k))


def _of_one_column(options: OptimalUnivariateOptions, features: Features) -> str | None:
    if features.width == 1:
        return None
    return (
        f"cluster.method optimal_univariate takes one feature column; the masked columns make {features.width}; "
        "take mhm, which cuts an order of the records in the same way"
    )


METHOD = Grouping(
    function=optimal_univariate,
    options=OptimalUnivariateOptions,
    published="Optimal univariate microaggregation, one column only",
    reference="Hansen and Mukherjee 2003, doi:10.1109/TKDE.2003.1209020",
    cost="time O(n·(k + log n)), memory O(n)",
    sizes="k to 2k-1",
    largest=under_2k,
    refuses=_of_one_column,
)
