"""Read the input: keyed contents, counts, moments, identifiers, a sample for the trees; and the hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.encoding.identifiers import (
    FOLDER,
    DigestWriter,
    Repeats,
    Save,
    digest_writers,
    joined,
    some_units,
    unit_numbers,
)
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
from anonpipe.encoding.scan import Scan, TotalLine, merge_scans, scan_batch
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
SCANS = "scans/{}.record"
SKETCHES, UNIT_SUMS = "sketches/{}.record", "unit_sums/{}.record"
_HELD, _OTHERS = "held/{}.npy", "held/others-{}.npy"
RULES = "rules/{}.record"
OF_UNITS = "of_units/{}.record"  # All rows of some units
TOTALS = "totals/{}.record"


@dataclass(eq=False)
class InputCounts:
    """What a reading of the input counts; a run has one for each input split, a plan one for all."""

    job: Job
    key: bytes  # Of the start of the run
    rows: int  # Of the whole input
    writers: dict[str, DigestWriter]  # Of identifiers
    in_strata: DigestWriter | None
    changed: UnitTracer | None  # Of units that differ from earlier releases
    rules: RuleCounts
    totals: TotalLine
    scans: list[Scan] = field(default_factory=list)  # One at most
    of_units: list[pa.RecordBatch] = field(default_factory=list)  # All rows of some units, without identifiers

    @classmethod
    def of(cls, job: Job, rows: int, save: Save, keys: tuple[bytes, bytes], index: int = 0) -> InputCounts:
        """Of no rows yet; `keys` are of the start of the run and of its records."""
        writers, in_strata = digest_writers(save, job.identifiers, keys[0], index), None
        if job.whole_units and job.strata.by:  # pairs of unit and stratum; other units may lie in several strata
            in_strata = DigestWriter(save, f"{FOLDER}/{len(job.identifiers)}-{index}", str(job.unit_column), keys[0])
        totals, rules = TotalLine(next(iter(job.columns))), RuleCounts.none(job.parsed_rules)
        return cls(job, keys[0], rows, writers, in_strata, unit_tracer(job, keys[1]), rules, totals)

    def add(
        self, every: pa.RecordBatch, first_row: int, held: BoolArray | None
    ) -> tuple[pa.RecordBatch, Units | None, BoolArray | None]:
        """Count rows; returns them without identifiers, units, and which are kept; `held`: rows of no unit held out."""
        job, units = self.job, units_in(self.job, self.key, every)
        kept = None if held is None else ~held_of_units(held, self.key, job.measure.held_out, units)
        self.totals.add(every, list(job.released))
        for name, writer in self.writers.items():
            writer.add(every.column(name))
        if self.in_strata is not None:
            self.in_strata.add(joined(every, [str(job.unit_column), *job.strata.by]))
        if self.changed is not None:
            self.changed.add(every, kept)
        batch = every.select([name for name in every.schema.names if name not in self.writers])
        if units is not None:
            self.of_units.append(some_units(batch, units, self.rows))
        enough, by = None if units is None else (units, job.k), (job.strata.by, job.scored_by)
        scanned = scan_batch(batch, job.columns, first_row, job.counted, kept, *by, enough, job.k)
        self.scans = [merge_scans([*self.scans, scanned])]  # at once: what is counted of numbers by rank is large
        if rules := job.parsed_rules:
            some = batch if kept is None else batch.filter(pa.array(kept))
            of_rows = None if units is None else (units if kept is None else units[kept], job.k)
            self.rules = self.rules.merge(RuleCounts.of(rules, some, job.columns, of_rows))
        return batch, units, kept

    @property
    def scan(self) -> Scan:
        """The scan of all rows; an error where there are none."""
        return merge_scans(self.scans)

    def close(self) -> tuple[list[Repeats], Repeats | None]:
        """How often identifiers, and pairs of unit and stratum, occur."""
        pairs = None if self.in_strata is None else self.in_strata.close()
        return [writer.close() for writer in self.writers.values()], pairs


def scan_unit(work: Work, index: int) -> dict[str, Any]:
    """Read an input split twice: keyed contents, then counts, moments, identifiers and a sample."""
    unit, job, staging = work.source.units[index], work.job, work.staging
    contents, first_reading = _first_pass(work, index)
    identifiers, keys_of_run = (0, 0), (work.start_key, bytes(staging.read("records.key")))
    counts = InputCounts.of(job, work.source.rows, staging.write_array, keys_of_run, index)
    sample, keys = [], []
    for first_row, every in read_batches(work.source, unit, [*job.released, *counts.writers]):
        identifiers = add_fingerprints(identifiers, fingerprint(identifier_lanes(every, job.columns), first_row))
        begin = first_row - unit.first_row
        part, share = contents[begin : begin + every.num_rows], job.measure.held_out
        held = held_rows(work.start_key, share, part) if share else None
        batch, _, kept = counts.add(every, first_row, held)
        chosen = _sampled(work, part, kept)
        sample.append(batch.filter(pa.array(chosen)))
        keys.append(route_keys(work, part)[chosen])
    scan = counts.scan
    if add_fingerprints(scan.fingerprint, identifiers) != first_reading:
        raise InputError(CHANGED.format(path=unit.path))
    staging.write_record(SCANS.format(index), scan)
    if job.parsed_rules:
        staging.write_record(RULES.format(index), counts.rules)
    staging.write_record(_SAMPLES.format(index), (sample, np.concatenate(keys)))
    staging.write_record(OF_UNITS.format(index), counts.of_units)
    staging.write_record(TOTALS.format(index), counts.totals)
    if counts.changed is not None:
        staging.write_record(UNIT_SUMS.format(index), counts.changed.sums)
    of_identifiers, in_strata = counts.close()
    result = {"rows": unit.rows, "held_out": unit.rows - scan.rows, "fingerprint": scan.fingerprint}
    return result | {"identifiers": of_identifiers, "in_strata": in_strata}


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
    work.staging.write_record(SKETCHES.format(index), tracer.sketches)
    return contents, tracer.fingerprint


def unit_contents(work: Work, index: int) -> Contents:
    """The keyed contents of a scanned input split."""
    return work.staging.read_one(_CONTENTS.format(index), Contents)


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
    drawn = list(work.of_splits(_SAMPLES))
    return [batch for batches, _ in drawn for batch in batches], np.concatenate([keys for _, keys in drawn])


# --- Held-out records


FEWEST_HELD = 30  # Records below which a hold-out is no control


def held_rows(start_key: bytes, share: float, contents: Contents) -> BoolArray:
    """Which rows of the input are held out, shape (n_rows,)."""
    # It follows from the steward's secret, the job and the row's content; of equal rows the share is held out.
    if share == 0.0:
        return np.zeros(len(contents.rows), dtype=bool)
    return contents.keys(keyed(start_key, "held out")) < np.uint64(share * 2**64)


def held_of_units(rows: BoolArray, start_key: bytes, share: float, units: Units | None) -> BoolArray:
    """Which rows are held out where a column names units: all rows of a unit, or none; `rows`: those of no unit."""
    if units is None:
        return rows
    drawn = number_keys(keyed(start_key, "held out"), units) < np.uint64(share * 2**64)
    return np.where(units == 0, rows, drawn)


def keep_held(work: Work, fitted: Fitted, unit: int, parts: list[FloatArray]) -> None:
    """Write the cells of an input split's held-out records: those looked for, and others; a last column holds units."""
    # Of the parts the column after the cells tells which are looked for.
    width = len(fitted.cells.names)
    rows = np.concatenate([np.empty((0, width + 1 + (fitted.unit is not None))), *parts])
    for file, chosen in ((_HELD, rows[:, width] == 1.0), (_OTHERS, rows[:, width] == 0.0)):
        work.staging.write_array(file.format(unit), np.delete(rows[chosen], width, axis=1))


