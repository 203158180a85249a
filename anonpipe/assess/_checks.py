"""From what was measured to lines of the verdict: the recipients' analyses and the job's limits on risk."""

from __future__ import annotations

from collections.abc import Mapping

from anonpipe.assess._record import AnalysisOutcome, Assessment
from anonpipe.measure import Measurement
from anonpipe.verify.verdict import Check, Outcome, at_least, at_most

RISK_GATES: dict[str, tuple[str, ...]] = {
    "linked_share": ("linkage.first", "linkage.expected"),
    "homogeneous_share": ("class.",),
    "membership_auc": ("membership.auc",),
    "attribute_inference": ("attribute_inference.risk",),
}
"""Of each gate of the job the measures that it limits: the worst of those that there are."""

_TITLES = {
    "linked_share": "records linked correctly",
    "homogeneous_share": "records in groups of one class",
    "membership_auc": "members told from others (AUC)",
    "attribute_inference": "given away of the worst column",
}

_MEASURED_AS = {
    "linked_share": "record linkage by distances",
    "homogeneous_share": "classes in groups",
    "membership_auc": "membership inference",
    "attribute_inference": "attribute inference",
}
"""What `NotChecked` calls the measures of a gate where there are none."""


def checks(assessment: Assessment, limits: Mapping[str, float | None]) -> tuple[Check, ...]:
    """The lines.

    Parameters
    ----------
    assessment
        What was measured. Where nothing was, the lines say so.
    limits
        Of each gate in `RISK_GATES`, None for none.

    Examples
    --------
    >>> found = Measurement("linkage.first", "Linked", 0.04, "share", "lower", "-", 500, 900, low=0.03, high=0.06)
    >>> [line] = checks(Assessment(risk=(found,)), {"linked_share": 0.05})
    >>> line.outcome.value, line.limit
    ('failed', 'at most 0.05')
    """
    found = [line for each in assessment.analyses for line in _of_analysis(each)]
    found += [line for name, limit in limits.items() for line in _of_gate(name, limit, assessment.risk)]
    found += [Check(each.what, Outcome.NOT_CHECKED, "not measured", each.why, "-") for each in assessment.not_checked]
    return tuple(found)


def notes(assessment: Assessment, limits: Mapping[str, float | None]) -> tuple[str, ...]:
    """Why a model has no fit, what the figures of risk are, and of limits held against nothing which can be held.

    Why nothing was measured is told where `Assessment.not_checked` is.

    Examples
    --------
    >>> found = Measurement("membership.auc", "AUC", 0.5, "", "lower", "-", 500, 900)
    >>> notes(Assessment(risk=(found,)), {"linked_share": 0.05})[0].split("; ")[1]
    'limits on risk that can be held here: gates.membership_auc'
    """
    apply = [f"gates.{name}" for name in RISK_GATES if gated(name, assessment.risk) is not None]
    instead = ", ".join(apply) or "none without measure.hold_out, with it gates.membership_auc and attribute_inference"
    judged = [measured for name in limits if (measured := gated(name, assessment.risk)) is not None]
    ends = any(measured.high is not None for measured in judged)
    return (
        *(
            f"analysis {each.comparison.analysis.name!r} has no fit to the release: {each.comparison.released.problem}"
            for each in assessment.analyses
            if each.comparison.released.problem is not None
        ),
        *(["figures of risk in the verdict are the upper ends of 95 % intervals"] if ends else []),
        *(
            f"gates.{name} failed, as {_MEASURED_AS[name]} was not measured; "
            f"limits on risk that can be held here: {instead}"
            for name, limit in limits.items()
            if limit is not None and gated(name, assessment.risk) is None
        ),
    )


def gated(name: str, risk: tuple[Measurement, ...]) -> Measurement | None:
    """The measure that a gate judges: the worst of those that it names; None where none was measured."""
    for pattern in RISK_GATES[name]:
        suffix = ".homogeneous" if pattern.endswith(".") else ""
        named = [each for each in risk if each.name == pattern or (suffix and _matches(each.name, pattern, suffix))]
        if named:
            return max(named, key=_upper)
    return None


def _matches(name: str, start: str, end: str) -> bool:
    return name.startswith(start) and name.endswith(end)


def _upper(measured: Measurement) -> float:
    """The upper end of the interval; infinity for what is no number, so that it counts as the worst."""
    value = measured.value if measured.high is None else measured.high
    return value if value == value else float("inf")


def _of_gate(name: str, limit: float | None, risk: tuple[Measurement, ...]) -> list[Check]:
    measured = gated(name, risk)
    title = f"risk, {name}: {_TITLES[name]}"
    if measured is None:
        if limit is None:
            return []
        return [Check(title, Outcome.FAILED, "not measured", f"at most {limit:.3g}", "-")]
    on = f"{measured.records:,} of {measured.of:,} records"
    if measured.high is not None:
        on += ", upper end of the 95 % interval"
    if limit is None:
        shown = f"{_upper(measured):.3g}" if _upper(measured) < float("inf") else "not defined"
        return [Check(title, Outcome.NOT_CHECKED, shown, "no limit", on)]
    return [at_most(title, _upper(measured), limit, on)]


def _of_analysis(outcome: AnalysisOutcome) -> list[Check]:
    """A line for each limit, or one without."""
    name, shares = outcome.comparison.analysis.name, outcome.comparison.shares
    on = f"{shares.coefficients} coefficients, {outcome.records:,} of {outcome.of:,} records"
    direction = shares.changed_direction if shares.significant else 0.0  # none that could have changed
    measured = {
        "changed_significance": ("share with changed significance", shares.changed_significance),
        "changed_direction": ("share with changed direction", direction),
        "outside": ("share outside the 95 % interval", shares.outside),
        "overlap": ("mean overlap of the intervals", shares.overlap),
    }
    found = []
    for key, limit in outcome.limits.items():
        title, value = measured[key]
        judge = at_least if key == "overlap" else at_most
        found.append(judge(f"analysis {name!r}: {title}", value, limit, on))
    if not found:
        title, value = measured["changed_significance"]
        found = [Check(f"analysis {name!r}: {title}", Outcome.NOT_CHECKED, f"{value:.3g}", "no limit", on)]
    return found
