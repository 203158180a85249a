"""How far the statistics of a release are from those of the original, averaged over many terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._measure import NO_NUMBERS, UtilityMeasure, column_terms, mean_of_terms
from anonpipe.evaluate.utility._tables import TypedTables, check_least, checked_tables, spreads
from anonpipe.types import BoolArray, FloatArray, IntArray

LEAST = 1e-3  # Default size below which an original term, on its own scale, counts as 0


@dataclass(frozen=True)
class ChangeSummary:
    """Mean and median over all terms that can be compared."""

    # mean, median: of the sizes of the changes, in the unit that the function names; NaN where no term can be compared
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
_MOST_ORDER = 8
_MOST_TERMS = 2_000_000
_NUMBERS = 1 << 22  # Products held at a time (32 MiB)


def moment_changes(
    original: npt.ArrayLike, released: npt.ArrayLike, order: int, *, central: bool = False, least: float = LEAST
) -> ChangeSummary:
    """Average relative change in per cent of the moments of one order: E[x_a x_b ... ] over every choice of columns.

    The same column may be chosen more than once: of five columns there are 35 moments of the third order and 70 of the
    fourth. With `central` each table's own means are taken off first. Moments smaller than `least` times the product of
    the root mean squares of their columns are left out. Shapes: (n_rows, width) and (n_released, width).

    Notes
    -----
    The paper speaks of "the third and fourth order moments" and leaves open whether about zero or about the means; its
    section 4 is on central ones. On its THYROID columns normal synthetic records change raw moments much less than
    central ones, third central moments of the normal distribution being zero: its printed 17 % and 33.7 % can only be
    raw moments, and so raw ones are the default. They depend on where zero lies.
    """
    check_least(least)
    old, new = checked_tables(original, released, least_rows=1)
    width = old.shape[1]
    if not 1 <= order <= _MOST_ORDER:
        raise JobError(f"moments of order {order} were asked for; give 1 to {_MOST_ORDER}")
    if _too_many_moments(width, order):
        terms = comb(width + order - 1, order)
        raise JobError(
            f"{width} columns have {terms} moments of order {order}, and {_MOST_TERMS} are the most; "
            "give fewer columns or a lower order"
        )
    if central:
        old, new = (np.where((t == t[0]).all(axis=0), 0.0, t - t.mean(axis=0)) for t in (old, new))
    # In units of the largest value, so that no square overflows, and then of the root mean square.
    largest = np.abs(old).max(axis=0)
    largest[largest == 0] = 1.0
    root = largest * np.sqrt(np.mean((old / largest) ** 2, axis=0))
    root[root == 0] = 1.0
    before, after = (moments(table / root, order) for table in (old, new))
    return relative_changes(before, after, np.abs(before), least)


def moments(table: FloatArray, order: int) -> FloatArray:
    """Raw moments of every choice of `order` columns with repetition, in lexicographic order.

    They are entries of one matrix product, that of the products of half of the columns with those of the other half,
    summed over pieces of the rows.
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


def _too_many_moments(width: int, order: int) -> bool:
    """Whether so many columns have more moments of an order than are measured."""
    return comb(width + order - 1, order) > _MOST_TERMS


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
        elif _too_many_moments(width, order):
            note = f"Not measured: {width} columns have too many moments of this order."
        else:
            changes = moment_changes(before[:most], after[:most], order, central=True)
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


def abim(original: npt.ArrayLike, released: npt.ArrayLike, *, least: float = LEAST) -> ChangeSummary:
    """Average absolute bias in mean, in per cent: 100 · |ȳ_j - x̄_j| / |x̄_j| over the columns.

    Columns whose mean is smaller than `least` standard deviations are left out, as the ratio says nothing there; 0
    leaves out means of 0 only, which is the published form: Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 14. The
    figure depends on where zero lies: of z-scores there is none, of years of birth it is always small. Shapes: (n_rows,
    width) and (n_released, width).
    """
    check_least(least)
    old, new = checked_tables(original, released)
    before, deviations = old.mean(axis=0), spreads(old)
    # A constant column has its mean exactly, whatever its size.
    sizes = np.divide(np.abs(before), deviations, out=np.full(len(before), np.inf), where=deviations > 0)
    return relative_changes(before, new.mean(axis=0), sizes, least)


def abisd(original: npt.ArrayLike, released: npt.ArrayLike) -> ChangeSummary:
    """Average absolute bias in standard deviation, in per cent: 100 · |s(y_j) - s(x_j)| / s(x_j).

    Constant columns are left out. Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 15.
    """
    old, new = checked_tables(original, released)
    before = spreads(old)
    return relative_changes(before, spreads(new), before, 0.0)


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

    Nulls are left out of means, medians and deviations. A sum counts them as nothing, and is taken per record of its
    table, so that tables of different lengths compare: it notices values lost to nulls, and the mean does not.

    Gal et al. (2014): "basic statistics (average, sum, median) should not differ significantly".
    """

    def sums(old: FloatArray, new: FloatArray) -> float:
        """NaN where the original's mean is less than `LEAST` standard deviations."""
        mean, spread = float(old.mean()), float(spreads(old[:, None])[0])
        if mean == 0 or abs(mean) < LEAST * spread:
            return float("nan")
        before, after = old.sum() / tables.rows, new.sum() / tables.released
        return 100.0 * float(abs(after - before) / abs(before))

    changes: dict[Figure, Callable[[FloatArray, FloatArray], float]] = {
        _MEANS: partial(_shift, np.mean),
        _SUMS: sums,
        _MEDIANS: partial(_shift, np.median),
        _ABIM: lambda old, new: abim(old[:, None], new[:, None]).mean,
        _ABISD: lambda old, new: abisd(old[:, None], new[:, None]).mean,
    }
    return [
        # two values, as a deviation needs them
        mean_of_terms(figure, column_terms(tables.numbers, change, least=2), tables.rows, figure.note)
        for figure, change in changes.items()
    ]


def _shift(statistic: Callable[[FloatArray], np.floating], old: FloatArray, new: FloatArray) -> float:
    """Change in standard deviations of the original; NaN where it is constant."""
    spread = float(spreads(old[:, None])[0])
    return abs(float(statistic(new)) - float(statistic(old))) / spread if spread > 0 else float("nan")


BASIC_STATISTICS = UtilityMeasure((_MEANS, _SUMS, _MEDIANS, _ABIM, _ABISD), _basic_statistics)