def drawn_held(work: Work, contents: Contents, units: Units | None) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Which rows this run holds out, which of these are controls, and which of these looked for; of a unit all or none.

    Up to `CONTROLS` are held against predicates, `measure.queries` looked for; both samples follow from the content.
    """
    share, key = work.job.measure.held_out, keyed(work.start_key, "of those held out")
    held = held_of_units(held_rows(work.start_key, share, contents), work.start_key, share, units)
    drawn = contents.keys(key)
    if units is not None:
        drawn = np.where(units == 0, drawn, number_keys(key, units))
    queries, expected = work.job.measure.queries, max(1.0, share * work.source.rows)
    parts = (min(1.0, wanted / expected) for wanted in (max(CONTROLS, queries), queries))
    controls, asked = (held & (drawn <= np.uint64(min(2**64 - 1, int(part * 2**64)))) for part in parts)
    return held, controls, asked


def comparable_cells(
    fitted: Fitted,
    batch: pa.RecordBatch,
    chosen: BoolArray,
    *extra: IntArray | Units | BoolArray,
    suppressed: bool = True,
) -> FloatArray:
    """Cells of the chosen rows that are comparable with released records, and what is in `extra` of each."""
    # A category that occurs in no other record, or a stratum that is left out, is none of the release, and such records
    # are passed over. Rare categories (unless they are not to be suppressed) and strata become what they became in the
    # release.
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
    """Cells of held-out records that are looked for, shape (n_rows, n_columns); no rows where nothing is held out."""
    if not work.job.measure.held_out:
        return np.empty((0, len(fitted.cells.names)))
    cells, units = held_rows_of(work, fitted, work.source.rows, [_HELD])  # of a unit one: persons are counted, not rows
    return cells[np.sort(np.unique(units, return_index=True)[1])]


def held_rows_of(
    work: Work, fitted: Fitted, most: int, files: Sequence[str] = (_HELD, _OTHERS)
) -> tuple[FloatArray, IntArray]:
    """Cells of held-out records, shape (n_rows, n_columns), and the unit of each: at most so many units, or records."""
    places = [file.format(unit) for file in files for unit in range(len(work.source.units))]
    cells = np.concatenate([work.staging.read_array(place) for place in places])
    width = len(fitted.cells.names)
    cells = cells[canonical_order(cells[:, :width], column_keys(work.key, fitted.cells.names))]
    units = np.arange(len(cells)) if fitted.unit is None else cells[:, width].astype(np.int64)
    chosen = np.isin(units, np.unique(units)[:most])
    return np.ascontiguousarray(cells[chosen, :width]), units[chosen]
