"""What became of a run: its checks, and whether it may be released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain
from math import inf, isfinite, nan
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Audience, Curve, Measurement, Reason
from anonpipe.evaluate.utility import (
    Analysis,
    CoefficientChange,
    CoefficientShares,
    Estimate,
    ModelComparison,
    ModelFit,
)
from anonpipe.verify.catalogue import GATES, MEASURED, UNMEASURED, About, Check, Outcome, kind_of, unmeasured, worst_of
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
        """`passed`, and what else is to be known of it; `failed`; `not checked` where no limit was held."""
        if not self.passed:
            return Outcome.FAILED.value
        if all(check.outcome is not Outcome.PASSED for check in self.checks):
            return Outcome.NOT_CHECKED.value
        return f"{Outcome.PASSED.value}{reservations(self)}"

    @property
    def unlimited(self) -> tuple[str, ...]:
        """Gates on the five risks and stratum inference without a limit, or with one of 1, which nothing is beyond."""
        risks = [check for check in self.checks if check.key in _RISKS or check.key == "risk.stratum_inference"]
        free = [check for check in risks if check.outcome is Outcome.NO_LIMIT or (check.limit or 0.0) >= 1.0]
        return tuple(check.key.removeprefix("risk.") for check in free)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Which of the five risks have no figure, though nobody said that they cannot apply."""
        reasons = {check.key: check.reason for check in self.checks if check.reason is not None}
        carried_out = [check for check in self.checks if check.outcome is not Outcome.NOT_CHECKED]
        known = {check.key for check in carried_out if check.withheld or isfinite(_number(check.measured))}
        missing = [
            UNMEASURED[why]
            for key, why in _RISKS.items()
            if (reasons[why] not in _CANNOT_APPLY if why in reasons else key not in known)
        ]
        return (_ALL,) if len(missing) == len(_RISKS) else tuple(missing)

    @property
    def uncertain(self) -> tuple[str, ...]:
        """In words, risks that passed though estimate or upper end is beyond the limit, as the interval is too wide."""
        found: dict[str, dict[str, None]] = {}
        for check in self.checks:
            if check.doubt and check.kind is not None and check.kind.gate is not None:
                found.setdefault(check.doubt, {})[UNMEASURED[check.kind.gate.unmeasured]] = None
        return tuple(f"{_listed(list(names))} uncertain: {what}" for what, names in sorted(found.items()))

    @property
    def linked(self) -> float:
        """Share of records that an attacker links, where above the default limit; where it is withheld, the limit."""
        found = (check for check in self.checks if check.key == "risk.reidentification_rate")
        shares = [_number(check.limit if check.withheld else check.measured) for check in found]
        return next((share for share in shares if share > _LINKED), 0.0)

    @property
    def kept(self) -> float:
        """Share of records that are as they were beyond chance, where above a half."""
        found = (_number(check.measured) for check in self.checks if check.key == "records.kept")
        return next((share for share in found if share > _MUCH_KEPT), 0.0)

    @property
    def distinguished(self) -> float:
        """The area under the curve by which released records are distinguished from original ones, where it is high."""
        found = (check for check in self.checks if check.key == kind_of("distinguishability").key)
        areas = (_number(check.measured if check.point is None else check.point) for check in found)
        return next((area for area in areas if area > _DISTINGUISHED), 0.0)

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
        return {"verdict": self.word, "checks": list(map(content, self.checks)), "notes": list(self.notes)}

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON-able content for programs."""
        plain: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Verdict:
        """Read what `to_dict` gave."""
        return _adapter().validate_python(plain)


def worst_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """The same checks of several copies of a release: of each the worst, and all notes once."""
    numbered = [_numbered(verdict.checks) for verdict in verdicts]
    found = (worst_of([each[name] for each in numbered if name in each]) for name in dict.fromkeys(chain(*numbered)))
    return Verdict(tuple(found), tuple(dict.fromkeys(note for verdict in verdicts for note in verdict.notes)))


def _numbered(checks: Sequence[Check]) -> dict[tuple[str, int], Check]:
    """Checks by key and place among those of it."""
    keys = [check.key for check in checks]
    return {(check.key, keys[:at].count(check.key)): check for at, check in enumerate(checks)}


# The check of each risk that a release is to be judged by, and what the verdict says where it was not measured
_RISKS = {
    kind_of(name).key: MEASURED[name].unmeasured
    for name in ("reidentification_rate", "membership_auc", "attribute_inference", "singling_out", "linkability")
}

_LINKED = GATES["reidentification_rate"].default or 0.0  # The share above which a verdict tells it

_MUCH_KEPT = 0.5  # The share of unchanged records above which a verdict tells it

_DISTINGUISHED = 0.8  # "Excellent discrimination" from there on (Hosmer & Lemeshow 2000, section 5.2.4)

_CANNOT_APPLY = (Reason.NO_LINK, Reason.ONE_COLUMN, Reason.ONLY_PROBABILITIES)

_ALL = "disclosure risk"


def reservations(verdict: Verdict, apart: bool = False) -> str:
    """What else a verdict that passed says; `apart`: what is not sure stands elsewhere."""
    free = [f"with no limit on {_listed(verdict.unlimited)}"] if verdict.unlimited else []
    missing = [f"{_listed(verdict.unmeasured)} not measured"] if verdict.unmeasured else []
    shares = {"an attacker links up to {:.0f} % of the records": verdict.linked}
    shares["{:.0f} % of the records are as they were"] = verdict.kept
    known = [f"but {text.format(100 * share)}" for text, share in shares.items() if share]
    if verdict.distinguished:
        known.append(f"but released records are distinguished from original ones (AUC {verdict.distinguished:.2f})")
    parts = [*free, *([] if apart else [*missing, *verdict.uncertain]), *known]
    return f", {'; '.join(parts)}" if parts else ""


def _number(value: float | None) -> float:
    """A figure, NaN for none."""
    return nan if value is None else value


def _listed(names: Sequence[str]) -> str:
    """Names as in a sentence."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


