"""Unfold the written records that are units into their rows, read these again, and hold them against the records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.special import ndtri

from anonpipe.columns import Column
from anonpipe.encoding.rules import with_differences
from anonpipe.encoding.values import Grid, from_numbers, numbers, plain, with_nullable_types
from anonpipe.errors import DamagedError, EngineError
from anonpipe.evaluate.utility import ks_distance
from anonpipe.job.linked import FILE_ROWS, FIRST, PART, ROW, before_name, gap_name, masked_rows, mean_name
from anonpipe.job.model import Job
from anonpipe.job.wide import ROWS, UnitLayout, rule_of_rows
from anonpipe.kernels.points import places
from anonpipe.moments import PairwiseMoments, merge_all
from anonpipe.pipeline.arrays import FILES, MEASURE_ROWS, UNFOLDED
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.tasks.write import Hashing, written_files
from anonpipe.pipeline.units import SUMS, Folded, added, correlations_of_rows, row_sums, side_by_side, sums_of_records
from anonpipe.report.compared import finite
from anonpipe.report.content import UnitsPart
from anonpipe.storage.release import describe_schema, sha256
from anonpipe.types import BoolArray, FloatArray, IntArray

_NUMBER = {"treatment": "number of the unit"}
_DIFFERS = "the rows of units differ from the records that were measured; nothing is released: go on with --resume"


def unfold_file(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Write the rows of the units of an output file, and verify them as they lie on the disk."""
    if (folded := work.folded) is None:
        raise DamagedError("the staging does not say which rows units have; run again")
    written = work.staging.results("write").read_all(index + 1)
    records, before = work.staging.file(f"{FILES}/{written[index]['name']}"), sum(each["rows"] for each in written[:-1])
    if sha256(records) != written[index]["sha256"]:
        raise EngineError(
            f"{records.name} was damaged on the disk after it was measured; check the disk, then --resume"
        )
    name, schema = f"{UNFOLDED}/{records.name}", _long_schema(fitted, folded)
    with (
        work.staging.renamed(name) as draft,
        Hashing(draft) as out,
        pq.ParquetWriter(out, schema, compression="zstd", store_schema=True) as writer,
    ):
        if folded.layout.linked:
            read = pq.read_table(records).unify_dictionaries().combine_chunks()
            units = linked(read, fitted, folded.layout)
            writer.write_table(units.to_rows(read, folded.layout, schema, before), fitted.job.release.row_group_rows)
        else:
            for first, batch in _batches(records):
                rows = to_long(batch, folded.layout, schema, before + first)
                writer.write_batch(rows, row_group_size=max(1, rows.num_rows))
    path = work.staging.file(name)
    if folded.layout.linked:
        table = pq.read_table(path).unify_dictionaries().combine_chunks()
        found = verified_units(folded, table, read, units, before)
        found["moments"] = _moments(fitted, folded, table, read, units)
    else:
        found = _verified(folded, path, records, before)
    if sha256(path) != out.digest.hexdigest():
        raise EngineError(_DIFFERS)
    return {"name": records.name, "sha256": out.digest.hexdigest(), "bytes": path.stat().st_size, **found}


def _long_schema(fitted: Fitted, folded: Folded) -> pa.Schema:
    """The columns of the published rows: the number of the unit, and those of the input in its order."""
    layout, fields = folded.layout, []
    for name in folded.names:
        whole = name == layout.unit
        own = pa.field(name, pa.int64(), nullable=False) if whole else fitted.schema.field(layout.wide_names(name)[0])
        fields.append(own.with_name(name).remove_metadata())
    types = {name: kind for name in folded.names if (kind := fitted.pandas_types.get(layout.wide_names(name)[0]))}
    return with_nullable_types(pa.schema(fields), types)


