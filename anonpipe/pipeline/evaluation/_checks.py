"""From what was measured to lines of the verdict: the recipients' analyses and the job's limits on risk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from math import isnan
from typing import Any

from anonpipe.evaluate.measurement import Measurement
from anonpipe.job.model import Job
from anonpipe.verify.catalogue import MEASURED, UNMEASURED, kind_of
from anonpipe.verify.check import Check, held
from anonpipe.verify.verdict import AnalysisOutcome, Assessment

# Half widths of an interval, as shares of the distance from guessing to the default limit. Up to `NARROW` the upper end
# is held against the limit, up to `FAIR` the estimate, beyond that the lower end. So a release that discloses nothing
# is refused less than once in a thousand runs.
NARROW, FAIR = 0.4, 0.65

UPPER_ENDS = (
    "figures of risk in the verdict are upper ends of 95 % intervals, of wide ones the estimate or the lower end; "
    "what was measured stands in the next column"
)


def checks(
    assessment: Assessment, limits: Mapping[str, float | None], at_default: Collection[str] = ()
) -> tuple[Check, ...]:
    """The lines; `at_default`: the limits that the job leaves to anonpipe, which allow for few controls."""
    found = [line for each in assessment.analyses for line in _of_analysis(each)]
    found += [line for name, limit in limits.items() for line in _of_gate(name, limit, assessment, name in at_default)]
    found += [each.check for each in assessment.not_checked]
    return tuple(found)


def limits_of(job: Job, assessment: Assessment) -> dict[str, float | None]:
    """The limits that are held: the job's own in any case, default ones where there is a figure that is sure enough."""

    def is_known(name: str) -> bool:
        found = gated(name, assessment.measured)
        return found is not None and not isnan(_judged(name, found)[0])

    at_default = job.gates.at_default
    return {name: limit if name not in at_default or is_known(name) else None for name, limit in job.limits.items()}


def notes(assessment: Assessment, limits: Mapping[str, float | None]) -> tuple[str, ...]:
    """Why a model has no fit, what the figures of risk are, and of limits held against nothing which can be held.

    Why nothing was measured is recorded where `Assessment.not_checked` is.
    """
    of_risk = [name for name, gate in MEASURED.items() if "risk" in gate.needs]
    apply = [f"gates.{name}" for name in of_risk if gated(name, assessment.measured) is not None]
    if not any("hold_out" in MEASURED[name.partition(".")[2]].needs for name in apply):
        apply.append("with measure.hold_out also gates.membership_auc and attribute_inference")
    instead = ", ".join(apply)
    judged = [measured for name in limits if (measured := gated(name, assessment.measured)) is not None]
    ends = any(measured.high is not None for measured in judged)
    return (
        *(
            f"analysis {each.comparison.analysis.name!r} has no fit to the release: {each.comparison.released.problem}"
            for each in assessment.analyses
            if each.comparison.released.problem is not None
        ),
        *([UPPER_ENDS] if ends else []),
        *(
            f"gates.{name} failed, as {UNMEASURED[MEASURED[name].unmeasured]} was not measured; "
            f"limits on risk that can be held here: {instead}"
            for name, limit in limits.items()
            if limit is not None and gated(name, assessment.measured) is None
        ),
        *(
            f"gates.{name} failed, as what it limits is not defined here ({measured.title}). {measured.note}".strip()
            for name, limit in limits.items()
            if limit is not None
            and (measured := gated(name, assessment.measured)) is not None
            and isnan(_judged(name, measured)[0])
        ),
    )


_RECOGNIZED = 0.9  # Area under the curve from which on released records as a whole are other than original ones


