"""Distances between the distributions of one column in two tables, and of its nulls."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._measure import NO_NUMBERS, UtilityMeasure, column_terms, mean_of_terms
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import FloatArray


def ks_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Kolmogorov-Smirnov distance of finite numbers: the largest difference of the two distribution functions, 0 to 1.

    Two-sample statistic of Smirnov (1948), Annals of Mathematical Statistics 19:279-281.

    Examples
    --------
    >>> ks_distance([1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0])
    0.5
    """
    from scipy import stats

    old, new = _checked(original), _checked(released)
    # A two-sided test takes twice as long as both one-sided ones, for a p-value that is not wanted.
    sides = (stats.ks_2samp(old, new, alternative=side, method="asymp") for side in ("less", "greater"))
    return max(float(side.statistic) for side in sides)


def wasserstein_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Wasserstein distance of order 1 in standard deviations of the original; NaN where that is constant.

    It is the area between the two distribution functions, and how far values move on average to make one the other:
    Vallender (1974), Theory of Probability and its Applications 18:784-786.

    Examples
    --------
    >>> wasserstein_distance([0.0, 2.0], [1.0, 3.0])
    1.0
    """
    from scipy import stats

    old, new = _checked(original), _checked(released)
    if (old == old[0]).all():
        return float("nan")
    # Scaled first, so that no square overflows.
    unit = np.abs(old).max()
    return float(stats.wasserstein_distance(old / unit, new / unit) / (old / unit).std())


def total_variation(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Total variation distance of two columns of codes: half the sum of the differences of the shares, 0 to 1.

    Examples
    --------
    >>> total_variation([0, 0, 1, 1], [0, 1, 1, 2])
    0.25
    """
    p, q = _shares(original, released)
    return min(1.0, float(np.abs(p - q).sum() / 2))  # sums of shares round


def hellinger_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Hellinger distance of two columns of codes: √(1 - Σ √(p q)) of the shares p and q, 0 to 1.

    It lies between the square of the total variation distance and itself, to a
    factor: H² <= TV <= √2 H. Unlike that it weighs what becomes of rare
    categories: one of share p that is lost makes it √p, and TV p. Gomatam, Karr &
    Sanil (2005), Data swapping as a decision problem, J. Off. Stat. 21:635-655.

    Examples
    --------
    >>> round(hellinger_distance([0, 0, 1, 1], [0, 0, 0, 0]) ** 2, 6)
    0.292893
    """
    p, q = _shares(original, released)
    return float(np.sqrt(np.square(np.sqrt(p) - np.sqrt(q)).sum() / 2))


def _shares(original: npt.ArrayLike, released: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Shares of all categories of both columns."""
    old, new = _checked(original), _checked(released)
    levels, places = np.unique(np.concatenate([old, new]), return_inverse=True)
    parts = np.split(places, [len(old)])
    p, q = (np.bincount(part, minlength=len(levels)) / len(part) for part in parts)
    return p, q


def _checked(values: npt.ArrayLike) -> FloatArray:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or len(column) == 0:
        raise InputError(f"a column of shape {column.shape} was given; give one value or more in one dimension")
    if not np.isfinite(column).all():
        raise InputError("a column has values that are not finite; leave out nulls first")
    return column


# --- The four distances of every column -------------------------------------------------------------------------------

_BINS = 20  # Bins of a number, of equally many original values where no values tie

_KS = Figure(
    "distance.ks",
    "Largest difference of the distribution functions (Kolmogorov-Smirnov)",
    "share",
    "Smirnov (1948), Ann. Math. Stat. 19:279-281",
    Audience.STEWARD,
    undefined=NO_NUMBERS,
)
_WASSERSTEIN = Figure(
    "distance.wasserstein",
    "How far values must move to give the same distribution (Wasserstein)",
    "sd",
    "Vallender (1974), Theory Probab. Appl. 18:784-786",
    Audience.STEWARD,
    undefined=NO_NUMBERS,
)
_VARIATION = Figure(
    "distance.variation",
    "Records in another category (total variation)",
    "share",
    "half the sum of the differences of the shares",
    Audience.STEWARD,
    undefined="there is no categorical column",
)
_HELLINGER = Figure(
    "distance.hellinger",
    "Hellinger distance of the distribution of a column",
    "",
    "Gomatam, Karr & Sanil (2005), J. Off. Stat. 21:635-655",
    Audience.STEWARD,
    note=f"Numbers in {_BINS} bins of equally many original values; nulls left out.",
)


def _distances(tables: TypedTables) -> list[Measurement]:
    """Their means over the columns; the largest distance there is for a release without values."""
    terms = {
        _KS: column_terms(tables.numbers, ks_distance, lost=1.0),
        _WASSERSTEIN: column_terms(tables.numbers, wasserstein_distance),
        _VARIATION: column_terms(tables.categories, total_variation, lost=1.0),
        _HELLINGER: column_terms(map(_binned, tables.columns), hellinger_distance, lost=1.0),
    }
    return [mean_of_terms(figure, changes, tables.rows) for figure, changes in terms.items()]


def _binned(column: BothColumns) -> BothColumns:
    """Numbers in bins of equally many original values; categories as they are."""
    values, _ = column.known
    if column.kind.coded or not len(values):
        return column
    edges = np.unique(np.quantile(values, np.arange(1, _BINS) / _BINS))
    old, new = (np.where(np.isnan(side), np.nan, np.searchsorted(edges, side)) for side in (column.old, column.new))
    return replace(column, old=old, new=new)


COLUMN_DISTANCES = UtilityMeasure((_KS, _WASSERSTEIN, _VARIATION, _HELLINGER), _distances)


# --- Nulls: their shares by column, and which columns are null together -----------------------------------------------

_NULL_SHARES = Figure(
    "missing.shares",
    "Change of the null shares",
    "share",
    "difference of the shares, by column",
    Audience.STEWARD,
)
_NULL_PAIRS = Figure(
    "missing.pairs",
    "Change of which columns are null together (total variation)",
    "share",
    "half the sum of the differences of the shares of null and not null, by pair of columns",
    Audience.STEWARD,
    undefined="there are not two columns with nulls",
)


def _missingness(tables: TypedTables) -> list[Measurement]:
    """Changes of the null shares by column, and of the patterns of nulls by pair of columns."""
    nulls = {column.name: (np.isnan(column.old), np.isnan(column.new)) for column in tables.columns}
    shares = [(name, float(abs(new.mean() - old.mean()))) for name, (old, new) in nulls.items()]
    with_nulls = [name for name, (old, new) in nulls.items() if old.any() or new.any()]
    pairs = []
    for left, right in combinations(with_nulls, 2):
        old, new = (2 * a.astype(np.int64) + b for a, b in zip(nulls[left], nulls[right], strict=True))
        pairs.append((f"{left} x {right}", total_variation(old, new)))
    return [
        mean_of_terms(_NULL_SHARES, shares, tables.rows, "" if with_nulls else "Neither table has nulls."),
        mean_of_terms(_NULL_PAIRS, pairs, tables.rows),
    ]


MISSING = UtilityMeasure((_NULL_SHARES, _NULL_PAIRS), _missingness)
