"""Table to cells and back: one float64 a value in natural units, and the input's exact types again.

Numbers stay numbers, dates are days since 1970-01-01, and what is carried as codes is the position among the column's
categories, nulls the position after the last. Missing numbers are NaN; so are the nulls of an ordinal column whose
values are replaced, as those are handled as numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anonpipe.columns import Column, Kind
from anonpipe.encoding.columns import Numbers, code_of, pooled
from anonpipe.encoding.quantiles import Radix
from anonpipe.encoding.scan import Scan
from anonpipe.encoding.values import (
    Grid,
    as_dictionary,
    cut_to_days,
    encoded,
    from_numbers,
    grid_of,
    level_array,
    numbers,
    plain_type,
    present,
)
from anonpipe.errors import InputError
from anonpipe.partition.strata import Strata
from anonpipe.types import BoolArray, FloatArray, IntArray

_FINE = 1_000_000  # Parts of a step by which values differ


@dataclass(frozen=True, eq=False)
class ColumnEncoder:
    """How the released columns of a table become cells and cells a table."""

    names: tuple[str, ...]  # Of the released columns, in the input's order
    columns: tuple[Column, ...]  # What the job says of them
    # The released table's: the input's restricted to `names`, without metadata. A dictionary's index type is widened
    # where the categories of the whole input need it.
    schema: pa.Schema
    has_nulls: tuple[bool, ...]  # Whether each column holds nulls
    categories: dict[str, pa.Array]  # Of each column carried as codes, its plain values in the order of the codes
    origins: dict[str, float] = field(default_factory=dict)  # Where the steps of numbers begin that do not at zero

    @classmethod
    def fit(cls, schema: pa.Schema, columns: Mapping[str, Column], scan: Scan) -> ColumnEncoder:
        """The encoder of an input."""
        names = tuple(name for name in schema.names if name in scan.columns)
        scanned = [scan.columns[name] for name in names]
        categories = {n: s.categories for n, s in zip(names, scanned, strict=True) if s.categories is not None}
        fields = [_released_field(schema.field(name), len(categories.get(name, ()))) for name in names]
        kept = tuple(columns[name] for name in names)
        steps = {name: column.step for name, column in columns.items() if column.step and name in scan.scored}
        origins = {name: _origin(scan.scored[name], step) for name, step in steps.items()}
        return cls(names, kept, pa.schema(fields), tuple(s.nulls > 0 for s in scanned), categories, origins)

    def code_count(self, name: str) -> int:
        """Number of codes of a column carried as codes, one for nulls included if it holds any."""
        return len(self.categories[name]) + self.has_nulls[self.names.index(name)]

    def event_codes(self, position: int) -> IntArray:
        """Of each code of a survival status: 0 censored, 1 the event, 2 a competing one; shape (n_codes,)."""
        name, column = self.names[position], self.columns[position]
        categories, happened = self.categories[name], np.zeros(self.code_count(name), dtype=np.int64)
        for outcome, (what, values) in enumerate((("event", column.event), ("competing", column.competing)), 1):
            codes = code_of(level_array(name, values or (), categories.type), categories)
            happened[codes[codes < len(categories)]] = outcome
            if values and not (happened == outcome).any():
                raise InputError(
                    f"none of the values that the job's {what} lists for column {name!r} occurs in the input; "
                    "correct the list (spelling, upper and lower case, text in quotes)"
                )
        return happened

    def grid(self, position: int) -> Grid:
        """The values that a replaced number or ordinal may take."""
        name, column = self.names[position], self.columns[position]
        if column.kind is Kind.ORDINAL:
            return Grid(1.0, 0.0, float(len(self.categories[name]) - 1))
        return replace(grid_of(column, self.schema.field(name).type), origin=self.origins.get(name, 0.0))

    def to_cells(self, batch: pa.RecordBatch, given: Mapping[str, FloatArray] | None = None) -> FloatArray:
        """Cells of the rows, shape (n_rows, n_columns)."""
        cells = np.empty((batch.num_rows, len(self.names)))
        for position, name in enumerate(self.names):
            if given is not None and name in given:
                cells[:, position] = given[name]
                continue
            array = batch.column(name)
            coded, step = name in self.categories, self.columns[position].step
            cells[:, position] = self._codes(position, array) if coded else numbers(cut_to_days(array, step))
        return cells

    def _codes(self, position: int, array: pa.Array) -> FloatArray:
        name, column = self.names[position], self.columns[position]
        array = as_dictionary(array)
        codes = code_of(array, self.categories[name]).astype(np.float64)
        unknown = codes == len(self.categories[name])
        if (unknown & present(array)).any():
            raise InputError(f"column {name!r} holds categories that the first pass did not see; run again")
        if column.role.synthesized and column.kind is Kind.ORDINAL:
            codes[unknown] = np.nan
        return codes

    def from_cells(self, cells: FloatArray, wanted: Collection[str] | None = None) -> pa.RecordBatch:
        """The rows of the cells, or some columns of them, in exactly the input's types."""
        # Numbers are put on their steps inside their bounds. A dictionary holds the categories of these rows only; one
        # whose levels are declared, as those of an ordered one are, holds them all in their order. What the input's
        # dictionary holds besides may come from its rows: suppressed categories would be disclosed.
        if cells.ndim != 2 or cells.shape[1] != len(self.names):
            raise ValueError(f"cells have shape {cells.shape}; give (n_rows, {len(self.names)})")
        arrays, fields = [], []
        for position, name in enumerate(self.names):
            if wanted is not None and name not in wanted:
                continue
            field, values = self.schema.field(position), cells[:, position]
            fields.append(field)
            if name in self.categories:
                declared = self.columns[position].levels is not None
                arrays.append(_from_codes(values, self.categories[name], field.type, declared))
            else:
                grid = self.grid(position)
                arrays.append(from_numbers(grid.round(values), field, grid.step))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _origin(found: Radix, step: float) -> float:
    """How far all values are above a multiple of the step; 0 where they differ, or are too many to be distinguished."""
    beyond = found.smallest / step
    share = np.rint((beyond - np.floor(beyond)) * _FINE) % _FINE
    one = len(share) > 0 and bool(found.exact.all() and (share == share[0]).all())
    return float(share[0] / _FINE * step) if one else 0.0


