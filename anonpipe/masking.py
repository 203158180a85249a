"""The steps of a masker one after the other, over partitions and columns that lie in the staging."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from anonpipe.codec.shares import share_out
from anonpipe.context import Context
from anonpipe.errors import InputError
from anonpipe.mask import Columns, Reduce, Rows
from anonpipe.mask_stages import (
    POINTS,
    StepTask,
    channel_shelf,
    load_record,
    params_file,
    partition_lengths,
    save_record,
    statistic_file,
)
from anonpipe.masker import masker_of
from anonpipe.store import write_json

MapStage = Callable[[str, int, str], None]
"""`map_stage(stage, pieces, title)`: run the unfinished pieces of a stage."""


def mask_table(ctx: Context, map_stage: MapStage) -> None:
    """Encode the partitions, run the steps of the job's masker, and decode.

    Every piece is as in `anonpipe.mask.run_steps` with the run's key, the
    partitions being the parts, and so are the draws. What a step learnt, and
    the channels that it made, stay in the staging until the step after it has
    ended, so that a run goes on where it stopped.
    """
    partitions, channels = len(ctx.plan.partitions), ctx.points.width + ctx.beside.width
    _check_lengths(ctx)
    channel_shelf(ctx, POINTS, channels)
    map_stage("encode", partitions, "encode")
    given, params = POINTS, None
    for number, step in enumerate(ctx.steps):
        if isinstance(step, Reduce):
            params = _learn(ctx, map_stage, step, StepTask(number, given, channels, None, 0, params))
        else:
            width = _width(ctx, step, channels, params)
            task = StepTask(number, given, channels, str(number), width, params)
            stage, pieces = f"mask-{number}", channels if isinstance(step, Columns) else partitions
            task.write(ctx, stage)
            channel_shelf(ctx, str(number), width)
            map_stage(stage, pieces, _title(step.name))
            if given != POINTS:
                shutil.rmtree(ctx.staging.file("masked") / given, ignore_errors=True)  # it goes with the staging
            given, channels = str(number), width
    StepTask(len(ctx.steps), given, channels, None, 0, None).write(ctx, "decode")
    if not masker_of(ctx.job).same_person:
        map_stage("weigh", partitions, _title("categories"))
        _share(ctx)
    map_stage("decode", partitions, "decode")


def _title(name: str) -> str:
    """What progress shows."""
    return f"mask: {name}"


def _check_lengths(ctx: Context) -> None:
    """Refuse before any step what a step cannot do."""
    least = max((step.least for step in ctx.steps if isinstance(step, Rows)), default=0)
    if min(partition_lengths(ctx)) < least:
        raise InputError(
            f"a partition has {min(partition_lengths(ctx))} records, and {masker_of(ctx.job).name} needs {least}; "
            "set strata.small to merge or drop"
        )


def _width(ctx: Context, step: Rows | Columns, channels: int, params: str | None) -> int:
    if isinstance(step, Columns):
        return channels
    return step.channels(channels, None if params is None else load_record(params_file(ctx, params)))


def _learn(ctx: Context, map_stage: MapStage, step: Reduce, first: StepTask) -> str:
    """Pass over the partitions until the step has learnt all it wants; the name of what it learnt."""
    turn, before = 0, first.params
    while True:
        name = f"{first.number}-{turn}"
        if not params_file(ctx, name).exists():
            task = StepTask(first.number, first.given, first.channels, None, 0, before)
            task.write(ctx, f"mask-{name}")
            map_stage(f"mask-{name}", len(ctx.plan.partitions), _title(step.name))
            _finish(ctx, step, f"mask-{name}", before, name, ctx.rng(f"mask {first.number} {step.name}", turn))
        if step.again is None or not step.again(load_record(params_file(ctx, name))):
            return name
        turn, before = turn + 1, name


def _finish(ctx: Context, step: Reduce, stage: str, before: str | None, name: str, rng: np.random.Generator) -> None:
    """Merge what the partitions counted, in their order, and keep what follows from it."""
    files = [statistic_file(ctx, stage, index) for index in range(len(ctx.plan.partitions))]
    params = None if before is None else load_record(params_file(ctx, before))
    with threadpool_limits(1):  # as in the workers: the bits must not follow the machine's cores
        merged: Any = reduce(lambda whole, file: whole.merge(load_record(file)), files[1:], load_record(files[0]))
        save_record(params_file(ctx, name), step.finish(merged, params=params, rng=rng))
    for file in files:
        file.unlink()


def _share(ctx: Context) -> None:
    """Share the table's categories and nulls out among the partitions, as their masked points call for them."""
    path, partitions = ctx.staging.file("masked") / "shares.json", len(ctx.plan.partitions)
    if path.exists():
        return
    counted = [receipt["codes"] for receipt in ctx.staging.receipts("encode").read_all(partitions)]
    weighed = [receipt["mass"] for receipt in ctx.staging.receipts("weigh").read_all(partitions)]
    sizes, shares = np.array(partition_lengths(ctx)), {}
    for name in counted[0]:
        totals = np.array([counts[name] for counts in counted], dtype=np.int64).sum(axis=0)
        shares[name] = share_out(np.array([mass[name] for mass in weighed]), totals, sizes).tolist()
    write_json(path, shares)