def _batches(path: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The row groups of a file of records, and the place of the first of each."""
    parquet, first = pq.ParquetFile(path), 0
    for at in range(parquet.num_row_groups):
        table = parquet.read_row_group(at).unify_dictionaries().combine_chunks()
        yield first, table.to_batches()[0]
        first += table.num_rows


def to_long(records: pa.RecordBatch, layout: UnitLayout, schema: pa.Schema, before: int) -> pa.RecordBatch:
    """The rows of records; units are numbered on from `before`, in an order that was drawn at random."""
    number = records.column(ROWS).to_numpy()
    (record, place), columns = places(number), []
    for field in schema:
        if field.name == layout.unit:
            columns.append(pa.array(before + record + 1))
            continue
        if field.name in layout.counted:
            columns.append(from_numbers(number[record].astype(np.float64), field, None))
            continue
        sides = side_by_side(records, layout, field.name)
        whole = pa.chunked_array(sides).unify_dictionaries().combine_chunks()
        columns.append(whole.take(pa.array(record + (place * len(records) if len(sides) > 1 else 0))))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def verified_units(folded: Folded, table: pa.Table, records: pa.Table, units: Linked, before: int) -> dict[str, Any]:
    """Hold the rows of linked units, as read from the disk, against records: an error where they differ; else facts.

    Every record is one row, with the unit's columns of the record that begins it, and rows are in order.
    """
    layout = folded.layout
    unit, first = table.column(layout.unit).to_numpy() - before - 1, np.diff(units.unit, prepend=-1) != 0
    begins = pc.equal(records.column(PART), FIRST).to_numpy()
    known = {name: units.record for name in layout.of_row if name not in units.moved}
    known |= {name: units.first for name in layout.of_unit if name not in units.moved}
    same = (_same(table.column(n), records.column(n).take(pa.array(of)).combine_chunks()) for n, of in known.items())
    held = (
        np.array_equal(unit, units.unit),
        np.array_equal(np.sort(units.record), np.arange(len(records))),
        np.array_equal(np.sort(units.record[first]), np.flatnonzero(begins)),
        all(_same(table.column(name), values) for name, values in units.moved.items()),
        layout.order not in layout.of_row or _in_sequence(table, layout, ~first[1:]),
    )
    if not all(held) or not all(same):
        raise EngineError(_DIFFERS)
    sums = row_sums([numbers_of(table, name) for name in folded.compared], first)
    pairs = [(numbers_of(records, name), numbers_of(table, name)) for name in units.moved]
    far = max((ks_distance(*(side[~np.isnan(side)] for side in pair)) for pair in pairs), default=0.0)
    found = {"sizes": np.bincount(np.bincount(unit)), "sums": sums, "disordered": 0, "order_moved": far}
    return {"rows": len(table), "units": int(first.sum()), **found}


def _moments(fitted: Fitted, folded: Folded, table: pa.Table, records: pa.Table, units: Linked) -> PairwiseMoments:
    """Moments of rows as read from the disk, with columns that only records have as these have them."""
    rows = records.take(pa.array(units.record))
    for at, name in enumerate(rows.schema.names):
        if name in folded.names:
            rows = rows.set_column(at, name, table.column(name))
    batches = rows.combine_chunks().to_batches(MEASURE_ROWS)
    parts = (fitted.cells.to_cells(with_differences(batch, fitted.job.parsed_rules)) for batch in batches)
    return merge_all([PairwiseMoments.of(fitted.view.measure(cells)) for cells in parts])


def _in_sequence(table: pa.Table, layout: UnitLayout, later: BoolArray) -> bool:
    """Whether no row begins before the one above of its unit, or before that has ended."""
    begin = numbers_of(table, str(layout.order))
    if layout.end is None:
        return bool((np.diff(begin)[later] >= 0).all())
    end, length = numbers_of(table, layout.end), numbers_of(table, layout.length)
    after = np.fmax(begin, end)[:-1]
    return bool((begin[1:] >= after)[later].all()) and np.array_equal(begin + length, end, equal_nan=True)


def _verified(folded: Folded, path: Path, records: Path, before: int) -> dict[str, Any]:
    """Hold the rows of a file against its records: an error where they differ; else facts of the rows."""
    layout, unfolded = folded.layout, pq.ParquetFile(path)
    units = rows = disordered = 0
    sizes, sums = np.zeros(layout.most + 1, dtype=np.int64), np.zeros((len(folded.compared), SUMS))
    for at, (first, batch) in enumerate(_batches(records)):
        table = unfolded.read_row_group(at)
        number, of = batch.column(ROWS).to_numpy(), table.column(layout.unit).to_numpy() - before - first - 1
        if not _agree(layout, table, batch, number, of):
            raise EngineError(_DIFFERS)
        if layout.order in layout.of_row:
            order = numbers_of(table, layout.order)
            disordered += int(np.count_nonzero((np.diff(order) < 0) & (np.diff(of) == 0)))
        units, rows = units + len(batch), rows + len(table)
        sizes += np.bincount(number, minlength=len(sizes))
        sums += sums_of_records(folded.compared, layout, batch)
    if unfolded.metadata.num_rows != rows:
        raise EngineError(_DIFFERS)
    return {"rows": rows, "units": units, "sizes": sizes, "sums": sums, "disordered": disordered}


def _agree(layout: UnitLayout, table: pa.Table, records: pa.RecordBatch, number: IntArray, of: IntArray) -> bool:
    """Whether rows are those of records: every unit once and whole, with its values in all of its rows."""
    if len(of) != number.sum() or of.min() < 0 or not np.array_equal(np.bincount(of, minlength=len(number)), number):
        return False
    order = np.argsort(of, kind="stable")
    place = np.empty(len(of), dtype=np.int64)
    place[order] = places(number)[1]
    counts = (np.array_equal(numbers_of(table, name), number[of]) for name in layout.counted)
    own = [name for name in layout.of_unit if name not in layout.counted]
    once = (_same(table.column(name), records.column(name).take(pa.array(of))) for name in own)
    of_rows = (
        _same(table.column(name).filter(pa.array(place == at)), side.filter(pa.array(number > at)))
        for name in layout.of_row
        for at, side in enumerate(side_by_side(records, layout, name))
    )
    return all(once) and all(counts) and all(of_rows)


def _same(column: pa.ChunkedArray, other: pa.Array) -> bool:
    return bool(plain(column.combine_chunks()).equals(plain(other)))


# --- Facts of the published table


def published_files(work: Work, cut: Cut) -> list[Path]:
    """The files that are published, in their order."""
    if work.folded is None:
        return written_files(work, cut)
    return [work.staging.file(f"{UNFOLDED}/part-{at:05d}.parquet") for at in range(cut.files)]


def released_rows(work: Work, cut: Cut) -> int:
    """Rows of the published table."""
    if work.folded is None:
        return cut.released * work.job.release.copies
    return sum(result["rows"] for result in _results(work, cut))


def disordered_rows(work: Work, cut: Cut) -> int:
    """Published rows that lie before the one above of the same unit."""
    done = [] if work.folded is None else _results(work, cut)
    return sum(result["disordered"] for result in done)


def published_moments(work: Work, cut: Cut) -> PairwiseMoments:
    """Moments of the published rows of linked units."""
    parts: list[PairwiseMoments] = [result["moments"] for result in _results(work, cut)]
    return merge_all(parts)


def published_sample(work: Work, fitted: Fitted, cut: Cut, rows: int) -> FloatArray:
    """Cells of about so many published rows of linked units, NaN in columns that these do not have."""
    parts, each, names = [], -(-rows // cut.files), work.folded.names if work.folded else ()
    for path in published_files(work, cut):
        batch = next(pq.ParquetFile(path).iter_batches(each))  # the first rows: units lie in random order
        hidden = {name: np.full(len(batch), np.nan) for name in fitted.cells.names if name not in names}
        parts.append(fitted.cells.to_cells(batch, hidden))
    return np.concatenate(parts)


def _results(work: Work, cut: Cut) -> list[dict[str, Any]]:
    return work.staging.results("unfold").read_all(cut.files, PairwiseMoments)


# The limit of differences of rows a unit, and of their order, and the quantile of those of two samples (Kolmogorov &
# Smirnov, 99.9 %)
_LENGTHS, _CHANCE = 0.05, 1.95


def lengths_off(work: Work, cut: Cut) -> tuple[float, float] | None:
    """How far numbers of rows of units are from the original's (Kolmogorov & Smirnov), and the limit; None without."""
    if work.folded is None:
        return None
    results, sizes = _results(work, cut), work.folded.sizes
    released = np.array([count for _, count in _sizes(results)])
    most = max(len(sizes), len(released))
    before, after = (np.cumsum(np.pad(side, (0, most - len(side)))) / side.sum() for side in (sizes, released))
    chance = _CHANCE * np.sqrt(1.0 / sizes.sum() + 1.0 / released.sum())
    return float(np.abs(after - before).max()), float(_LENGTHS + chance)


def order_off(work: Work, cut: Cut) -> tuple[float, float] | None:
    """How far links move order, ends, lengths and counts at most (Smirnov), and the limit; None without links."""
    if work.folded is None or not work.folded.layout.linked:
        return None
    results = _results(work, cut)
    moved, rows, units = (np.array([each[key] for each in results]) for key in ("order_moved", "rows", "units"))
    return float(np.average(moved, weights=rows)), float(_LENGTHS + _CHANCE * np.sqrt(2.0 / units.sum()))


def manifest_of_rows(work: Work, fitted: Fitted, cut: Cut, manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest of the published rows, from that of the records that were measured."""
    if (folded := work.folded) is None:
        return manifest
    layout, results = folded.layout, _results(work, cut)
    wide, columns = layout.wide_names, manifest["columns"]
    kept = {"rules": _rules_of_rows(manifest["rules"])} if "rules" in manifest else {}
    return manifest | {
        "rows": sum(result["rows"] for result in results),
        "rows_per_unit": "several",
        "k_counts": "units of several rows",
        "units": {
            "column": layout.unit,
            "units": sum(result["units"] for result in results),
            "order": layout.order if layout.order in layout.of_row else None,
            "one_value": list(layout.of_unit),
            **({"linked": True} if layout.linked else {}),
            "units_by_rows": {str(number): int(count) for number, count in _sizes(results) if count},
        },
        "schema": describe_schema(_long_schema(fitted, folded)),
        "columns": {name: _NUMBER if name == layout.unit else columns[wide(name)[0]] for name in folded.names},
        **kept,
        "files": [{key: result[key] for key in ("name", "rows", "bytes", "sha256")} for result in results],
    }


def _sizes(results: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return list(enumerate(reduce(added, (result["sizes"] for result in results)).tolist()))


def _rules_of_rows(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rules of the job, with the counts of all rows together; without those by which units have their rows."""
    found: dict[str, dict[str, Any]] = {}
    for each in rules:
        if text := rule_of_rows(each["rule"]):
            one = found.setdefault(text, {"rule": text, "repaired": 0, "broken": 0})
            one |= {key: one[key] + each[key] for key in ("repaired", "broken")}
    return list(found.values())


def declared_of_rows(work: Work, columns: Mapping[str, Column]) -> Mapping[str, Column]:
    """What the job says of the published columns, from what is said of those side by side; bounds that all have."""
    if work.folded is None:
        return columns
    found = {}
    for name in (*work.folded.layout.of_unit, *work.folded.layout.of_row):
        sides = [columns[side] for side in work.folded.layout.wide_names(name)]
        ends = zip(*(side.bounds or (None, None) for side in sides), strict=True)
        bounds = tuple(None if None in each else each[0] for each in ends)
        found[name] = sides[0].model_copy(update={"bounds": None if bounds == (None, None) else bounds})
    return found


def units_part(work: Work, cut: Cut) -> UnitsPart | None:
    """Rows of units before and after, for the reports; None where units are not released whole."""
    if (folded := work.folded) is None:
        return None
    results = _results(work, cut)
    released, original = dict(_sizes(results)), dict(enumerate(folded.sizes.tolist()))
    before, after = (
        correlations_of_rows(sums).T.tolist()
        for sums in (folded.sums, np.sum([each["sums"] for each in results], axis=0))
    )
    figures = zip(*(map(finite, each) for pair in zip(before, after, strict=True) for each in pair), strict=True)
    sizes = ((rows, original.get(rows, 0), released.get(rows, 0)) for rows in sorted(original | released))
    return UnitsPart(
        column=folded.layout.unit,
        sizes=tuple(each for each in sizes if any(each[1:])),
        columns=tuple((name, each) for name, each in zip(folded.compared, figures, strict=True)),
        unreleased=folded.unreleased,
        linked=folded.layout.linked,
    )


# --- Measured rows linked into units: which row follows which ---------------------------------------------------------

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
    moved: Mapping[str, pa.Array]  # Columns that follow from the link: the one that orders rows, ends, lengths, counts

    def to_rows(self, records: pa.Table, layout: UnitLayout, schema: pa.Schema, before: int) -> pa.Table:
        """The rows of units, which are numbered on from `before`."""
        columns = []
        for name in schema.names:
            if name == layout.unit:
                columns.append(pa.array(before + self.unit + 1))
            elif name in self.moved:
                columns.append(self.moved[name])
            else:
                source = self.first if name in layout.of_unit else self.record
                columns.append(records.column(name).take(pa.array(source)))
        return pa.Table.from_arrays(columns, schema=schema)


def linked(records: pa.Table, fitted: Fitted, layout: UnitLayout) -> Linked:
    """Link records in buckets, which have equally many first, second and further rows."""
    # Records lie in random order, so that buckets are random, too.
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
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    moved = dict.fromkeys(layout.counted, np.bincount(unit)[unit].astype(np.float64))
    if (name := layout.order) in layout.of_row:
        own, gap = (numbers_of(records, each)[record] for each in (name, gap_name(name)))
        if layout.end is None:
            moved[name] = fitted.grid(name).round(_order_of(own, gap, starts, unit))
        else:
            length = numbers_of(records, layout.length)[record]
            grids = [fitted.grid(each) for each in (name, layout.end, layout.length)]
            begin, length = _spells(own, gap, length, starts, unit, grids)
            moved |= zip((name, layout.end, layout.length), _on_grids(begin, length, unit, grids), strict=True)
    made = {each: from_numbers(of, fitted.schema.field(each), fitted.grid(each).step) for each, of in moved.items()}
    return Linked(record, record[starts][unit], unit, made)


def numbers_of(records: pa.Table, name: str) -> FloatArray:
    """A column as numbers, NaN where missing."""
    return numbers(records.column(name).combine_chunks())


def _order_of(own: FloatArray, gap: FloatArray, starts: IntArray, unit: IntArray) -> FloatArray:
    """Values of the order of each row: as masked, ascending inside a unit, or a start and gaps; what moves less."""
    # Sums of many gaps end where no unit does; regular gaps are none between values of other records.
    later = np.diff(unit, prepend=-1) == 0
    gaps = np.nan_to_num(gap[later])

    def moved(order: FloatArray) -> float:
        return max(ks_distance(own, order), ks_distance(gaps, np.diff(order, prepend=0.0)[later]))

    made = _in_order(own, gap, starts, unit)
    return min(own[np.lexsort((own, unit))], made, key=moved) if later.any() else made


def _in_order(own: FloatArray, gap: FloatArray, starts: IntArray, unit: IntArray) -> FloatArray:
    """The start of each unit and the gaps from there on; units that would end after all records begin earlier."""
    # Where that does not suffice, all gaps of the unit are shorter by the same factor.
    gap = np.nan_to_num(gap)
    gap[starts] = 0.0
    span, room = np.add.reduceat(gap, starts), own.max() - own.min()
    gap *= np.divide(room, span, out=np.ones(len(span)), where=span > room)[unit]
    total = np.cumsum(gap)
    begin = np.minimum(own[starts], own.max() - np.minimum(span, room))
    return np.asarray(np.minimum(begin[unit] + (total - total[starts][unit]), own.max()))


def _spells(
    own: FloatArray, gap: FloatArray, length: FloatArray, starts: IntArray, unit: IntArray, grids: Sequence[Grid]
) -> tuple[FloatArray, FloatArray]:
    """Begin and length of rows that follow by gaps from the end before; units that would end too late begin earlier.

    Where that does not suffice, gaps shrink by the unit's factor, and lengths down to the least one. Begins stay among
    all masked ones, and ends inside their bounds; `grids`: of begin, end and length.
    """
    of_begin, of_end, of_length = grids
    gap_step, step = (max(1.0, grid.step or 1.0) for grid in (of_begin, of_length))
    shortest = max(0.0, of_length.low)
    shortest += (of_length.origin - shortest) % step
    without_end, size, gap = np.isnan(length), np.nan_to_num(length), np.nan_to_num(gap)
    least = np.where(without_end, 0.0, np.minimum(shortest, size))
    gap[starts], final = 0.0, np.append(starts[1:], len(own)) - 1
    earliest, latest = own.min(), own.max()
    first_end, last_end = max(earliest, of_end.low), min((own + size).max(), of_end.high)
    factor = np.ones(len(starts))
    for from_end, to_begin in itertools.product((False, True), repeat=2):  # the first and the last row's
        room = (latest if to_begin else last_end) - (first_end if from_end else earliest)
        way, kept = (
            np.add.reduceat(lengths + gaps, starts) - from_end * lengths[starts] - to_begin * lengths[final]
            for lengths, gaps in ((size, gap), (least, 0.0))
        )
        factor = np.minimum(factor, np.divide(room - kept, way - kept, out=np.ones(len(way)), where=way > kept))
    factor = np.maximum(factor, 0.0)[unit]
    gap, size = gap * factor, least + (size - least) * factor
    span = np.add.reduceat(gap + size, starts)
    begin = np.minimum(own[starts], np.minimum(last_end - span, latest - (span - size[final])))
    gap, size = np.floor(gap / gap_step) * gap_step, least + np.floor((size - least) / step) * step
    begin = np.maximum(np.floor(begin), np.minimum(own[starts], of_end.low - size[starts]))
    total = np.cumsum(gap + size) - size
    made = np.minimum(np.maximum(begin, earliest)[unit] + (total - total[starts][unit]), latest)
    return made, np.where(without_end, np.nan, size)


def _on_grids(begin: FloatArray, length: FloatArray, unit: IntArray, grids: Sequence[Grid]) -> tuple[FloatArray, ...]:
    """Begin, end and length of rows at permissible values; as given in units that would overlap there."""
    (of_begin, of_end, of_length), end, later = grids, begin + length, np.diff(unit) == 0
    near, far = of_begin.round(begin), of_end.round(end)
    ends, after = far[:-1], near[1:]  # an end stays the next begin, or not above it
    far[:-1] = np.where(later & ((ends > after) | (end[:-1] == begin[1:])), after, ends)
    beyond = (far - near < max(0.0, of_length.low)) | (far - near > of_length.high)
    beyond[1:] |= later & (after < np.fmax(near, far)[:-1])
    given = np.bincount(unit, beyond)[unit] > 0
    begin, end = np.where(given, begin, near), np.where(given, end, far)
    return begin, end, end - begin


def _units_of(records: pa.Table, job: Job, layout: UnitLayout) -> tuple[IntArray, IntArray]:
    """The unit of each record, and its place there."""
    # Units begin with the records of first rows. As many go on as there are records of the next row: those that want
    # most rows, then those that ended before they had as many. Together they take these records, each one, so that the
    # sum of squared distances is smallest, and `_final` ones go to units that want no more. Records that are left at
    # the end go to units in the same way. Nothing follows a record without an end, unless all units have one.
    from scipy.optimize import linear_sum_assignment  # here, as both take .3 s to load
    from scipy.spatial.distance import cdist

    row, rows = (records.column(name).to_numpy() for name in (ROW, ROWS))
    without_end = np.isnan(np.zeros(len(row)) if layout.end is None else numbers_of(records, layout.end))
    rows = np.where(without_end, 1, rows)
    begins = pc.equal(records.column(PART), FIRST).to_numpy()
    first, rest = np.flatnonzero(begins), np.flatnonzero(~begins)
    if not len(first):
        raise EngineError("no record of a bucket begins a unit; raise release.file_rows, and run again")
    rest = rest[np.argsort(row[rest], kind="stable")]
    upto = np.searchsorted(row[rest], np.arange(layout.most + 1), side="right")
    sought, left, way = _compared(records, job, layout)
    state, width = sought[first], left.shape[1]
    state[:, :width] = left[first]
    state[:, -1] += way[first]
    unit, place = np.zeros((2, len(row)), dtype=np.int64)
    unit[first], length = np.arange(len(first)), np.ones(len(first), dtype=np.int64)
    final = _FINAL * (without_end | _final(records, job, layout))[:, None]
    longest, begin, step, over = np.argsort(-rows[first], kind="stable"), 0, 1, without_end[first]
    while begin < len(rest):
        step += 1
        last, unmet, ended = step > layout.most, rows[first] > length, length < step - 1
        able = longest[((last | unmet | ~ended) & ~(over & ~over.all()))[longest]]
        able = able[np.argsort((~unmet if last else ended)[able], kind="stable")]
        end = min(begin + len(able), len(rest) if last else max(begin, upto[step]))
        for units, taken in _blocks(state, able[: end - begin], sought, rest[begin:end]):
            ends = _FINAL * (rows[first[units]] <= length[units] + 1)[:, None]
            sides = np.append(state[units], ends, axis=1), np.append(sought[taken], final[taken], axis=1)
            taken = taken[linear_sum_assignment(cdist(*sides, "sqeuclidean"))[1]]
            unit[taken], place[taken] = units, length[units]
            state[units, :width] = left[taken]
            state[units, -1] += way[taken]
            length[units] += 1
            over[units] |= without_end[taken]
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
    """What a record seeks of the row before and of its unit, leaves for the next row, and adds to the order."""
    # Differences count as much as columns are correlated with the row that they are to explain. The last column is the
    # order, on which gaps add up.
    later = pc.not_equal(records.column(PART), FIRST).to_numpy()
    column = {name: records.column(name).combine_chunks() for name in records.column_names}
    coded = {name for name, each in job.columns.items() if each.kind.coded}
    several = masked_rows(job, layout)
    left = [_features(column[name], column[name], name in coded) for name in several]
    sought = [_features(column[before_name(name)], column[name], name in coded) for name in several]
    weights = [_BEFORE * _tie(one[later], other[later]) for one, other in zip(sought, left, strict=True)]
    order = gap = way = np.zeros(len(records))
    tied = [np.empty((len(records), 0)), *left]
    if layout.order in layout.of_row:
        gaps = column[gap_name(layout.order)]
        order, gap = numbers(column[layout.order]), np.nan_to_num(numbers(gaps))
        way = gap if layout.end is None else gap + np.nan_to_num(numbers(column[layout.length]))
        order, gap, way = (each / (order.std() or 1.0) for each in (order - order.mean(), gap, way))
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
    return np.concatenate(sought, axis=1) * scale, leaves * scale[: leaves.shape[1]], way * scale[-1]


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
