"""A survival analysis in three words: the time, the status, and which of its values are the event."""

from __future__ import annotations

from dataclasses import dataclass

from anonpipe.columns import Scalar


@dataclass(frozen=True)
class Endpoint:
    """A time and what happens at it.

    Attributes
    ----------
    name
        Of the analysis; empty for that of the columns' roles.
    time, status
        Columns.
    event
        Values of the status that mean that the event happened; others are censored.
    """

    name: str
    time: str
    status: str
    event: tuple[Scalar, ...]
