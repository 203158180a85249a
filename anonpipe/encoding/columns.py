"""What one column holds: counts, moments and categories, mergeable in any cut."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column, Kind, Role
from anonpipe.encoding.values import (
    as_dictionary,
    by_clock,
    cut_to_days,
    date_counts,
    level_array,
    numbers,
    plain,
    plain_type,
    positions,
    present,
    units_per_day,
)
from anonpipe.errors import InputError
from anonpipe.types import FloatArray, IntArray

Numbers = tuple[FloatArray, FloatArray, FloatArray]  # How many, their mean, and the sum of squared deviations from it

MOST_CATEGORIES = 10_000
_NEARLY = 1e-6  # Of a step: a value as near to a multiple is one
LARGEST = 1e150  # Larger numbers count as infinite: their squares could not be added up


@dataclass(frozen=True)
class Faults:
    """Counts of what a job may refuse; each as in `ColumnScan`."""

    nulls: int = 0
    infinite: int = 0
    inexact: int = 0
    outside: int = 0
    not_positive: int = 0

    def __add__(self, other: Faults) -> Faults:
        return Faults(*(one + its for one, its in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, eq=False)
class ColumnScan:
    """What one column holds."""

    # rows, nulls, infinite: counts; NaN counts as null, and numbers beyond 1e150 as infinite
    rows: int
    nulls: int
    infinite: int
    # mean, m2: mean of the finite values in natural units, and the sum of squared deviations from it; of a column
    # carried as codes, those of the codes
    mean: float
    m2: float
    constant: bool  # Whether there is one value only
    outside: int  # Numbers beyond the bounds, or values not among the levels
    # categories, counts: of a column carried as codes: the distinct values in ascending order (or the declared levels
    # in theirs) and the records of each; else None
    categories: pa.Array | None = None
    counts: IntArray | None = None
    # log_mean, log_m2: like `mean` and `m2`, of the logarithms of a column that is masked by them; 0 for other columns
    log_mean: float = 0.0
    log_m2: float = 0.0
    # least, most: the smallest and the largest finite number; NaN where there is none, and of a column carried as
    # codes. Each is one person's true value: it leaves the private staging only as a count of released values.
    least: float = math.nan
    most: float = math.nan
    # sums, log_sums: from which mean and squared deviations of a column of numbers come, exact whatever the row order
    sums: Sums | None = None
    log_sums: Sums | None = None
    inexact: int = 0  # Whole numbers of 2^53 or more that no float64 is equal to
    timed: int = 0  # Points in time that are no midnight of their zone
    off_step: int = 0  # Numbers that are no multiples of the step; of whole numbers without one it is 1
    not_positive: int = 0  # Of a survey weight, numbers of 0 or less
    held_out: Faults = field(default_factory=Faults)  # Of rows that are held out, counted nowhere else
    unused: pa.Array | None = None  # Values of a dictionary without declared levels that no record has

    @property
    def own_faults(self) -> Faults:
        """Those of rows that are not held out."""
        return Faults(self.nulls, self.infinite, self.inexact, self.outside, self.not_positive)

    @property
    def faults(self) -> Faults:
        """Those of all rows, or the draw of the hold-out would decide what is refused."""
        return self.own_faults + self.held_out

    @property
    def values(self) -> int:
        """Finite values that are there."""
        return self.rows - self.nulls - self.infinite

    @property
    def sd(self) -> float:
        """Standard deviation, with n - 1; 0 for a constant."""
        return 0.0 if self.constant or self.values < 2 else math.sqrt(self.m2 / (self.values - 1))

    @property
    def log_sd(self) -> float:
        """The same of the logarithms."""
        return 0.0 if self.constant or self.values < 2 else math.sqrt(self.log_m2 / (self.values - 1))

    @property
    def holds_text(self) -> bool:
        """Whether it is carried as codes of texts."""
        return self.categories is not None and bool(pa.types.is_string(self.categories.type))

    @property
    def code_counts(self) -> IntArray:
        """Records of each code, the nulls last if there are any; empty for a column of numbers."""
        if self.counts is None:
            return np.empty(0, dtype=np.int64)
        return np.append(self.counts, self.nulls) if self.nulls else self.counts

    @property
    def occupied(self) -> IntArray:
        """The codes that occur, ascending."""
        return np.flatnonzero(self.code_counts)


def scan_numbers(array: pa.Array, column: Column) -> ColumnScan:
    """The scan of a column carried as numbers."""
    everything = numbers(cut_to_days(array, column.step))
    values = everything[np.abs(everything) <= LARGEST]  # false for NaN
    nulls = int(np.isnan(everything).sum())
    low, high = column.numeric_bounds
    outside = 0 if low is None else int((values < low).sum())
    outside += 0 if high is None else int((values > high).sum())
    stamps = by_clock(plain(array)).drop_null() if pa.types.is_timestamp(plain_type(array.type)) else None
    timed = 0 if stamps is None else np.count_nonzero(date_counts(stamps) % units_per_day(stamps.type))
    return with_moments(
        ColumnScan(
            rows=len(everything),
            nulls=nulls,
            infinite=len(everything) - nulls - len(values),
            mean=0.0,
            m2=0.0,
            constant=bool((values == values[:1]).all()),
            outside=outside,
            least=float(values.min()) if len(values) else math.nan,
            most=float(values.max()) if len(values) else math.nan,
            sums=Sums.of(values),
            log_sums=None if column.offset is None else Sums.of(logarithms(values, column)),
            inexact=_inexact(array),
            timed=int(timed),
            off_step=_off_step(values, column, single=plain_type(array.type) == pa.float32()),
            not_positive=int(np.count_nonzero(values <= 0.0)) if column.role is Role.SAMPLING_WEIGHT else 0,
        )
    )


def _off_step(values: FloatArray, column: Column, *, single: bool) -> int:
    """Numbers that are no multiples of the step, to the rounding of their type."""
    step = column.resolution
    if step is None or column.kind is Kind.DATE:
        return 0
    off, rounding = np.abs(np.rint(values / step) * step - values), 2.0 ** -(22 if single else 50)
    return int(np.count_nonzero(off > np.maximum(_NEARLY * step, rounding * np.abs(values))))


def _inexact(array: pa.Array) -> int:
    """Whole numbers that are others as float64: 54 bits or more from the first to the last that is set."""
    if not pa.types.is_integer(array.type) or array.type.bit_width < 64:
        return 0
    whole = array.drop_null().to_numpy(zero_copy_only=False)
    size = whole.astype(np.uint64)
    size = np.where(whole < 0, ~size + np.uint64(1), size)
    large = size[size >= 2**53]
    return int(np.count_nonzero(large // (large & (~large + np.uint64(1))) >= 2**53))


def numbers_by(array: pa.Array, which: IntArray, size: int) -> Numbers:
    """How many finite numbers a column carried as numbers holds at each place, their mean and squared deviations."""
    values = numbers(array)
    there = np.abs(values) <= LARGEST  # false for NaN
    found = np.where(there, values, 0.0)
    return pooled(which, size, there.astype(np.float64), found, np.zeros(len(found)))


def with_moments(scanned: ColumnScan) -> ColumnScan:
    """The scan with the moments that follow from its sums."""
    if scanned.sums is None:
        return scanned
    log_mean, log_m2 = (0.0, 0.0) if scanned.log_sums is None else scanned.log_sums.moments(scanned.values)
    mean, m2 = scanned.sums.moments(scanned.values)
    return replace(scanned, mean=mean, m2=m2, log_mean=log_mean, log_m2=log_m2)


def logarithms(values: FloatArray, column: Column) -> FloatArray:
    """On the scale of a column that is masked by them; of values below the declared bound, of the bound."""
    return np.asarray(np.log(np.maximum(values, column.numeric_bounds[0] or 0.0) + (column.offset or 0.0)))


def scan_codes(name: str, array: pa.Array, column: Column) -> tuple[ColumnScan, IntArray]:
    """The column's scan, and the code of each record (nulls and undeclared values: the number of categories)."""
    if column.levels is not None:
        categories = level_array(name, column.levels, array.type)
    else:
        used = np.unique(pc.drop_null(array.indices).to_numpy())
        categories = _ascending(plain(array.dictionary).take(pa.array(used)).unique().drop_null())
        _limit_categories(name, len(categories))
    codes = code_of(array, categories)
    counts = np.bincount(codes, minlength=len(categories) + 1)
    nulls = int(np.count_nonzero(~present(array)))
    return coded_scan(categories, counts[:-1], nulls, int(counts[-1]) - nulls), codes


