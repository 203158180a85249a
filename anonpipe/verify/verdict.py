"""What was measured, against which limit: lines of `passed`, `failed` or `not checked`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


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


def at_least(name: str, measured: float, limit: float, on: str, *, unit: str = "", mandatory: bool = False) -> Check:
    """A check that passes where a number is at least its limit; a missing number fails."""
    outcome = Outcome.PASSED if measured >= limit else Outcome.FAILED
    return Check(name, outcome, _number(measured, unit), f"at least {_number(limit, unit)}", on, mandatory)


def _number(value: float, unit: str) -> str:
    text = f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.3g}"
    return f"{text} {unit}".strip()
