"""Steps of a method, and their one executor: passes over a table, and what is done with a part, a column or a count.

`anonpipe.pipeline.tasks.passes` runs them on the staging of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np

from anonpipe.errors import AnonpipeError, InputError
from anonpipe.types import FloatArray


def as_many(given: int, params: Any) -> int:
    """The channels stay as many as they are."""
    return given


@dataclass(frozen=True)
class Rows:
    """Replaces the channels of any part of the rows."""

    name: str  # What it does, in a word; draws are keyed by it
    # `function(part, *, params, rng) -> new part`, of the same rows and any number of channels. `part` is not changed.
    function: Callable[..., FloatArray]
    least: int = 0  # Rows that a part must have at least
    # `channels(given, params)`: how many channels the new part has, of so many given ones. By default as many.
    channels: Callable[[int, Any], int] = as_many
    placed: bool = False  # Whether the function also takes `place`, the part's number
    with_stratum: bool = False  # Whether the function also takes `stratum`, that of the part
    stream: str | None = None  # Of its draws; by default one that follows from its number and name
    redrawn: bool = False  # Whether copies of a release differ from this step on


@dataclass(frozen=True)
class Columns:
    """Replaces one channel at a time, of all rows, in row order."""

    name: str  # What it does, in a word; draws are keyed by it
    # `function(column, *, place, params, rng) -> new column`, `place` being the channel's number. No change in place.
    function: Callable[..., FloatArray]
    # Whether the function also takes `original`, the column of the features that has this place; there are then as many
    # channels as columns
    with_original: bool = False
    # `holds(original column) -> values`: what the new column holds, in any order, where that is promised of columns
    # that are neither kept nor scored; to be held against what comes out in the end
    holds: Callable[[FloatArray], FloatArray] | None = None
    redrawn: bool = False  # As of `Rows`


@dataclass(frozen=True)
class Reduce:
    """Learns from all rows what later steps need; the channels stay."""

    name: str  # What it learns, in a word; draws are keyed by it
    # `count(part, *, params) -> statistic`, a record with a method `merge`, such as `anonpipe.moments.Moments`
    count: Callable[..., Any]
    # `finish(statistic, *, params, rng) -> params`, of the statistics of all parts merged in the order of the parts
    finish: Callable[..., Any]
    # `again(params)`: whether to pass over all rows once more with the new params. None for one pass.
    again: Callable[[Any], bool] | None = None
    placed: bool = False  # Whether `count` also takes `place`, the part's number
    with_original: bool = False  # Whether `count` also takes `original`, the features of the part's rows
    with_stratum: bool = False  # Whether `count` also takes `stratum`, that of the part
    # Whether `count` also takes `draws`, which gives the part's generator of a stream by its name: what a later step
    # will draw can so be counted
    with_draws: bool = False
    # Whether `finish` takes seconds: workers then do it, all scopes at a time, and progress is seen
    costly: bool = False
    redrawn: bool = False  # As of `Rows`
    # Whether `finish` draws the same for all copies of a release, whose mean would else tell what it draws for
    once: bool = False


Step = Rows | Columns | Reduce


def stream_of(number: int, step: Step) -> str:
    """The stream of a step's draws."""
    named = step.stream if isinstance(step, Rows) else None
    return named or f"mask {number} {step.name}"


# --- The passes that steps make, and their one executor ---------------------------------------------------------------


@dataclass(frozen=True)
class RowsPass:
    """Steps that replace rows one after the other, done in one go with each part."""

    number: int  # Of the first step among the method's
    steps: tuple[Rows, ...]  # One or more

    def channels(self, given: int, params: Any) -> int:
        """How many channels the last step leaves, of so many given ones."""
        for step in self.steps:
            given = step.channels(given, params)
        return given


@dataclass(frozen=True)
class ColumnsPass:
    """A step that replaces columns."""

    number: int  # Of the step among the method's
    step: Columns


@dataclass(frozen=True)
class ReducePass:
    """A step that learns."""

    number: int  # Of the step among the method's
    step: Reduce


