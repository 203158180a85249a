"""Steps of a method, and their one executor: passes over a table, and what is done with a part, a column or a count.

The functions of steps take those of these arguments that they name: `params`, what was learnt last; `rng`, a generator
of the step and the part; `place`, the part's number; `stratum`, that of the part; `original`, the features of its rows;
`draws`, the part's generator of a stream by its name, so that what a later step will draw can be counted. `finish` has
`params` and `rng`.

`anonpipe.pipeline.tasks.passes` runs them on the staging of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from typing import Any, Protocol

import numpy as np

from anonpipe.errors import AnonpipeError, InputError
from anonpipe.types import FloatArray


@dataclass(frozen=True)
class Rows:
    """Replaces the channels of any part of the rows."""

    name: str  # What it does, in a word; draws are keyed by it
    # `function(part, ...) -> new part`, of the same rows and any number of channels. `part` is not changed.
    function: Callable[..., FloatArray]
    least: int = 0  # Rows that a part must have at least
    # `channels(given, params)`: how many channels the new part has, of so many given ones. By default as many.
    channels: Callable[[int, Any], int] = lambda given, params: given
    stream: str | None = None  # Of its draws; by default one that follows from its number and name
    redrawn: bool = False  # Whether copies of a release differ from this step on


@dataclass(frozen=True)
class Columns:
    """Replaces one channel at a time, of all rows, in row order."""

    name: str  # What it does, in a word; draws are keyed by it
    # `function(column, ...) -> new column`, of the same rows. `column` is not changed. `place` is here the channel's
    # number, and `original` the column of the features that has it; there are then as many channels as columns.
    function: Callable[..., FloatArray]
    # `holds(original column) -> values`: what the new column holds, in any order, where that is promised of columns
    # that are neither kept nor scored; to be held against what comes out in the end
    holds: Callable[[FloatArray], FloatArray] | None = None
    redrawn: bool = False  # As of `Rows`


@dataclass(frozen=True)
class Reduce:
    """Learns from all rows what later steps need; the channels stay."""

    name: str  # What it learns, in a word; draws are keyed by it
    # `count(part, ...) -> statistic`, a record with a method `merge`, such as `anonpipe.moments.Moments`
    count: Callable[..., Any]
    # `finish(statistic, ...) -> params`, of the statistics of all parts merged in the order of the parts
    finish: Callable[..., Any]
    # `again(params)`: whether to pass over all rows once more with the new params. None for one pass.
    again: Callable[[Any], bool] | None = None
    costly: bool = False  # Whether `finish` takes seconds: workers then do it, all scopes at a time, with progress
    redrawn: bool = False  # As of `Rows`
    once: bool = False  # Whether it draws the same for all copies, whose mean would else tell what it draws for


Step = Rows | Columns | Reduce


def stream_of(number: int, step: Step) -> str:
    """The stream of a step's draws."""
    named = step.stream if isinstance(step, Rows) else None
    return named or f"mask {number} {step.name}"


# --- The passes that steps make, and their one executor ---------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """Steps that replace rows one after the other, done in one go with each part; or one step of another kind."""

    number: int  # Of the first step among the method's
    steps: tuple[Step, ...]  # One or more

    @property
    def step(self) -> Any:
        """The only one, or the first."""
        return self.steps[0]

    @property
    def of_rows(self) -> bool:
        """Whether it replaces rows."""
        return isinstance(self.step, Rows)

    def channels(self, given: int, params: Any) -> int:
        """How many channels its steps leave, if they replace rows, of so many given ones."""
        for step in self.steps:
            given = step.channels(given, params) if isinstance(step, Rows) else given
        return given


def passes(steps: Sequence[Step]) -> tuple[Pass, ...]:
    """The passes over a table that the steps make, in their order."""
    found: list[Pass] = []
    for number, step in enumerate(steps):
        if isinstance(step, Rows) and found and found[-1].of_rows:
            found[-1] = Pass(found[-1].number, (*found[-1].steps, step))
        else:
            found.append(Pass(number, (step,)))
    return tuple(found)


class Table(Protocol):
    """Channels of records, wherever they lie."""

    def replace_rows(self, one: Pass) -> None:
        """Replace the channels of every part."""

    def replace_columns(self, one: Pass) -> None:
        """Replace every channel."""

    def learn(self, one: Pass, turn: int) -> bool:
        """Count all parts and keep what follows; whether another turn is wanted."""


def execute(every: Sequence[Pass], table: Table) -> None:
    """Run passes one after the other."""
    for one in every:
        if one.of_rows:
            table.replace_rows(one)
        elif isinstance(one.step, Columns):
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


def asks(step: Step, name: str) -> bool:
    """Whether the function of a step that sees the rows takes an argument."""
    return name in signature(step.count if isinstance(step, Reduce) else step.function).parameters


def _called(function: Callable[..., Any], seen: Any, **offered: Any) -> Any:
    """The result of a step's function for what it sees, with those of the arguments that it names."""
    named = signature(function).parameters
    return function(seen, **{name: value for name, value in offered.items() if name in named})


def _called_on_part(step: Rows | Reduce, part: FloatArray, place: Place, **offered: Any) -> Any:
    original = {"original": place.original()} if asks(step, "original") else {}
    function = step.count if isinstance(step, Reduce) else step.function
    return _called(function, part, place=place.number, stratum=place.stratum, draws=place.draws, **original, **offered)


def rows_made(one: Pass, part: FloatArray, params: Any, place: Place) -> FloatArray:
    """The new channels of a part."""
    for number, step in enumerate((step for step in one.steps if isinstance(step, Rows)), one.number):
        size, wanted = len(part), step.channels(part.shape[1], params)
        if size < step.least:
            raise InputError(
                f"a part has {size} records, and {step.name} needs {step.least} or more; make parts larger"
            )
        made = _called_on_part(step, part, place, params=params, rng=place.draws(stream_of(number, step)))
        part = _checked(made, (size, wanted), step.name)
    return part


def statistic(step: Reduce, part: FloatArray, params: Any, place: Place) -> Any:
    """What a step counts of a part."""
    return _called_on_part(step, part, place, params=params)


def learnt(step: Reduce, statistics: Iterable[Any], params: Any, rng: np.random.Generator) -> Any:
    """What follows from the statistics of all parts, which are merged in the order of the parts."""
    return _called(step.finish, reduce(lambda whole, part: whole.merge(part), statistics), params=params, rng=rng)


def column_made(
    step: Columns, column: FloatArray, place: int, params: Any, rng: np.random.Generator, original: FloatArray | None
) -> FloatArray:
    """The new channel; `original` for steps that look at the features."""
    made = _called(step.function, column, place=place, params=params, rng=rng, original=original)
    return _checked(made, (len(column),), step.name)


def _checked(made: FloatArray, wanted: tuple[int, ...], name: str) -> FloatArray:
    if made.shape != wanted:
        raise AnonpipeError(f"the step {name} returned shape {made.shape} for {wanted}; please report this")
    if not np.isfinite(made).all():
        raise AnonpipeError(f"the step {name} made numbers that are not finite; please report this")
    return made
