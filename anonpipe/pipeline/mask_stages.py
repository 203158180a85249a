"""What a worker does for a masker: encode a partition, run one step on its piece, decode a partition.

The points lie on a shelf, and so do the channels that each step makes of
them. A partition is a region of every shelf, and a channel has chunks of its
own, so that steps over rows and steps over columns write side by side.

What is masked as one table is a scope: all partitions, or those of a stratum.
A step over rows or a count has a piece a partition; a step over columns a
piece a scope and channel; what is learnt is learnt a scope.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from anonpipe.encoding.matching import decode_matched
from anonpipe.encoding.missing import fill_predicted
from anonpipe.encoding.points import CategoryBlock, Groups, NumberBlock
from anonpipe.encoding.records import from_bytes, to_bytes
from anonpipe.encoding.row_hash import exact_sums
from anonpipe.encoding.tally import Tally
from anonpipe.errors import AnonpipeError, DamagedError, InputError
from anonpipe.job.model import Job
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.masking import RECORDS, Columns, RecordsAndDraws, Reduce, counted, placed_at
from anonpipe.moments import Moments
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.masker import masker_of
from anonpipe.pipeline.staged import hand_out, partition_cells, verified_moments, with_probabilities
from anonpipe.rng import generator, keyed
from anonpipe.storage.staging import Shelf, create_shelf
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify.unchanged import rows_as_they_were

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
    seen, filled
        Of each scope, how many of the channels it sees, and fills: scopes
        may differ, as ranks of covariances do. The rest of a shelf is zeros.
    params
        The file of what was learnt before, None for nothing.
    again
        Whether the same step has passed before: scopes that have learnt all
        they want are passed over then.
    """

    number: int
    given: str
    channels: int
    made: str | None
    width: int
    params: str | None
    again: bool = False
    seen: tuple[int, ...] = ()
    filled: tuple[int, ...] = ()

    def write(self, ctx: Context, stage: str) -> None:
        """Leave it for the workers."""
        ctx.staging.write_json(f"masked/{stage}.json", asdict(self))

    @classmethod
    def read(cls, ctx: Context, stage: str) -> StepTask:
        """Read what the driver left."""
        return cls(**ctx.staging.read_json(f"masked/{stage}.json"))


def partition_lengths(ctx: Context) -> list[int]:
    """Rows of each partition."""
    return [partition.rows for partition in ctx.plan.partitions]


@dataclass(frozen=True)
class Scope:
    """Partitions that are masked as one table; they stand together.

    Attributes
    ----------
    number
        Of the scope.
    first, stop
        The first partition, and the one after the last.
    key
        Of its draws, which are those of `anonpipe.methods.masking.run_steps` with it,
        the partitions being the parts. The run's key where there is one scope.
    """

    number: int
    first: int
    stop: int
    key: bytes

    def rng(self, stage: str, place: int) -> np.random.Generator:
        """The generator of a step, and a part, column or pass."""
        return generator(self.key, stage, place)


def scopes(ctx: Context) -> list[Scope]:
    """The scopes of the job's mask: the whole table, or each stratum."""
    strata = [partition.stratum for partition in ctx.plan.partitions]
    if not ctx.job.masks_strata or len(set(strata)) == 1:
        return [Scope(0, 0, len(strata), ctx.staging.key)]
    firsts = [at for at, stratum in enumerate(strata) if at == 0 or strata[at - 1] != stratum]
    ends = [*firsts[1:], len(strata)]
    keys = [keyed(ctx.staging.key, "stratum", str(strata[first])) for first in firsts]
    return [Scope(at, *place) for at, place in enumerate(zip(firsts, ends, keys, strict=True))]


def scope_of(ctx: Context, index: int) -> Scope:
    """The scope of a partition."""
    return next(scope for scope in scopes(ctx) if scope.first <= index < scope.stop)


def channel_shelf(ctx: Context, name: str, channels: int) -> Shelf:
    """The channels that a step made, or the points; a region a partition, a chunk one channel's.

    Made by the driver, before any worker asks for it.
    """
    return create_shelf(ctx.staging, f"masked/{name}", partition_lengths(ctx), channels, "float64", by_column=True)


