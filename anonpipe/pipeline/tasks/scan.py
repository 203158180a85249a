"""Read the input: keyed contents, counts, moments, identifiers, a sample for the trees; and the hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.encoding.identifiers import FOLDER, DigestWriter, Save, digest_writers, joined, some_units, unit_numbers
from anonpipe.encoding.row_hash import (
    LUMP,
    Contents,
    add_fingerprints,
    canonical_order,
    column_keys,
    contents_of,
    fingerprint,
    identifier_lanes,
)
from anonpipe.encoding.rules import RuleCounts
from anonpipe.encoding.scan import Scan, merge_scans, scan_batch
from anonpipe.encoding.totals import TotalLine
from anonpipe.encoding.tracers import Tracer, UnitTracer
from anonpipe.encoding.values import plain
from anonpipe.errors import InputError
from anonpipe.evaluate.risk import CONTROLS
from anonpipe.job.model import Job
from anonpipe.partition.strata import Units
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.rng import keyed, number_keys
from anonpipe.source import read_batches
from anonpipe.types import BoolArray, FloatArray, IntArray

CHANGED = "the input changed while it was read: {path} holds other rows than before; run again when nobody writes to it"

# Files in the staging, by partition or input split
_CONTENTS = "contents/{}.record"
_SAMPLES = "samples/{}.record"
_HELD, _OTHERS = "held/{}.npy", "held/others-{}.npy"
RULES = "rules/{}.record"
OF_UNITS = "of_units/{}.record"  # All rows of some units
TOTALS = "totals/{}.record"


def scan_unit(work: Work, index: int) -> dict[str, Any]:
    """Read an input split twice: keyed contents, then counts, moments, identifiers and a sample."""
    unit, job = work.source.units[index], work.job
    contents, first_reading = _first_pass(work, index)
    identifiers = (0, 0)
    writers = digest_writers(work.staging.write_array, job.identifiers, work.start_key, index)
    in_strata = unit_in_strata(work.staging.write_array, job, work.start_key, index)
    scans: list[Scan] = []
    rules = RuleCounts.none(job.parsed_rules)
    sample, keys, of_units = [], [], []
    tracer, totals = unit_tracer(job, bytes(work.staging.read("records.key"))), TotalLine(next(iter(job.columns)))
    for first_row, full_batch in read_batches(work.source, unit, [*job.released, *writers]):
        identifiers = add_fingerprints(identifiers, fingerprint(identifier_lanes(full_batch, job.columns), first_row))
        totals.add(full_batch, list(job.released))
        for name, writer in writers.items():
            writer.add(full_batch.column(name))
        if in_strata is not None:
            in_strata.add(joined(full_batch, [str(job.unit_column), *job.strata.by]))
        batch = full_batch.select([name for name in full_batch.schema.names if name not in writers])
        begin = first_row - unit.first_row
        part = contents[begin : begin + batch.num_rows]
        numbers = units_in(job, work.start_key, full_batch)
        kept = ~held_in(work, part, numbers) if job.measure.held_out else None
        units = None if numbers is None else (numbers, job.k)
        if tracer is not None:
            tracer.add(full_batch, kept)
        if numbers is not None:
            of_units.append(some_units(batch, numbers, work.source.rows))
        scanned = scan_batch(
            batch, job.columns, first_row, job.counted, kept, job.strata.by, job.scored_by, units, job.k
        )
        rules = rules.with_rows(job.parsed_rules, batch, job.columns, kept)
        scans = [merge_scans([*scans, scanned])]  # at once: what is counted of numbers by rank is large
        chosen = _sampled(work, part, kept)
        sample.append(batch.filter(pa.array(chosen)))
        keys.append(route_keys(work, part)[chosen])
    scan = merge_scans(scans)
    if add_fingerprints(scan.fingerprint, identifiers) != first_reading:
        raise InputError(CHANGED.format(path=unit.path))
    work.staging.write_record(f"scans/{index}.record", scan)
    if job.rules:
        work.staging.write_record(RULES.format(index), rules)
    work.staging.write_record(_SAMPLES.format(index), (sample, np.concatenate(keys)))
    work.staging.write_record(OF_UNITS.format(index), of_units)
    work.staging.write_record(TOTALS.format(index), totals)
    if tracer is not None:
        work.staging.write_record(f"unit_sums/{index}.record", tracer.sums)
    return {"rows": unit.rows, "held_out": unit.rows - scan.rows, "fingerprint": scan.fingerprint} | {
        "identifiers": [writer.close() for writer in writers.values()],
        "in_strata": None if in_strata is None else in_strata.close(),
    }


def unit_in_strata(save: Save, job: Job, key: bytes, index: int) -> DigestWriter | None:
    """A writer of (unit, stratum) pairs; None where units may lie in several strata."""
    if not job.whole_units or not job.strata.by:
        return None
    return DigestWriter(save, f"{FOLDER}/{len(job.identifiers)}-{index}", str(job.unit_column), key)


def unit_tracer(job: Job, key: bytes) -> UnitTracer | None:
    """A tracer of the units that differ from earlier releases; None unless `repeat.growing` is set."""
    if job.fewest_changed is None or job.unit_column is None:
        return None
    columns = {**job.released, job.unit_column: job.columns[job.unit_column]}
    return UnitTracer.of(job.unit_column, columns, keyed(key, "units that changed"), job.fewest_changed)


def units_in(job: Job, start_key: bytes, batch: pa.RecordBatch) -> Units | None:
    """The units of input rows as keyed numbers; None without a unit column."""
    name = job.unit_column
    if name is None or name not in batch.schema.names:
        return None
    return unit_numbers(name, batch.column(name), keyed(start_key, "units"))


def _first_pass(work: Work, index: int) -> tuple[Contents, tuple[int, int]]:
    """Write the keyed contents of an input split and the sketches for the logs; returns its fingerprint too."""
    unit = work.source.units[index]
    tracer = Tracer.of(work.source.schema, work.job.columns, bytes(work.staging.read("records.key")))
    lanes = (tracer.add(batch, first_row) for first_row, batch in read_batches(work.source, unit, tracer.names))
    contents = contents_of(lanes, work.start_key)
    work.staging.write_record(_CONTENTS.format(index), contents)
    work.staging.write_record(f"sketches/{index}.record", tracer.sketches)
    return contents, tracer.fingerprint


def unit_contents(work: Work, index: int) -> Contents:
    """The keyed contents of a scanned input split."""
    contents: Contents = work.staging.read_record(_CONTENTS.format(index), Contents)
    return contents


def route_keys(work: Work, contents: Contents) -> npt.NDArray[np.uint64]:
    """The keys that break ties of equal features where a tree splits."""
    return contents.keys(keyed(work.start_key, "route"), LUMP)


def _sampled(work: Work, contents: Contents, kept: BoolArray | None) -> BoolArray:
    """The rows that trees are fitted to, chosen by content; none of the hold-out."""
    share = min(1.0, work.job.partition.sample_rows / max(1, work.source.rows))
    limit = np.uint64(min(2**64 - 1, int(share * 2**64)))
    chosen: BoolArray = contents.keys(keyed(work.start_key, "sample"), LUMP) <= limit
    return chosen if kept is None else chosen & kept


def sampled_rows(work: Work) -> tuple[list[pa.RecordBatch], npt.NDArray[np.uint64]]:
    """The sampled rows of the scan, and their `route_keys`."""
    drawn = [work.staging.read_record(_SAMPLES.format(unit)) for unit in range(len(work.source.units))]
    return [batch for batches, _ in drawn for batch in batches], np.concatenate([keys for _, keys in drawn])


# --- Held-out records


FEWEST_HELD = 30  # Records below which a hold-out is no control


def held_rows(start_key: bytes, share: float, contents: Contents) -> BoolArray:
    """Which rows of the input are held out, shape (n_rows,).

    It follows from the steward's secret, the job and the row's content; of equal rows the share is held out.
    """
    if share == 0.0:
        return np.zeros(len(contents.rows), dtype=bool)
    return contents.keys(keyed(start_key, "held out")) < np.uint64(share * 2**64)


def held_of_units(rows: BoolArray, start_key: bytes, share: float, units: Units | None) -> BoolArray:
    """Which rows are held out where a column names units: all rows of a unit, or none; `rows`: those of no unit."""
    if units is None:
        return rows
    drawn = number_keys(keyed(start_key, "held out"), units) < np.uint64(share * 2**64)
    return np.where(units == 0, rows, drawn)


def held_in(work: Work, contents: Contents, units: Units | None) -> BoolArray:
    """Which of these rows of the input this run holds out."""
    key, share = work.start_key, work.job.measure.held_out
    return held_of_units(held_rows(key, share, contents), key, share, units)


def keep_held(work: Work, fitted: Fitted, unit: int, parts: list[FloatArray]) -> None:
    """Write the cells of an input split's held-out records: those looked for, and others; a last column holds units.

    Of the parts the column after the cells tells which are looked for.
    """
    width = len(fitted.cells.names)
    rows = np.concatenate([np.empty((0, width + 1 + (fitted.unit is not None))), *parts])
    for file, chosen in ((_HELD, rows[:, width] == 1.0), (_OTHERS, rows[:, width] == 0.0)):
        work.staging.write_array(file.format(unit), np.delete(rows[chosen], width, axis=1))


def drawn_held(work: Work, contents: Contents, units: Units | None) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Which rows this run holds out, which of these are controls, and which of these looked for; of a unit all or none.

    Up to `CONTROLS` are held against predicates, `measure.queries` looked for; both samples follow from the content.
    """
    key, held = keyed(work.start_key, "of those held out"), held_in(work, contents, units)
    drawn, share = contents.keys(key), work.job.measure.held_out
    if units is not None:
        drawn = np.where(units == 0, drawn, number_keys(key, units))
    queries, expected = work.job.measure.queries, max(1.0, share * work.source.rows)
    parts = (min(1.0, wanted / expected) for wanted in (max(CONTROLS, queries), queries))
    controls, asked = (held & (drawn <= np.uint64(min(2**64 - 1, int(part * 2**64)))) for part in parts)
    return held, controls, asked


