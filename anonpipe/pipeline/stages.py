"""What a worker does in each stage: read the staging, compute one piece, write it, leave a receipt.

A stage function takes the `Context` of the run and the number of its piece
(an input unit, a partition, or an output file). It can run twice, or on any
worker, with the same outcome; its receipt is small and holds no row.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.encoding.contents import LUMP, Contents, contents_of
from anonpipe.encoding.identifiers import digest_writers
from anonpipe.encoding.missing import fill_missing
from anonpipe.encoding.points import Groups
from anonpipe.encoding.row_hash import add_fingerprints, fingerprint, row_lanes
from anonpipe.encoding.scan import merge_scans, scan_batch, scan_to_bytes
from anonpipe.encoding.sketch import Tracer
from anonpipe.encoding.tally import Tally
from anonpipe.engine import Task
from anonpipe.errors import DamagedError, EngineError, InputError
from anonpipe.job.model import Job
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.methods.synthesis import centroid, noise_scatter, restore_by_rank, synthesize
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, PairwiseMoments, merge_all
from anonpipe.partition.tree import route
from anonpipe.pipeline.context import Context, context
from anonpipe.pipeline.evaluation import (
    has_groups,
    held_in,
    held_sample,
    keep_held,
    measure_piece,
    row_numbers,
    rows_before,
    sample_partition,
    search_partition,
    spans_partitions,
    start_key,
)
from anonpipe.pipeline.grouping import disclosures, form_groups, groupings, guarantee_of
from anonpipe.pipeline.loss_bound import measure, set_aside
from anonpipe.pipeline.mask_stages import decode_partition, encode_partition, group_numbers, mask_step, weigh_partition
from anonpipe.pipeline.masker import features_of, masker_of
from anonpipe.pipeline.original_values import compare_values
from anonpipe.pipeline.staged import (
    FILES,
    MEASURE_ROWS,
    SLAB_ROWS,
    ends_shelf,
    first_slab,
    hand_out,
    partition_cells,
    released_cells,
    routed_shelf,
    synthetic_shelf,
    verified_moments,
    with_probabilities,
)
from anonpipe.rng import keyed
from anonpipe.source import read_batches
from anonpipe.storage import sealed
from anonpipe.storage.release import sha256
from anonpipe.storage.staging import Shelf, create_shelf, disk_errors
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify.unchanged import rows_as_they_were, rows_without_spread

Receipt = dict[str, Any]


def work(task: Task) -> Receipt:
    """Do one task, unless its receipt says that it is done."""
    ctx = context(task.staging, task.token)
    receipts = ctx.staging.receipts(task.stage)
    before = os.umask(0o077)
    try:
        with disk_errors(f"running stage {task.stage}"):
            sealed.check_start(ctx.staging.root, ctx.staging.start)
            if not receipts.has(task.index):
                with sealed.recorded() as files:
                    receipt = _stage(ctx, task)
                receipts.write(task.index, receipt, files)
            receipt = receipts.read(task.index)
    finally:
        os.umask(before)
    return {"stage": task.stage, "index": task.index, "rows": receipt["rows"]}


def _stage(ctx: Context, task: Task) -> Receipt:
    if task.stage.startswith("mask-"):
        return mask_step(ctx, task.stage, task.index)
    return STAGES[task.stage](ctx, task.index)


def scan_unit(ctx: Context, index: int) -> Receipt:
    """Read a unit: first what each record is by its content, then counts, moments, identifiers and a keyed sample."""
    unit = ctx.source.units[index]
    share = min(1.0, ctx.job.partition.sample_rows / max(1, ctx.source.rows))
    limit = np.uint64(min(2**64 - 1, int(share * 2**64)))
    key, contents = start_key(ctx), _first_pass(ctx, index)
    writers = digest_writers(ctx.staging.write_array, ctx.job.identifiers, key, index)
    scans, sample, keys = [], [], []
    for first_row, whole in read_batches(ctx.source, unit, [*ctx.job.released, *writers]):
        for name, writer in writers.items():
            writer.add(whole.column(name))
        batch = whole.select([name for name in whole.schema.names if name not in writers])
        begin = first_row - unit.first_row
        part = contents[begin : begin + batch.num_rows]
        kept = ~held_in(ctx, part) if ctx.job.measure.hold_out else None
        scans.append(scan_batch(batch, ctx.job.columns, first_row, ctx.job.counted, kept, ctx.job.strata.by))
        chosen = part.keys(keyed(key, "sample"), LUMP) <= limit
        chosen = chosen if kept is None else chosen & kept
        sample.append(batch.filter(pa.array(chosen)))
        keys.append(_route_keys(ctx, part)[chosen])
    scan = merge_scans(scans)
    ctx.staging.write(f"scans/{index}.arrow", scan_to_bytes(scan))
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, sample[0].schema) as writer:
        for batch in sample:
            writer.write_batch(batch)
    ctx.staging.write(f"samples/{index}.arrow", memoryview(out.getvalue()))
    ctx.staging.write_array(f"samples/{index}.npy", np.concatenate(keys))
    return {"rows": unit.rows, "held_out": unit.rows - scan.rows, "fingerprint": scan.fingerprint} | {
        "identifiers": [writer.close().to_dict() for writer in writers.values()]
    }


def _first_pass(ctx: Context, index: int) -> Contents:
    """The keyed content of a unit's rows, and on the way what the release logs compare; both are left for later."""
    unit = ctx.source.units[index]
    tracer = Tracer.of(ctx.source.schema, ctx.job.columns, bytes(ctx.staging.read("records.key")))
    lanes = (tracer.add(batch) for _, batch in read_batches(ctx.source, unit, tracer.names))
    contents = contents_of(lanes, start_key(ctx))
    ctx.staging.write_arrays(_contents_file(index), contents.arrays)
    ctx.staging.write_arrays(f"sketches/{index}.npz", tracer.arrays)
    return contents