def read_channels(ctx: Context, name: str, channels: int, index: int) -> FloatArray:
    """All channels of one partition, shape (n_rows, channels).

    Raises
    ------
    DamagedError
        The shelf is no longer there.
    """
    if not ctx.staging.has(f"masked/{name}"):
        raise DamagedError(_GONE)
    return _whole(channel_shelf(ctx, name, channels).read(index, 0, ctx.plan.partitions[index].rows))


def read_column(ctx: Context, name: str, channels: int, place: int, scope: Scope | None = None) -> FloatArray:
    """One channel of all rows, or of those of a scope, shape (n_rows,)."""
    if not ctx.staging.has(f"masked/{name}"):
        raise DamagedError(_GONE)
    shelf, lengths = _of_scope(ctx, channel_shelf(ctx, name, channels), scope)
    return _whole(shelf.read_column(place, lengths))


def _of_scope(ctx: Context, shelf: Shelf, scope: Scope | None) -> tuple[Shelf, list[int]]:
    """The regions of a shelf that belong to a scope, and their lengths."""
    lengths = partition_lengths(ctx)
    if scope is None:
        return shelf, lengths
    return replace(shelf, starts=shelf.starts[scope.first : scope.stop]), lengths[scope.first : scope.stop]


def _whole(values: FloatArray) -> FloatArray:
    """The values, if none is missing: a chunk that is gone, or was never written, reads as NaN."""
    if np.isnan(values).any():
        raise DamagedError(_GONE)
    return values


_GONE = "masked points are missing from the staging; run again, and the run starts from the input"


def save_record(ctx: Context, file: str, record: Any) -> None:
    """Write what was counted or learnt, whole or not at all."""
    ctx.staging.write(file, to_bytes(record))


def load_record(ctx: Context, file: str) -> Any:
    """Read it."""
    return from_bytes(bytes(ctx.staging.read(file)), RECORDS)


def params_file(name: str, scope: Scope) -> str:
    """Where what a step learnt of a scope lies."""
    return f"masked/params-{name}-{scope.number}.npz"


def load_params(ctx: Context, name: str | None, scope: Scope) -> Any:
    """What a step learnt of a scope; None for nothing."""
    return None if name is None else load_record(ctx, params_file(name, scope))


def wants_more(step: Reduce, task: StepTask, params: Any) -> bool:
    """Whether a pass still counts a scope of which so much is known."""
    return not task.again or (step.again is not None and step.again(params))


def statistic_file(stage: str, index: int) -> str:
    """Where what a pass counted in one partition lies."""
    return f"masked/{stage}-{index}.npz"


def encode_partition(ctx: Context, index: int) -> Receipt:
    """Turn the cells of a partition into points, missing numbers filled from the partition, and count them."""
    cells = partition_cells(ctx, index)
    own = {block.position: range(block.start, block.stop) for block in ctx.points.numbers}
    beside = ctx.beside.encode(cells)
    with threadpool_limits(1):  # the bits must not follow the machine's cores
        known = np.concatenate([ctx.points.encode(cells), beside], axis=1)
        filled = fill_predicted(cells, own, known, ctx.rng("fill", index))
    points = np.concatenate([ctx.points.encode(cells, filled), beside], axis=1)
    channel_shelf(ctx, POINTS, points.shape[1]).write(index, points)
    return {
        "rows": len(cells),
        "stratum": ctx.plan.partitions[index].stratum,
        "original": verified_moments(ctx, cells).to_dict(),
        "tally": Tally.of(cells, ctx.cells).to_dict(),
        "points": Moments.of(points).to_dict(),
        "codes": {block.name: _code_counts(ctx, block, cells).tolist() for block in _coded(ctx)},
    }


