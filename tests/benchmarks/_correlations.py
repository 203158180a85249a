"""Average absolute bias in correlation of tables without nulls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.evaluate.utility._moments import LEAST, ChangeSummary, relative_changes
from anonpipe.evaluate.utility._tables import check_least, checked_tables, spreads
from anonpipe.types import FloatArray


def abico(original: npt.ArrayLike, released: npt.ArrayLike, *, least: float = LEAST) -> ChangeSummary:
    """Average absolute bias in correlation, in per cent, over the pairs of columns: Li & Sarkar (2013), eq. 16.

    Pairs with a smaller correlation than `least` in the original, or with a column that is constant there, are left
    out; those with one that is constant in the release only are lost. A few correlations near zero decide the mean: in
    the published table it is up to 1,344 %.
    """
    check_least(least)
    old, new = checked_tables(original, released)
    pairs = np.triu_indices(old.shape[1], 1)
    before = correlations(old)[pairs]
    return relative_changes(before, correlations(new)[pairs], np.abs(before), least)


def correlations(table: FloatArray) -> FloatArray:
    """Correlation matrix, shape (width, width); NaN in the rows and columns of a constant column."""
    deviations = spreads(table)
    deviations[deviations == 0] = np.nan
    scores = (table - table.mean(axis=0)) / deviations
    return np.asarray(scores.T @ scores / (len(table) - 1))