def comparable_cells(
    fitted: Fitted, batch: pa.RecordBatch, chosen: BoolArray, *extra: IntArray | Units | BoolArray,
    suppressed: bool = True,
) -> FloatArray:  # fmt: skip
    """Cells of the chosen rows that are comparable with released records, and what is in `extra` of each.

    A category that occurs in no other record, or a stratum that is left out, is none of the release, and such records
    are passed over. Rare categories (unless they are not to be suppressed) and strata become what they became in the
    release.
    """
    chosen = chosen & _categorised(fitted, batch)
    cells = fitted.cells.to_cells(batch.filter(pa.array(chosen)))
    rows = np.flatnonzero(_occurring(fitted, cells, fitted.job.strata.by))
    cells = cells[rows]
    for change in (fitted.suppression, fitted.extremes) if suppressed else (fitted.extremes,):
        change.apply(cells, fitted.cells.names, fitted.strata.assign(cells))
    kept = _occurring(fitted, cells, fitted.cells.names if suppressed else ()) & ~np.isinf(cells).any(axis=1)
    cells, rows = cells[kept], rows[kept]
    stratum = fitted.strata.assign(cells)
    fitted.strata.recode(cells)
    cells, rows = cells[stratum >= 0], rows[stratum >= 0]
    return np.column_stack([cells, *(each[chosen][rows].astype(np.float64) for each in extra)])


