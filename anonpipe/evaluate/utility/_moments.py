"""How far the statistics of a release are from those of the original, averaged over many terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._measure import NO_NUMBERS, UtilityMeasure, column_terms, mean_of_terms
from anonpipe.evaluate.utility._tables import TypedTables, spreads
from anonpipe.types import BoolArray, FloatArray, IntArray

LEAST = 1e-3  # Default size below which an original term, on its own scale, counts as 0


@dataclass(frozen=True)
class ChangeSummary:
    """Sizes of relative changes in per cent, over all terms that can be compared."""

    # mean, median: NaN where no term can be compared
    mean: float
    median: float
    terms: int  # Terms in them
    # Terms that the original does not have, or that are so near zero there that a ratio to them says nothing
    left_out: int
    # Terms that the original has and the release has not, such as the correlation of a column that the release holds
    # constant. They are not in the mean: where there are any, it flatters the release.
    lost: int


def relative_changes(original: FloatArray, released: FloatArray, sizes: FloatArray, least: float) -> ChangeSummary:
    """100 · |released - original| / |original|, over the terms whose size is `least` or more."""
    usable = np.isfinite(original) & (original != 0) & (sizes > 0) & (sizes >= least)
    old = np.where(usable, original, 1.0)
    return summarize(100.0 * np.abs(released - old) / np.abs(old), usable)


def summarize(changes: FloatArray, usable: BoolArray) -> ChangeSummary:
    """Mean and median of the usable changes; a usable one that is not finite is lost."""
    kept = changes[usable & np.isfinite(changes)]
    terms, compared = len(kept), int(usable.sum())
    mean, median = (float(kept.mean()), float(np.median(kept))) if terms else (float("nan"), float("nan"))
    return ChangeSummary(mean, median, terms, changes.size - compared, compared - terms)


# --- Changes of moments of higher order, over all combinations of columns ---------------------------------------------

_MOST_PRODUCTS = 4_000_000_000  # Multiplications for fourth moments; more columns are measured on fewer records
_MOST_NULLS = 0.5  # Share of nulls above which a column would take too many records from the moments of the others
_MOST_TERMS = 2_000_000  # Moments of one order
_NUMBERS = 1 << 22  # Products held at a time (32 MiB)


def moment_changes(old: FloatArray, new: FloatArray, order: int, *, least: float = LEAST) -> ChangeSummary:
    """Average relative change in per cent of the moments of one order: E[x_a x_b ... ] over every choice of columns.

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
    return relative_changes(before, after, np.abs(before), least)


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
            changes = moment_changes(centred(before[:most]), centred(after[:most]), order)
            value = changes.median
            note = (
                f"Central moments, products of different columns included, over {changes.terms} of them; "
                f"{changes.left_out} near zero in the original left out. Mean {changes.mean:.4g}. "
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
    """Means, sums and medians of every number; ABIM and ABISD of Li & Sarkar.

    Nulls are left out of means, medians and deviations. A sum counts them as nothing, and is per record of its table,
    so that tables of different lengths compare: it notices values lost to nulls, and the mean does not.
    """
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
