"""A survival analysis in three words: the time, the status, and which of its values are the event."""

from __future__ import annotations

from dataclasses import dataclass

from anonpipe.columns import Scalar


@dataclass(frozen=True)
class Endpoint:
    """A time and what happens at it."""

    name: str  # Of the analysis; empty for that of the columns' roles
    # time, status: columns
    time: str
    status: str
    event: tuple[Scalar, ...]  # Values of the status that mean that the event happened; others are censored
