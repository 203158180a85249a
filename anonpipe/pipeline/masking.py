"""The steps of a masker one after the other, over partitions and columns that lie in the staging."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from anonpipe.encoding.shares import share_out
from anonpipe.errors import InputError
from anonpipe.methods.masking import Columns, Reduce, Rows
from anonpipe.moments import Moments, merge_all
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.mask_stages import (
    POINTS,
    Scope,
    StepTask,
    channel_shelf,
    load_params,
    load_record,
    params_file,
    partition_lengths,
    save_record,
    scopes,
    statistic_file,
    wants_more,
)
from anonpipe.pipeline.masker import job_promise, masker_of

MapStage = Callable[[str, int, str], None]
"""`map_stage(stage, pieces, title)`: run the unfinished pieces of a stage."""


def mask_table(ctx: Context, map_stage: MapStage) -> None:
    """Encode the partitions, run the steps of the job's masker, and decode.

    Every piece is as in `anonpipe.methods.masking.run_steps` with the key of its scope,
    the partitions being the parts, and so are the draws. What a step learnt, and
    the channels that it made, stay in the staging until the step after it has
    ended, so that a run goes on where it stopped.
    """
    partitions, channels = len(ctx.plan.partitions), ctx.points.width + ctx.beside.width
    _check_lengths(ctx)
    channel_shelf(ctx, POINTS, channels)
    map_stage("encode", partitions, "encode")
    given, params, seen = POINTS, None, (channels,) * len(scopes(ctx))
    for number, step in enumerate(ctx.steps):
        if isinstance(step, Reduce):
            params = _learn(ctx, map_stage, step, StepTask(number, given, channels, None, 0, params, seen=seen))
        else:
            filled = _widths(ctx, step, seen, params)
            width = max(filled)
            task = StepTask(number, given, channels, str(number), width, params, seen=seen, filled=filled)
            stage = f"mask-{number}"
            pieces = channels * len(scopes(ctx)) if isinstance(step, Columns) else partitions
            task.write(ctx, stage)
            channel_shelf(ctx, str(number), width)
            map_stage(stage, pieces, _title(step.name))
            if given != POINTS:
                shutil.rmtree(ctx.staging.file("masked") / given, ignore_errors=True)  # it goes with the staging
            given, channels, seen = str(number), width, filled
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


def _widths(ctx: Context, step: Rows | Columns, seen: tuple[int, ...], params: str | None) -> tuple[int, ...]:
    """How many channels a step makes of each scope's."""
    if isinstance(step, Columns):
        return seen
    pairs = zip(seen, scopes(ctx), strict=True)
    return tuple(step.channels(channels, load_params(ctx, params, scope)) for channels, scope in pairs)


def _learn(ctx: Context, map_stage: MapStage, step: Reduce, first: StepTask) -> str:
    """Pass over the partitions until each scope has learnt all it wants; the name of what they learnt."""
    turn, before, every = 0, first.params, scopes(ctx)
    while True:
        name = f"{first.number}-{turn}"
        task = replace(first, params=before, again=turn > 0)
        if not all(ctx.staging.has(params_file(name, scope)) for scope in every):
            task.write(ctx, f"mask-{name}")
            map_stage(f"mask-{name}", len(ctx.plan.partitions), _title(step.name))
            for scope in every:
                _finish(ctx, step, task, scope, name, turn)
        if step.again is None or not any(step.again(load_params(ctx, name, scope)) for scope in every):
            return name
        turn, before = turn + 1, name


def _finish(ctx: Context, step: Reduce, task: StepTask, scope: Scope, name: str, turn: int) -> None:
    """Merge what the partitions of a scope counted, in their order, and keep what follows from it."""
    if ctx.staging.has(params_file(name, scope)):
        return
    params = load_params(ctx, task.params, scope)
    if not wants_more(step, task, params):
        save_record(ctx, params_file(name, scope), params)
        return
    files = [statistic_file(f"mask-{name}", index) for index in range(scope.first, scope.stop)]
    rng = scope.rng(f"mask {task.number} {step.name}", turn)
    with threadpool_limits(1):  # as in the workers: the bits must not follow the machine's cores
        merged: Any = reduce(
            lambda whole, file: whole.merge(load_record(ctx, file)), files[1:], load_record(ctx, files[0])
        )
        save_record(ctx, params_file(name, scope), step.finish(merged, params=params, rng=rng))
    for file in files:
        ctx.staging.file(file).unlink()


def _share(ctx: Context) -> None:
    """Share each scope's categories and nulls out among its partitions, as their masked points call for them."""
    path, partitions = "masked/shares.json", len(ctx.plan.partitions)
    if ctx.staging.has(path):
        return
    encoded = ctx.staging.receipts("encode").read_all(partitions)
    counted = [receipt["codes"] for receipt in encoded]
    weights = ctx.staging.receipts("weigh").read_all(partitions)
    weighed = [receipt["mass"] for receipt in weights]
    sizes, shares = np.array(partition_lengths(ctx)), {}
    every = [slice(scope.first, scope.stop) for scope in scopes(ctx)]
    for name in counted[0]:
        codes, mass = np.array([counts[name] for counts in counted]), np.array([each[name] for each in weighed])
        shares[name] = [
            shared
            for inside in every
            for shared in share_out(mass[inside], codes[inside].sum(axis=0), sizes[inside]).tolist()
        ]
    lacks = [_lack(ctx, encoded[inside], weights[inside]) for inside in every]
    ctx.staging.write_json("masked/lacks.json", lacks)
    ctx.staging.write_json(path, shares)


def _lack(ctx: Context, encoded: list[dict[str, Any]], weights: list[dict[str, Any]]) -> list[list[float]] | None:
    """What the masked points of a scope lack of the original covariance, None where the masker promises a covariance.

    A promise is kept as it came out: nothing is made up for then.
    """
    original = merge_all([Moments.from_dict(receipt["points"]) for receipt in encoded])
    if job_promise(ctx.job, ctx.points, ctx.beside.width, original) is not None or original.n < 2:
        return None
    masked = merge_all([Moments.from_dict(receipt["masked"]) for receipt in weights])
    lack: list[list[float]] = (original.covariance - masked.covariance).tolist()
    return lack
