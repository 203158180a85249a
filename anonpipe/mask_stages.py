"""What a worker does for a masker: encode a partition, run one step on its piece, decode a partition.

The points lie on a shelf, and so do the channels that each step makes of
them. A partition is a region of every shelf, and a channel has chunks of its
own, so that steps over rows and steps over columns write side by side.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pandas.util import hash_array

from anonpipe.codec.missing import fill_missing
from anonpipe.codec.points import CategoryBlock, NumberBlock
from anonpipe.codec.records import from_bytes, to_bytes
from anonpipe.context import Context
from anonpipe.errors import AnonpipeError, EngineError, InputError
from anonpipe.kernels.groups import sort_groups
from anonpipe.mask import RECORDS, Columns, Reduce, counted
from anonpipe.masker import masker_of
from anonpipe.moments import Moments
from anonpipe.shelves import hand_out, routed_shelf, verified_moments
from anonpipe.store import Shelf, create_shelf, read_json, write_atomic, write_json
from anonpipe.verify.unchanged import rows_as_they_were

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Receipt = dict[str, Any]

POINTS = "points"
"""The shelf of the points, which steps may ask for to the end."""


@dataclass(frozen=True)
class StepTask:
    """What the workers need to know of one step, or of one pass of it.

    Attributes
    ----------
    number
        Of the step among the masker's.
    given, channels
        The shelf that it sees, and how many channels that has.
    made, width
        The shelf that it fills, and its channels; None and 0 where it only learns.
    params
        The file of what was learnt before, None for nothing.
    """

    number: int
    given: str
    channels: int
    made: str | None
    width: int
    params: str | None

    def write(self, ctx: Context, stage: str) -> None:
        """Leave it for the workers."""
        write_json(ctx.staging.folder("masked") / f"{stage}.json", asdict(self))

    @classmethod
    def read(cls, ctx: Context, stage: str) -> StepTask:
        """Read what the driver left."""
        return cls(**read_json(ctx.staging.file("masked") / f"{stage}.json"))


def partition_lengths(ctx: Context) -> list[int]:
    """Rows of each partition."""
    return [partition.rows for partition in ctx.plan.partitions]


def channel_shelf(ctx: Context, name: str, channels: int) -> Shelf:
    """The channels that a step made, or the points; a region a partition, a chunk one channel's.

    Made by the driver, before any worker asks for it.
    """
    path = ctx.staging.folder("masked") / name
    return create_shelf(path, partition_lengths(ctx), channels, "float64", by_column=True)


def read_channels(ctx: Context, name: str, channels: int, index: int) -> FloatArray:
    """All channels of one partition, shape (n_rows, channels).

    Raises
    ------
    EngineError
        The shelf is no longer there.
    """
    path = ctx.staging.file("masked") / name
    if not path.exists():
        raise EngineError(_GONE)
    return _whole(channel_shelf(ctx, name, channels).read(index, 0, ctx.plan.partitions[index].rows))


def read_column(ctx: Context, name: str, channels: int, place: int) -> FloatArray:
    """One channel of all rows, shape (n_rows,)."""
    path = ctx.staging.file("masked") / name
    if not path.exists():
        raise EngineError(_GONE)
    return _whole(channel_shelf(ctx, name, channels).read_column(place, partition_lengths(ctx)))


def _whole(values: FloatArray) -> FloatArray:
    """The values, if none is missing: a chunk that is gone, or was never written, reads as NaN."""
    if np.isnan(values).any():
        raise EngineError(_GONE)
    return values


_GONE = (
    "masked points are missing from the staging: another process may have finished this step; go on with --resume, "
    "or delete the staging with anonpipe purge"
)


def save_record(path: Path, record: Any) -> None:
    """Write what was counted or learnt, whole or not at all."""
    write_atomic(path, to_bytes(record))


def load_record(path: Path) -> Any:
    """Read it."""
    return from_bytes(path.read_bytes(), RECORDS)


def params_file(ctx: Context, name: str) -> Path:
    """Where what a step learnt lies."""
    return ctx.staging.file("masked") / f"params-{name}.npz"


def statistic_file(ctx: Context, stage: str, index: int) -> Path:
    """Where what a pass counted in one partition lies."""
    return ctx.staging.folder("masked") / f"{stage}-{index}.npz"


def encode_partition(ctx: Context, index: int) -> Receipt:
    """Turn the cells of a partition into points, missing numbers filled from the partition, and count them."""
    cells = routed_shelf(ctx).gather(ctx.plan.pieces(index))
    filled = fill_missing(cells, ctx.points.numeric_positions, *_one_group(len(cells)), ctx.rng("fill", index))
    points = np.concatenate([ctx.points.encode(cells, filled), ctx.beside.encode(cells)], axis=1)
    channel_shelf(ctx, POINTS, points.shape[1]).write(index, points)
    return {
        "rows": len(cells),
        "stratum": ctx.plan.partitions[index].stratum,
        "original": verified_moments(ctx, cells).to_dict(),
        "points": Moments.of(points).to_dict(),
        "column_sums": column_sums(points[:, : ctx.points.width]),
        "codes": {block.name: _code_counts(ctx, block, cells).tolist() for block in _coded(ctx)},
    }


def _one_group(rows: int) -> tuple[IntArray, IntArray]:
    """`order` and `starts` of all rows as one group."""
    return np.arange(rows), np.array([0, rows])


def column_sums(points: FloatArray) -> list[int]:
    """Of each column the sum of the hashes of its values modulo 2^64: the same for the same values in any order."""
    hashes = (hash_array(np.ascontiguousarray(column) + 0.0) for column in points.T)  # one zero
    return [int(np.sum(each, dtype=np.uint64)) for each in hashes]


def _coded(ctx: Context) -> list[NumberBlock | CategoryBlock]:
    """The masked columns whose decoding looks at counts: categories, ordinals, and numbers with nulls."""
    numbers = [block for block in ctx.points.numbers if block.ordinal or block.stop - block.start == 2]
    return [*numbers, *ctx.points.categories]


def _code_counts(ctx: Context, block: NumberBlock | CategoryBlock, cells: FloatArray) -> IntArray:
    """Records of each code of a column, nulls last; of a number those with and without a value."""
    column = cells[:, block.position]
    if isinstance(block, NumberBlock) and not block.ordinal:
        return np.array([np.count_nonzero(~np.isnan(column)), np.count_nonzero(np.isnan(column))])
    categories = len(ctx.cells.categories[block.name])
    codes = np.where(np.isnan(column), categories, column).astype(np.int64)
    return np.bincount(codes, minlength=categories + 1)


def mask_step(ctx: Context, stage: str, index: int) -> Receipt:
    """One step on one partition, or for a step over columns on one channel."""
    task = StepTask.read(ctx, stage)
    step = ctx.steps[task.number]
    params = None if task.params is None else load_record(params_file(ctx, task.params))
    rng = ctx.rng(f"mask {task.number} {step.name}", index)
    if isinstance(step, Columns):
        return _column(ctx, task, step, params, rng, index)
    part = read_channels(ctx, task.given, task.channels, index)
    if isinstance(step, Reduce):
        save_record(statistic_file(ctx, stage, index), step.count(part, params=params))
    else:
        made = counted(step.function(part, params=params, rng=rng), len(part), step.name, task.width)
        _filled_shelf(ctx, task).write(index, _finite(made, step.name))
    return {"rows": len(part)}


def _column(ctx: Context, task: StepTask, step: Columns, params: Any, rng: np.random.Generator, index: int) -> Receipt:
    column, original = read_column(ctx, task.given, task.channels, index), {}
    if step.with_original:
        original = {"original": read_column(ctx, POINTS, ctx.points.width + ctx.beside.width, index)}
    made = counted(step.function(column, place=index, params=params, rng=rng, **original), len(column), step.name)
    _filled_shelf(ctx, task).write_column(index, partition_lengths(ctx), _finite(made, step.name))
    return {"rows": len(column)}


def _filled_shelf(ctx: Context, task: StepTask) -> Shelf:
    """The shelf that a step fills."""
    return channel_shelf(ctx, str(task.made), task.width)


def _finite(made: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(made).all():
        raise AnonpipeError(f"the step {name} made numbers that are not finite; please report this")
    return made


def decode_partition(ctx: Context, index: int) -> Receipt:
    """Turn the masked points of a partition into cells, and send each row to a random output file."""
    final, cells = StepTask.read(ctx, "decode"), routed_shelf(ctx).gather(ctx.plan.pieces(index))
    points = np.ascontiguousarray(read_channels(ctx, final.given, final.channels, index)[:, : ctx.points.width])
    masker = masker_of(ctx.job)
    order, starts = _alike(points) if masker.identical_rows else _one_group(len(cells))
    released = ctx.points.decode(
        points,
        cells if masker.same_person else shared_cells(ctx, index, cells),
        order,
        starts,
        rng=ctx.rng("decode", index),
        categories=ctx.job.decode.categories,
        identical_groups=masker.identical_rows,
    )
    made = [at for at, column in enumerate(ctx.cells.columns) if column.role.synthesized]
    return {
        "rows": len(released),
        "stratum": ctx.plan.partitions[index].stratum,
        "fewest_alike": int(_sizes_alike(released[:, made]).min()) if masker.identical_rows else None,
        "as_they_were": rows_as_they_were(cells[:, made], released[:, made], *_one_group(len(cells)), ctx.job.k),
        "synthesized": Moments.of(points).to_dict(),
        "column_sums": column_sums(points),
        "file_rows": hand_out(ctx, index, released),
    }


def _alike(points: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows that are equal, as groups."""
    return sort_groups(np.unique(points, axis=0, return_inverse=True)[1].reshape(-1))