def _released_field(field: pa.Field, categories: int) -> pa.Field:
    """The field without metadata; a dictionary gets an index that can number all categories."""
    kind = field.type
    if pa.types.is_dictionary(kind) and categories - 1 > np.iinfo(kind.index_type.to_pandas_dtype()).max:
        kind = pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    return pa.field(field.name, kind, field.nullable)


def _from_codes(values: FloatArray, categories: pa.Array, kind: pa.DataType, declared: bool) -> pa.Array:
    missing = np.isnan(values) | (values >= len(categories))
    codes = np.where(missing, 0, np.rint(np.where(missing, 0.0, values))).astype(np.int64)
    if not pa.types.is_dictionary(kind):
        return encoded(categories.take(pa.array(codes, mask=missing)), kind)
    used = np.arange(len(categories)) if declared else np.unique(codes[~missing])
    indices = pa.array(np.searchsorted(used, codes), mask=missing).cast(kind.index_type)
    labels = categories.take(pa.array(used)).cast(kind.value_type)
    return pa.DictionaryArray.from_arrays(indices, labels, ordered=kind.ordered)


def check_order(name: str, column: Column, kind: pa.DataType) -> None:
    """Refuse an ordered dictionary without declared levels: the order of a file's dictionaries is not reliable."""
    if pa.types.is_dictionary(kind) and kind.ordered and column.staged_as_codes and column.levels is None:
        raise InputError(
            f"column {name!r} is an ordered categorical (a dictionary of {plain_type(kind)}), whose order files do not "
            "keep reliably; declare levels: [lowest, ..., highest]"
        )


# --- What cells hold, column by column, and what they must hold after the scan of the input ---------------------------
# A chunk of the staging that is gone reads as nulls, and moments of the damaged cells agree with a release that is made
# of them: only the scan has seen the input itself.

