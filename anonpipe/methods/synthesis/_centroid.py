"""Centroids: every record of a group becomes the group's mean, or in some columns its median."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from anonpipe.errors import JobError
from anonpipe.kernels.groups import centre_groups
from anonpipe.methods.record import Guarantee, Synthesizer
from anonpipe.moments import Expected, GroupedMoments, GroupSpread, merge_all
from anonpipe.types import FloatArray, IntArray

Statistic = Literal["mean", "median"]

_STATISTICS = ("mean", "median")  # What may stand for a group in a column


def centroid(
    features: FloatArray, order: IntArray, starts: IntArray, *, statistics: Sequence[Statistic] | None = None
) -> FloatArray:
    """Replace every record by the mean of its group, or by its median in the columns that ask for it.

    Group means and the table's mean are kept; the covariance loses what lay within the groups. A column of medians
    keeps neither mean nor covariance in any sense that can be expected: it must be measured. The median is for ordinal
    columns (Domingo-Ferrer & Torra 2005, doi:10.1007/s10618-005-0007-5): of an even group it is half-way between the
    two middle values, for the decoding to bring to a category. The mode is for nominal ones and needs no option here:
    coded in dummies, the largest of a group's mean dummies is its most frequent category.
    """
    wanted = [_STATISTICS[0]] * features.shape[1] if statistics is None else list(statistics)
    if len(wanted) != features.shape[1] or not set(wanted) <= set(_STATISTICS):
        raise JobError(
            f"centroid was given {len(wanted)} statistics for {features.shape[1]} columns; "
            f"give one for each, {' or '.join(_STATISTICS)}"
        )
    out = np.empty_like(features)
    centre_groups(features, order, starts, out)
    for column, statistic in enumerate(wanted):
        if statistic == "median":
            out[order, column] = np.repeat(_medians(features[order, column], starts), np.diff(starts))
    return out


def _medians(values: FloatArray, starts: IntArray) -> FloatArray:
    """Median of each group of `values`, which lie group by group, shape (n_groups,)."""
    sizes = np.diff(starts)
    ranked = values[np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))]
    low, high = ranked[starts[:-1] + (sizes - 1) // 2], ranked[starts[:-1] + sizes // 2]
    middle: FloatArray = low + (high - low) / 2
    return middle


def _expect_centroids(grouped: Sequence[GroupedMoments], spread: Sequence[GroupSpread] | None) -> Expected:
    """The covariance of the group means, laid over all records."""
    whole = merge_all(grouped)
    return Expected.exactly(whole.between_scatter / max(whole.total.n - 1, 1))


METHOD = Synthesizer(
    function=centroid,
    summary="Every record of a group becomes the group's mean (categories: one shared category).",
    published="microaggregation, mean substitution",
    reference="Domingo-Ferrer & Mateo-Sanz (2002), doi:10.1109/69.979982",
    cost="time n · width; memory: the result",
    about={"statistics": "'mean' or 'median' for each column; means where left out"},
    keeps=(
        "keeps means of groups, strata and table exactly; covariances shrink to those of the group means; "
        "medians keep neither"
    ),
    guarantee=lambda options: Guarantee("stratum", _expect_centroids),
    identical_rows=True,
    averages=lambda options: True,
)
