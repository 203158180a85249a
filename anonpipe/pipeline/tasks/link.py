"""Link measured records of rows into units by what they say of the row before, and by nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from anonpipe.encoding.values import as_dictionary, from_numbers, numbers, plain, positions
from anonpipe.job.linked import FIRST, PART, ROW, before_name, gap_name, masked_rows, mean_name
from anonpipe.job.model import Job
from anonpipe.job.wide import ROWS, Layout
from anonpipe.kernels.links import link
from anonpipe.pipeline.context import Fitted
from anonpipe.types import FloatArray, IntArray

_BUCKET = 50_000  # Records that are linked at once
# What a standard deviation counts: of the row before, the unit's mean, other columns of the unit and its number of
# rows, the order; and what a factor e of the row's number counts
_BEFORE, _MEAN, _OF_UNIT, _ORDER, _ROW = 2.0, 1.5, 1.0, 1.0, 2.0


@dataclass(frozen=True, eq=False)
class Linked:
    """Records in the order in which they are written, as rows of units."""

    # record, first, unit: the record of each row, that which begins its unit, and the unit, from 0 on; (n_rows,)
    record: IntArray
    first: IntArray
    unit: IntArray
    order: pa.Array | None  # The column that orders rows

    def to_rows(self, records: pa.Table, layout: Layout, schema: pa.Schema, before: int) -> pa.Table:
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


def linked(records: pa.Table, fitted: Fitted, layout: Layout) -> Linked:
    """Link records in buckets, which have equally many first, second and further rows.

    Records lie in random order, so that buckets are random, too.
    """
    row = records.column(ROW).to_numpy()
    buckets = -(-len(row) // _BUCKET)
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
        own, gap = (_numbers(records, each)[record] for each in (name, gap_name(name)))
        order = from_numbers(grid.round(_in_order(own, gap, starts, unit)), fitted.schema.field(name), grid.step)
    return Linked(record, record[starts][unit], unit, order)


def _numbers(records: pa.Table, name: str) -> FloatArray:
    return numbers(records.column(name).combine_chunks())


def _in_order(own: FloatArray, gap: FloatArray, starts: IntArray, unit: IntArray) -> FloatArray:
    """The start of each unit and the gaps from there on; units that would end after all records begin earlier."""
    gap = np.nan_to_num(gap)
    gap[starts] = 0.0
    total = np.cumsum(gap)
    values = own[starts][unit] + (total - total[starts][unit])
    late = np.maximum(np.maximum.reduceat(values, starts) - own.max(), 0.0)
    return np.minimum(values - np.minimum(late, own[starts] - own.min())[unit], own.max())


def _units_of(records: pa.Table, job: Job, layout: Layout) -> tuple[IntArray, IntArray]:
    """The unit of each record, and its place there."""
    row, rows = (records.column(name).to_numpy() for name in (ROW, ROWS))
    begins = pc.equal(records.column(PART), FIRST).to_numpy()
    first, rest = np.flatnonzero(begins), np.flatnonzero(~begins)
    rest = rest[np.argsort(row[rest], kind="stable")]
    sought, left, gap = _numbers_of(records, job, layout)
    sought_codes, left_codes, weights = _codes_of(records, job, layout)
    state, codes = sought[first], sought_codes[first]
    state[:, : left.shape[1]], codes[:, : left_codes.shape[1]] = left[first], left_codes[first]
    state[:, -1] += gap[first]
    targets, by_row = (_ROW * np.log(each) for each in (np.arange(1, layout.most + 1), row))
    return link(
        first, rest, rows[first], targets, by_row, state, codes, sought, sought_codes, weights, left, left_codes, gap
    )


def _numbers_of(records: pa.Table, job: Job, layout: Layout) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Numbers that a record seeks of the row before and of its unit, those it leaves, and its gap.

    The last column is the order; others are normal scores among the records (van der Waerden 1952).
    """
    before = [name for name in masked_rows(job, layout) if not job.columns[name].kind.coded]
    own = [_numbers(records, name) for name in before]
    sought = [_BEFORE * _scores(_numbers(records, before_name(name)), of) for name, of in zip(before, own, strict=True)]
    once = {mean_name(name): _MEAN for name in layout.averaged} | {ROWS: _OF_UNIT}
    once |= {name: _OF_UNIT for name in layout.of_unit if not job.columns[name].kind.coded}
    for name, weight in once.items():
        values = _numbers(records, name)
        sought.append(weight * _scores(values, values))
    order = gap = np.zeros(len(records))
    if layout.order in layout.of_row:
        order, gap = _numbers(records, layout.order), np.nan_to_num(_numbers(records, gap_name(layout.order)))
        scale = _ORDER / (np.std(order) or 1.0)
        order, gap = scale * (order - order.mean()), scale * gap
    left = np.stack([_BEFORE * _scores(of, of) for of in own], axis=1) if own else np.empty((len(records), 0))
    return np.stack([*sought, order - gap], axis=1), left, gap


def _scores(values: FloatArray, among: FloatArray) -> FloatArray:
    """Normal scores of the places of values among others, the middle one of equals; 0 for none."""
    among = np.sort(among[~np.isnan(among)])
    place = np.searchsorted(among, values, side="left") + np.searchsorted(among, values, side="right")
    return np.where(np.isnan(values), 0.0, ndtri((place + 1.0) / (2.0 * len(among) + 2.0)))


def _codes_of(records: pa.Table, job: Job, layout: Layout) -> tuple[IntArray, IntArray, FloatArray]:
    """Codes that a record seeks, those that it leaves, and what a different one counts: categories, and nulls."""
    sought, left, weights, n = [], [], [], len(records)
    for name in masked_rows(job, layout):
        own, before = records.column(name), records.column(before_name(name))
        if job.columns[name].kind.coded:
            both = as_dictionary(pa.chunked_array([*map(plain, (*own.chunks, *before.chunks))]).combine_chunks())
            codes = positions(both.indices, -1)
        elif own.null_count:
            codes = np.concatenate([own.is_null().to_numpy(), before.is_null().to_numpy()]).astype(np.int64)
        else:
            continue
        left.append(codes[:n])
        sought.append(codes[n:])
        weights.append(_BEFORE**2)
    for name in layout.of_unit:
        column = records.column(name)
        if job.columns[name].kind.coded:
            codes = positions(as_dictionary(column.combine_chunks()).indices, -1)
        else:
            codes = column.is_null().to_numpy().astype(np.int64)
        sought.append(codes)
        weights.append(_OF_UNIT**2)
    return _stacked(sought, n), _stacked(left, n), np.array(weights)


def _stacked(columns: list[IntArray], n: int) -> IntArray:
    return np.stack(columns, axis=1) if columns else np.empty((n, 0), dtype=np.int64)
