"""What was measured, against which limit: lines of `passed`, `failed` or `not checked`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt


class Outcome(StrEnum):
    """The outcome of one check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Check:
    """One line of the verdict.

    Attributes
    ----------
    name
        What was checked, in words.
    outcome
        Passed, failed or not checked.
    measured, limit
        As text with their unit.
    on
        Which rows or bytes it was measured on.
    mandatory
        Whether it may never be "not checked".
    """

    name: str
    outcome: Outcome
    measured: str
    limit: str
    on: str
    mandatory: bool = False


@dataclass(frozen=True)
class Verdict:
    """All checks of one run, and notes that are no checks."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed and no mandatory check is missing."""
        return all(
            check.outcome is Outcome.PASSED or (check.outcome is Outcome.NOT_CHECKED and not check.mandatory)
            for check in self.checks
        )

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON-able content."""
        return {
            "verdict": "passed" if self.passed else "failed",
            "checks": [asdict(check) for check in self.checks],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Verdict:
        """Read what `to_dict` gave."""
        checks = (Check(**{**check, "outcome": Outcome(check["outcome"])}) for check in content["checks"])
        return cls(tuple(checks), tuple(content["notes"]))


def at_most(name: str, measured: float, limit: float, on: str, *, unit: str = "", mandatory: bool = False) -> Check:
    """A check that passes where a number is at most its limit; a missing number fails.

    Examples
    --------
    >>> at_most("rows lost", 0, 0, "all rows").outcome.value
    'passed'
    >>> at_most("largest mean difference", float("nan"), 0.1, "all rows").outcome.value
    'failed'
    """
    outcome = Outcome.PASSED if measured <= limit else Outcome.FAILED
    return Check(name, outcome, _number(measured, unit), f"at most {_number(limit, unit)}", on, mandatory)


@dataclass(frozen=True)
class Held:
    """A number held against its limit, before it becomes a line of the verdict; of many the worst is told.

    Attributes
    ----------
    name, on, mandatory
        As in `Check`.
    measured, limit
        The number, and what it may be at most.
    unit
        Of both.
    """

    name: str
    measured: float
    limit: float
    on: str
    unit: str = ""
    mandatory: bool = False

    @property
    def ratio(self) -> float:
        """Measured over limit: over 1 fails. Infinite where the number is missing, or may only be 0 and is not."""
        if not self.measured > 0:
            return 0.0 if self.measured <= self.limit else float("inf")
        return self.measured / self.limit if self.limit > 0 else float("inf")

    @property
    def check(self) -> Check:
        """The line of the verdict."""
        return at_most(self.name, self.measured, self.limit, self.on, unit=self.unit, mandatory=self.mandatory)


def worst_of(held: Sequence[Held]) -> Held:
    """Of the same check of several things the one with the largest ratio; the first of equals.

    Examples
    --------
    >>> worst_of([Held("mean", 3.0, 9.0, "all rows"), Held("mean", 2.0, 3.0, "all rows")]).measured
    2.0
    """
    return max(held, key=lambda each: each.ratio)


def each_at_most(
    name: str,
    measured: npt.NDArray[np.float64],
    limit: npt.NDArray[np.float64] | float,
    on: str,
    *,
    unit: str = "",
    mandatory: bool = False,
) -> Held:
    """Entries held each against its own limit: the one with the largest ratio; 0 of no entries.

    Examples
    --------
    >>> held = each_at_most("covariance", np.array([0.2, 0.1]), np.array([0.5, 0.12]), "all rows")
    >>> held.measured, held.limit, each_at_most("covariance", np.array([np.nan]), 1.0, "all rows").check.outcome.value
    (0.1, 0.12, 'failed')
    """
    limits = np.broadcast_to(limit, measured.shape).ravel()
    values = measured.ravel()
    if not values.size:
        return Held(name, 0.0, 0.0, on, unit, mandatory)
    ratio = np.full(values.shape, np.inf)
    np.divide(values, limits, out=ratio, where=limits > 0)
    ratio[values <= 0] = 0.0
    ratio[np.isnan(values) | np.isnan(limits)] = np.inf
    at = int(ratio.argmax())
    return Held(name, float(values[at]), float(limits[at]), on, unit, mandatory)


def at_least(name: str, measured: float, limit: float, on: str, *, unit: str = "", mandatory: bool = False) -> Check:
    """A check that passes where a number is at least its limit; a missing number fails."""
    outcome = Outcome.PASSED if measured >= limit else Outcome.FAILED
    return Check(name, outcome, _number(measured, unit), f"at least {_number(limit, unit)}", on, mandatory)


def _number(value: float, unit: str) -> str:
    text = f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.3g}"
    return f"{text} {unit}".strip()
