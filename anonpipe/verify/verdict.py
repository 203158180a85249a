"""What became of a run: its checks, and whether it may be released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Curve, Measurement
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.utility import Analysis, CoefficientChange, Estimate, ModelComparison, ModelFit
from anonpipe.verify.catalogue import MEASURED, About
from anonpipe.verify.check import Check, Outcome, unmeasured
from anonpipe.verify.words import Line, content, line


@dataclass(frozen=True)
class Verdict:
    """All checks of one run, and notes that are no checks; the notes are for the steward."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed and no mandatory check is missing."""
        return not self.failed

    @property
    def word(self) -> str:
        """`passed`, and on what risk without a limit; `failed`; `not checked` where nothing was held against one."""
        if not self.passed:
            return Outcome.FAILED.value
        if all(check.outcome is not Outcome.PASSED for check in self.checks):
            return Outcome.NOT_CHECKED.value
        return f"{Outcome.PASSED.value}{without_limit(self.unlimited)}"

    @property
    def unlimited(self) -> tuple[str, ...]:
        """Gates on risks that a release has by the way it is made, of which no figure was held against a limit.

        Records are linked, and who is found is known to be of a stratum. Where no released record stands for a
        person, no link is right, and membership is what is left to ask; it is named, too, where it was measured above
        the default limit. A limit of 1, which nothing can be beyond, is none.
        """
        outcomes = {check.key: check.outcome for check in self.checks}
        no_link = any(check.key == "unmeasured.linkage" and check.reason is Reason.NO_LINK for check in self.checks)
        risks = ["membership_auc" if no_link else "reidentification_rate"]
        default = MEASURED["membership_auc"].default or 1.0
        told = [each.measured for each in self.checks if each.key == "risk.membership_auc"]
        if not no_link and any(isinstance(each, float) and each > default for each in told):
            risks.append("membership_auc")
        risks += [name for name in ("stratum_inference",) if f"risk.{name}" in outcomes]
        held = {each.key for each in self.checks if each.outcome is Outcome.PASSED and (each.limit or 0.0) < 1.0}
        return tuple(name for name in risks if f"risk.{name}" not in held)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks for which nothing may be released."""
        return tuple(check for check in self.checks if check.blocks)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The checks in words."""
        return tuple(map(line, self.checks))

    def in_words(self) -> dict[str, Any]:
        """The verdict as JSON-able content for people."""
        return {
            "verdict": self.word,
            "checks": [content(check) for check in self.checks],
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON-able content for programs."""
        plain: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Verdict:
        """Read what `to_dict` gave."""
        return _adapter().validate_python(plain)


def without_limit(risks: Sequence[str]) -> str:
    """What a verdict that passed says of risks without a limit; nothing where there are none.

    Examples
    --------
    >>> without_limit(["reidentification_rate"])
    ', with no limit on reidentification_rate'
    """
    return f", with no limit on {' and '.join(risks)}" if risks else ""


@cache
def _adapter() -> TypeAdapter[Verdict]:
    return TypeAdapter(Verdict)


# --- Measures of a release beside its gates, as records that a file can hold ------------------------------------------


@dataclass(frozen=True)
class NotChecked:
    """Something that nobody measured, and why."""

    key: str  # What, one of `catalogue.UNMEASURED`
    reason: Reason  # Why
    about: About = field(default_factory=dict)  # What the words of both name

    @property
    def check(self) -> Check:
        """As a check that was not made."""
        return unmeasured(self.key, self.reason, about=self.about)


@dataclass(frozen=True)
class AnalysisOutcome:
    """What became of a recipient's model."""

    comparison: ModelComparison  # The fits to both tables. It tells the original's estimates, and is for the steward.
    limits: Mapping[str, float]  # What the job declares, by name of the share; empty for nothing
    # records, of: records that the model was given, and that are released
    records: int
    of: int


@dataclass(frozen=True)
class Assessment:
    """All that was measured of one release for risk and utility, in the order of a report."""

    utility: tuple[Measurement, ...] = ()
    risk: tuple[Measurement, ...] = ()
    analyses: tuple[AnalysisOutcome, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """All measures."""
        return (*self.utility, *self.risk)

    def measurement(self, name: str) -> Measurement:
        """The measure of this name."""
        known = {each.name: each for each in self.measured}
        if name not in known:
            raise JobError(f"no measure is called {name!r}; measured were: {', '.join(sorted(known)) or 'none'}")
        return known[name]

    def __add__(self, other: object) -> Assessment:
        """Both together, this one's first.

        Examples
        --------
        >>> one = Assessment(not_checked=(NotChecked("unmeasured.membership", Reason.NO_HOLD_OUT),))
        >>> len((one + Assessment() + one).not_checked)
        2
        """
        if not isinstance(other, Assessment):
            return NotImplemented
        parts = ((getattr(one, each.name) for one in (self, other)) for each in fields(Assessment))
        return Assessment(*(first + second for first, second in parts))


# What a staged assessment is made of
RECORDS = (
    Assessment,
    Measurement,
    Curve,
    AnalysisOutcome,
    ModelComparison,
    Analysis,
    CoefficientChange,
    ModelFit,
    Estimate,
    NotChecked,
    Audience,
    Reason,
)
