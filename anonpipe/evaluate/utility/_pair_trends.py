"""How two columns go together: correlations with nulls, correlation ratios, contingency tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonpipe.errors import InputError
from anonpipe.types import FloatArray

_MOST_CELLS = 4_000_000
"""Cells of a contingency table that is counted as a whole."""


def pairwise_correlations(table: npt.ArrayLike) -> FloatArray:
    """Correlation of every pair of columns over the records in which neither is null.

    Parameters
    ----------
    table
        Numbers, NaN for nulls, shape (n_rows, width).

    Returns
    -------
    float64, shape (width, width)
        NaN where fewer than two records are left, or one of the columns is
        constant in them.

    Raises
    ------
    InputError
        No table.

    Examples
    --------
    >>> nan = float("nan")
    >>> pairwise_correlations([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [nan, 9.0]])[0].round(6).tolist()
    [1.0, 0.5]
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2:
        raise InputError(f"the table has shape {values.shape}; give rows and columns")
    columns = pd.DataFrame(values)
    # Sums of squares of large numbers would lose the differences, or overflow.
    columns -= columns.mean()
    return np.asarray((columns / columns.abs().max()).corr(min_periods=2))


def ranked(table: npt.ArrayLike) -> FloatArray:
    """Ranks within each column, equal values sharing the mean of theirs; nulls stay null and take no rank.

    Their `pairwise_correlations` are Spearman's where no value is null. With
    nulls, ranks are among all values of a column, not those of the pair's
    records only.

    Examples
    --------
    >>> ranked([[5.0], [float("nan")], [2.0], [5.0]])[:, 0].tolist()
    [2.5, nan, 1.0, 2.5]
    """
    return np.asarray(pd.DataFrame(np.asarray(table, dtype=np.float64)).rank())


def correlation_ratio(categories: npt.ArrayLike, numbers: npt.ArrayLike) -> float:
    """Correlation ratio η: the root of the share of a number's variance that lies between categories, 0 to 1.

    Parameters
    ----------
    categories, numbers
        Codes (whole numbers from 0 on) and values of the same records, NaN
        for nulls; shape (n_rows,).

    Returns
    -------
    float
        NaN where the number is constant in the records with both.

    References
    ----------
    Fisher (1925), Statistical Methods for Research Workers, section 45.

    Examples
    --------
    >>> round(correlation_ratio([0, 0, 1, 1], [1.0, 3.0, 5.0, 7.0]) ** 2, 9)  # 16 of 20 lie between them
    0.8
    """
    codes, values = (np.asarray(given, dtype=np.float64) for given in (categories, numbers))
    known = ~(np.isnan(codes) | np.isnan(values))
    codes, values = codes[known], values[known]
    if len(values) == 0 or (values == values[0]).all():
        return float("nan")
    values = values - values.mean()
    values /= np.abs(values).max()
    places = codes.astype(np.int64)
    counts, sums = np.bincount(places), np.bincount(places, weights=values)
    share = (sums**2 / np.maximum(counts, 1)).sum() / (values**2).sum()
    return float(np.sqrt(np.clip(share, 0.0, 1.0)))


def contingency_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Total variation distance of the contingency tables of two categorical columns, 0 to 1.

    Parameters
    ----------
    original, released
        Whole codes from 0 on of both columns, NaN for nulls, shapes
        (n_rows, 2) and (n_released, 2); records with a null are left out.

    Returns
    -------
    float
        NaN where a table has no records left.

    Examples
    --------
    >>> contingency_distance([[0, 0], [1, 1]], [[0, 1], [1, 1]])
    0.5
    """
    tables = [np.asarray(given, dtype=np.float64) for given in (original, released)]
    kept = [table[~np.isnan(table).any(axis=1)].astype(np.int64) for table in tables]
    if min(map(len, kept)) == 0:
        return float("nan")
    both = np.concatenate(kept)
    wide = int(both[:, 1].max()) + 1
    cells = both[:, 0] * wide + both[:, 1]
    if int(cells.max()) >= _MOST_CELLS:
        cells = np.unique(cells, return_inverse=True)[1]
    size = int(cells.max()) + 1
    shares = [np.bincount(part, minlength=size) / len(part) for part in np.split(cells, [len(kept[0])])]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
