"""What the scan settles: codec, strata, rare categories, trees of pre-clusters, the run's key, and the warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anonpipe.encoding.alike import warn_of_repeats
from anonpipe.encoding.beside import BesideCodec
from anonpipe.encoding.cells import CellCodec
from anonpipe.encoding.classes import class_columns, compound_of
from anonpipe.encoding.identifiers import check_repeats, is_run, repeats_in
from anonpipe.encoding.points import PointCodec
from anonpipe.encoding.rare import Suppression, suppress_rare
from anonpipe.encoding.scan import Scan, check_scan, merge_scans, scan_from_bytes, scan_to_bytes
from anonpipe.errors import InputError, JobError
from anonpipe.job.model import Job
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.grouping import unreachable
from anonpipe.methods.options import MethodOptions
from anonpipe.methods.record import Method
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.moments import least_free
from anonpipe.partition.strata import MOST_COMBINATIONS, Strata, build_strata
from anonpipe.partition.tree import fit_tree
from anonpipe.pipeline.context import Context, probabilities_of
from anonpipe.pipeline.grouping import guarantee_of, keeps_group_moments
from anonpipe.pipeline.masker import features_of, intervals_of, job_steps
from anonpipe.pipeline.partitioning import leaf_counts, partition_rows
from anonpipe.rng import keyed, steward_secret
from anonpipe.storage.release_log import Trace
from anonpipe.storage.sketch import merge_sketches, sketches_from


@dataclass(frozen=True)
class Settled:
    """What follows from job and scan alone; `scan` is the one after suppression of rare categories."""

    scan: Scan
    digest: str
    suppression: Suppression
    codec: CellCodec
    points: PointCodec
    beside: BesideCodec
    strata: Strata
    warnings: list[str]


def settle(job: Job, schema: pa.Schema, scan: Scan) -> Settled:
    """Hold the scanned input against the job, and work out all that a run or its preview builds on.

    Raises
    ------
    InputError, JobError
        The input cannot be anonymised as the job asks.
    """
    warnings = check_scan(scan, job.columns, job.k, () if job.strata.small == "error" else job.strata.by)
    digest = scan.digest
    nullable = {field.name: field.nullable for field in schema}
    strata = strata_of(job, CellCodec.fit(by_name(schema), job.columns, scan), scan)
    scan, suppression, suppressed = suppress_rare(scan, job.columns, nullable, job.k, strata)
    codec = CellCodec.fit(by_name(schema), job.columns, scan)
    points = PointCodec.fit(codec, scan)
    beside = BesideCodec.fit(codec, scan, job.beside)
    check_methods(job, codec, points, beside)
    check_scopes(job, points.width + beside.width, strata)
    check_classes(job, codec, scan, strata)
    warnings += suppressed + small_group_warnings(job, points.width) + stratum_warnings(job, codec, scan, strata)
    warnings += shared_noise_warnings(job, strata, points.width)
    return Settled(scan, digest, suppression, codec, points, beside, strata, warnings)


def by_name(schema: pa.Schema) -> pa.Schema:
    """The schema with its columns by their names: so they are worked on, whatever their order in the input.

    The noise of a column then does not depend on its place.
    """
    return pa.schema(sorted(schema, key=lambda field: field.name))


def fit(ctx: Context) -> None:
    """Settle everything from the scans of the units, and write it into the staging."""
    job, staging, units = ctx.job, ctx.staging, len(ctx.source.units)
    scanned = staging.receipts("scan").read_all(units)
    runs = [
        [staging.checked(file) for receipt in scanned for file in receipt["files"] if is_run(file, place)]
        for place in range(len(job.identifiers))
    ]
    counted = [receipt["identifiers"] for receipt in scanned]
    of_units = check_repeats(repeats_in(runs, counted), job.k, job.rows_per_unit)
    scans = [scan_from_bytes(staging.read(f"scans/{unit}.arrow")) for unit in range(units)]
    settled = settle(job, ctx.source.schema, merge_scans(scans))
    staging.write_json("suppression.json", settled.suppression.to_dict())
    staging.write("scan.arrow", scan_to_bytes(settled.scan))
    staging.write_json("digest.json", settled.digest)
    staging.write("run.key", keyed(steward_secret(), "run", job.digest(), settled.digest))
    staging.write("codec.arrow", settled.codec.to_bytes())
    staging.write_json("strata.json", settled.strata.to_dict())
    of_units += [] if job.identifiers else warn_of_repeats(_sampled(ctx, units), ctx.source.rows, _start_key(ctx))
    staging.write_json("warnings.json", of_units + settled.warnings)
    staging.write_json("trees.json", _trees(ctx, settled.codec, settled.strata, units))


def trace_of(ctx: Context) -> Trace:
    """What the release logs need to know of the scanned input."""
    units = range(len(ctx.source.units))
    sketches = merge_sketches(sketches_from(ctx.staging.read_arrays(f"sketches/{unit}.npz")) for unit in units)
    digest = ctx.staging.read_json("digest.json")
    return Trace(digest, ctx.job.digest(), ctx.source.rows, tuple(ctx.job.released), sketches)


def check_methods(job: Job, codec: CellCodec, points: PointCodec, beside: BesideCodec) -> None:
    """Refuse options that the columns do not allow, before any work.

    Raises
    ------
    JobError
        What is wrong, and the least k where k is too small.
    """
    if points.width == 0:
        raise JobError("the masked columns hold one value each: there is nothing to mask; mask other columns")
    if job.mask is not None:
        job_steps(job, points, beside.width)
        intervals_of(job, codec, points)
    probabilities_of(job, codec, points)
    features = features_of(job, points, beside.width)
    asked: list[tuple[Method, MethodOptions]] = [(job.replacing, job.replacing_options)]
    if job.cluster is not None:
        asked.append((GROUPINGS[job.cluster.method], job.cluster))
    for method, options in asked:
        if problem := method.refuses(options, features):
            raise JobError(problem)


def check_scopes(job: Job, channels: int, strata: Strata) -> None:
    """Refuse to mask so few records as one table that masked ones would be mixed from them alone.

    With fewer records than columns of points (and two more) a regression
    fits each record exactly, and permuted components stay in the span of the
    originals: the release would say of records of no person, as it does,
    what is not true.

    Raises
    ------
    JobError
        How many there are, and how many are needed.
    """
    if job.mask is None or job.replacing.link != "none":
        return
    apart = job.masks_strata and len(strata.rows) > 1
    rows, what = (min(strata.rows), "the smallest stratum") if apart else (sum(strata.rows), "the table")
    if rows < channels + 2:
        remedy = "set mask.scope to table, or take fewer strata" if apart else "mask fewer columns"
        raise JobError(
            f"{what} has {rows} records, and mask.method {job.replacing.name} needs {channels + 2} for {channels} "
            f"columns of points; {remedy}"
        )


def small_group_warnings(job: Job, width: int) -> list[str]:
    """What exact group moments give away in small groups.

    Raises
    ------
    JobError
        k is 2: the synthetic records would be the original ones.
    """
    if not keeps_group_moments(job) or job.k > width + 1:
        return []
    method = job.replacing.name
    other = "take micro_perturbation"
    if job.mask is not None:
        other = "take another mask, or groups with synthesize.method micro_perturbation"
    if job.k == 2:
        raise JobError(
            f"{method} keeps the moments of every group exactly, and with "
            f"k=2 the synthetic records are the original ones; raise k, or {other}"
        )
    return [
        f"a group may be as small as k={job.k}, and in one of up to {width + 1} records, the columns of points plus "
        "one, exact moments keep the synthetic records in the span of the originals: who knows part of a record can "
        f"solve for the rest; raise k above {width + 1}, or {other}"
    ]


def strata_of(job: Job, codec: CellCodec, scanned: Scan) -> Strata:
    """The strata that the job asks for, from the counts of the scan."""
    names = job.strata.by
    positions = [codec.names.index(name) for name in names]
    sizes = [len(scanned.code_counts(name)) for name in names]
    if int(np.prod(sizes)) > MOST_COMBINATIONS:
        raise InputError(f"strata.by makes more than {MOST_COMBINATIONS:,} combinations; take fewer or coarser columns")
    counts = scanned.combination_counts(codec, names) if names else np.array([scanned.rows])
    event = None
    if job.event_column in names:
        position = codec.names.index(str(job.event_column))
        event = (names.index(str(job.event_column)), codec.event_codes(position))
    return build_strata(counts, positions, sizes, job.k, job.strata.small, event, job.strata.use_event, names)


def stratum_warnings(job: Job, codec: CellCodec, scanned: Scan, strata: Strata) -> list[str]:
    """What became of records in strata under k: columns and counts, no value."""
    if not job.strata.by:
        return []
    counts = scanned.combination_counts(codec, job.strata.by)
    merged = int(counts[np.asarray(strata.recoded) != np.arange(len(counts))].sum())
    whose, found = ", ".join(map(repr, job.strata.by)), []
    if merged:
        found.append(
            f"strata.small is merge: {merged:,} records of strata under k={job.k} take the values of larger strata in "
            f"{whose}, which is otherwise released unchanged"
        )
    if strata.dropped:
        found.append(f"strata.small is drop: {strata.dropped:,} records of strata under k={job.k} are left out")
    return found


def shared_noise_warnings(job: Job, strata: Strata, width: int) -> list[str]:
    """Which strata may have too few records beyond their groups for noise of their own; how many, no value."""
    if job.mask is not None or len(strata.rows) < 2:
        return []
    if SYNTHESIZERS[job.by_groups.synthesize.method].noise is None or guarantee_of(job).scope == "table":
        return []
    least = least_free(width)
    few = sum(rows - rows // job.k < least for rows in strata.rows)
    if not few:
        return []
    return [
        f"{few:,} of {len(strata.rows):,} strata may have fewer than {least} records beyond their groups, too few for "
        "noise of a covariance of their own: they share one, and means and covariances are promised of them together"
    ]


def check_classes(job: Job, codec: CellCodec, scanned: Scan, strata: Strata) -> None:
    """Refuse conditions on classes that a stratum breaks even as one group.

    Raises
    ------
    InputError
        Which condition, of which column, and how far it can be met.
    """
    if job.mask is not None:
        return
    cluster, classes = job.by_groups.cluster, job.by_groups.classes
    if GROUPINGS[cluster.method].classes and classes.several == "compound":
        compound_of(codec, scanned, class_columns(codec, scanned, job.class_columns))
    for column in class_columns(codec, scanned, job.class_columns) if classes.conditions else ():
        counted = scanned.combination_counts(codec, (*job.strata.by, column.name)).reshape(-1, len(column.shares))
        for stratum, rows in enumerate(strata.rows):
            counts = counted[np.asarray(strata.stratum) == stratum].sum(axis=0)
            problem = unreachable(counts, column.shares, **classes.conditions)
            if problem:
                where = f"stratum {stratum + 1} ({rows:,} records)" if len(strata.rows) > 1 else "the whole table"
                raise InputError(
                    f"column {column.name!r}: {where} breaks classes as one group already: {problem}; "
                    "loosen the condition, or take the column out of what the strata follow"
                )


def _trees(ctx: Context, codec: CellCodec, strata: Strata, units: int) -> list[dict[str, Any]]:
    """One tree a stratum, fitted on the sampled rows of that stratum."""
    points = PointCodec.fit(codec, ctx.scan)
    cells, keys = _sample(ctx, codec, units)
    stratum = strata.assign(cells)
    ctx.suppression.apply(cells, codec.names, stratum)
    scaled = points.encode(cells) * np.sqrt(ctx.weights)
    trees = []
    rows = partition_rows(ctx.job, max(points.width, len(codec.names)))
    for at, leaves in enumerate(leaf_counts(strata.rows, rows)):
        inside = stratum == at
        trees.append(fit_tree(scaled[inside], keys[inside], leaves).to_dict())
    return trees


def _sample(ctx: Context, codec: CellCodec, units: int) -> tuple[Any, Any]:
    """Cells and keys of the sampled rows, in an order that follows from their content."""
    cells = [codec.to_cells(batch.select(list(codec.names))) for batch in _sampled(ctx, units)]
    drawn = [ctx.staging.read_array(f"samples/{unit}.npy") for unit in range(units)]
    together, keys = np.concatenate([np.empty((0, len(codec.names))), *cells]), np.concatenate(drawn)
    order = np.lexsort((*together.T, keys))
    return together[order], keys[order]


def _sampled(ctx: Context, units: int) -> list[pa.RecordBatch]:
    """The rows that the scan has drawn."""
    batches: list[pa.RecordBatch] = []
    for unit in range(units):
        batches += pa.ipc.open_stream(pa.py_buffer(ctx.staging.read(f"samples/{unit}.arrow")))
    return batches


def _start_key(ctx: Context) -> bytes:
    return bytes(ctx.staging.read("start.key"))