def code_of(array: pa.Array, categories: pa.Array) -> IntArray:
    """Position of each value among the categories; the number of categories for nulls and other values."""
    array = as_dictionary(array)
    found = pc.index_in(plain(array.dictionary), value_set=categories, skip_nulls=True)
    of_values = np.append(positions(found, len(categories)), len(categories))
    return np.asarray(of_values[positions(array.indices, len(of_values) - 1)])


def absent(values: pa.Array, categories: pa.Array) -> pa.Array | None:
    """Values that are not among the categories, of very many the first; None where there are none."""
    found = values.filter(pc.invert(pc.is_in(values, value_set=categories))).drop_null().unique()[:MOST_CATEGORIES]
    return found if len(found) else None


def _ascending(values: pa.Array) -> pa.Array:
    return values.take(pc.array_sort_indices(values))


def _limit_categories(name: str, count: int) -> None:
    if count > MOST_CATEGORIES:
        raise InputError(
            f"column {name!r} has more than {MOST_CATEGORIES:,} distinct values, too many for categories; "
            "drop it (role: dropped), coarsen it, or give it a numeric kind and role masked"
        )


def coded_scan(categories: pa.Array, counts: IntArray, nulls: int, outside: int) -> ColumnScan:
    """The scan of a column carried as codes, of which so many records have each."""
    inside = int(counts.sum())
    codes = np.arange(len(counts))
    mean = float((codes * counts).sum() / inside) if inside else 0.0
    return ColumnScan(
        rows=inside + nulls + outside,
        nulls=nulls,
        infinite=0,
        mean=mean,
        m2=float((np.square(codes - mean) * counts).sum()),
        constant=bool(np.count_nonzero(counts) <= 1),
        outside=outside,
        categories=categories,
        counts=counts.astype(np.int64),
    )


