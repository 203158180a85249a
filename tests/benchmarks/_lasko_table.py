"""The four medians of Lasko and Vinterbo's table of utility."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from anonpipe.evaluate.utility._tables import spreads
from tests.benchmarks._changes import ChangeSummary, summarize
from tests.benchmarks._correlations import correlations
from tests.benchmarks._tables import checked_tables


@dataclass(frozen=True)
class LaskoTable:
    """Differences between a release and its original; the published figures are the medians.

    Attributes
    ----------
    means
        In standard deviations of the original column, over columns.
    variances
        As a share of the variance of the original column, over columns.
    correlations, rank_correlations
        As they are, over pairs of columns.
    """

    means: ChangeSummary
    variances: ChangeSummary
    correlations: ChangeSummary
    rank_correlations: ChangeSummary


def lasko_table(original: npt.ArrayLike, released: npt.ArrayLike) -> LaskoTable:
    """Median differences of means, variances, correlations and rank correlations.

    Parameters
    ----------
    original, released
        Finite numbers of the same columns, shapes (n_rows, width) and
        (n_released, width), two rows or more each.

    Returns
    -------
    LaskoTable
        Constant columns of the original are left out of everything; pairs
        with a column that is constant in the release only are lost.

    Notes
    -----
    "Over all entries in each matrix" is taken as each pair of columns once:
    the diagonal is always 1, and its zeros would only lower the median. Equal
    values share the mean of their ranks.

    The figure to compare with is that of two samples of one population that
    share no record: a masker whose differences are no larger keeps as much as
    another survey would.

    Raises
    ------
    InputError
        The tables are not as described.

    References
    ----------
    Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section IV and Table I.

    Examples
    --------
    >>> old = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
    >>> table = lasko_table(old, old + [1.0, 0.0])
    >>> table.means.median, table.variances.median, table.rank_correlations.median
    (0.5, 0.0, 0.0)
    """
    old, new = checked_tables(original, released)
    deviations = spreads(old)
    varying = deviations > 0
    scale = np.where(varying, deviations, 1.0)
    pairs = np.triu_indices(old.shape[1], 1)
    both = varying[pairs[0]] & varying[pairs[1]]
    ranks = [rankdata(table, axis=0) for table in (old, new)]
    return LaskoTable(
        means=summarize(np.abs(new.mean(axis=0) - old.mean(axis=0)) / scale, varying),
        variances=summarize(np.abs(spreads(new) ** 2 - deviations**2) / scale**2, varying),
        correlations=summarize(np.abs(correlations(new) - correlations(old))[pairs], both),
        rank_correlations=summarize(np.abs(correlations(ranks[1]) - correlations(ranks[0]))[pairs], both),
    )