def _sizes_alike(cells: FloatArray) -> IntArray:
    """How many rows there are of each that occurs; nulls are equal to each other."""
    marked = np.concatenate([np.nan_to_num(cells, nan=0.0), np.isnan(cells)], axis=1)
    return np.asarray(np.unique(marked, axis=0, return_counts=True)[1])


def weigh_partition(ctx: Context, index: int) -> Receipt:
    """How much of each category, and of nulls, the masked points of a partition call for.

    Where a masked record is made of no one person, the persons of its
    partition say nothing of it, and their categories must not be forced upon
    it. A dummy x of -1 and +1 stands for (1 + x) / 2 records, which is right
    on average wherever means are; an ordinal for the level that it is next to.
    """
    final, rows = StepTask.read(ctx, "decode"), ctx.plan.partitions[index].rows
    points = read_channels(ctx, final.given, final.channels, index)
    return {"rows": rows, "mass": {block.name: _mass(ctx, block, points).tolist() for block in _coded(ctx)}}


def _mass(ctx: Context, block: NumberBlock | CategoryBlock, points: FloatArray) -> FloatArray:
    """Of each code of a column, nulls last, in the order of `_code_counts`."""
    rows = len(points)
    if isinstance(block, CategoryBlock):
        mass = np.zeros(len(ctx.cells.categories[block.name]) + 1)
        above = (1.0 + points[:, block.start : block.stop]).sum(axis=0) / 2
        mass[block.codes] = np.append(rows - above, above) if block.stop - block.start == 1 else above
        return mass
    nulls = (1.0 + points[:, block.start + 1 : block.stop]).sum() / 2
    if not block.ordinal:
        return np.array([rows - nulls, nulls])
    levels = len(ctx.cells.categories[block.name])
    nearest = np.clip(np.rint(block.mean + block.sd * points[:, block.start]), 0, levels - 1).astype(np.int64)
    return np.append(np.bincount(nearest, minlength=levels) * (1.0 - nulls / rows), nulls)


def shared_cells(ctx: Context, index: int, cells: FloatArray) -> FloatArray:
    """The cells with the categories and nulls that fell to the partition; their order means nothing."""
    shares, given = read_json(ctx.staging.file("masked") / "shares.json"), cells.copy()
    for block in _coded(ctx):
        counts = shares[block.name][index]
        codes = np.repeat(np.arange(len(counts)), counts).astype(np.float64)
        if len(codes) != len(cells):
            raise InputError(f"partition {index} changed while it was masked; run again")
        if isinstance(block, NumberBlock):
            categories = len(ctx.cells.categories[block.name]) if block.ordinal else 1
            codes[codes == categories] = np.nan
        given[:, block.position] = codes
    return given
