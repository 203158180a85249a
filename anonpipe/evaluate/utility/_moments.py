"""How far the statistics of a release are from those of the original, averaged over many terms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from math import comb

import numpy as np

from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.utility._distances import total_variation
from anonpipe.evaluate.utility._measure import (
    LOST,
    NO_MIX,
    NO_NUMBERS,
    Term,
    UtilityMeasure,
    column_terms,
    mean_of_terms,
)
from anonpipe.evaluate.utility._tables import TypedTables, spreads
from anonpipe.types import FloatArray, IntArray

LEAST = 1e-3  # Default size below which an original term, on its own scale, counts as 0


# --- Changes of moments of higher order, over all combinations of columns ---------------------------------------------

_MOST_PRODUCTS = 4_000_000_000  # Multiplications for fourth moments; more columns are measured on fewer records
_MOST_NULLS = 0.5  # Share of nulls above which a column would take too many records from the moments of the others
_MOST_TERMS = 2_000_000  # Moments of one order
_NUMBERS = 1 << 22  # Products held at a time (32 MiB)


def moment_changes(old: FloatArray, new: FloatArray, order: int, *, least: float = LEAST) -> tuple[FloatArray, int]:
    """Relative changes in per cent of the moments of one order, E[x_a x_b ... ], and how many are left out.

    The same column may be chosen more than once: of five columns there are 35 moments of the third order and 70 of the
    fourth. Moments smaller than `least` times the product of the root mean squares of their columns are left out.
    Moments are about zero; central ones are those of `centred` columns. Shapes: (n_rows, width), (n_released, width).
    """
    # In units of the largest value, so that no square overflows, and then of the root mean square.
    largest = np.abs(old).max(axis=0)
    largest[largest == 0] = 1.0
    root = largest * np.sqrt(np.mean((old / largest) ** 2, axis=0))
    root[root == 0] = 1.0
    before, after = (moments(table / root, order) for table in (old, new))
    usable = (np.abs(before) >= least) & (before != 0)
    changes = 100.0 * np.abs(after - before)[usable] / np.abs(before[usable])
    return changes[np.isfinite(changes)], int((~usable).sum())


def centred(table: FloatArray) -> FloatArray:
    """Columns less their means; exactly 0 where constant."""
    return np.where((table == table[0]).all(axis=0), 0.0, table - table.mean(axis=0))


def moments(table: FloatArray, order: int) -> FloatArray:
    """Raw moments of every choice of `order` columns with repetition, in lexicographic order.

    They are entries of one matrix product, that of the products of half of the columns with those of the other half.
    """
    n, width = table.shape
    half = order // 2
    left, right = choices(width, half), choices(width, order - half)
    total = np.zeros((len(left), len(right)))
    step = max(1, _NUMBERS // (len(left) + len(right)))
    for low in range(0, n, step):
        piece = table[low : low + step]
        total += products(piece, left).T @ products(piece, right)
    both = choices(width, order)
    return np.asarray(total[_places(both[:, :half], width), _places(both[:, half:], width)] / n)


def choices(width: int, order: int) -> IntArray:
    """Column numbers of every choice with repetition, shape (n_choices, order), in lexicographic order."""
    chosen = list(combinations_with_replacement(range(width), order))
    return np.array(chosen, dtype=np.int64).reshape(len(chosen), order)


def products(piece: FloatArray, columns: IntArray) -> FloatArray:
    """Product of each choice of columns, shape (n_rows, n_choices)."""
    out = np.ones((len(piece), len(columns)))
    for place in range(columns.shape[1]):
        out *= piece[:, columns[:, place]]
    return out


def _places(chosen: IntArray, width: int) -> IntArray:
    """Number of each choice in the list of all choices of that order, shape (n_choices,)."""
    order = chosen.shape[1]
    weights = np.array([width**power for power in range(order - 1, -1, -1)], dtype=np.int64)
    # Lexicographic order is that of the choices read as numbers to the base of the width.
    return np.asarray(np.searchsorted(choices(width, order) @ weights, chosen @ weights), dtype=np.int64)


_OGANIAN = "Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10:61-81, Table 3"
_HIGHER = tuple(
    Figure(f"moments.{word}", f"Median relative change of the {word} central moments", "%", _OGANIAN, Audience.STEWARD)
    for word in ("third", "fourth")
)


def _higher_moments(tables: TypedTables) -> list[Measurement]:
    """Third and fourth central moments over all choices of columns, on records without nulls."""
    before, after = tables.number_arrays()
    kept = np.array([np.isnan(before).mean(axis=0), np.isnan(after).mean(axis=0)]).max(axis=0) <= _MOST_NULLS
    before, after = (table[:, kept] for table in (before, after))
    before, after = (table[~np.isnan(table).any(axis=1)] for table in (before, after))
    width, mostly_null = before.shape[1], int((~kept).sum())
    most = _MOST_PRODUCTS // max(1, (width * (width + 1) // 2) ** 2)
    records = min(len(before), most) if width else tables.rows
    measurements = []
    for order, figure in enumerate(_HIGHER, start=3):
        value = float("nan")
        if not width:
            note = f"Not defined: {'all numbers are mostly null' if mostly_null else NO_NUMBERS}."
        elif min(len(before), len(after)) < 2:
            note = "Not defined: no two records of a table are without nulls in all numbers."
        elif comb(width + order - 1, order) > _MOST_TERMS:
            note = f"Not measured: {width} columns have too many moments of this order."
        else:
            changes, left_out = moment_changes(centred(before[:most]), centred(after[:most]), order)
            value, mean = (float(np.median(changes)), changes.mean()) if len(changes) else (math.nan, math.nan)
            note = (
                f"Central moments, products of different columns included, over {len(changes)} of them; "
                f"{left_out} near zero in the original left out. Mean {mean:.4g}. "
                "Records with a null are left out."
            )
            if mostly_null:
                note += f" Columns left out as mostly null: {mostly_null}."
        measurements.append(figure.measured(value, records, tables.rows, note=note))
    return measurements


MOMENT_CHANGES = UtilityMeasure(_HIGHER, _higher_moments, without_interval=_HIGHER)


# --- Basic statistics of each column: means, sums, medians, deviations, and their published averages ------------------

_GAL = "Gal, Tucker, Gangopadhyay & Chen (2014), basic statistics"
_LI = "Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584"
_ZERO = "Relative to the original value, so that it depends on where zero lies."

_MEANS, _SUMS, _MEDIANS, _ABIM, _ABISD = (
    Figure(key, title, unit, source, Audience.STEWARD, note=note, undefined=NO_NUMBERS)
    for key, title, unit, source, note in (
        ("basic.means", "Change of the means, in standard deviations", "sd", _GAL, ""),
        ("basic.sums", "Relative change of the sums", "%", _GAL, f"{_ZERO} Sums are per record of the table."),
        ("basic.medians", "Change of the medians, in standard deviations", "sd", _GAL, ""),
        ("bias.means", "Relative change of the means (ABIM)", "%", f"{_LI}, eq. 14", _ZERO),
        ("bias.deviations", "Relative change of the standard deviations (ABISD)", "%", f"{_LI}, eq. 15", ""),
    )
)


def _basic_statistics(tables: TypedTables) -> list[Measurement]:
    """Means, sums and medians of every number; ABIM and ABISD of Li & Sarkar."""
    # Nulls are left out of means, medians and deviations. A sum counts them as nothing, and is per record of its table,
    # so that tables of different lengths compare: it notices values lost to nulls, and the mean does not.
    changes: dict[Figure, Callable[[FloatArray, FloatArray], float]] = {
        _MEANS: partial(_shift, np.mean),
        _SUMS: lambda old, new: _relative_shift(old, old.sum() / tables.rows, new.sum() / tables.released),
        _MEDIANS: partial(_shift, np.median),
        _ABIM: lambda old, new: _relative_shift(old, old.mean(), new.mean()),
        _ABISD: lambda old, new: 100.0 * _shift(_spread, old, new),
    }
    return [
        # two values, as a deviation needs them
        mean_of_terms(figure, column_terms(tables.numbers, change, least=2), tables.rows, figure.note)
        for figure, change in changes.items()
    ]


def _shift(statistic: Callable[[FloatArray], np.floating | float], old: FloatArray, new: FloatArray) -> float:
    """Change in standard deviations of the original; NaN where it is constant."""
    spread = _spread(old)
    return abs(float(statistic(new)) - float(statistic(old))) / spread if spread > 0 else float("nan")


def _relative_shift(old: FloatArray, before: np.floating, after: np.floating) -> float:
    """Change in per cent of the original; NaN where its mean is 0, or less than `LEAST` standard deviations."""
    mean = float(old.mean())
    near_zero = mean == 0 or abs(mean) < LEAST * _spread(old)
    return float("nan") if near_zero else 100.0 * float(abs(after - before) / abs(before))


def _spread(values: FloatArray) -> float:
    return float(spreads(values[:, None])[0])


BASIC_STATISTICS = UtilityMeasure((_MEANS, _SUMS, _MEDIANS, _ABIM, _ABISD), _basic_statistics)


# --- How two columns go together: correlations with nulls, correlation ratios, contingency tables ---------------------


def pairwise_correlations(table: FloatArray) -> FloatArray:
    """Correlations over records with both values, shape (width, width); NaN for fewer than two, or a constant."""
    import pandas as pd

    columns = pd.DataFrame(table)
    columns -= columns.mean()  # Sums of squares of large numbers would lose the differences, or overflow
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
    title="Change of the correlation ratios of numbers and categories",
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

_SMALLEST = 1e-9  # Eigenvalues below this are those of columns that add up: a ratio to them says nothing


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
    "loss.il1s", "Distance of released values from replaced ones (IL1s)", "√2 sd",
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
