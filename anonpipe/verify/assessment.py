"""What was measured of a release beside its gates, as records that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.utility import Analysis, CoefficientChange, Curve, Estimate, Fit, Measurement, ModelComparison
from anonpipe.verify.catalogue import About
from anonpipe.verify.check import Check, unmeasured


@dataclass(frozen=True)
class NotChecked:
    """Something that nobody measured, and why.

    Attributes
    ----------
    key
        What, one of `catalogue.UNMEASURED`.
    reason
        Why.
    about
        What the words of both name.
    """

    key: str
    reason: Reason
    about: About = field(default_factory=dict)

    @property
    def check(self) -> Check:
        """As a check that was not made."""
        return unmeasured(self.key, self.reason, about=self.about)


@dataclass(frozen=True)
class AnalysisOutcome:
    """What became of a recipient's model.

    Attributes
    ----------
    comparison
        The fits to both tables. It tells the original's estimates, and is for
        the steward.
    limits
        What the job declares, by name of the share; empty for nothing.
    records, of
        Records that the model was given, and that are released.
    """

    comparison: ModelComparison
    limits: Mapping[str, float]
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
        """The measure of this name.

        Raises
        ------
        JobError
            There is none; it lists those that there are.
        """
        known = {each.name: each for each in self.measured}
        if name not in known:
            raise JobError(f"no measure is called {name!r}; measured were: {', '.join(sorted(known)) or 'none'}")
        return known[name]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able content; what is not a number becomes null.

        Examples
        --------
        >>> whole = Assessment(not_checked=(NotChecked("unmeasured.membership", Reason.NO_HOLD_OUT),))
        >>> Assessment.from_dict(whole.to_dict()) == whole
        True
        """
        return {
            "utility": [each.to_dict() for each in self.utility],
            "risk": [each.to_dict() for each in self.risk],
            "analyses": [outcome_to_dict(each) for each in self.analyses],
            "not_checked": [asdict(each) for each in self.not_checked],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Assessment:
        """Read what `to_dict` gave."""
        return cls(
            tuple(measurement_from_dict(each) for each in content["utility"]),
            tuple(measurement_from_dict(each) for each in content["risk"]),
            tuple(outcome_from_dict(each) for each in content["analyses"]),
            tuple(NotChecked(**{**each, "reason": Reason(each["reason"])}) for each in content["not_checked"]),
        )


def measurement_from_dict(content: Mapping[str, Any]) -> Measurement:
    """Read what `Measurement.to_dict` gave; null was no number, but where None means that there is none.

    Examples
    --------
    >>> one = Measurement("x", "X", float("nan"), "", "lower", "-", 1, 1, parts=(("a", 0.5),))
    >>> measurement_from_dict(one.to_dict()).parts
    (('a', 0.5),)
    """
    given = dict(content)
    given["value"] = _number(given["value"])
    given["parts"] = tuple((name, _number(value)) for name, value in given["parts"])
    given["curves"] = tuple(_curve(curve) for curve in given["curves"])
    if given["baseline_is"]:
        given["baseline"] = _number(given["baseline"])
    if given["low"] is not None or given["high"] is not None:
        given["low"], given["high"] = _number(given["low"]), _number(given["high"])
    if given["audience"] is not None:
        given["audience"] = Audience(given["audience"])
    return Measurement(**given)


def _curve(content: Mapping[str, Any]) -> Curve:
    lines = {name: tuple(_number(value) for value in content[name]) for name in ("x", "y", "baseline")}
    return Curve(content["title"], content["x_title"], content["y_title"], **lines)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def outcome_to_dict(outcome: AnalysisOutcome) -> dict[str, Any]:
    """As JSON-able content."""
    comparison = outcome.comparison
    return {
        "analysis": asdict(comparison.analysis),
        "original": _fit_to_dict(comparison.original),
        "released": _fit_to_dict(comparison.released),
        "limits": dict(outcome.limits),
        "records": outcome.records,
        "of": outcome.of,
    }


def outcome_from_dict(content: Mapping[str, Any]) -> AnalysisOutcome:
    """Read what `outcome_to_dict` gave."""
    original, released = _fit_from_dict(content["original"]), _fit_from_dict(content["released"])
    changes = tuple(
        CoefficientChange(name, before, released.estimates.get(name))
        for name, before in original.estimates.items()
        if before is not None
    )
    comparison = ModelComparison(Analysis(**content["analysis"]), original, released, changes)
    return AnalysisOutcome(comparison, content["limits"], content["records"], content["of"])


def _fit_to_dict(fit: Fit) -> dict[str, Any]:
    """Estimates as a list, which keeps their order; infinite ends of intervals as texts."""
    names = [field.name for field in fields(Estimate)]
    estimates = [
        [name, None if one is None else [repr(float(getattr(one, part))) for part in names]]
        for name, one in fit.estimates.items()
    ]
    told = {"rows": fit.rows, "left_out": fit.left_out, "problem": fit.problem, "estimates": estimates}
    return told | {"behind": dict(fit.behind), "learnt": fit.learnt}


def _fit_from_dict(content: Mapping[str, Any]) -> Fit:
    estimates = {
        name: None if parts is None else Estimate(*(float(part) for part in parts))
        for name, parts in content["estimates"]
    }
    rests_on = content["behind"], content["learnt"]
    return Fit(content["rows"], content["left_out"], estimates, content["problem"], *rests_on)
