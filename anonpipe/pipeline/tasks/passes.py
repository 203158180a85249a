"""The passes of a procedure over staged partitions: the driver's loop and the worker's task.

A pass over rows and a count have a piece a partition; a pass over columns a
piece a scope and channel; what is learnt is learnt a scope.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anonpipe.encoding.row_hash import exact_sums
from anonpipe.environment import one_thread
from anonpipe.errors import InputError
from anonpipe.methods.executor import (
    Columns,
    Pass,
    Reduce,
    asks,
    column_made,
    execute,
    learnt,
    rows_made,
    statistic,
    stream_of,
)
from anonpipe.pipeline.arrays import (
    FEATURES,
    FOLDER,
    channel_array,
    load_params,
    load_record,
    of_scope,
    params_file,
    place_of,
    read_channels,
    read_column,
    scope_key,
    scope_of,
    scopes_of,
    statistic_file,
)
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut, PartitionScope
from anonpipe.pipeline.procedure.group_steps import TableGroups
from anonpipe.rng import generator
from anonpipe.types import FloatArray

MapStage = Callable[[str, int, str], None]  # `map_stage(stage, pieces, title)`: run the unfinished pieces of a stage


@dataclass(frozen=True)
class PassTask:
    """One pass, or one turn of it, for the workers."""

    at: int  # Which of the method's passes it is
    # source, channels: the staged array that it reads, and how many channels that has
    source: str
    channels: int
    # target, width: the one that it fills, and its channels; None and 0 where it only learns
    target: str | None
    width: int
    params: str | None  # The name of the learnt parameters; None for none
    turn: int = 0  # Of a step that learns, from 0; later turns skip scopes that need no more
    # The name under which workers write parameters, a piece a scope; None where they count
    finishes: str | None = None
    # seen, filled: channels that each scope reads and fills; they may differ, as ranks of covariances do. The rest of
    # an array is zeros.
    seen: tuple[int, ...] = ()
    filled: tuple[int, ...] = ()

    def write(self, work: Work, stage: str) -> None:
        """Write it for the workers."""
        work.staging.write_record(f"{FOLDER}/{stage}.record", self)

    @classmethod
    def read(cls, work: Work, stage: str) -> PassTask:
        """Read it."""
        return work.staging.read_one(f"{FOLDER}/{stage}.record", PassTask)


_SHARED = "shared"  # The record of what the passes have left that copies of a release share
LAST = "last"  # The record for decoding: the last staged array and the last parameters


def run_pass(work: Work, fitted: Fitted, cut: Cut, stage: str, index: int) -> dict[str, Any]:
    """Run a pass over one partition; a step over columns over one channel of one scope."""
    task = PassTask.read(work, stage)
    pass_ = fitted.procedure.head[task.at]
    if isinstance(pass_.step, Columns):
        return _column(work, fitted, cut, task, pass_, index)
    if isinstance(pass_.step, Reduce) and task.finishes is not None:
        scope = scopes_of(fitted, cut)[index]
        _finish(work, task, pass_, scope, task.finishes)
        return {"rows": sum(cut.lengths[scope.inside])}
    scope = scope_of(fitted, cut, index)
    params, rows = load_params(work, task.params, scope), cut.partitions[index].rows
    if isinstance(pass_.step, Reduce) and not _wants_more(pass_.step, task, params):
        return {"rows": rows}
    part = read_channels(work, fitted, cut, task.source, task.channels, index)
    part, place = np.ascontiguousarray(part[:, : task.seen[scope.number]]), place_of(work, fitted, cut, scope, index)
    if isinstance(pass_.step, Reduce):
        work.staging.write_record(statistic_file(stage, index), statistic(pass_.step, part, params, place))
    else:
        released = rows_made(pass_, part, params, place)
        if (lacking := task.width - released.shape[1]) > 0:
            released = np.pad(released, ((0, 0), (0, lacking)))
        channel_array(work, fitted, cut, str(task.target), task.width).write(index, released)
    return {"rows": rows}


def _wants_more(step: Reduce, task: PassTask, params: Any) -> bool:
    """Whether a turn still counts this scope."""
    return task.turn == 0 or (step.again is not None and step.again(params))


def _column(work: Work, fitted: Fitted, cut: Cut, task: PassTask, pass_: Pass, index: int) -> dict[str, Any]:
    """Replace one channel of one scope; returns its largest size and the promised checksum."""
    number, place = divmod(index, task.channels)
    scope = scopes_of(fitted, cut)[number]
    column = read_column(work, fitted, cut, task.source, task.channels, place, scope)
    staged, lengths = of_scope(channel_array(work, fitted, cut, str(task.target), task.width), cut, scope)
    if place >= task.seen[number]:  # the zeros go on
        staged.write_column(place, lengths, column)
        return {"rows": len(column), "largest": 0.0}
    original = (
        read_column(work, fitted, cut, FEATURES, fitted.width, place, scope) if asks(pass_.step, "original") else None
    )
    promised = {}
    if pass_.step.holds is not None and original is not None:
        promised = {"place": place, "column_sums": exact_sums(pass_.step.holds(original)[:, None])}
    rng = generator(scope_key(work, scope), stream_of(pass_.number, pass_.step), place)
    params = load_params(work, task.params, scope)
    staged.write_column(place, lengths, column_made(pass_.step, column, place, params, rng, original))
    return {"rows": len(column), "largest": float(np.abs(column).max()), **promised}


@dataclass
class StagedTable:
    """The channels of a run as a table of `anonpipe.methods.executor`; each pass is a stage of tasks.

    What a step learnt, and the channels that it made, stay in the staging
    until the pass after it has ended, so that a run goes on where it stopped.
    """

    # work, fitted, cut: the run
    work: Work
    fitted: Fitted
    cut: Cut
    map_stage: MapStage  # Runs the pieces of a stage
    task: PassTask  # What the next pass sees

    @property
    def _scopes(self) -> list[PartitionScope]:
        return scopes_of(self.fitted, self.cut)

    def _title(self, name: str) -> str:
        return name if self.fitted.procedure.forms_groups else f"mask: {name}"

    def replace_rows(self, pass_: Pass) -> None:
        """Replace the channels of every partition."""
        pairs = zip(self.task.seen, self._scopes, strict=True)
        filled = [pass_.channels(seen, load_params(self.work, self.task.params, scope)) for seen, scope in pairs]
        self._replace(pass_.number, len(self.cut.partitions), pass_.steps[0].name, tuple(filled))

    def replace_columns(self, pass_: Pass) -> None:
        """Replace every channel of every scope."""
        self._replace(pass_.number, self.task.channels * len(self._scopes), pass_.step.name, self.task.seen)

    def _replace(self, number: int, pieces: int, name: str, filled: tuple[int, ...]) -> None:
        target, source = str(number), self.task.source
        task = replace(self.task, target=target, width=max(filled), filled=filled)
        task.write(self.work, stage_name(number))
        channel_array(self.work, self.fitted, self.cut, target, task.width)
        self.map_stage(stage_name(number), pieces, self._title(name))
        if source != FEATURES or not self.fitted.procedure.keeps_features:
            own = self.work.staging.root / self.work.staging.own(f"{FOLDER}/{source}")  # not what copies share
            shutil.rmtree(own, ignore_errors=True)  # it goes with the staging
        self.task = PassTask(task.at + 1, target, task.width, None, 0, task.params, seen=filled)

    def learn(self, pass_: Pass, turn: int) -> bool:
        """Count all partitions; returns whether a scope needs another turn."""
        name, work = f"{pass_.number}-{turn}", self.work
        task = replace(self.task, turn=turn)
        if not all(work.staging.has(params_file(name, scope)) for scope in self._scopes):
            task.write(work, stage_name(name))
            self.map_stage(stage_name(name), len(self.cut.partitions), self._title(pass_.step.name))
            self._finish_all(pass_, task, name)
        again = pass_.step.again
        more = again is not None and any(again(load_params(work, name, scope)) for scope in self._scopes)
        self.task = replace(self.task, at=task.at + (not more), params=name)
        return more

    def _finish_all(self, pass_: Pass, task: PassTask, name: str) -> None:
        """Finish the counts of each scope, and delete them."""
        if pass_.step.costly:
            stage = stage_name(f"{name}-finish")
            replace(task, finishes=name).write(self.work, stage)
            self.map_stage(stage, len(self._scopes), f"{self._title(pass_.step.name)}, fit")
        else:
            for scope in self._scopes:
                _finish(self.work, task, pass_, scope, name)
        for index in range(len(self.cut.partitions)):
            self.work.staging.file(statistic_file(stage_name(name), index)).unlink(missing_ok=True)


def _finish(work: Work, task: PassTask, pass_: Pass, scope: PartitionScope, name: str) -> None:
    """Merge the counts of a scope's partitions in their order, and write the learnt parameters."""
    file = params_file(name, scope)
    if work.staging.has(file):
        return
    params = load_params(work, task.params, scope)
    if not _wants_more(pass_.step, task, params):
        work.staging.write_record(file, params)
        return
    counted = (load_record(work, statistic_file(stage_name(name), i)) for i in range(scope.first, scope.stop))
    drawn = Work(replace(work.staging, copy=0)) if pass_.step.once else work
    rng = generator(scope_key(drawn, scope), stream_of(pass_.number, pass_.step), task.turn)
    with one_thread():  # the bits must not follow the machine's cores
        work.staging.write_record(file, learnt(pass_.step, counted, params, rng))


