"""The three kinds of steps that a method is made of; each sees the channels that the step before it left.

No step needs more than one part of the rows, or one column of all rows: so they run over arrays and over parts on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


Step = Rows | Columns | Reduce


def stream_of(number: int, step: Step) -> str:
    """The stream of a step's draws."""
    named = step.stream if isinstance(step, Rows) else None
    return named or f"mask {number} {step.name}"