def _one_group(rows: int) -> tuple[IntArray, IntArray]:
    """`order` and `starts` of all rows as one group."""
    return np.arange(rows), np.array([0, rows])


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
    """One step on one partition, or for a step over columns on one channel of one scope."""
    task = StepTask.read(ctx, stage)
    step = ctx.steps[task.number]
    if isinstance(step, Columns):
        return _column(ctx, task, step, index)
    scope = scope_of(ctx, index)
    params = load_params(ctx, task.params, scope)
    if isinstance(step, Reduce) and not wants_more(step, task, params):
        return {"rows": ctx.plan.partitions[index].rows}
    part = read_channels(ctx, task.given, task.channels, index)
    part, asked = np.ascontiguousarray(part[:, : task.seen[scope.number]]), placed_at(step, index - scope.first)
    if isinstance(step, Reduce):
        if step.with_original:
            asked["original"] = read_channels(ctx, POINTS, ctx.points.width + ctx.beside.width, index)
        save_record(ctx, statistic_file(stage, index), step.count(part, params=params, **asked))
    else:
        rng = scope.rng(f"mask {task.number} {step.name}", index - scope.first)
        wanted = task.filled[scope.number]
        made = _finite(
            counted(step.function(part, params=params, rng=rng, **asked), len(part), step.name, wanted), step.name
        )
        _filled_shelf(ctx, task).write(index, np.pad(_finite(made, step.name), ((0, 0), (0, task.width - wanted))))
    return {"rows": len(part)}


def _column(ctx: Context, task: StepTask, step: Columns, index: int) -> Receipt:
    number, place = divmod(index, task.channels)
    scope, original = scopes(ctx)[number], {}
    column = read_column(ctx, task.given, task.channels, place, scope)
    if place >= task.seen[number]:  # the zeros go on
        shelf, lengths = _of_scope(ctx, _filled_shelf(ctx, task), scope)
        shelf.write_column(place, lengths, column)
        return {"rows": len(column), "largest": 0.0}
    if step.with_original:
        original = {"original": read_column(ctx, POINTS, ctx.points.width + ctx.beside.width, place, scope)}
    params, rng = load_params(ctx, task.params, scope), scope.rng(f"mask {task.number} {step.name}", place)
    promised = {} if step.holds is None else {"column_sums": exact_sums(step.holds(original["original"])[:, None])}
    made = counted(step.function(column, place=place, params=params, rng=rng, **original), len(column), step.name)
    shelf, lengths = _of_scope(ctx, _filled_shelf(ctx, task), scope)
    shelf.write_column(place, lengths, _finite(made, step.name))
    return {"rows": len(column), "place": place, "largest": float(np.abs(column).max()), **promised}


def _filled_shelf(ctx: Context, task: StepTask) -> Shelf:
    """The shelf that a step fills."""
    return channel_shelf(ctx, str(task.made), task.width)


