"""How two columns go together: correlations with nulls, correlation ratios, contingency tables."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._distances import total_variation
from anonpipe.evaluate.utility._measure import LOST, NO_MIX, NO_NUMBERS, Term, UtilityMeasure, mean_of_terms
from anonpipe.evaluate.utility._moments import LEAST
from anonpipe.evaluate.utility._tables import TypedTables
from anonpipe.types import FloatArray


def pairwise_correlations(table: FloatArray) -> FloatArray:
    """Correlations over records with both values, shape (width, width); NaN for fewer than two, or a constant."""
    import pandas as pd

    columns = pd.DataFrame(table)
    # Sums of squares of large numbers would lose the differences, or overflow.
    columns -= columns.mean()
    return np.asarray((columns / columns.abs().max()).corr(min_periods=2))


def ranked(table: FloatArray) -> FloatArray:
    """Ranks within each column, equal values sharing the mean of theirs; nulls stay null and take no rank."""
    import pandas as pd

    return np.asarray(pd.DataFrame(table).rank())


def correlation_ratio(codes: FloatArray, values: FloatArray) -> float:
    """Correlation ratio η: the root of the share of a number's variance that lies between categories, 0 to 1.

    NaN where the number is constant in the records with both. Fisher (1925), Statistical Methods for Research Workers,
    section 45. Shapes: (n_rows,), codes from 0 on, NaN for nulls.
    """
    complete = ~(np.isnan(codes) | np.isnan(values))
    codes, values = codes[complete], values[complete]
    if len(values) == 0 or (values == values[0]).all():
        return float("nan")
    values = values - values.mean()
    values /= np.abs(values).max()
    places = codes.astype(np.int64)
    counts, sums = np.bincount(places), np.bincount(places, weights=values)
    share = (sums**2 / np.maximum(counts, 1)).sum() / (values**2).sum()
    return float(np.sqrt(np.clip(share, 0.0, 1.0)))


def contingency_distance(original: FloatArray, released: FloatArray) -> float:
    """Total variation distance of the contingency tables of two categorical columns, 0 to 1.

    Records with a null are left out: NaN where the original has no others, 1 where the release has none. Shapes:
    (n_rows, 2), codes from 0 on.
    """
    old, new = (table[~np.isnan(table).any(axis=1)] for table in (original, released))
    if min(len(old), len(new)) == 0:
        return 1.0 if len(old) else math.nan
    wide = max(old[:, 1].max(), new[:, 1].max()) + 1
    return total_variation(*(side[:, 0] * wide + side[:, 1] for side in (old, new)))


_PLAIN = Figure(
    "pairs.correlation", "Change of the correlations", "",
    "Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section IV", Audience.STEWARD,
    undefined="there are not two columns of numbers or dates",
)  # fmt: skip
_BY_RANK = replace(_PLAIN, key="pairs.rank_correlation", title="Change of the rank correlations")
_RELATIVE = replace(
    _PLAIN,
    key="bias.correlations",
    title="Relative change of the correlations (ABICO)",
    unit="%",
    source="Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 16",
    note=f"Pairs with an original correlation below {LEAST:g} are left out; a few near zero decide the mean: "
    "read the median.",
)
_RATIO = replace(
    _PLAIN, key="pairs.correlation_ratio",
    title="Change of how categories and numbers go together (correlation ratio)",
    source="Fisher (1925), Statistical Methods for Research Workers, section 45", undefined=NO_MIX,
)  # fmt: skip
_CONTINGENCY = Figure(
    "pairs.contingency", "Change of the cross tables of two categorical columns (total variation)", "share",
    "half the sum of the differences of the shares", Audience.STEWARD,
    undefined="there are not two categorical columns",
)  # fmt: skip


def _pair_trends(tables: TypedTables) -> list[Measurement]:
    """Changes of correlations (Pearson's, Spearman's), correlation ratios and contingency tables; ABICO."""
    names = [column.name for column in tables.numbers]
    sides = tables.number_arrays()
    plain = [pairwise_correlations(side) for side in sides]
    by_rank = [pairwise_correlations(ranked(side)) for side in sides]
    mixed = []
    for category, number in product(tables.categories, tables.numbers):
        before, after = correlation_ratio(category.old, number.old), correlation_ratio(category.new, number.new)
        mixed.append((f"{category.name} x {number.name}", _change(before, after)))
    crossed = []
    for left, right in combinations(tables.categories, 2):
        old, new = np.column_stack([left.old, right.old]), np.column_stack([left.new, right.new])
        crossed.append((f"{left.name} x {right.name}", contingency_distance(old, new)))
    terms = {
        _RELATIVE: _pair_terms(names, *plain, relative=True),
        _PLAIN: _pair_terms(names, *plain),
        _BY_RANK: _pair_terms(names, *by_rank),
        _RATIO: mixed,
        _CONTINGENCY: crossed,
    }
    return [mean_of_terms(figure, changes, tables.rows) for figure, changes in terms.items()]


def _pair_terms(names: list[str], old: FloatArray, new: FloatArray, *, relative: bool = False) -> list[Term]:
    """Sizes of the changes, per cent of the original if relative."""
    terms = []
    for left, right in combinations(range(len(names)), 2):
        before, change = old[left, right], _change(old[left, right], new[left, right])
        if relative:
            change = 100.0 * change / abs(before) if abs(before) >= LEAST else float("nan")
        terms.append((f"{names[left]} x {names[right]}", float(change)))
    return terms


def _change(before: float, after: float) -> float:
    if np.isnan(before):
        return float("nan")
    return LOST if np.isnan(after) else float(abs(after - before))


PAIR_TRENDS = UtilityMeasure((_RELATIVE, _PLAIN, _BY_RANK, _RATIO, _CONTINGENCY), _pair_trends)


# --- Information loss record by record (IL1s), and of the correlation structure (eigenvalues) -------------------------

# Eigenvalues of the original below this are those of columns that add up: a ratio to them says nothing
_SMALLEST = 1e-9


def il1s(old: FloatArray, new: FloatArray) -> FloatArray:
    """Mean distance of a released value from the one that it replaces, in √2 standard deviations, by column (width,).

    NaN for columns that are constant in the original, or have no record with a value on both sides. √2 s is the spread
    of a difference of two unrelated values: a shuffled normal column has 2 / √π / √2 = 0.80. The mean over cells was
    published as IL1s; sdcMicro's ``dUtility(method = "IL1s")`` gives their sum, its "IL1" relative differences.
    Templ & Meindl (2008), LNCS 5262:113-126; sdcMicro, dUtility. Shapes: (n_rows, width), NaN for nulls.
    """
    distances = np.full(old.shape[1], np.nan)
    for place, (before, after) in enumerate(zip(old.T, new.T, strict=True)):
        values, moved = (side[~np.isnan(side)] for side in (before, np.abs(after - before)))
        spread = float(values.std(ddof=1)) if len(values) > 1 and (values != values[0]).any() else 0.0
        if len(moved) and spread > 0:  # 0 also of differences so small that their squares vanish
            distances[place] = moved.mean() / (math.sqrt(2) * spread)
    return distances


def eigenvalue_change(original: FloatArray, released: FloatArray) -> float:
    """Sum of the relative changes of the eigenvalues of the correlation matrix, in descending order: Σ |e' - e| / e.

    Columns that are constant in either table, or have a pair without a correlation, are left out, as are eigenvalues
    below 1e-9; NaN where no column is left. As sdcMicro does (``dUtility(method = "eigen")``; Templ & Meindl 2008,
    LNCS 5262:113-126). The figure sees neither location nor scale, and grows with the number of columns.
    """
    matrices = [pairwise_correlations(table) for table in (original, released)]
    usable = ~(np.isnan(np.diag(matrices[0])) | np.isnan(np.diag(matrices[1])))
    while usable.any():  # take out the column with most undefined pairs until none is left
        undefined = sum(np.isnan(matrix[np.ix_(usable, usable)]).sum(axis=0) for matrix in matrices)
        if not np.any(undefined):
            break
        usable[np.flatnonzero(usable)[int(np.argmax(undefined))]] = False
    if not usable.any():
        return float("nan")
    old, new = (np.linalg.eigvalsh(matrix[np.ix_(usable, usable)])[::-1] for matrix in matrices)
    kept = old > _SMALLEST
    return float((np.abs(new - old)[kept] / old[kept]).sum())


_IL1S = Figure(
    "loss.il1s", "Distance of a released value from the one that it replaces (IL1s)", "√2 sd",
    "Mateo-Sanz, Sebé & Domingo-Ferrer (2004), doi:10.1007/978-3-540-25955-8_16", Audience.ENOUGH,
    note="The normalised form, a mean over cells: sdcMicro's IL1s is the sum.", undefined=NO_NUMBERS,
)  # fmt: skip
_IL1S_UNPAIRED = replace(_IL1S, undefined="the records of the two tables are not paired")
_EIGENVALUES = Figure(
    "loss.eigenvalues", "Relative change of the eigenvalues of the correlation matrix, summed", "",
    "sdcMicro, dUtility, method eigen; Templ & Meindl (2008), LNCS 5262:113-126", Audience.SEVERAL,
)  # fmt: skip


def _losses(tables: TypedTables) -> list[Measurement]:
    """IL1s of paired tables, and the change of the eigenvalues of the correlation matrix."""
    before, after = tables.number_arrays()
    names = [column.name for column in tables.numbers]
    terms = list(zip(names, il1s(before, after).tolist(), strict=True)) if tables.paired and names else []
    change = eigenvalue_change(before, after) if names else math.nan
    note = f"Not defined: {'no numbers vary on both sides' if names else NO_NUMBERS}."
    return [
        mean_of_terms(_IL1S if tables.paired else _IL1S_UNPAIRED, terms, tables.rows),
        # of two columns it gives their correlation
        _EIGENVALUES.measured(change, tables.rows, note="" if math.isfinite(change) else note, columns=len(names)),
    ]


RECORD_DISTANCE = UtilityMeasure((_IL1S, _EIGENVALUES), _losses)