Pass = RowsPass | ColumnsPass | ReducePass


def passes(steps: Sequence[Step]) -> tuple[Pass, ...]:
    """The passes over a table that the steps make, in their order."""
    found: list[Pass] = []
    for number, step in enumerate(steps):
        last = found[-1] if found else None
        if isinstance(step, Columns):
            found.append(ColumnsPass(number, step))
        elif isinstance(step, Reduce):
            found.append(ReducePass(number, step))
        elif isinstance(last, RowsPass):
            found[-1] = RowsPass(last.number, (*last.steps, step))
        else:
            found.append(RowsPass(number, (step,)))
    return tuple(found)


class Table(Protocol):
    """Channels of records, wherever they lie."""

    def replace_rows(self, one: RowsPass) -> None:
        """Replace the channels of every part."""

    def replace_columns(self, one: ColumnsPass) -> None:
        """Replace every channel."""

    def learn(self, one: ReducePass, turn: int) -> bool:
        """Count all parts and keep what follows; whether another turn is wanted."""


def execute(every: Sequence[Pass], table: Table) -> None:
    """Run passes one after the other."""
    for one in every:
        if isinstance(one, RowsPass):
            table.replace_rows(one)
        elif isinstance(one, ColumnsPass):
            table.replace_columns(one)
        else:
            turn = 0
            while table.learn(one, turn):
                turn += 1


@dataclass(frozen=True)
class Place:
    """Where a part of the rows stands."""

    number: int  # Of the part in the table
    draws: Callable[[str], np.random.Generator]  # `draws(stream)`: the part's generator of a stream
    original: Callable[[], FloatArray]  # `original()`: the features of its rows
    stratum: int = 0  # The stratum that its rows belong to


def _asked(step: Rows | Reduce, place: Place) -> dict[str, Any]:
    """What the function of a step takes besides the part."""
    asked: dict[str, Any] = {"place": place.number} if step.placed else {}
    if step.with_stratum:
        asked["stratum"] = place.stratum
    if isinstance(step, Reduce) and step.with_original:
        asked["original"] = place.original()
    if isinstance(step, Reduce) and step.with_draws:
        asked["draws"] = place.draws
    return asked


def rows_made(one: RowsPass, part: FloatArray, params: Any, place: Place) -> FloatArray:
    """The new channels of a part."""
    for number, step in enumerate(one.steps, one.number):
        size, wanted = len(part), step.channels(part.shape[1], params)
        if size < step.least:
            raise InputError(
                f"a part has {size} records, and {step.name} needs {step.least} or more; make parts larger"
            )
        rng = place.draws(stream_of(number, step))
        made = step.function(part, params=params, rng=rng, **_asked(step, place))
        part = _checked(made, (size, wanted), step.name)
    return part


def statistic(step: Reduce, part: FloatArray, params: Any, place: Place) -> Any:
    """What a step counts of a part."""
    return step.count(part, params=params, **_asked(step, place))


def learnt(step: Reduce, statistics: Iterable[Any], params: Any, rng: np.random.Generator) -> Any:
    """What follows from the statistics of all parts, which are merged in the order of the parts."""
    return step.finish(reduce(lambda whole, part: whole.merge(part), statistics), params=params, rng=rng)


def column_made(
    step: Columns, column: FloatArray, place: int, params: Any, rng: np.random.Generator, original: FloatArray | None
) -> FloatArray:
    """The new channel; `original` for steps that look at the features."""
    given = {} if original is None else {"original": original}
    made = step.function(column, place=place, params=params, rng=rng, **given)
    return _checked(made, (len(column),), step.name)


def _checked(made: FloatArray, wanted: tuple[int, ...], name: str) -> FloatArray:
    if made.shape != wanted:
        raise AnonpipeError(f"the step {name} returned shape {made.shape} for {wanted}; please report this")
    if not np.isfinite(made).all():
        raise AnonpipeError(f"the step {name} made numbers that are not finite; please report this")
    return made
