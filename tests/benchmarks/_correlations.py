"""Average absolute biases in mean, standard deviation and correlation of tables without nulls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.errors import JobError
from anonpipe.evaluate.utility._moments import LEAST
from anonpipe.evaluate.utility._tables import spreads
from anonpipe.types import FloatArray
from tests.benchmarks._changes import ChangeSummary, relative_changes
from tests.benchmarks._tables import checked_tables


def check_least(least: float) -> None:
    """`least` is 0 or a positive number."""
    if not (np.isfinite(least) and least >= 0):
        raise JobError(f"least={least} was given as the smallest size of a term; give 0 or a positive number")


def abim(original: npt.ArrayLike, released: npt.ArrayLike, *, least: float = LEAST) -> ChangeSummary:
    """Average absolute bias in mean, in per cent: Li & Sarkar (2013), eq. 14.

    Columns whose mean is smaller than `least` standard deviations are left out.
    """
    check_least(least)
    old, new = checked_tables(original, released)
    before, deviations = old.mean(axis=0), spreads(old)
    # A constant column has its mean exactly, whatever its size.
    sizes = np.divide(np.abs(before), deviations, out=np.full(len(before), np.inf), where=deviations > 0)
    return relative_changes(before, new.mean(axis=0), sizes, least)


def abisd(original: npt.ArrayLike, released: npt.ArrayLike) -> ChangeSummary:
    """Average absolute bias in standard deviation, in per cent, of columns that vary: Li & Sarkar (2013), eq. 15."""
    old, new = checked_tables(original, released)
    before = spreads(old)
    return relative_changes(before, spreads(new), before, 0.0)


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