def _finite(made: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(made).all():
        raise AnonpipeError(f"the step {name} made numbers that are not finite; please report this")
    return made


def decode_partition(ctx: Context, index: int) -> Receipt:
    """Turn the masked points of a partition into cells, and send each row to a random output file."""
    final, cells = StepTask.read(ctx, "decode"), partition_cells(ctx, index)
    channels, masker = read_channels(ctx, final.given, final.channels, index), masker_of(ctx.job)
    points = np.ascontiguousarray(_middles(ctx, channels)[:, : ctx.points.width])
    if masker.grouped:
        channels = _count_groups(ctx, index, points, channels[:, -1].astype(np.int64))
    given = cells if masker.same_person else shared_cells(ctx, index, cells)
    if matched(ctx.job):
        with threadpool_limits(1):
            target = _wanted(ctx, scope_of(ctx, index), channels)
            released = decode_matched(
                ctx.points,
                channels[:, : ctx.points.width + ctx.beside.width],
                given,
                target,
                rng=ctx.rng("decode", index),
                numbers_too=masker.exact_columns,
            )
    else:
        order, starts = _alike(channels) if masker.identical_rows else _one_group(len(cells))
        released = ctx.points.decode(
            points,
            given,
            order,
            starts,
            rng=ctx.rng("decode", index),
            categories=ctx.job.decode.of_cells,
            identical_groups=masker.identical_rows,
        )
    whole = Groups(*_one_group(len(cells)), False)
    released, shares = with_probabilities(ctx, index, points, given, whole, released)
    made = [at for at, column in enumerate(ctx.cells.columns) if column.role.synthesized]
    ends = None
    if ctx.intervals is not None:
        ends = ctx.intervals.ends(channels[:, : ctx.points.width], channels[:, ctx.points.width :], released)
    shared = released[:, made] if ends is None else np.concatenate([released[:, made], ends], axis=1)
    return {
        "rows": len(released),
        "stratum": ctx.plan.partitions[index].stratum,
        "fewest_alike": int(_sizes_alike(shared).min()) if masker.identical_rows else None,
        "as_they_were": rows_as_they_were(cells[:, made], released[:, made], *_one_group(len(cells)), ctx.job.k),
        "synthesized": Moments.of(points).to_dict(),
        "tally": Tally.of(cells, ctx.cells).to_dict(),
        "column_sums": exact_sums(points),
        "file_rows": hand_out(ctx, index, released, shares if ends is None else ends),
    }


def group_numbers(ctx: Context, index: int) -> IntArray:
    """The group of each row of a partition inside its stratum, of a masker that forms groups; shape (n_rows,)."""
    final = StepTask.read(ctx, "decode")
    return read_channels(ctx, final.given, final.channels, index)[:, -1].astype(np.int64)


def groups_file(index: int) -> str:
    """Where the moments of the groups' records in one partition lie, before and after."""
    return f"masked/groups-{index}.npz"


def _count_groups(ctx: Context, index: int, made: FloatArray, labels: IntArray) -> FloatArray:
    """Count records and synthetic points of each group anew, for the gate that holds them together."""
    points = read_channels(ctx, POINTS, ctx.points.width + ctx.beside.width, index)
    save_record(ctx, groups_file(index), RecordsAndDraws.of(points[:, : made.shape[1]], made, labels))
    return made


def _middles(ctx: Context, channels: FloatArray) -> FloatArray:
    """The points to decode: the channels, or the middles of intervals whose ends they are."""
    if ctx.intervals is None:
        return channels
    low, high = channels[:, : ctx.points.width], channels[:, ctx.points.width :]
    return low + (high - low) / 2


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
    return {
        "rows": rows,
        "mass": {block.name: _mass(ctx, block, points).tolist() for block in _coded(ctx)},
        "masked": Moments.of(points[:, : ctx.points.width + ctx.beside.width]).to_dict(),
    }


def matched(job: Job) -> bool:
    """Whether decoding makes up for what it would lose of the covariance; see `anonpipe.encoding.matching`."""
    return not masker_of(job).same_person and job.decode.of_cells == "calibrated"


def _wanted(ctx: Context, scope: Scope, channels: FloatArray) -> FloatArray:
    """The covariance that decoded records of a partition are to have, shape (channels, channels).

    The masked points' own; where the masker promises nothing of the
    covariance, moved by what the masked points of the scope lack of that of
    the original ones.
    """
    own = Moments.of(channels[:, : ctx.points.width + ctx.beside.width]).covariance
    lack = ctx.staging.read_json("masked/lacks.json")[scope.number]
    return own if lack is None else np.asarray(own + np.array(lack))


def _mass(ctx: Context, block: NumberBlock | CategoryBlock, points: FloatArray) -> FloatArray:
    """Of each code of a column, nulls last, in the order of `_code_counts`."""
    rows = len(points)
    if isinstance(block, CategoryBlock):
        mass = np.zeros(len(ctx.cells.categories[block.name]) + 1)
        above = (1.0 + points[:, block.start : block.stop]).sum(axis=0) / 2
        if block.stop == block.start:
            above = np.array([rows])  # the only category
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
    shares, given = ctx.staging.read_json("masked/shares.json"), cells.copy()
    for block in _coded(ctx):
        if sum(shares[block.name][index]) != len(cells):
            raise InputError(f"partition {index} changed while it was masked; run again")
        _put_codes(ctx, block, given, shares[block.name][index])
    return given


def _put_codes(ctx: Context, block: NumberBlock | CategoryBlock, cells: FloatArray, counts: list[int]) -> None:
    """Lay so many records of each code of a column, nulls last, over the cells."""
    codes = np.repeat(np.arange(len(counts)), counts).astype(np.float64)
    if isinstance(block, NumberBlock):
        categories = len(ctx.cells.categories[block.name]) if block.ordinal else 1
        codes[codes == categories] = np.nan
    cells[:, block.position] = codes