def _categorised(fitted: Fitted, batch: pa.RecordBatch) -> BoolArray:
    """Rows whose categories the encoder has."""
    in_encoder = np.ones(batch.num_rows, dtype=bool)
    for name, categories in fitted.cells.categories.items():
        values = plain(batch.column(name))
        in_encoder &= pc.or_(pc.is_in(values, value_set=categories), values.is_null()).to_numpy(zero_copy_only=False)
    return in_encoder


def _occurring(fitted: Fitted, cells: FloatArray, names: Sequence[str]) -> BoolArray:
    """Rows whose categories and nulls in these columns occur in other records."""
    occurs = np.ones(len(cells), dtype=bool)
    for name in names:
        position = fitted.cells.names.index(name)
        column, missing = cells[:, position], np.isnan(cells[:, position])
        if name in fitted.cells.categories:
            counts = np.append(fitted.scan.code_counts(name), 0)
            occurs &= missing | (counts[np.where(missing, 0, column).astype(np.int64)] > 0)
        occurs &= ~missing | (fitted.scan.columns[name].nulls > 0)
    return occurs


def held_cells(work: Work, fitted: Fitted) -> FloatArray:
    """Cells of the held-out records that are looked for, shape (n_rows, n_columns); no rows where nothing is held out.

    Of units with several rows each has one: persons are counted, not rows.
    """
    if not work.job.measure.held_out:
        return np.empty((0, len(fitted.cells.names)))
    cells, units = held_rows_of(work, fitted, work.source.rows, [_HELD])
    return cells[np.sort(np.unique(units, return_index=True)[1])]


def held_rows_of(
    work: Work, fitted: Fitted, most: int, files: Sequence[str] = (_HELD, _OTHERS)
) -> tuple[FloatArray, IntArray]:
    """Cells of held-out records, and the unit of each: at most so many units, or records where these are.

    Shapes: returns (n_rows, n_columns), (n_rows,).
    """
    places = [file.format(unit) for file in files for unit in range(len(work.source.units))]
    cells = np.concatenate([work.staging.read_array(place) for place in places])
    width = len(fitted.cells.names)
    cells = cells[canonical_order(cells[:, :width], column_keys(work.key, fitted.cells.names))]
    units = np.arange(len(cells)) if fitted.unit is None else cells[:, width].astype(np.int64)
    chosen = np.isin(units, np.unique(units)[:most])
    return np.ascontiguousarray(cells[chosen, :width]), units[chosen]
