"""Link measured records of rows into units by what they say of the row before, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from anonpipe.encoding.values import from_numbers, numbers, plain
from anonpipe.errors import EngineError
from anonpipe.job.model import Job
from anonpipe.job.wide import (
    FILE_ROWS,
    FIRST,
    PART,
    ROW,
    ROWS,
    UnitLayout,
    before_name,
    gap_name,
    masked_rows,
    mean_name,
)
from anonpipe.pipeline.context import Fitted
from anonpipe.types import BoolArray, FloatArray, IntArray

_ASSIGNED = 500  # Units that take their next records together
_LEVELS = 8  # Categories of a column by which records are compared
# What a standard deviation counts of a column that tells all: of the row before, the unit's mean, and its other columns
_BEFORE, _MEAN, _OF_UNIT = 3.0, 1.5, 1.0
_ORDER = 0.3  # The same of the order, at least: units keep to their time
_RARELY, _FINAL = 0.25, 5.0  # Of the share of rows that have a next one; what it counts that such a row is the last


@dataclass(frozen=True, eq=False)
class Linked:
    """Records in the order in which they are written, as rows of units."""

    # record, first, unit: the record of each row, that which begins its unit, and the unit, from 0 on; (n_rows,)
    record: IntArray
    first: IntArray
    unit: IntArray
    order: pa.Array | None  # The column that orders rows

    def to_rows(self, records: pa.Table, layout: UnitLayout, schema: pa.Schema, before: int) -> pa.Table:
        """The rows of units, which are numbered on from `before`."""
        columns = []
        for name in schema.names:
            if name == layout.unit:
                columns.append(pa.array(before + self.unit + 1))
            elif name == layout.order and self.order is not None:
                columns.append(self.order)
            else:
                source = self.first if name in layout.of_unit else self.record
                columns.append(records.column(name).take(pa.array(source)))
        return pa.Table.from_arrays(columns, schema=schema)


def linked(records: pa.Table, fitted: Fitted, layout: UnitLayout) -> Linked:
    """Link records in buckets, which have equally many first, second and further rows.

    Records lie in random order, so that buckets are random, too.
    """
    row = records.column(ROW).to_numpy()
    buckets = -(-len(row) // FILE_ROWS)
    bucket = np.empty(len(row), dtype=np.int64)
    bucket[np.argsort(row, kind="stable")] = np.arange(len(row)) % buckets
    parts, units = [], 0
    for at in range(buckets):
        rows = np.flatnonzero(bucket == at)
        unit, place = _units_of(records.take(pa.array(rows)), fitted.job, layout)
        sequence = np.lexsort((place, unit))
        parts.append(np.stack([rows[sequence], unit[sequence] + units]))
        units += int(unit.max()) + 1
    record, unit = np.concatenate(parts, axis=1)
    starts, order = np.flatnonzero(np.diff(unit, prepend=-1)), None
    if (name := layout.order) in layout.of_row:
        grid = fitted.cells.grid(fitted.cells.names.index(name))
        own, gap = (numbers_of(records, each)[record] for each in (name, gap_name(name)))
        order = from_numbers(grid.round(_in_order(own, gap, starts, unit)), fitted.schema.field(name), grid.step)
    return Linked(record, record[starts][unit], unit, order)


def numbers_of(records: pa.Table, name: str) -> FloatArray:
    """A column as numbers, NaN where missing."""
    return numbers(records.column(name).combine_chunks())


def _in_order(own: FloatArray, gap: FloatArray, starts: IntArray, unit: IntArray) -> FloatArray:
    """The start of each unit and the gaps from there on; units that would end after all records begin earlier.

    Where that does not suffice, all gaps of the unit are shorter by the same factor.
    """
    gap = np.nan_to_num(gap)
    gap[starts] = 0.0
    span, room = np.add.reduceat(gap, starts), own.max() - own.min()
    gap *= np.divide(room, span, out=np.ones(len(span)), where=span > room)[unit]
    total = np.cumsum(gap)
    begin = np.minimum(own[starts], own.max() - np.minimum(span, room))
    return np.asarray(np.minimum(begin[unit] + (total - total[starts][unit]), own.max()))


def _units_of(records: pa.Table, job: Job, layout: UnitLayout) -> tuple[IntArray, IntArray]:
    """The unit of each record, and its place there.

    Units begin with the records of first rows. As many go on as there are records of the next row: those that want most
    rows, then those that ended before they had as many. Together they take these records, each one, so that the sum of
    squared distances is smallest, and `_final` ones go to units that want no more. Records that are left at the end go
    to units in the same way.
    """
    row, rows = (records.column(name).to_numpy() for name in (ROW, ROWS))
    begins = pc.equal(records.column(PART), FIRST).to_numpy()
    first, rest = np.flatnonzero(begins), np.flatnonzero(~begins)
    if not len(first):
        raise EngineError("no record of a bucket begins a unit; raise release.file_rows, and run again")
    rest = rest[np.argsort(row[rest], kind="stable")]
    upto = np.searchsorted(row[rest], np.arange(layout.most + 1), side="right")
    sought, left, gap = _compared(records, job, layout)
    state, width = sought[first], left.shape[1]
    state[:, :width] = left[first]
    state[:, -1] += gap[first]
    unit, place = np.zeros((2, len(row)), dtype=np.int64)
    unit[first], length = np.arange(len(first)), np.ones(len(first), dtype=np.int64)
    final = _FINAL * _final(records, job, layout)[:, None]
    longest, begin, step = np.argsort(-rows[first], kind="stable"), 0, 1
    while begin < len(rest):
        step += 1
        last, unmet, ended = step > layout.most, rows[first] > length, length < step - 1
        able = longest[(last | unmet | ~ended)[longest]]
        able = able[np.argsort((~unmet if last else ended)[able], kind="stable")]
        end = min(begin + len(able), len(rest) if last else max(begin, upto[step]))
        for units, taken in _blocks(state, able[: end - begin], sought, rest[begin:end]):
            ends = _FINAL * (rows[first[units]] <= length[units] + 1)[:, None]
            sides = np.append(state[units], ends, axis=1), np.append(sought[taken], final[taken], axis=1)
            taken = taken[linear_sum_assignment(cdist(*sides, "sqeuclidean"))[1]]
            unit[taken], place[taken] = units, length[units]
            state[units, :width] = left[taken]
            state[units, -1] += gap[taken]
            length[units] += 1
        begin = end
    return unit, place


def _final(records: pa.Table, job: Job, layout: UnitLayout) -> BoolArray:
    """Records of a category that has a next row less than `_RARELY` as often as others, such as a death."""
    found = np.zeros(len(records), dtype=np.bool_)
    for name in (name for name in masked_rows(job, layout) if job.columns[name].kind.coded):
        column, before = (plain(records.column(each).combine_chunks()) for each in (name, before_name(name)))
        levels = pc.unique(column).drop_null()
        own, after = (pc.fill_null(pc.index_in(each, value_set=levels), -1).to_numpy() for each in (column, before))
        rows, followed = (np.bincount(each[each >= 0], minlength=len(levels)) for each in (own, after))
        rare = followed * rows.sum() < _RARELY * rows * followed.sum()
        found |= np.append(rare, False)[own]
    return found


def _blocks(
    state: FloatArray, units: IntArray, sought: FloatArray, records: IntArray
) -> Iterator[tuple[IntArray, ...]]:
    """Halves of units and records, by the widest column, until they are few enough for an exact assignment."""
    if len(units) <= _ASSIGNED:
        yield units, records
        return
    widest = int(np.argmax(sought[records].var(axis=0)))
    units, records = (
        each[np.argsort(values[each, widest], kind="stable")] for each, values in ((units, state), (records, sought))
    )
    half = len(units) // 2
    yield from _blocks(state, units[:half], sought, records[:half])
    yield from _blocks(state, units[half:], sought, records[half:])


def _compared(records: pa.Table, job: Job, layout: UnitLayout) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What a record seeks of the row before and of its unit, what it leaves for the next row, and its gap.

    Differences count as much as columns are correlated with the row that they are to explain. The last column is the
    order, on which gaps add up.
    """
    later = pc.not_equal(records.column(PART), FIRST).to_numpy()
    column = {name: records.column(name).combine_chunks() for name in records.column_names}
    coded = {name for name, each in job.columns.items() if each.kind.coded}
    several = masked_rows(job, layout)
    left = [_features(column[name], column[name], name in coded) for name in several]
    sought = [_features(column[before_name(name)], column[name], name in coded) for name in several]
    weights = [_BEFORE * _tie(one[later], other[later]) for one, other in zip(sought, left, strict=True)]
    order = gap = np.zeros(len(records))
    tied = [np.empty((len(records), 0)), *left]
    if layout.order in layout.of_row:
        gaps = column[gap_name(layout.order)]
        order, gap = numbers(column[layout.order]), np.nan_to_num(numbers(gaps))
        order, gap = (order - order.mean()) / (order.std() or 1.0), gap / (order.std() or 1.0)
        tied.append(_features(gaps, gaps, False))
    explained = np.concatenate(tied, axis=1)[later]
    by_chance = float(np.mean(1.0 / numbers(column[ROWS])))  # a row is a part of its unit's mean
    for name in layout.averaged:
        sought.append(_features(column[mean_name(name)], column[mean_name(name)], False))
        squared = _tie(sought[-1][later], left[several.index(name)][later]) ** 2
        weights.append(_MEAN * np.sqrt(max(0.0, squared - by_chance) / max(1.0 - by_chance, 1e-9)))
    for name in (ROWS, *layout.of_unit):
        sought.append(_features(column[name], column[name], name in coded))
        weights.append(_OF_UNIT * _tie(sought[-1][later], explained))
    sought.append((order - gap)[:, None])
    weights.append(max(_ORDER, _tie(sought[-1][later], explained)))
    scale = np.repeat(weights, [each.shape[1] for each in sought])
    leaves = np.concatenate([np.empty((len(records), 0)), *left], axis=1)
    return np.concatenate(sought, axis=1) * scale, leaves * scale[: leaves.shape[1]], gap * scale[-1]


