"""Reading the input: what each record is by its content, counts, moments, identifiers, and a sample for the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anonpipe.encoding.contents import LUMP, Contents, contents_of
from anonpipe.encoding.identifiers import FOLDER, DigestWriter, Save, digest_writers, joined
from anonpipe.encoding.scan import Scan, merge_scans, scan_batch
from anonpipe.encoding.sketch import Tracer
from anonpipe.encoding.unit_sums import UnitTracer
from anonpipe.encoding.units import unit_numbers
from anonpipe.job.model import Job
from anonpipe.partition.unit_sets import Units
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.holdout import held_in
from anonpipe.rng import keyed
from anonpipe.source import read_batches
from anonpipe.types import BoolArray


def scan_unit(work: Work, index: int) -> dict[str, Any]:
    """Read a unit: first what each record is by its content, then counts, moments, identifiers and a keyed sample."""
    unit, job = work.source.units[index], work.job
    contents = _first_pass(work, index)
    writers = digest_writers(work.staging.write_array, job.identifiers, work.start_key, index)
    in_strata = unit_in_strata(work.staging.write_array, job, work.start_key, index)
    scans: list[Scan] = []
    sample, keys = [], []
    tracer = unit_tracer(job, bytes(work.staging.read("records.key")))
    for first_row, whole in read_batches(work.source, unit, [*job.released, *writers]):
        for name, writer in writers.items():
            writer.add(whole.column(name))
        if in_strata is not None:
            in_strata.add(joined(whole, [str(job.unit_column), *job.strata.by]))
        batch = whole.select([name for name in whole.schema.names if name not in writers])
        begin = first_row - unit.first_row
        part = contents[begin : begin + batch.num_rows]
        own = units_in(job, work.start_key, whole)
        kept = ~held_in(work, part, own) if job.measure.held_out else None
        units = None if own is None else (own, job.k)
        if tracer is not None:
            tracer.add(whole, kept)
        found = scan_batch(batch, job.columns, first_row, job.counted, kept, job.strata.by, job.scored_by, units, job.k)
        scans = [merge_scans([*scans, found])]  # at once: what is counted of numbers by rank is large
        chosen = _sampled(work, part, kept)
        sample.append(batch.filter(pa.array(chosen)))
        keys.append(route_keys(work, part)[chosen])
    scan = merge_scans(scans)
    work.staging.write_record(f"scans/{index}.npz", scan)
    work.staging.write_record(_sample_file(index), (sample, np.concatenate(keys)))
    if tracer is not None:
        work.staging.write_record(f"unit_sums/{index}.npz", tracer.sums)
    return {"rows": unit.rows, "held_out": unit.rows - scan.rows, "fingerprint": scan.fingerprint} | {
        "identifiers": [writer.close() for writer in writers.values()],
        "in_strata": None if in_strata is None else in_strata.close(),
    }


def unit_in_strata(save: Save, job: Job, key: bytes, index: int) -> DigestWriter | None:
    """What counts the strata that each unit has rows in; None where these may be several."""
    if not job.whole_units or not job.strata.by:
        return None
    return DigestWriter(save, f"{FOLDER}/{len(job.identifiers)}-{index}", str(job.unit_column), key)


def unit_tracer(job: Job, key: bytes) -> UnitTracer | None:
    """What counts the units that differ from earlier releases; None where nobody asks."""
    if job.fewest_changed is None or job.unit_column is None:
        return None
    columns = {**job.released, job.unit_column: job.columns[job.unit_column]}
    return UnitTracer.of(job.unit_column, columns, keyed(key, "units that changed"), job.fewest_changed)


def units_in(job: Job, start_key: bytes, batch: pa.RecordBatch) -> Units | None:
    """The units of rows of the input, as keyed numbers; None where the job names none, or its column was not read."""
    name = job.unit_column
    if name is None or name not in batch.schema.names:
        return None
    return unit_numbers(name, batch.column(name), keyed(start_key, "units"))


def _first_pass(work: Work, index: int) -> Contents:
    """The keyed content of a unit's rows, and on the way what the release logs compare; both are left for later."""
    unit = work.source.units[index]
    tracer = Tracer.of(work.source.schema, work.job.columns, bytes(work.staging.read("records.key")))
    lanes = (tracer.add(batch) for _, batch in read_batches(work.source, unit, tracer.names))
    contents = contents_of(lanes, work.start_key)
    work.staging.write_record(_contents_file(index), contents)
    work.staging.write_record(f"sketches/{index}.npz", tracer.sketches)
    return contents


def _contents_file(index: int) -> str:
    return f"contents/{index}.npz"


def unit_contents(work: Work, index: int) -> Contents:
    """The keyed content of a scanned unit's rows."""
    contents: Contents = work.staging.read_record(_contents_file(index), Contents)
    return contents


def route_keys(work: Work, contents: Contents) -> npt.NDArray[np.uint64]:
    """By which rows with equal features are told apart where a tree splits."""
    return contents.keys(keyed(work.start_key, "route"), LUMP)


def _sampled(work: Work, contents: Contents, kept: BoolArray | None) -> BoolArray:
    """The rows that trees are fitted to, by their content; none that are held out."""
    share = min(1.0, work.job.partition.sample_rows / max(1, work.source.rows))
    limit = np.uint64(min(2**64 - 1, int(share * 2**64)))
    chosen: BoolArray = contents.keys(keyed(work.start_key, "sample"), LUMP) <= limit
    return chosen if kept is None else chosen & kept


def sampled_rows(work: Work) -> tuple[list[pa.RecordBatch], npt.NDArray[np.uint64]]:
    """The rows that the scan has drawn, and their `route_keys`."""
    drawn = [work.staging.read_record(_sample_file(unit)) for unit in range(len(work.source.units))]
    return [batch for batches, _ in drawn for batch in batches], np.concatenate([keys for _, keys in drawn])


def _sample_file(index: int) -> str:
    return f"samples/{index}.npz"
