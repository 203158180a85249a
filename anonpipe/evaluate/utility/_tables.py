"""A survival analysis in three words: the time, the status, and which of its values are the event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anonpipe.columns import Kind, Scalar
from anonpipe.evaluate.coding import Coding
from anonpipe.types import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

    from anonpipe.evaluate.utility._relative import Population


@dataclass(frozen=True)
class Endpoint:
    """A time and what happens at it."""

    name: str  # Of the analysis; empty for that of the columns' roles
    time: str  # Its column
    status: str  # Its column
    event: tuple[Scalar, ...]  # Values of the status that mean that the event happened; others are censored
    competing: tuple[Scalar, ...] = ()  # Values that mean another event, after which this one cannot happen
    weight: str = ""  # The column of survey weights; empty for none


def spreads(table: FloatArray) -> FloatArray:
    """Standard deviation (over n - 1) of each column, exactly 0 for a constant one, shape (width,)."""
    deviations = table.std(axis=0, ddof=1)
    return np.where((table == table[0]).all(axis=0), 0.0, deviations)


# --- Two typed tables as arrays: numbers as they are, dates in days, categories as codes of one common list -----------
# What a column is, the job says. Formulas, whose columns are what their types say, are read by `_design`.


@dataclass(frozen=True, eq=False)
class BothColumns:
    """A column in the original and in the release."""

    name: str
    kind: Kind  # As declared
    old: FloatArray  # Numbers, days since 1970-01-01, or places in `levels`; NaN for nulls; shape (n_rows,)
    new: FloatArray  # Likewise, shape (n_released,)
    levels: tuple[Any, ...] = ()  # Categories of both tables; empty for numbers and dates

    @property
    def known(self) -> tuple[FloatArray, FloatArray]:
        """Values of either side that are not null."""
        return self.old[~np.isnan(self.old)], self.new[~np.isnan(self.new)]


@dataclass(frozen=True, eq=False)
class TypedTables:
    """The columns that are compared."""

    columns: tuple[BothColumns, ...]  # In the order declared
    rows: int  # Original records
    released: int  # Released records
    paired: bool  # Whether row i of the release stands for row i of the original
    least: int = 1  # k: what fewer records have in common is not looked at
    endpoints: tuple[Endpoint, ...] = ()  # Whose survival curves are compared
    weight: str = ""  # The column of survey weights; empty for none
    population: Population | None = None  # What relative survival is relative to
    cluster: str = ""  # The column of primary sampling units; empty for none
    design_strata: str = ""  # That of the strata of these
    differences: tuple[str, ...] = ()  # Columns that rules between others add, and that are not released

    @property
    def numbers(self) -> tuple[BothColumns, ...]:
        """Numbers and dates."""
        return tuple(column for column in self.columns if not column.kind.coded)

    @property
    def categories(self) -> tuple[BothColumns, ...]:
        """Ordinal, binary and categorical columns."""
        return tuple(column for column in self.columns if column.kind.coded)

    def number_arrays(self) -> tuple[FloatArray, FloatArray]:
        """Numbers and dates of both sides, NaN for nulls, shapes (n_rows, width) and (n_released, width)."""
        old, new = np.empty((self.rows, len(self.numbers))), np.empty((self.released, len(self.numbers)))
        for place, column in enumerate(self.numbers):
            old[:, place], new[:, place] = column.old, column.new
        return old, new

    def without_weight(self) -> TypedTables:
        """All columns but the survey weight, unless there is no other one."""
        return replace(self, columns=tuple(each for each in self.columns if each.name != self.weight) or self.columns)

    def take(self, old: IntArray, new: IntArray) -> TypedTables:
        """Some rows of either table."""
        columns = tuple(replace(column, old=column.old[old], new=column.new[new]) for column in self.columns)
        return replace(self, columns=columns, rows=len(old), released=len(new))

    def halves(self, rng: np.random.Generator) -> TypedTables:
        """One random half of the original as original, the other as release."""
        order = rng.permutation(self.rows)
        low, high = np.sort(order[: self.rows // 2]), np.sort(order[self.rows // 2 :])
        originals = tuple(replace(column, new=column.old) for column in self.columns)
        return replace(replace(self, columns=originals).take(low, high), paired=False)

    def blocks(self, count: int, rng: np.random.Generator) -> list[TypedTables]:
        """Disjoint random parts of both tables, pairs kept together."""
        order = rng.permutation(self.rows)
        other = order if self.paired else rng.permutation(self.released)
        parts = zip(np.array_split(order, count), np.array_split(other, count), strict=True)
        return [self.take(old, new) if self.paired else self.take(np.sort(old), np.sort(new)) for old, new in parts]

    def sample(self, most: int, rng: np.random.Generator) -> TypedTables:
        """At most so many rows of either table, pairs kept together."""
        if max(self.rows, self.released) <= most:
            return self
        old = np.sort(rng.permutation(self.rows)[:most])
        new = old if self.paired else np.sort(rng.permutation(self.released)[:most])
        return self.take(old, new)


def typed_tables(
    original: pd.DataFrame, released: pd.DataFrame, columns: Mapping[str, Kind], *, paired: bool = False, least: int = 1
) -> TypedTables:
    """Columns of both tables as arrays: numbers, dates as datetime64, and categories."""
    both = tuple(_column(name, Kind(kind), original[name], released[name]) for name, kind in columns.items())
    return TypedTables(both, len(original), len(released), paired, least)


def _column(name: str, kind: Kind, old: pd.Series[Any], new: pd.Series[Any]) -> BothColumns:
    if kind.coded:
        codes, levels = _codes(old, new)
        return BothColumns(name, kind, codes[: len(old)], codes[len(old) :], levels)
    as_numbers = _days if kind is Kind.DATE else _numbers
    return BothColumns(name, kind, as_numbers(old), as_numbers(new))


def _numbers(column: pd.Series[Any]) -> FloatArray:
    return np.ascontiguousarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _days(column: pd.Series[Any]) -> FloatArray:
    """Days since 1970-01-01."""
    stamps = column.to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / 86_400_000_000)


def _codes(old: pd.Series[Any], new: pd.Series[Any]) -> tuple[FloatArray, tuple[Any, ...]]:
    """Places of all values of both in one list of levels, and the list: the original's order, if it declares one."""
    import pandas as pd

    both = pd.concat([old.astype(object), new.astype(object)], ignore_index=True)
    places, uniques = pd.factorize(both)
    levels = list(uniques)
    declared = list(old.cat.categories) if isinstance(old.dtype, pd.CategoricalDtype) else []
    rank = {level: place for place, level in enumerate(declared)}
    try:
        order = sorted(range(len(levels)), key=lambda at: (rank.get(levels[at], len(rank)), levels[at]))
    except TypeError:  # of several types
        order = sorted(range(len(levels)), key=lambda at: (rank.get(levels[at], len(rank)), str(levels[at])))
    position = np.empty(len(levels) + 1)
    position[order] = np.arange(len(levels))
    position[-1] = np.nan  # the place of nulls is -1
    return position[places], tuple(levels[at] for at in order)


# --- Typed tables as the matrices that regressions and trees take -----------------------------------------------------

_MOST_LEVELS = 10  # Categories that stay separate, the most frequent in both tables; all others are one


class Encoded(NamedTuple):
    """Both tables without nulls."""

    old: FloatArray  # Shape (n_rows, width)
    new: FloatArray  # Shape (n_released, width)
    categories: tuple[int, ...]  # Places of columns of codes: categories (nulls are one), and whether a number is null


def encoded(tables: TypedTables) -> Encoded:
    """Numbers as z-scores of both tables, nulls at the mean with a column that tells them; rare categories joined."""
    old = np.column_stack([column.old for column in tables.columns])
    new = np.column_stack([column.new for column in tables.columns])
    both, coded = np.concatenate([old, new]), [at for at, column in enumerate(tables.columns) if column.kind.coded]
    coding = Coding.of(both, both, coded, _MOST_LEVELS)
    old, new = (np.hstack(coding.compact(side)) for side in (old, new))
    return Encoded(old, new, coding.compact_categories)
