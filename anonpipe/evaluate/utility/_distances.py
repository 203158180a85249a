"""Distances between the distributions of one column in two tables, and of its nulls."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.utility._measure import LOST, NO_MIX, NO_NUMBERS, UtilityMeasure, column_terms, mean_of_terms
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import FloatArray, IntArray


def ks_distance(old: FloatArray, new: FloatArray) -> float:
    """Largest difference of two distribution functions, 0 to 1: Smirnov (1948), Ann. Math. Stat. 19:279-281."""
    from scipy import stats

    # A two-sided test takes twice as long as both one-sided ones, for a p-value that is not wanted.
    sides = (stats.ks_2samp(old, new, alternative=side, method="asymp") for side in ("less", "greater"))
    return max(float(side.statistic) for side in sides)


def wasserstein_distance(old: FloatArray, new: FloatArray) -> float:
    """Area between the distribution functions (Wasserstein, order 1) in standard deviations; NaN for a constant.

    How far values move on average: Vallender (1974), Theory of Probability and its Applications 18:784-786.
    """
    from scipy import stats

    if (old == old[0]).all():
        return float("nan")
    unit = np.abs(old).max()  # Scaled first, so that no square overflows
    return float(stats.wasserstein_distance(old / unit, new / unit) / (old / unit).std())


def total_variation(old: FloatArray | IntArray, new: FloatArray | IntArray) -> float:
    """Total variation distance of two columns of codes: half the sum of the differences of the shares, 0 to 1."""
    p, q = _shares(old, new)
    return min(1.0, float(np.abs(p - q).sum() / 2))  # sums of shares round


def hellinger_distance(old: FloatArray, new: FloatArray) -> float:
    """Hellinger distance of two columns of codes: √(1 - Σ √(p q)) of the shares p and q, 0 to 1.

    It lies between the square of the total variation distance and itself, to a factor: H² <= TV <= √2 H. Unlike that it
    weighs what becomes of rare categories: one of share p that is lost makes it √p, and TV p. Gomatam, Karr & Sanil
    (2005), Data swapping as a decision problem, J. Off. Stat. 21:635-655.
    """
    p, q = _shares(old, new)
    return float(np.sqrt(np.square(np.sqrt(p) - np.sqrt(q)).sum() / 2))


def _shares(old: FloatArray | IntArray, new: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
    """Shares of all categories of both columns."""
    levels, places = np.unique(np.concatenate([old, new]), return_inverse=True)
    parts = np.split(places, [len(old)])
    p, q = (np.bincount(part, minlength=len(levels)) / len(part) for part in parts)
    return p, q


# --- The four distances of every column -------------------------------------------------------------------------------

_BINS = 20  # Bins of a number, of equally many original values where no values tie

_KS = Figure(
    "distance.ks", "Largest difference of the distribution functions (Kolmogorov-Smirnov)", "share",
    "Smirnov (1948), Ann. Math. Stat. 19:279-281", Audience.STEWARD, undefined=NO_NUMBERS,
)  # fmt: skip
_WASSERSTEIN = replace(
    _KS, key="distance.wasserstein", title="Wasserstein distance of the distributions",
    unit="sd", source="Vallender (1974), Theory Probab. Appl. 18:784-786",
)  # fmt: skip
_VARIATION = replace(
    _KS, key="distance.variation", title="Records in another category (total variation)",
    source="half the sum of the differences of the shares", undefined="there is no categorical column",
)  # fmt: skip
_HELLINGER = Figure(
    "distance.hellinger", "Hellinger distance of the distribution of a column", "",
    "Gomatam, Karr & Sanil (2005), J. Off. Stat. 21:635-655", Audience.STEWARD,
    note=f"Numbers in {_BINS} bins of equally many original values; nulls left out.",
)  # fmt: skip


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
    "missing.shares", "Change of the null shares", "share", "difference of the shares, by column", Audience.STEWARD
)
_NULL_PAIRS = Figure(
    "missing.pairs", "Change of joint null shares (total variation)", "share",
    "half the sum of the differences of the shares of null and not null, by pair of columns", Audience.STEWARD,
    undefined="there are not two columns with nulls",
)  # fmt: skip


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


# --- Means of numbers inside categories, and the tails of a distribution ----------------------------------------------

# Codes, shape (n_rows,), and numbers of the same records, shape (n_rows, width); NaN for nulls
Side = tuple[FloatArray, FloatArray]


def subgroup_changes(original: Side, released: Side, least: int) -> list[tuple[FloatArray, FloatArray]]:
    """Change of the mean of each number in every category with `least` original values or more, shapes (n_categories,).

    First in standard deviations of the whole column, then in standard errors of the category's mean. NaN where the
    original has none (a constant column or category), infinite where the release has no such value. For two independent
    samples of equal size the second is √2 · √(2/π) = 1.13 on average.
    """
    import pandas as pd

    before, after = (pd.DataFrame(values).groupby(codes) for codes, values in (original, released))
    counts, means = before.count().to_numpy(), before.mean()
    change = (after.mean().reindex(means.index) - means).abs().fillna(np.inf).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):  # categories without values are left out below
        errors = before.std().fillna(0.0).to_numpy() / np.sqrt(counts)
    changes = []
    for at, values in enumerate(original[1].T):
        kept, used = counts[:, at] >= least, values[~(np.isnan(original[0]) | np.isnan(values))]
        whole = 0.0 if len(used) == 0 or (used == used[0]).all() else float(used.std(ddof=1))
        scales = np.full(np.count_nonzero(kept), whole), errors[kept, at]
        deviations, in_errors = (
            np.divide(change[kept, at], scale, out=np.full(len(scale), np.nan), where=scale > 0) for scale in scales
        )
        changes.append((deviations, in_errors))
    return changes


_OUTER = 0.05  # Share of the original on each side that is its tail


def tail_changes(old: FloatArray, new: FloatArray, *, least: int) -> FloatArray:
    """Change of the mass beyond the original's 5 % and 95 % quantiles, and of how far it reaches, shape (2, 2).

    Rows: below, above. Columns: the size of the change of the share of records strictly beyond the quantile, and that
    of the mean excess over it (Davison & Smith 1990, J. R. Stat. Soc. B 52:393-442), in standard deviations of the
    original. NaN for tails of fewer than `least` original records, as every figure of them tells of a few persons;
    infinite for an excess where the release has no record there. Ties at a quantile lie inside, so that a tail may hold
    less than 5 %; the release is compared with what it does hold.
    """
    changes = np.full((2, 2), np.nan)
    low, high = np.quantile(old, [_OUTER, 1 - _OUTER])
    spread = 0.0 if (old == old[0]).all() else float(old.std(ddof=1))
    for side, (sign, limit) in enumerate(((-1.0, low), (1.0, high))):
        before, after = (sign * (values - limit) for values in (old, new))
        before, after = before[before > 0], after[after > 0]
        if len(before) < least or spread == 0:
            continue
        changes[side, 0] = abs(len(after) / len(new) - len(before) / len(old))
        changes[side, 1] = abs(after.mean() - before.mean()) / spread if len(after) else np.inf
    return changes


_GROUPS_SD = Figure(
    "subgroups.sd", "Change of the means inside categories, in standard deviations", "sd", "mean of |difference|",
    Audience.STEWARD, undefined=NO_MIX,
)  # fmt: skip
_IN_ERRORS = "Change of the means inside categories, in standard errors"
_GROUPS_ERRORS = replace(_GROUPS_SD, key="subgroups.standard_errors", title=_IN_ERRORS, unit="standard errors")
_MASS = Figure(
    "tails.mass", "Change of the share of values in the outer 5 % on each side", "share",
    "Davison & Smith (1990), J. R. Stat. Soc. B 52:393-442 (mean excess)", Audience.STEWARD,
    note="Strictly beyond the original's 5 % and 95 % quantiles.", undefined=NO_NUMBERS,
)  # fmt: skip
_REACH = "Change of the mean excess of the outer 5 % on each side"
_TAILS = (_MASS, replace(_MASS, key="tails.excess", title=_REACH, unit="sd"))


def _subgroups_and_tails(tables: TypedTables) -> list[Measurement]:
    """Means of numbers inside categories, and the mass and reach of the tails."""
    enough = max(tables.least, 2)
    old, new = tables.number_arrays()
    pairs = []  # every category with every number, and how the means of the number changed inside the category
    for category in tables.categories if tables.numbers else ():
        changes = subgroup_changes((category.old, old), (category.new, new), enough)
        pairs += [(category, number, change) for number, change in zip(tables.numbers, changes, strict=True)]
    measurements = []
    for at, figure in enumerate((_GROUPS_SD, _GROUPS_ERRORS)):
        terms = []
        for category, number, both in pairs:  # means over the categories that both sides have
            defined = both[at][~np.isnan(both[at])]
            finite = defined[np.isfinite(defined)]
            mean = float(finite.mean()) if len(finite) else LOST if len(defined) else float("nan")
            terms.append((f"{number.name} in {category.name}", mean))
        note = f"Over the categories of {enough} or more records of the original, equally weighted."
        if figure is _GROUPS_ERRORS:
            note += " Grows with the number of records measured."
        if lost := sum(int(np.isinf(both[at]).sum()) for _, _, both in pairs):
            note += f" {lost} means of the original have no record in the release, and are not in the figure."
        measurements.append(mean_of_terms(figure, terms, tables.rows, note if terms else ""))
    known = [number for number in tables.numbers if min(map(len, number.known))]
    tails = [(number.name, tail_changes(*number.known, least=enough)) for number in known]
    for at, figure in enumerate(_TAILS):
        ends = [(name, end, changes) for name, changes in tails for end in enumerate(("below", "above"))]
        terms = [(f"{name}, {side}", float(changes[place, at])) for name, (place, side), changes in ends]
        measurements.append(mean_of_terms(figure, terms, tables.rows))
    return measurements


SUBGROUPS = UtilityMeasure(
    (_GROUPS_SD, _GROUPS_ERRORS, *_TAILS), _subgroups_and_tails, without_interval=(_GROUPS_ERRORS,)
)
