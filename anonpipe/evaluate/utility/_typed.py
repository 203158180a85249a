"""Two typed tables as arrays: numbers as they are, dates in days, categories as codes of one common list.

What a column is, the job says. Formulas, whose columns are what their types
say, are read by `_frames`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anonpipe.columns import Kind
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility._endpoint import Endpoint
from anonpipe.types import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class BothColumns:
    """A column in the original and in the release."""

    # name, kind: as declared
    name: str
    kind: Kind
    # old, new: numbers, days since 1970-01-01, or places in `levels`; NaN for nulls. Shapes (n_rows,) and
    # (n_released,).
    old: FloatArray
    new: FloatArray
    levels: tuple[Any, ...] = ()  # Categories of both tables; empty for numbers and dates

    @property
    def known(self) -> tuple[FloatArray, FloatArray]:
        """Values of either side that are not null."""
        return self.old[~np.isnan(self.old)], self.new[~np.isnan(self.new)]


@dataclass(frozen=True, eq=False)
class Tables:
    """The columns that are compared."""

    columns: tuple[BothColumns, ...]  # In the order declared
    # rows, released: records of either table
    rows: int
    released: int
    paired: bool  # Whether row i of the release stands for row i of the original
    least: int = 1  # k: what fewer records have in common is not looked at
    endpoints: tuple[Endpoint, ...] = ()  # Whose survival curves are compared

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

    def take(self, old: IntArray, new: IntArray) -> Tables:
        """Some rows of either table."""
        columns = tuple(replace(column, old=column.old[old], new=column.new[new]) for column in self.columns)
        return replace(self, columns=columns, rows=len(old), released=len(new))

    def halves(self, rng: np.random.Generator) -> Tables:
        """One random half of the original as original, the other as release."""
        order = rng.permutation(self.rows)
        low, high = np.sort(order[: self.rows // 2]), np.sort(order[self.rows // 2 :])
        columns = tuple(replace(column, old=column.old[low], new=column.old[high]) for column in self.columns)
        return replace(self, columns=columns, rows=len(low), released=len(high), paired=False)

    def blocks(self, count: int, rng: np.random.Generator) -> list[Tables]:
        """Disjoint random parts of both tables, pairs kept together."""
        order = rng.permutation(self.rows)
        other = order if self.paired else rng.permutation(self.released)
        parts = zip(np.array_split(order, count), np.array_split(other, count), strict=True)
        return [
            self.take(old if self.paired else np.sort(old), new if self.paired else np.sort(new)) for old, new in parts
        ]

    def sample(self, most: int, rng: np.random.Generator) -> Tables:
        """At most so many rows of either table, pairs kept together."""
        if max(self.rows, self.released) <= most:
            return self
        old = np.sort(rng.permutation(self.rows)[:most])
        new = old if self.paired else np.sort(rng.permutation(self.released)[:most])
        return self.take(old, new)


def typed_tables(
    original: pd.DataFrame,
    released: pd.DataFrame,
    columns: Mapping[str, Kind],
    *,
    paired: bool = False,
    least: int = 1,
) -> Tables:
    """Columns of both tables as arrays.

    Examples
    --------
    >>> import pandas as pd
    >>> old, new = pd.DataFrame({"sex": ["m", "f", None]}), pd.DataFrame({"sex": ["f", "f"]})
    >>> column, = typed_tables(old, new, {"sex": Kind.BINARY}).columns
    >>> column.levels, column.old.tolist(), column.new.tolist()
    (('f', 'm'), [1.0, 0.0, nan], [0.0, 0.0])
    """
    if not columns:
        raise JobError("no columns were given; name one or more with their kind")
    for what, frame in (("original", original), ("released", released)):
        missing = [name for name in columns if name not in frame.columns]
        if missing:
            raise JobError(f"the {what} table has no column {', '.join(map(repr, missing))}; name columns of both")
        if len(frame) == 0:
            raise InputError(f"the {what} table has no records; give one or more")
    if paired and len(original) != len(released):
        raise InputError(
            f"{len(original)} original records cannot be paired with {len(released)} released ones; "
            "give as many in the same order, or say that they are not paired"
        )
    made = tuple(_column(name, Kind(kind), original[name], released[name]) for name, kind in columns.items())
    return Tables(made, len(original), len(released), paired, least)


def _column(name: str, kind: Kind, old: pd.Series[Any], new: pd.Series[Any]) -> BothColumns:
    if kind.coded:
        codes, levels = _codes(old, new)
        return BothColumns(name, kind, codes[: len(old)], codes[len(old) :], levels)
    sides: list[FloatArray] = []
    for what, column in (("original", old), ("released", new)):
        values = None
        try:
            values = _days(column) if kind is Kind.DATE else column.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError, OverflowError):  # its text quotes values
            pass
        if values is None:
            raise InputError(f"column {name!r} of the {what} table does not hold values of kind {kind.value}")
        if np.isinf(values).any():
            raise InputError(f"column {name!r} of the {what} table has infinite values; make them null or drop them")
        sides.append(np.ascontiguousarray(values))
    return BothColumns(name, kind, sides[0], sides[1])


def _days(column: pd.Series[Any]) -> FloatArray:
    """Days since 1970-01-01; numbers are taken as such."""
    import pandas as pd
    from pandas.api import types

    if types.is_numeric_dtype(column.dtype):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if not types.is_datetime64_any_dtype(column.dtype):
        kind = types.infer_dtype(column, skipna=True)
        if kind in ("date", "empty"):
            plain = column.astype(object).where(column.notna(), None).to_numpy().astype("datetime64[D]")
            return np.where(np.isnat(plain), np.nan, plain.astype(np.int64))
        if kind not in ("datetime", "datetime64"):
            raise TypeError("no dates")
    times = pd.to_datetime(column)
    if getattr(times.dtype, "tz", None) is not None:
        times = times.dt.tz_localize(None)
    stamps = times.to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / 86_400_000_000)


def _codes(old: pd.Series[Any], new: pd.Series[Any]) -> tuple[FloatArray, tuple[Any, ...]]:
    """Places of all values of both in one list of levels, and the list: the original's order, if it declares one."""
    import pandas as pd

    both = pd.concat([old.astype(object), new.astype(object)], ignore_index=True)
    places, found = pd.factorize(both)
    levels = list(found)
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