def stage_name(number: int | str) -> str:
    """The stage name of a pass that begins with this step, or of a turn."""
    return f"step-{number}"


def make_features(work: Work, fitted: Fitted, cut: Cut) -> None:
    """Make the staged array of the features, after checking that partitions are large enough."""
    least = max(getattr(step, "least", 0) for step in fitted.procedure.steps)
    if min(cut.lengths) < least:
        raise InputError(
            f"a partition has {min(cut.lengths)} records, and {fitted.procedure.name} needs {least}; "
            f"{fitted.job.larger_strata}"
        )
    channel_array(work, fitted, cut, FEATURES, fitted.width)


def run_steps(work: Work, fitted: Fitted, cut: Cut, map_stage: MapStage) -> None:
    """Run all passes of the procedure but the last, which runs where rows are decoded."""
    # Draws are those of the key of a scope, whose partitions are the parts that steps see. Where a release has several
    # copies, those that these share are run of what they share, and the others of each copy.
    seen, head = (fitted.width,) * len(scopes_of(fitted, cut)), fitted.procedure.head
    first = PassTask(0, FEATURES, fitted.width, None, 0, None, seen=seen)
    if len(work.copies) > 1:
        head = head[: fitted.procedure.shared]
    elif work.staging.copy:
        first = PassTask.read(work, _SHARED)
        head = head[first.at :]
    table = StagedTable(work, fitted, cut, map_stage, first)
    execute(head, table)
    table.task.write(work, LAST if len(work.copies) == 1 else _SHARED)


def last_channels(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[FloatArray, Any]:
    """The channels of a partition after the last step, and the parameters of its scope."""
    task, scope = PassTask.read(work, LAST), scope_of(fitted, cut, index)
    params = load_params(work, task.params, scope)
    part = read_channels(work, fitted, cut, task.source, task.channels, index)
    part = np.ascontiguousarray(part[:, : task.seen[scope.number]])
    if fitted.procedure.tail is None:
        return part, params
    return rows_made(fitted.procedure.tail, part, params, place_of(work, fitted, cut, scope, index)), params


def last_learnt(work: Work, fitted: Fitted, cut: Cut) -> list[Any]:
    """What the passes learnt last, of each scope."""
    params = PassTask.read(work, LAST).params
    return [load_params(work, params, scope) for scope in scopes_of(fitted, cut)]


def learnt_groups(work: Work, fitted: Fitted, cut: Cut) -> TableGroups | None:
    """The counts of groups that form in partitions; None for other methods."""
    return last_learnt(work, fitted, cut)[0] if fitted.procedure.forms_groups else None