_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class Tally:
    """What some rows hold; columns are those of the cells, in their order."""

    rows: int  # How many there are
    # n, mean, m2: of each column carried as numbers how many are there, their mean and the sum of squared deviations
    # from it; zeros for other columns
    n: FloatArray
    mean: FloatArray
    m2: FloatArray
    codes: dict[int, IntArray]  # By position of a column carried as codes the records of each code, nulls last

    @classmethod
    def of(cls, cells: FloatArray, encoder: ColumnEncoder) -> Self:
        """Count cells, shape (n_rows, n_columns)."""
        width = len(encoder.names)
        n, mean, m2, codes = np.zeros(width), np.zeros(width), np.zeros(width), {}
        for position, name in enumerate(encoder.names):
            column = cells[:, position]
            if name in encoder.categories:
                missing = len(encoder.categories[name])
                found = np.where(np.isnan(column), missing, column)
                some = (found >= 0) & (found <= missing)  # others, which no scan has seen, are in no count
                codes[position] = np.bincount(found[some].astype(np.int64), minlength=missing + 1)
                continue
            values = column[~np.isnan(column)]
            n[position] = len(values)
            mean[position] = values.mean() if len(values) else 0.0
            m2[position] = np.square(values - mean[position]).sum()
        return cls(len(cells), n, mean, without_rounding(n, mean, m2), codes)

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        parts = np.stack([[self.n, self.mean, self.m2], [other.n, other.mean, other.m2]])
        n, mean, m2 = (each[0] for each in pooled(np.zeros(2, dtype=np.int64), 1, *parts.transpose(1, 0, 2)))
        known = self.codes.keys() & other.codes.keys()
        return type(self)(
            self.rows + other.rows, n, mean, m2, {at: self.codes[at] + other.codes[at] for at in sorted(known)}
        )


def expected_tallies(
    scan: Scan, encoder: ColumnEncoder, strata: Strata, by: Sequence[str]
) -> tuple[Tally, list[Tally], dict[int, IntArray]]:
    """What the routed rows of the table, and of each stratum, must hold."""
    dropped = strata.dropped > 0
    counted = [name for name in scan.counted_by if name in encoder.names]
    stratum, recoded = placed(scan, encoder, strata, by)

    def codes_in(inside: BoolArray) -> dict[int, IntArray]:
        found = {}
        for name in counted:
            codes, size = recoded[inside, scan.counted_by.index(name)], len(encoder.categories[name]) + 1
            records = np.bincount(codes, weights=scan.counted_rows[inside], minlength=size)
            found[encoder.names.index(name)] = records.astype(np.int64)
        return found

    inside = [stratum == at for at in range(len(strata.rows))]
    parts = [
        Tally(n, *_numbers(scan, encoder, each), codes_in(each)) for n, each in zip(strata.rows, inside, strict=True)
    ]
    kept = stratum >= 0
    numbers, codes = _numbers(scan, encoder, kept if dropped else None), codes_in(kept)
    alone = {
        position: np.append(np.asarray(scan.columns[name].counts), scan.columns[name].nulls)
        for position, name in enumerate(encoder.names)
        if name in encoder.categories and name not in counted
    }
    table = Tally(sum(strata.rows), *numbers, codes if dropped else codes | alone)
    return table, parts, alone if dropped else {}


def placed(scan: Scan, encoder: ColumnEncoder, strata: Strata, by: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Of each counted combination its stratum (-1: dropped), and its codes after small strata were merged."""
    if not len(scan.counted_rows):
        return np.zeros(1, dtype=np.int64), np.empty((1, 0), dtype=np.int64)
    recoded = scan.counted_codes.copy()
    index = np.zeros(len(recoded), dtype=np.int64)
    places = [scan.counted_by.index(name) for name in by]
    for place, size in zip(places, strata.sizes, strict=True):
        index = index * size + recoded[:, place]
    stratum, target = np.asarray(strata.stratum)[index], np.asarray(strata.recoded)[index]
    for place, size in reversed(list(zip(places, strata.sizes, strict=True))):
        recoded[:, place] = target % size
        target = target // size
    return stratum, recoded


def _numbers(scan: Scan, encoder: ColumnEncoder, inside: npt.NDArray[np.bool_] | None) -> Numbers:
    """How many numbers, their means and squares, of some combinations, or of the whole input; zeros for codes."""
    found = np.zeros((3, len(encoder.names)))
    for position, name in enumerate(encoder.names):
        if name in encoder.categories:
            continue
        column = scan.columns[name]
        if inside is None or not scan.counted_by:
            found[:, position] = column.values, column.mean, column.m2
        else:
            chosen = [part[inside] for part in scan.by_combination[name]]
            merged = pooled(np.zeros(len(chosen[0]), dtype=np.int64), 1, *chosen)
            found[:, position] = [float(part[0]) for part in merged]
    return found[0], found[1], without_rounding(*found)


def without_rounding(n: FloatArray, mean: FloatArray, m2: FloatArray) -> FloatArray:
    """Squared deviations; exactly zero where they are under 1e-11 of the mean, as rounding of sums leaves a rest."""
    return np.where(m2 > n * np.square(_ROUNDING * mean), m2, 0.0)
