"""How many records leave as they came: a group without variance, or too small a group, betrays its members."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anonpipe.encoding.row_hash import exact_rows
from anonpipe.types import FloatArray, IntArray


def unchanged_records(original: FloatArray, released: FloatArray, order: IntArray, starts: IntArray, k: int) -> int:
    """Released rows that equal, in every synthetic column, an original row of their group that is rare.

    Rare is what fewer than k rows of the partition share: a row that k
    persons have points to none of them. Which member of the group it equals
    does not matter, because the order inside a group means nothing.

    Shapes: original, released (n_rows, n_columns).

    Examples
    --------
    >>> original = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> released = np.array([[2.0], [1.0], [3.5], [3.5]])  # the first group is only swapped
    >>> unchanged_records(original, released, np.arange(4), np.array([0, 2, 4]), 2)
    2
    """
    before, after = exact_rows(original), exact_rows(released)
    _, which, counts = np.unique(before, return_inverse=True, return_counts=True)
    rare = counts[which] < k
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    inside = exact_rows(original[:, :0], group)
    return int(np.isin(after + inside, (before + inside)[rare]).sum())


class ByChance(NamedTuple):
    """How many rows another sample would have in common with the original, and an upper limit of its variance."""

    rows: int
    variance: int


def equal_by_chance(original: FloatArray, k: int) -> ByChance:
    """Of as many other records of the same population, how many are expected to equal an original row that is rare.

    A record of a new sample equals one of those that occur r times with
    probability (r + 1) N(r + 1) / n, where N(r + 1) are the values that occur
    once more often: so as many as there are original rows of 2 to k alike.
    Of what another sample has, the count itself varies, as a sum of
    independent records by no more than its mean; and so does the estimate, a sum over values of
    the rows alike, of which the r alike vary by no more than r² N(r).

    Shapes: original (n_rows, n_columns).

    References
    ----------
    Good 1953, Biometrika 40:237-264, doi:10.1093/biomet/40.3-4.237, equation 7.

    Examples
    --------
    >>> equal_by_chance(np.array([[1.0], [1.0], [2.0], [3.0], [3.0], [3.0]]), 2)
    ByChance(rows=2, variance=6)
    """
    counts = np.unique(exact_rows(original), return_counts=True)[1]
    some = counts[(counts >= 2) & (counts <= k)]
    return ByChance(int(some.sum()), int((some * (some + 1)).sum()))


def rows_without_spread(original: FloatArray, order: IntArray, starts: IntArray) -> int:
    """Rows of groups whose rows are one and the same: masking a group in itself changes nothing of them.

    Shapes: original (n_rows, n_columns).

    Examples
    --------
    >>> original = np.array([[1.0, np.nan], [1.0, np.nan], [3.0, 4.0], [3.0, 5.0]])
    >>> rows_without_spread(original, np.arange(4), np.array([0, 2, 4]))
    2
    """
    alike = np.ones(len(starts) - 1, dtype=np.bool_)
    for values in original.T:
        found = np.where(np.isnan(values), np.inf, values)[order]
        alike &= np.minimum.reduceat(found, starts[:-1]) == np.maximum.reduceat(found, starts[:-1])
    return int(np.diff(starts)[alike].sum())