def warnings(assessment: Assessment, limits: Mapping[str, float | None]) -> tuple[str, ...]:
    """That columns do not go together as in the original, where no limit says so, and what it means for recipients."""
    pairs, trees = (
        gated(name, assessment.measured) if limits.get(name) is None else None
        for name in ("pair_shapes", "distinguishability")
    )
    found, off = [], 0.0 if pairs is None else _judged("pair_shapes", pairs)[0]
    if pairs is not None and off > 1:
        which = "; ".join(" and ".join(map(repr, names)) for names in (pairs.worst, *pairs.then)) or "of one pair"
        found.append(
            f"columns {which} go together up to {off:.3g} times further from the original than chance allows. "
            "Recipients must not relate them to each other (correlations, cross tables, models). What follows from "
            "another column, as a stay from its two days or a total from its parts, is not kept. Release the "
            "difference or the parts in place of one of them, or tell the recipients"
        )
    if trees is not None and trees.value > _RECOGNIZED:
        found.append(
            f"boosted trees recognize released records (AUC {trees.value:.3g}, 0.5 is chance): whole records are not "
            "as in the original. Recipients can use single columns, and relations that were checked, but not rules "
            "between columns, small subgroups or models of many columns"
        )
    return tuple(found)


def gated(
    name: str, measured: tuple[Measurement, ...], limit: float | None = None, at_default: bool = False
) -> Measurement | None:
    """The measure that a gate judges: the worst of those that it names; None where none was measured."""
    for figure in MEASURED[name].figures:
        if named := [each for each in measured if fnmatchcase(each.name, figure)]:
            others = [each for each in measured if each.name in MEASURED[name].other_attackers]
            return max((*named, *others), key=lambda each: _badness(name, each, limit, at_default))
    return None


def _badness(name: str, measured: Measurement, limit: float | None, at_default: bool) -> tuple[bool, float]:
    """Whether it is beyond the limit, and how bad it is: the higher the worse, infinity for what is no number.

    Of default limits, which are held against several ends of intervals, the figures themselves are compared.
    """
    judged = _judged(name, measured, at_default)[0]
    value = measured.value if at_default else judged
    if value != value or judged != judged:
        return True, float("inf")
    if kind_of(name).at_least:
        return False, -value
    return limit is not None and judged > limit, value


def _judged(name: str, measured: Measurement, at_default: bool = False) -> tuple[float, str]:
    """What is held against the gate's limit, and which end of the interval it is; the value where there is none."""
    if kind_of(name).at_least:
        return (measured.value, "") if measured.low is None else (measured.low, "lower")
    if measured.low is None or measured.high is None:
        return measured.value, "expected" if measured.name.endswith(".expected") else ""
    gate, half = MEASURED[name], max(measured.high - measured.value, measured.value - measured.low)
    if at_default and gate.few_records and gate.default is not None:
        way = gate.default - (gate.least or 0.0)
        if half > FAIR * way:
            return measured.low, "lower"
        if half > NARROW * way:
            return measured.value, "estimate"
    return measured.high, "upper"


def _of_gate(name: str, limit: float | None, assessment: Assessment, at_default: bool) -> list[Check]:
    found, key = gated(name, assessment.measured, limit, at_default), kind_of(name).key
    if found is None:
        return [] if limit is None else [held(key, None, limit)]
    if limit is None and not MEASURED[name].always_shown:
        return []
    if limit is None and "survival" in MEASURED[name].needs and found.value != found.value:
        return []  # a job without survival analysis needs no curves
    value, end = _judged(name, found, at_default)
    given: dict[str, Any] = {"records": found.records, "of": found.of, "about": {"end": end}}
    given |= {"columns": found.worst, "compared": found.columns}
    if found.high is not None and "risk" in MEASURED[name].needs:
        given |= {"point": found.value, "high": found.high}
    return [held(key, value, limit, **given)]


def _of_analysis(outcome: AnalysisOutcome) -> list[Check]:
    """A line for each limit, or one without."""
    name, shares = outcome.comparison.analysis.name, outcome.comparison.shares
    about = {"analysis": name, "coefficients": shares.coefficients}
    direction = shares.changed_direction if shares.significant else 0.0  # none that could have changed
    measured = {
        "changed_significance": shares.changed_significance,
        "changed_direction": direction,
        "outside": shares.outside,
        "overlap": shares.overlap,
    }
    limits: Mapping[str, float | None] = outcome.limits or {"changed_significance": None}
    given: dict[str, Any] = {"records": outcome.records, "of": outcome.of, "about": about}
    return [held(f"analysis.{share}", measured[share], limit, **given) for share, limit in limits.items()]
