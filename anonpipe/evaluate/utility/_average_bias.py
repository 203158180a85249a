"""Average absolute bias of means, standard deviations and correlations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.evaluate.utility._changes import LEAST, Changes, relative_changes
from anonpipe.evaluate.utility._check import check_least, checked_tables, spreads
from anonpipe.types import FloatArray


def abim(original: npt.ArrayLike, released: npt.ArrayLike, *, least: float = LEAST) -> Changes:
    """Average absolute bias in mean, in per cent: 100 · |ȳ_j - x̄_j| / |x̄_j| over the columns.

    Parameters
    ----------
    original, released
        Finite numbers of the same columns, shapes (n_rows, width) and
        (n_released, width), two rows or more each.
    least
        Columns whose mean is smaller than this many standard deviations are
        left out, as the ratio says nothing there; 0 leaves out means of 0
        only, which is the published form.

    Returns
    -------
    Changes
        In per cent; the published figure is its mean.

    Notes
    -----
    The figure depends on where zero lies: of z-scores there is none, of years
    of birth it is always small.

    Raises
    ------
    InputError, JobError
        The tables or `least` are not as described.

    References
    ----------
    Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 14.

    Examples
    --------
    >>> abim([[1.0, 8.0], [3.0, 12.0]], [[1.0, 9.0], [4.0, 11.0]]).mean
    12.5
    """
    check_least(least)
    old, new = checked_tables(original, released)
    before, deviations = old.mean(axis=0), spreads(old)
    # A constant column has its mean exactly, whatever its size.
    sizes = np.divide(np.abs(before), deviations, out=np.full(len(before), np.inf), where=deviations > 0)
    return relative_changes(before, new.mean(axis=0), sizes, least)


def abisd(original: npt.ArrayLike, released: npt.ArrayLike) -> Changes:
    """Average absolute bias in standard deviation, in per cent: 100 · |s(y_j) - s(x_j)| / s(x_j).

    Parameters
    ----------
    original, released
        As for `abim`.

    Returns
    -------
    Changes
        In per cent; constant columns are left out.

    Raises
    ------
    InputError
        The tables are not as described.

    References
    ----------
    Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 15.

    Examples
    --------
    >>> round(abisd([[0.0, 5.0], [2.0, 5.0]], [[0.0, 5.0], [3.0, 7.0]]).mean, 9)
    50.0
    """
    old, new = checked_tables(original, released)
    before = spreads(old)
    return relative_changes(before, spreads(new), before, 0.0)


def abico(original: npt.ArrayLike, released: npt.ArrayLike, *, least: float = LEAST) -> Changes:
    """Average absolute bias in correlation, in per cent, over the pairs of columns.

    Parameters
    ----------
    original, released
        As for `abim`.
    least
        Pairs with a smaller correlation in the original are left out; 0
        leaves out those of exactly 0, which is the published form.

    Returns
    -------
    Changes
        In per cent. Pairs with a column that is constant in the original are
        left out, those with one that is constant in the release only are
        lost.

    Notes
    -----
    A few correlations near zero decide the mean: in the published table it is
    up to 1,344 %. Read the median beside it.

    Raises
    ------
    InputError, JobError
        The tables or `least` are not as described.

    References
    ----------
    Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 16.

    Examples
    --------
    >>> old = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    >>> round(abico(old, old * [1.0, -2.0]).mean, 6)
    200.0
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