def _contents_file(index: int) -> str:
    """Where the keyed content of a unit's rows lies."""
    return f"contents/{index}.npz"


def _route_keys(ctx: Context, contents: Contents) -> npt.NDArray[np.uint64]:
    """By which rows with equal points are told apart where a tree splits."""
    return contents.keys(keyed(start_key(ctx), "route"), LUMP)


def route_unit(ctx: Context, index: int) -> Receipt:
    """Send each row of a unit to its leaf: slabs sorted by leaf.

    Raises
    ------
    InputError
        The rows are not those that were scanned: a mixture of two inputs
        would be released, under statistics of the first.
    """
    unit, contents = ctx.source.units[index], Contents(**ctx.staging.read_arrays(_contents_file(index)))
    offsets = np.cumsum([0] + [tree.leaves for tree in ctx.trees])
    shelf, region = routed_shelf(ctx), first_slab(ctx, index)
    leaf_rows: list[list[int]] = []
    held: list[tuple[FloatArray, IntArray]] = []
    aside: list[FloatArray] = []
    read, routed = 0, (0, 0)
    for first_row, batch in read_batches(ctx.source, unit, list(ctx.cells.names)):
        routed = add_fingerprints(routed, fingerprint(row_lanes(batch, ctx.job.columns), first_row))
        for at in _cuts(read, batch.num_rows):
            piece, part = batch.slice(at[0] - read, at[1] - at[0]), contents[at[0] : at[1]]
            keys = _route_keys(ctx, part)
            if ctx.job.measure.hold_out:
                aside.append(held_sample(ctx, piece, part))
                kept = ~held_in(ctx, part)
                piece, keys = piece.filter(pa.array(kept)), keys[kept]
            cells = ctx.cells.to_cells(piece)
            stratum = ctx.strata.assign(cells)
            ctx.strata.recode(cells)
            ctx.suppression.apply(cells, ctx.cells.names, stratum)
            held.append((cells, _leaf(ctx, cells, stratum, offsets, keys)))
            if at[1] % SLAB_ROWS == 0 or at[1] == unit.rows:
                leaf_rows.append(_write_slab(shelf, region + len(leaf_rows), held, int(offsets[-1])))
                held.clear()
        read += batch.num_rows
    if list(routed) != ctx.staging.receipts("scan").read(index)["fingerprint"]:
        raise InputError(_CHANGED.format(path=unit.path))
    if ctx.job.measure.hold_out:
        keep_held(ctx, index, aside)
    return {"rows": unit.rows, "leaf_rows": leaf_rows}