def merge_columns(name: str, a: ColumnScan, b: ColumnScan) -> ColumnScan:
    """The scan of two parts of a column together."""
    return replace(_merged(name, a, b), held_out=a.held_out + b.held_out)


def _merged(name: str, a: ColumnScan, b: ColumnScan) -> ColumnScan:
    if a.counts is not None and b.counts is not None:
        categories: Any = a.categories
        if categories.equals(b.categories):
            counts = a.counts + b.counts
        else:
            categories = _ascending(pa.concat_arrays([categories, b.categories]).unique())
            _limit_categories(name, len(categories))
            counts = np.zeros(len(categories), dtype=np.int64)
            counts[code_of(a.categories, categories)] += a.counts
            counts[code_of(b.categories, categories)] += b.counts
        unused = [part.unused for part in (a, b) if part.unused is not None]
        merged = coded_scan(categories, counts, a.nulls + b.nulls, a.outside + b.outside)
        return replace(merged, unused=absent(pa.concat_arrays(unused), categories) if unused else None)
    return with_moments(
        ColumnScan(
            rows=a.rows + b.rows,
            nulls=a.nulls + b.nulls,
            infinite=a.infinite + b.infinite,
            outside=a.outside + b.outside,
            inexact=a.inexact + b.inexact,
            timed=a.timed + b.timed,
            off_step=a.off_step + b.off_step,
            not_positive=a.not_positive + b.not_positive,
            mean=0.0,
            m2=0.0,
            constant=a.constant and b.constant and (not a.values or not b.values or a.least == b.least),
            least=float(np.fmin(a.least, b.least)),
            most=float(np.fmax(a.most, b.most)),
            sums=None if a.sums is None or b.sums is None else a.sums + b.sums,
            log_sums=None if a.log_sums is None or b.log_sums is None else a.log_sums + b.log_sums,
        )
    )


