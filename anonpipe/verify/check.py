"""A check as data: what was measured, against which limit, on what, and how it came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.evaluate.reason import Reason
from anonpipe.verify.catalogue import KINDS, About, CheckKind


class Outcome(StrEnum):
    """The outcome of one check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"
    NO_LIMIT = "no limit set"


class Withheld(StrEnum):
    """Why a figure is withheld from recipients; see `anonpipe.verify.output_control`."""

    FEW_ROWS = "fewer than k rows"
    FEW_OF_SHARE = "a share of fewer than k rows"
    FIGURE = "the figure"


@dataclass(frozen=True)
class Check:
    """One check of a verdict."""

    key: str  # Which; its record is in `catalogue.KINDS`
    outcome: Outcome  # Passed, failed, not checked, or measured while the job sets no limit
    # measured, limit: none where it was not measured, and for no limit
    measured: float | None = None
    limit: float | None = None
    unit: str = ""  # Of both
    # records, of: records that the figure rests on, and that there are; None where that is not known
    records: int | None = None
    of: int | None = None
    columns: tuple[str, ...] = ()  # What it is the figure of: the column, or pair, nearest to its limit; empty for none
    compared: int | None = None  # Columns among which that is the worst; None where that is not known
    # What else its words name: column names, k, numbers of files. No value of the data.
    about: About = field(default_factory=dict)
    # What was measured where `measured` is the end of its interval that is held against the limit; None elsewhere
    point: float | None = None
    high: float | None = None  # Upper end of that interval
    reason: Reason | None = None  # Why it was not measured; None where it was, or nobody knows
    withheld: Withheld | None = None  # In place of the figure, for recipients

    @property
    def kind(self) -> CheckKind | None:
        """Its record; None for a key that this version does not know."""
        return KINDS.get(self.key)

    @property
    def mandatory(self) -> bool:
        """Whether it may never be "not checked"; so is what nobody knows."""
        return self.kind is None or self.kind.mandatory

    @property
    def uncertain(self) -> bool:
        """Whether it passed though the estimate is beyond the limit, as the interval is too wide to tell."""
        if self.point is None or self.limit is None or self.outcome is not Outcome.PASSED:
            return False
        return self.point > self.limit and not (self.kind is not None and self.kind.at_least)

    @property
    def blocks(self) -> bool:
        """Whether nothing may be released for it."""
        return self.outcome is Outcome.FAILED or (self.mandatory and self.outcome is not Outcome.PASSED)

    @property
    def ratio(self) -> float:
        """Measured over the most that passes; infinite where a number is missing, or may only be 0 and is not."""
        measured, limit = (np.nan if value is None else value for value in (self.measured, self.limit))
        if not measured > 0:
            return 0.0 if measured <= limit else float("inf")
        return measured / limit if limit > 0 else float("inf")


def held(key: str, measured: float | None, limit: float | None, *, unit: str | None = None, **given: Any) -> Check:
    """Hold a number against its limit, the way that the check's record says; a missing number fails."""
    kind = KINDS[key]
    number = np.nan if measured is None else measured
    outcome = Outcome.NOT_CHECKED if np.isnan(number) else Outcome.NO_LIMIT
    if limit is not None:
        outcome = Outcome.PASSED if (number >= limit if kind.at_least else number <= limit) else Outcome.FAILED
    return Check(key, outcome, measured, limit, kind.unit if unit is None else unit, **given)


def worst_of(checks: Sequence[Check]) -> Check:
    """Of the same check of several things the one with the largest ratio; the first of equals."""
    return max(checks, key=lambda each: each.ratio)


def worst_entry(
    key: str,
    measured: npt.NDArray[np.float64],
    limit: npt.NDArray[np.float64] | float,
    names: Sequence[Sequence[str]] = (),
    **given: Any,
) -> Check:
    """Entries held each against its own limit: the one with the largest ratio; 0 of no entries."""
    if names:
        given = {"compared": len(set(names[0]) - {""})} | given
    limits = np.broadcast_to(limit, measured.shape)
    if not measured.size:
        return held(key, 0.0, 0.0, **given)
    ratio = np.full(measured.shape, np.inf)
    np.divide(measured, limits, out=ratio, where=limits > 0)
    ratio[measured <= 0] = 0.0
    ratio[np.isnan(measured) | np.isnan(limits)] = np.inf
    at = tuple(int(place) for place in np.unravel_index(int(ratio.argmax()), measured.shape))
    worst = zip(names, at, strict=bool(names)) if ratio[at] > 0 else ()
    columns = dict.fromkeys(of[place] for of, place in worst)
    return held(key, float(measured[at]), float(limits[at]), columns=tuple(filter(None, columns)), **given)


def unmeasured(key: str, reason: Reason, **given: Any) -> Check:
    """What nobody measured, and why."""
    return replace(held(key, None, None, **given), reason=reason)