_CHANGED = (
    "the input changed while it was read: {path} holds other rows than in the first pass; "
    "run again when nobody writes to it"
)


def _cuts(read: int, rows: int) -> list[tuple[int, int]]:
    """The rows read..read+rows of a unit, cut where a slab ends."""
    borders = [read, *range((read // SLAB_ROWS + 1) * SLAB_ROWS, read + rows, SLAB_ROWS), read + rows]
    return list(pairwise(borders))


def _write_slab(shelf: Shelf, region: int, held: list[tuple[FloatArray, IntArray]], leaves: int) -> list[int]:
    rows = np.concatenate([cells for cells, _ in held])
    leaf = np.concatenate([part for _, part in held])
    order = np.argsort(leaf.astype(np.int32), kind="stable")
    order = order[np.count_nonzero(leaf < 0) :]
    shelf.write(region, rows[order])
    counts: list[int] = np.bincount(leaf[order], minlength=leaves).tolist()
    return counts


def _leaf(ctx: Context, cells: FloatArray, stratum: IntArray, offsets: IntArray, keys: Any) -> IntArray:
    leaf = np.full(len(cells), -1, dtype=np.int64)
    splitting = [at for at, tree in enumerate(ctx.trees) if tree.leaves > 1]
    leaf[stratum >= 0] = offsets[stratum[stratum >= 0]]
    if splitting:
        points = ctx.points.encode(cells) * np.sqrt(ctx.weights)
        for at in splitting:
            inside = stratum == at
            leaf[inside] = offsets[at] + route(ctx.trees[at], points[inside], keys[inside])
    return leaf


def label_shelf(ctx: Context) -> Shelf:
    """The group of each row in each grouping; a region a partition."""
    rows = [p.rows for p in ctx.plan.partitions]
    return create_shelf(ctx.staging, "labels", rows, groupings(ctx.job), "int64")


@dataclass(frozen=True, eq=False)
class Grouped:
    """A partition with its groupings, nearly always one; `points` has missing numbers filled from the first's groups.

    Attributes
    ----------
    cells, points
        Shapes (n_rows, n_cells) and (n_rows, width).
    sorted
        `order` and `starts` of each grouping.
    """

    cells: FloatArray
    points: FloatArray
    sorted: tuple[tuple[IntArray, IntArray], ...]

    @property
    def first(self) -> tuple[IntArray, IntArray]:
        """`order` and `starts` of the first grouping."""
        return self.sorted[0]

    @property
    def sizes(self) -> IntArray:
        """Records of each group of each grouping."""
        return np.concatenate([np.diff(starts) for _, starts in self.sorted])

    @property
    def averaged(self) -> bool:
        """Whether several groupings are averaged."""
        return len(self.sorted) > 1

    @cached_property
    def centres(self) -> FloatArray:
        """The mean of each record's group means, shape (n_rows, width)."""
        centres: FloatArray = np.mean([centroid(self.points, *each) for each in self.sorted], axis=0)
        return centres

    def moments(self) -> GroupedMoments:
        """Moments of the points, and what of their scatter the groups do not keep."""
        if self.averaged:
            return GroupedMoments.averaged(self.points, self.centres)
        return GroupedMoments.of(self.points, *self.first)


def _grouped(ctx: Context, index: int, cells: FloatArray, labels: IntArray) -> Grouped:
    rows = len(cells)
    if len(labels) != rows or labels.min() < 0 or labels.max() >= rows:  # before a kernel counts by them
        raise DamagedError(f"partition {index}: its groups are not of its {rows} records; run again without --resume")
    groups = tuple(sort_groups(np.ascontiguousarray(column)) for column in labels.T)
    if any(int(np.diff(starts).min()) < ctx.job.k for _, starts in groups):
        raise InputError(f"partition {index}: a group has fewer than k={ctx.job.k} records; nothing is released")
    filled = fill_missing(cells, ctx.points.numeric_positions, *groups[0], ctx.job.k, ctx.rng("fill", index))
    return Grouped(cells, ctx.points.encode(cells, filled), groups)


def group_partition(ctx: Context, index: int) -> Receipt:
    """Form groups of at least k inside a partition and count its part of the global statistics."""
    cells = partition_cells(ctx, index)
    labels = form_groups(ctx, index, cells)
    label_shelf(ctx).write(index, labels)
    grouped = _grouped(ctx, index, cells, labels)
    set_aside(ctx, index, grouped.points)
    sizes, counts = np.unique(grouped.sizes, return_counts=True)
    return {
        "rows": len(cells),
        "stratum": ctx.plan.partitions[index].stratum,
        "group_sizes": {str(size): int(count) for size, count in zip(sizes, counts, strict=True)},
        "grouped": grouped.moments().to_dict(),
        "without_spread": _without_spread(ctx, grouped),
        "noise": _noise(ctx, index, grouped),
        "spread": GroupSpread.of(grouped.points, *grouped.first).to_dict() if needs_spread(ctx.job) else None,
        "original": verified_moments(ctx, cells).to_dict(),
        "tally": Tally.of(cells, ctx.cells).to_dict(),
        "classes": {name: asdict(told) for name, told in disclosures(ctx, cells, labels).items()},
    }


def _without_spread(ctx: Context, grouped: Grouped) -> int:
    """Rows in groups whose rows are one and the same in all synthetic columns, in the grouping with fewest."""
    made = grouped.cells[:, [at for at, column in enumerate(ctx.cells.columns) if column.role.synthesized]]
    return min(rows_without_spread(made, *each) for each in grouped.sorted)


def needs_spread(job: Job) -> bool:
    """Whether the standard errors of the job's method depend on the covariance of each group."""
    return job.mask is None and guarantee_of(job).needs_spread


def needs_noise_scatter(job: Job) -> bool:
    """Whether the noise is made to have exact moments in the whole table, so that its draws are counted first."""
    noise = SYNTHESIZERS[job.by_groups.synthesize.method].noise
    return noise is not None and noise.draws_first(job.by_groups.synthesize)


def _noise(ctx: Context, index: int, grouped: Grouped) -> Receipt | None:
    """What the synthesis of this partition will draw, from the same generator."""
    if not needs_noise_scatter(ctx.job):
        return None
    return noise_scatter(grouped.first[1], grouped.points.shape[1], rng=ctx.rng("synthesize", index)).to_dict()


def synthesize_partition(ctx: Context, index: int) -> Receipt:
    """Replace the records of a partition and send each to a random output file."""
    cells = partition_cells(ctx, index)
    labels = label_shelf(ctx).read(index, 0, len(cells))
    grouped = _grouped(ctx, index, cells, labels)
    measure(ctx, index, grouped.points)
    method = ctx.job.by_groups.synthesize.method
    points = _synthesize(ctx, index, grouped)
    identical = SYNTHESIZERS[method].identical_groups and not grouped.averaged
    released = ctx.points.decode(
        points,
        cells,
        *grouped.first,
        rng=ctx.rng("decode", index),
        categories=ctx.job.decode.of_cells,
        identical_groups=identical,
    )
    if ctx.job.decode.restore_survival_times:
        _restore_times(ctx, index, released, grouped)
    groups = Groups(*grouped.first, identical)
    released, shares = with_probabilities(ctx, index, points, cells, groups, released)
    file_rows = hand_out(ctx, index, released, shares)
    return {
        "rows": len(released),
        "stratum": ctx.plan.partitions[index].stratum,
        "smallest_group": int(grouped.sizes.min()),
        "as_they_were": _as_they_were(ctx, grouped, released),
        "synthesized": Moments.of(points).to_dict(),
        "tally": Tally.of(cells, ctx.cells).to_dict(),
        "file_rows": file_rows,
    }


def _as_they_were(ctx: Context, grouped: Grouped, released: FloatArray) -> int:
    made = [at for at, column in enumerate(ctx.cells.columns) if column.role.synthesized]
    original, new = grouped.cells[:, made], released[:, made]
    return max(rows_as_they_were(original, new, *each, ctx.job.k) for each in grouped.sorted)


def _synthesize(ctx: Context, index: int, grouped: Grouped) -> FloatArray:
    chosen, record = ctx.job.by_groups.synthesize, SYNTHESIZERS[ctx.job.by_groups.synthesize.method]
    features = features_of(ctx.job, ctx.points, ctx.beside.width, ctx.plan.rows)
    options = record.own(chosen) | record.follows(chosen, features)
    if record.noise is not None:
        options["factor"] = ctx.noise[ctx.noise_scopes[ctx.plan.partitions[index].stratum]]
    if ctx.job.beside:
        options["kept"] = ctx.beside.encode(grouped.cells)
    rng = ctx.rng("synthesize", index)
    if grouped.averaged:  # each record has a mean of its own
        groups = np.arange(len(grouped.cells)), np.arange(len(grouped.cells) + 1)
        return synthesize(grouped.centres, *groups, chosen.method, rng=rng, **options)
    return synthesize(grouped.points, *grouped.first, chosen.method, rng=rng, **options)


def _restore_times(ctx: Context, index: int, released: FloatArray, grouped: Grouped) -> None:
    position = ctx.cells.names.index(str(ctx.job.time_column))
    released[:, position] = restore_by_rank(
        released[:, position],
        grouped.cells[:, position],
        *grouped.first,
        rng=ctx.rng("restore", index),
        jitter=ctx.job.decode.jitter_restored_times,
        limits=(ctx.cells.grid(position).low, ctx.cells.grid(position).high),
    )


def write_file(ctx: Context, index: int) -> Receipt:
    """Write one output file in random order, then measure what a reader of it gets."""
    shelf, pieces = synthetic_shelf(ctx), []
    for partition, counts in enumerate(ctx.file_rows):
        begin = sum(counts[:index])
        pieces.append((partition, begin, begin + counts[index]))
    rows, ends = shelf.gather(pieces), None
    order = ctx.rng("order", index).permutation(len(rows))
    rows = rows[order]
    if ctx.added:
        ends = ends_shelf(ctx, len(ctx.added)).gather(pieces)[order]
    name, step = f"{FILES}/part-{index:05d}.parquet", ctx.job.release.row_group_rows
    with (
        ctx.staging.renamed(name) as draft,
        _Hashing(draft) as out,
        pq.ParquetWriter(out, ctx.schema, compression="zstd", store_schema=True) as writer,
    ):
        for at in range(0, len(rows), step):
            arrays = list(ctx.cells.from_cells(rows[at : at + step]).columns)
            if ctx.intervals is not None and ends is not None:
                arrays += ctx.intervals.arrays(ends[at : at + step])
            if ctx.probabilities is not None and ends is not None:
                arrays = ctx.probabilities.in_place(arrays, ends[at : at + step])
            batch = pa.RecordBatch.from_arrays(arrays, schema=ctx.worked_schema)
            writer.write(batch.select(ctx.schema.names), row_group_size=step)
    path, written = ctx.staging.file(name), out.digest.hexdigest()
    sealed.sync_folders(ctx.staging.root, [name])
    try:
        receipt = _measure_file(ctx, index, path)
    except Exception:  # a damaged file may lead to anything
        if sha256(path) == written:
            raise
    else:
        if receipt["sha256"] == written:
            return receipt
    path.unlink()
    raise EngineError(f"{path.name} was damaged on the disk before it was measured; check the disk, then --resume")


class _Hashing(io.FileIO):
    """A file that is hashed as it is written, and on the disk when it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "wb")
        self.digest = hashlib.sha256()

    def write(self, content: Any) -> int:
        """Write all of it."""
        whole, done = memoryview(content).cast("B"), 0
        while done < len(whole):
            done += super().write(whole[done:])
        self.digest.update(whole)
        return done

    def close(self) -> None:
        """Sync, then close."""
        if not self.closed:
            os.fsync(self.fileno())
        super().close()


def _measure_file(ctx: Context, index: int, path: Path) -> Receipt:
    """Read the written file again: its rows, moments by stratum, combinations, limits and, at last, its checksum."""
    parquet = pq.ParquetFile(str(path))
    if not parquet.schema_arrow.equals(ctx.schema, check_metadata=True):
        raise InputError(f"{path.name}: the written schema differs from the input's; nothing is released")
    moments: dict[int, list[PairwiseMoments]] = {}
    combinations, rows, beyond = [], 0, 0
    outside = {name: [0, 0] for name in unbounded_names(ctx)}
    for batch in parquet.iter_batches(batch_size=MEASURE_ROWS):
        cells, told, bad = _read_back(ctx, batch)
        stratum, measured = ctx.strata.assign(cells), ctx.view.measure(cells, told)
        for at in np.unique(stratum):
            moments.setdefault(int(at), []).append(PairwiseMoments.of(measured[stratum == at]))
        combinations.append(_combinations(ctx, cells))
        rows += len(cells)
        beyond += bad + _beyond_limits(ctx, cells)
        for name, counted in outside.items():
            found = _beyond_original(ctx, name, cells[:, ctx.cells.names.index(name)])
            counted[:] = [counted[0] + found[0], counted[1] + found[1]]
    _write_combinations(ctx, index, combinations)
    return {
        "rows": rows,
        "name": path.name,
        "sha256": sha256(path),
        "bytes": path.stat().st_size,
        "released": {str(at): merge_all(parts).to_dict() for at, parts in moments.items()},
        "beyond_limits": beyond,
        "beyond_original": outside,
    }


def _read_back(ctx: Context, batch: pa.RecordBatch) -> tuple[FloatArray, dict[int, FloatArray], int]:
    """Cells of written rows, the probabilities among them by position and code, and how many of these are none."""
    if ctx.probabilities is None:
        return ctx.cells.to_cells(batch), {}, 0
    cells, shares = ctx.probabilities.read(ctx.cells, batch)
    return cells, ctx.probabilities.by_code(shares), ctx.probabilities.beyond_limits(shares)


def unchanged_names(ctx: Context) -> list[str]:
    """Columns whose true values are released, restored survival times among them."""
    names = [n for n, column in zip(ctx.cells.names, ctx.cells.columns, strict=True) if column.role.unchanged]
    if ctx.job.decode.restore_survival_times and ctx.job.decode.jitter_restored_times == 0:
        names.append(str(ctx.job.time_column))
    return names


def _combinations(ctx: Context, cells: FloatArray) -> pd.DataFrame:
    names = unchanged_names(ctx)
    frame = pd.DataFrame({name: cells[:, ctx.cells.names.index(name)] for name in names})
    return count_combinations([frame.assign(rows=1)], names)


def count_combinations(frames: list[pd.DataFrame], names: list[str]) -> pd.DataFrame:
    """Rows of each combination of the named columns (column `rows`)."""
    together = pd.concat(frames, ignore_index=True)
    if not names:
        return pd.DataFrame({"rows": [int(together["rows"].sum())]})
    return together.groupby(names, dropna=False, sort=True)["rows"].sum().reset_index()


def _write_combinations(ctx: Context, index: int, frames: list[pd.DataFrame]) -> None:
    frame = count_combinations(frames, unchanged_names(ctx))
    out = io.BytesIO()
    frame.to_parquet(out)
    ctx.staging.write(_combinations_file(index), out.getbuffer())


def read_combinations(ctx: Context, index: int) -> pd.DataFrame:
    """Rows of each combination of unchanged columns in one output file (column `rows`)."""
    return pd.read_parquet(io.BytesIO(ctx.staging.read(_combinations_file(index))))


def _combinations_file(index: int) -> str:
    return f"combinations/{index}.parquet"


def _beyond_limits(ctx: Context, cells: FloatArray) -> int:
    """Synthetic numbers outside their declared bounds or between their declared steps."""
    count = 0
    for position, column in enumerate(ctx.cells.columns):
        if column.role.unchanged or column.kind.coded:
            continue
        values = cells[:, position]
        values = values[~np.isnan(values)]
        low, high = column.numeric_bounds
        slack = 1e-6 * np.maximum(1.0, np.abs(values))
        count += int(np.sum(values < low - slack)) if low is not None else 0
        count += int(np.sum(values > high + slack)) if high is not None else 0
        restored = ctx.job.decode.restore_survival_times and ctx.cells.names[position] == ctx.job.time_column
        if column.resolution is not None and not restored:
            steps = values / column.resolution
            count += int(np.sum(np.abs(steps - np.round(steps)) > 1e-6 * np.maximum(1.0, np.abs(steps))))
    return count


def unbounded_names(ctx: Context) -> list[str]:
    """Masked numbers and dates that have no bound on at least one side."""
    return [
        name
        for name, column in zip(ctx.cells.names, ctx.cells.columns, strict=True)
        if column.role.synthesized and not column.kind.coded and None in column.numeric_bounds
    ]


def _beyond_original(ctx: Context, name: str, values: FloatArray) -> tuple[int, int]:
    """Values below or above all original ones on a side without bound, by more than half a step; and all values."""
    column, scanned = ctx.job.columns[name], ctx.scan.columns[name]
    low, high = column.numeric_bounds
    values = values[~np.isnan(values)]
    slack = (column.resolution or 0.0) / 2 + 1e-6 * np.maximum(1.0, np.abs(values))
    beyond = np.zeros(len(values), dtype=np.bool_)
    if low is None:
        beyond |= values < scanned.least - slack
    if high is None:
        beyond |= values > scanned.most + slack
    return int(np.count_nonzero(beyond)), len(values)


def _labels(ctx: Context, index: int) -> IntArray | None:
    """The group of each record of a partition, by a number that no other group of the table has; None for no groups."""
    if not has_groups(ctx):
        return None
    if ctx.job.mask is not None and masker_of(ctx.job).identical_rows:
        return _equal_rows(ctx, index)
    if spans_partitions(ctx.job):
        stratum = ctx.plan.partitions[index].stratum
        first = next(at for at, partition in enumerate(ctx.plan.partitions) if partition.stratum == stratum)
        return group_numbers(ctx, index) + rows_before(ctx, first)
    labels = label_shelf(ctx).read(index, 0, ctx.plan.partitions[index].rows)[:, 0]
    return np.asarray(labels + rows_before(ctx, index))


def _equal_rows(ctx: Context, index: int) -> IntArray:
    """A number of each row, the same for rows that are equal in all that was masked, wherever they lie."""
    cells, places = released_cells(ctx, index)
    masked = cells[:, [at for at, column in enumerate(ctx.cells.columns) if column.role.synthesized]]
    if ctx.intervals is not None:
        ends = ends_shelf(ctx, len(ctx.intervals.fields)).read(index, 0, len(cells))
        masked = np.concatenate([masked, ends[places]], axis=1)
    return row_numbers(masked)


def _sample_partition(ctx: Context, index: int) -> Receipt:
    return sample_partition(ctx, index, _labels(ctx, index))


def _search_partition(ctx: Context, index: int) -> Receipt:
    return search_partition(ctx, index, _labels(ctx, index))


STAGES: dict[str, Callable[[Context, int], Receipt]] = {
    "scan": scan_unit,
    "route": route_unit,
    "group": group_partition,
    "synthesize": synthesize_partition,
    "encode": encode_partition,
    "weigh": weigh_partition,
    "decode": decode_partition,
    "write": write_file,
    "values": compare_values,
    "sample": _sample_partition,
    "search": _search_partition,
    "measure": measure_piece,
}