def pooled(
    which: IntArray, size: int, n: FloatArray, mean: FloatArray, m2: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Numbers, means and squared deviations of parts (n_parts,), merged by the place that `which` gives each."""
    total = _summed(which, size, n)
    centre = np.divide(_summed(which, size, n * mean), total, out=np.zeros_like(total), where=total > 0)
    return total, centre, _summed(which, size, m2 + n * np.square(mean - centre[which]))


def _summed(which: IntArray, size: int, values: FloatArray) -> FloatArray:
    if values.ndim == 1:
        return np.bincount(which, weights=values, minlength=size).astype(np.float64)
    total = np.zeros((size, *values.shape[1:]))
    np.add.at(total, which, values)
    return total


def feature_width(column: Column, scanned: ColumnScan) -> int:
    """How many feature columns one column of the table takes; 0 where its values are not replaced."""
    # A number or an ordinal takes one, and one more for its nulls. A category takes one a category that occurs, but
    # only one for two, and none for one.
    if not column.encoded:
        return 0
    if not column.kind.coded or column.kind is Kind.ORDINAL:
        return 1 + (scanned.nulls > 0)
    found = len(scanned.occupied)
    return {1: 0, 2: 1}.get(found, found)


# --- Sums of floats without any rounding: the same whatever the order and the cut of the values -----------------------

_UNIT = 1130  # Sums are whole numbers of 2^-1130, of which every float is a multiple
_SPLIT = 2.0**27 + 1.0
_LOW_BITS = 26
_CHUNK = 2**20  # Values that are added as floats without rounding: 2^20 numbers of 27 bits stay far below 2^53


class Sums(NamedTuple):
    """The sum of values and of their squares, in units of 2^-1130."""

    total: int
    squares: int

    @classmethod
    def of(cls, values: FloatArray) -> Sums:
        """Of finite values, at most 1e150 in size; what rounding left out of squares is added (Dekker 1971)."""
        squares, carried = values * values, _SPLIT * values
        high = carried - (carried - values)
        low = values - high
        rest = ((high * high - squares) + 2.0 * high * low) + low * low
        return cls(exact_sum(values), exact_sum(squares) + exact_sum(rest))

    def __add__(self, other: object) -> Sums:
        if not isinstance(other, Sums):
            return NotImplemented
        return Sums(self.total + other.total, self.squares + other.squares)

    def moments(self, count: int) -> tuple[float, float]:
        """Mean, and sum of squared deviations from it, rounded once; zeros for no value."""
        if not count:
            return 0.0, 0.0
        deviations = self.squares * count * 2**_UNIT - self.total**2
        return self.total / (count * 2**_UNIT), max(0, deviations) / (count * 4**_UNIT)


def exact_sum(values: FloatArray) -> int:
    """The sum of finite values in units of 2^-1130."""
    return sum(_chunk_sum(values[at : at + _CHUNK]) for at in range(0, len(values), _CHUNK))


def _chunk_sum(values: FloatArray) -> int:
    fractions, exponents = np.frexp(values)
    whole = np.ldexp(fractions, 53).astype(np.int64)
    lowest = int(exponents.min())
    places = exponents - lowest
    high = np.bincount(places, weights=(whole >> _LOW_BITS).astype(np.float64))
    low = np.bincount(places, weights=(whole & (2**_LOW_BITS - 1)).astype(np.float64))
    shift = lowest - 53 + _UNIT
    return sum(
        ((int(above) << _LOW_BITS) + int(below)) << (at + shift)
        for at, (above, below) in enumerate(zip(high, low, strict=True))
    )


# --- The largest and the smallest numbers at each place: exact, mergeable in any order and cut, of bounded size -------

# Numbers that are kept from either end where units may have several rows: how many of these count is not known yet
_OF_UNITS = 1_000


def most_for(k: int, several: bool) -> int:
    """How many numbers are kept from either end of each place; twice of `Outermost.looked_at`, and one more."""
    return _OF_UNITS if several else 2 * max(k, 3) + 1


@dataclass(frozen=True, eq=False)
class Outermost:
    """Some numbers from either end of each place (a stratum, say); those of fewer than twice as many all.

    The largest of all parts together are among the largest of each: so nothing depends on cut and order.
    """

    most: int  # How many from either end
    counts: IntArray  # Numbers at each place, shape (n_places,)
    places: IntArray  # Of each number that is kept, ascending
    values: FloatArray  # Ascending at each place

    @classmethod
    def of(cls, values: FloatArray, places: IntArray, size: int, most: int) -> Outermost:
        """Of numbers at places 0 to size - 1."""
        return cls(most, np.bincount(places, minlength=size), places, values + 0.0)._thinned()

    @property
    def looked_at(self) -> int:
        """How many outermost records can be looked at, with as many next to them."""
        return (self.most - 1) // 2

    def merge(self, other: Outermost) -> Outermost:
        """Both together; their places are the same."""
        both = (np.concatenate([getattr(part, name) for part in (self, other)]) for name in ("places", "values"))
        return Outermost(self.most, self.counts + other.counts, *both)._thinned()

    def moved(self, places: IntArray, size: int) -> Outermost:
        """The same at other places, 0 to size - 1: `places` says of each old one which; -1 is left out."""
        kept = places >= 0
        counts = np.zeros(size, dtype=np.int64)
        np.add.at(counts, places[kept], self.counts[kept])
        at = places[self.places]
        return replace(self, counts=counts, places=at[at >= 0], values=self.values[at >= 0])._thinned()

    def at(self, place: int) -> FloatArray:
        """What is kept at one place, ascending."""
        low, high = np.searchsorted(self.places, [place, place + 1])
        return self.values[low:high]

    def _thinned(self) -> Outermost:
        """Sorted, and without those that are not outermost."""
        order = np.lexsort((self.values, self.places))
        places, number = self.places[order], np.arange(len(order))
        begin, end = np.searchsorted(places, places, side="left"), np.searchsorted(places, places, side="right")
        kept = (number - begin < self.most) | (end - number <= self.most)
        return replace(self, places=places[kept], values=self.values[order][kept])