def _features(column: pa.Array, among: pa.Array, coded: bool) -> FloatArray:
    """Normal scores among other values (van der Waerden 1952), and nulls; of categories the most frequent ones."""
    if coded:
        counted = pc.value_counts(plain(among).drop_null()).to_pylist()
        counted.sort(key=lambda one: (-one["counts"], str(one["values"])))
        levels = [pc.equal(plain(column), one["values"]).fill_null(False) for one in counted[:_LEVELS]]
        return np.stack([*(np.asarray(each) for each in levels), np.zeros(len(column))], axis=1)
    values, known = numbers(column), np.sort(numbers(among.drop_null()))
    place = np.searchsorted(known, values, side="left") + np.searchsorted(known, values, side="right")
    scores, nulls = ndtri((place + 1.0) / (2.0 * len(known) + 2.0)), np.isnan(values)
    return np.stack([np.where(nulls, 0.0, scores), 1.0 * nulls], axis=1)


def _tie(one: FloatArray, other: FloatArray) -> float:
    """The largest correlation of a column with another one, without sign."""
    if len(one) == 0 or 0 in (one.shape[1], other.shape[1]):
        return 0.0
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    products = np.einsum("ij,ik->jk", one, other)  # no BLAS: the same bits with any number of threads
    sizes = np.sqrt(np.outer(np.square(one).sum(axis=0), np.square(other).sum(axis=0)))
    return float(np.divide(np.abs(products), sizes, out=np.zeros_like(sizes), where=sizes > 0).max())