@cache
def _adapter() -> TypeAdapter[Verdict]:
    return TypeAdapter(Verdict)


# --- Measures of a release besides its gates, as records that a file can hold -----------------------------------------


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

    # The fits to both tables, of several copies of the release to the worst. It tells the original's estimates, and is
    # for the steward.
    comparison: ModelComparison
    limits: Mapping[str, float]  # What the job declares, by name of the share; empty for nothing
    records: int  # Records that the model was given
    of: int  # Records that are released
    copies: tuple[ModelComparison, ...] = ()  # Those to each copy of the release; empty for one

    @property
    def shares(self) -> CoefficientShares:
        """How many coefficients changed; of several copies of the release the worst of each."""
        found = [each.shares for each in self.copies or (self.comparison,)]
        worst = {
            name: (min if name == "overlap" else max)(getattr(each, name) for each in found)
            for name in ("changed_significance", "changed_direction", "outside", "overlap", "lost")
        }
        return replace(found[0], **worst)

    @property
    def unweighted(self) -> AnalysisOutcome | None:
        """The same without survey weights, which no limit is on; None where it has none."""
        if (plain := self.comparison.unweighted) is None:
            return None
        copies = tuple(each.unweighted for each in self.copies if each.unweighted is not None)
        return replace(self, comparison=plain, limits={}, copies=copies)

    @property
    def added(self) -> dict[str, float]:
        """Of each coefficient the variance between copies over the mean of their own, b / u; empty for one copy."""
        fits = [each.released.estimates for each in self.copies]
        found = {name: [estimates.get(name) for estimates in fits] for name in (fits[0] if fits else ())}
        return {
            name: float(np.var([one.value for one in known], ddof=1) / np.mean([one.variance for one in known]))
            for name, each in found.items()
            if len(known := [one for one in each if one is not None and one.variance > 0]) == len(fits)
        }


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

    @property
    def shown(self) -> tuple[AnalysisOutcome, ...]:
        """The analyses, those with survey weights without them, too."""
        return tuple(one for each in self.analyses for one in (each, each.unweighted) if one is not None)

    def measurement(self, name: str) -> Measurement:
        """The measure of this name."""
        known = {each.name: each for each in self.measured}
        if name not in known:
            raise JobError(f"no measure is called {name!r}; measured were: {', '.join(sorted(known)) or 'none'}")
        return known[name]

    def __add__(self, other: object) -> Assessment:
        """Both together, this one's first."""
        if not isinstance(other, Assessment):
            return NotImplemented
        parts = ((getattr(one, each.name) for one in (self, other)) for each in fields(Assessment))
        return Assessment(*(first + second for first, second in parts))


def worst_assessment(parts: Sequence[Assessment]) -> Assessment:
    """The same of several copies of a release: of each figure the worst."""
    first, *others = parts
    if not others:
        return first
    figures = [{figure.name: figure for figure in part.measured} for part in parts]
    utility, risk = (
        tuple(max((of[one.name] for of in figures if one.name in of), key=harm) for one in of_first)
        for of_first, harm in ((first.utility, _harm), (first.risk, _harm_known))
    )
    analyses = [
        replace(
            min(same, key=lambda each: np.nan_to_num(each.comparison.shares.overlap)),
            copies=tuple(each.comparison for each in same),
        )
        for same in zip(*(part.analyses for part in parts), strict=True)
    ]
    return replace(first, utility=utility, risk=risk, analyses=tuple(analyses))


def _harm(figure: Measurement) -> float:
    """How bad a figure is; nothing is worse than none."""
    if figure.value != figure.value:
        return inf
    if figure.better == "near baseline":
        return abs(figure.value - (figure.baseline or 0.0))
    return -figure.value if figure.better == "higher" else figure.value


def _harm_known(figure: Measurement) -> float:
    """The same of a risk that may be defined for one attacker alone."""
    return -inf if figure.value != figure.value else _harm(figure)


# What a staged assessment is made of
RECORDS = (
    Assessment, Measurement, Curve, AnalysisOutcome, ModelComparison, Analysis, CoefficientChange, ModelFit, Estimate,
    NotChecked, Audience, Reason,
)  # fmt: skip
