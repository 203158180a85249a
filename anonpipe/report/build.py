"""From the facts of a run to the two reports: pure, and the place that decides what recipients may see.

The external report is put together from what is allowed, not by deleting from the steward's: a new fact is not in it
before somebody puts it there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anonpipe.columns import Role
from anonpipe.errors import plural
from anonpipe.evaluate.measurement import Measurement
from anonpipe.evaluate.utility import CorrelationMatrices, Distribution, Estimate, ModelFit, SurvivalPicture
from anonpipe.job.model import Job
from anonpipe.report import content, words
from anonpipe.report.compared import finite
from anonpipe.types import FloatArray
from anonpipe.verify import output_control
from anonpipe.verify.catalogue import Check
from anonpipe.verify.verdict import AnalysisOutcome, Assessment, Verdict
from anonpipe.verify.words import limit, line, name, remedies, rows_in_copies


@dataclass(frozen=True)
class Facts:
    """What a run knows at its end."""

    job: Job
    least: int | None  # Records that are of k units for certain, where these may have several
    verdict: Verdict
    assessment: Assessment
    warnings: tuple[str, ...]
    columns: Mapping[str, Mapping[str, Any]]  # Those that the written files hold, in their order, as in the manifest
    overlaps: bool  # Whether the steward allowed the overlap with earlier releases
    created: str  # Time of the end (UTC, ISO)
    anonpipe: str  # Version of the program
    rows: int  # Released
    partitions: int
    identical: bool  # Whether the records of a group (or of a set that a mask makes) are released as one and the same
    # The manifest's ranges, none under k; None where there are no groups
    group_sizes: Sequence[Mapping[str, Any]] | None
    files: Sequence[Mapping[str, Any]]  # Name, rows, bytes and SHA-256 of each written file
    # Of the columns, for either audience; empty where nothing was measured
    distributions: Mapping[content.Audience, Sequence[Distribution]]
    correlations: CorrelationMatrices | None  # Of both tables; None where nothing was measured
    pictured: int  # Records that distributions and correlations were measured on
    compared: content.Compared | None = None  # Figures of both tables, of all records, for the steward
    # Of columns of categories their distribution in all records, by name: of the original as it was, for the steward
    categories: Mapping[str, Distribution] = field(default_factory=dict)
    # Survival curves of both tables, likewise
    survival: Mapping[content.Audience, Sequence[SurvivalPicture]] = field(default_factory=dict)
    units: content.UnitsPart | None = None  # Where units are released whole, and `rows` counts them
    rules: Sequence[Mapping[str, Any]] = ()  # Rules between columns, as in the manifest
    not_kept: Sequence[str] = ()  # What recipients must not conclude, as the manifest tells them
    digest: str = ""  # Of the job as it was given, if it is another
    constant: tuple[str, ...] = ()  # Masked columns with one value in all rows of a unit of the original


def internal(facts: Facts, version: str | None) -> content.Report:
    """The internal report: everything."""
    return content.Report(
        audience="internal",
        source=facts.job.source.path,
        output=facts.job.output,
        version=version,
        job=facts.digest or facts.job.digest(),
        columns=words.columns(facts.job, facts.columns, external=False, units=facts.units),
        correlations=_correlations(facts.correlations, with_original=True),
        compared=facts.compared,
        files=_files(facts) if version is not None else (),
        warnings=facts.warnings,
        notes=facts.verdict.notes,
        remedies=remedies(facts.verdict.checks, facts.job.in_force),
        **_measured(facts.assessment),
        **_common(facts, "internal", facts.verdict.checks),
    )


def as_trial(report: content.Report) -> content.Report:
    """The internal report of a run that was to publish nothing."""
    what = "would be released" if report.passed else "would not be released"
    rest = report.headline.partition(". ")[2]
    headline = f"Trial: {rows_in_copies(report.rows, report.copies)} {what}; nothing was published. {rest}".strip()
    return report.model_copy(update={"trial": True, "headline": headline})


def _measured(assessed: Assessment) -> dict[str, Any]:
    """All that was measured, for the steward."""
    return {
        "utility": tuple(map(figure, assessed.utility)),
        "risk": tuple(map(figure, assessed.risk)),
        "analyses": tuple(map(analysis_part, assessed.shown)),
        "not_checked": _not_checked(each.check for each in assessed.not_checked),
    }


def external(facts: Facts) -> content.Report:
    """The external report: nothing of single persons, no original moment, no place of the input."""
    k, least, series = facts.job.k, facts.least, facts.job.repeat.growing
    if series:  # counts are rounded, and what holds the original against the release would tell what they were
        assessed = replace(facts.assessment, utility=(), risk=())
        facts = replace(facts, assessment=assessed, distributions={}, survival={})
    assessed = facts.assessment
    open_ones = (output_control.released_check(each.check, k, facts.rows, least) for each in assessed.not_checked)
    return content.Report(
        audience="external",
        columns=words.columns(facts.job, facts.columns, external=True, units=facts.units),
        correlations=_correlations(facts.correlations, with_original=False),
        utility=tuple(map(figure, output_control.released_measures(assessed.utility, k, least))),
        risk=tuple(map(figure, output_control.released_measures(assessed.risk, k, least))),
        analyses=tuple(_released_analysis(one, least or k) for one in assessed.shown),
        not_checked=(*_not_checked(open_ones), *_too_few(assessed, k, least)),
        files=_files(facts),
        **_common(facts, "external", output_control.released_checks(facts.verdict, k, facts.rows, series, least)),
    )


def of_two_tables(
    verdict: Verdict,
    assessment: Assessment,
    distributions: Sequence[Distribution],
    survival: Sequence[SurvivalPicture],
    correlations: CorrelationMatrices,
    **parts: Any,
) -> content.Report:
    """The internal report of two tables, of which other parts are given too; how the release came about is unknown."""
    checks = _lines(verdict.checks)
    unknown: dict[str, Any] = dict.fromkeys(("strata", "methods", "columns", "guarantees", "not_guaranteed"), ())
    return content.Report(
        of="two tables",
        audience="internal",
        passed=verdict.passed,
        headline=words.kept(verdict.passed, checks),
        summary=words.summary(checks),
        partitions=0,
        checks=checks,
        dials=words.dials(verdict.checks),
        pictures=tuple(_picture(one, "") for one in distributions),
        correlations=_correlations(correlations, with_original=True),
        survival=tuple(map(_survival, survival)),
        notes=verdict.notes,
        **unknown,
        **_measured(assessment),
        **parts,
    )


def _lines(checks: Iterable[Check]) -> tuple[content.CheckLine, ...]:
    text = "uncertain: {0.doubt} (estimate {0.point:.3g})"
    doubts = ((check, text.format(check) if check.doubt and check.point else "") for check in checks)
    return tuple(content.CheckLine(**line(check).to_dict(), doubt=doubt) for check, doubt in doubts)


_OVERLAPS = (
    "Records of this release are in earlier releases, too, which the steward has allowed; what both together tell was "
    "not measured."
)
_SERIES = (
    "This is one of several releases of a register that grows. Counts of categories and missing values are rounded at "
    "random to multiples of {base} in each stratum, and up to {most} records of each are left out at random: numbers "
    "of rows and counts are no exact counts of the register. Differences between the releases tell of {base} persons "
    "or more together, and what many releases tell together is not bounded."
)


def _common(facts: Facts, audience: content.Audience, checks: tuple[Check, ...]) -> dict[str, Any]:
    """What both reports hold."""
    job, passed = facts.job, facts.verdict.passed
    grouped = any(check.key == "group.smallest" for check in checks)
    overlaps = [_OVERLAPS] if facts.overlaps and not job.repeat.growing else []
    if job.fewest_changed is not None:
        overlaps = [_SERIES.format(base=job.fewest_changed, most=3 * job.fewest_changed)]
    lines, units = _lines(checks), facts.units
    rows = facts.rows if units is None else sum(number * released for number, _, released in units.sizes)
    headline = words.headline(replace(facts.verdict, checks=checks), rows_in_copies(rows, job.release.copies), lines)
    headline += "" if job.replaces else " No column is masked: rows are those of persons."
    not_kept = [name for name, facts_of_column in facts.columns.items() if facts_of_column.get("sum") == "not kept"]
    return {
        "created": facts.created,
        "anonpipe": facts.anonpipe,
        "passed": passed,
        "headline": headline,
        "summary": words.summary(lines),
        "k": job.k,
        "k_of_units": facts.least is not None or units is not None,
        "rows": rows,
        "copies": job.release.copies,
        "units": units.without_original() if units is not None and audience == "external" else units,
        "strata": job.strata.by,
        "partitions": facts.partitions,
        "methods": words.methods(job),
        "guarantees": words.guarantees(job, grouped, facts.identical, facts.least is not None),
        "not_guaranteed": (
            *words.not_guaranteed(job, grouped, facts.identical, not_kept),
            *(words.apart(facts.constant) if facts.least is not None and units is None else ()),
            *facts.not_kept,
            *overlaps,
        ),
        "checks": lines,
        "rules": tuple(content.RuleLine(**each) for each in facts.rules),
        "dials": words.dials(checks, [name for name, one in job.released.items() if one.role is Role.SENSITIVE]),
        "group_sizes": tuple(
            content.SizeLine(smallest=one["from"], largest=one["to"], groups=one["groups"])
            for one in facts.group_sizes or ()
        ),
        "pictures": tuple(_pictures(facts, audience)),
        "survival": tuple(map(_survival, facts.survival.get(audience, ()))),
        "pictured": facts.pictured,
    }


def _not_checked(checks: Iterable[Check]) -> tuple[content.Unchecked, ...]:
    return tuple(content.Unchecked(what=name(check), why=limit(check)) for check in checks)


def _too_few(assessed: Assessment, k: int, least: int | None) -> tuple[content.Unchecked, ...]:
    """What recipients read in place of figures on too few records."""
    fewest = output_control.fewest_records(k)
    number = f"fewer than {fewest}" if least is None else f"which may be of fewer than {fewest} units"
    why, rows = f"measured on too few records, {number}", least or k
    few = [one for one in assessed.measured if output_control.on_too_few(one.records, rows)]
    figures = (one.title for one in few if not output_control.disclosive(one))
    analyses = (
        f"analysis {one.comparison.analysis.name!r}"
        for one in assessed.analyses
        if output_control.on_too_few(one.records, rows)
    )
    return tuple(content.Unchecked(what=what, why=why) for what in (*figures, *analyses))


def _files(facts: Facts) -> tuple[content.FileLine, ...]:
    return tuple(
        content.FileLine(**{key: entry[key] for key in content.FileLine.model_fields}) for entry in facts.files
    )


def _pictures(facts: Facts, audience: content.Audience) -> Iterator[content.Picture]:
    """The columns; of categories the steward sees all records, and what there was before anything was suppressed."""
    of_all = facts.categories if audience == "internal" else {}
    for one in facts.distributions.get(audience, ()):
        column, about = facts.job.columns.get(one.name), facts.columns.get(one.name, {})
        treatment: content.Treatment = "unchanged" if column is not None and column.role.unchanged else "synthetic"
        if about.get("treatment") == "recoded":
            treatment = "recoded"
        picture = _picture(of_all.get(one.name, one), treatment, one.name in of_all)
        expanded = column is not None and column.role is Role.SAMPLING_WEIGHT and facts.job.measure.held_out > 0
        note = _RECODED.format(about["recoding"]) if "recoding" in about else _EXPANDED if expanded else ""
        yield picture.model_copy(update={"note": picture.note or note})


_RECODED = "both sides after recoding ({})"
_EXPANDED = "released weights are larger, as records stand for those that were held out, too"


def _picture(one: Distribution, treatment: content.Treatment, of_all_rows: bool = False) -> content.Picture:
    return content.Picture(
        name=one.name,
        kind=one.kind.value,
        treatment=treatment,
        edges=one.edges if one.original else (),
        labels=one.labels if one.original else (),
        original=_shares(one.original, one.original_records if of_all_rows else None),
        released=_shares(one.released, one.released_records if of_all_rows else None),
        nulls_original=_null_share(one.original_nulls, one.original_records),
        nulls_released=_null_share(one.released_nulls, one.released_records),
        note=one.note,
        of_all_rows=of_all_rows,
    )


def _survival(one: SurvivalPicture) -> content.SurvivalPart:
    panels = []
    for each in one.panels:
        times = tuple(round(time, 6) for time in each.times)
        original, released = (tuple(round(share, 4) for share in side) for side in (each.original, each.released))
        curves = {"times": times, "original": original, "released": released}
        panels.append(content.Panel(column=each.column, group=each.group, records=each.records, **curves))
    end, drawn = one.endpoint, tuple(panels)
    columns = {"name": end.name, "time": end.time, "status": end.status}
    return content.SurvivalPart(**columns, panels=drawn, left_out=one.left_out, competing=bool(end.competing))


def _shares(counts: Sequence[int], of: int | None = None) -> tuple[float, ...]:
    total = sum(counts) if of is None else of
    return tuple(round(count / total, 6) if total else 0.0 for count in counts)


def _null_share(nulls: int | None, records: int | None) -> float | None:
    return round(nulls / records, 6) if nulls is not None and records else None


def _correlations(found: CorrelationMatrices | None, with_original: bool) -> content.Correlations | None:
    if found is None or len(found.names) < 2:
        return None
    original = _matrix(found.original) if with_original else None
    return content.Correlations(names=found.names, original=original, released=_matrix(found.released))


def _matrix(values: FloatArray) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(round(v, 4) if math.isfinite(v) else None for v in row) for row in values.tolist())


def figure(one: Measurement) -> content.MeasureLine:
    """A measure as a report has it."""
    shown = {name: value for name, value in one.to_dict().items() if name in content.MeasureLine.model_fields}
    return content.MeasureLine(**shown, disclosive=output_control.disclosive(one))


def analysis_part(one: AnalysisOutcome) -> content.AnalysisPart:
    """A recipient's model as the internal report has it."""
    compared = one.comparison
    coefficients = tuple(
        content.Coefficient(
            name=words.coefficient(c.name)
            + ("" if c.judged else f" (not judged: {plural(max(0, c.degrees or 0), 'degree')} of freedom)"),
            original=_interval(c.original),
            released=_interval(c.released),
            added=one.added.get(c.name),
        )
        for c in compared.coefficients
    )
    problem = compared.original.problem or compared.released.problem
    return _part_of(one, compared.original.rows, problem, coefficients, _SHARES)


def _released_analysis(one: AnalysisOutcome, k: int) -> content.AnalysisPart:
    """The release's own coefficients, which every recipient can compute, and shares that changed."""
    fit: ModelFit = one.comparison.released
    coefficients = tuple(
        content.Coefficient(
            name=words.coefficient(name), original=None, released=_interval(estimate), added=one.added.get(name)
        )
        for name, estimate in output_control.released_estimates(fit, k).items()
    )
    shares = () if output_control.on_too_few(one.records, k) else output_control.RELEASED_SHARES
    return _part_of(one, None, fit.problem, coefficients, shares)


_SHARES = ("changed_significance", "changed_direction", "outside", "overlap")


def _part_of(
    one: AnalysisOutcome,
    rows_original: int | None,
    problem: str | None,
    coefficients: tuple[content.Coefficient, ...],
    named: tuple[str, ...],
) -> content.AnalysisPart:
    analysis, shares = one.comparison.analysis, one.shares
    described = {
        name: getattr(analysis, name) for name in ("name", "model", "formula", "event", "subset", "weights", "others")
    }
    return content.AnalysisPart(
        **described,
        records=one.records,
        of=one.of,
        rows_original=rows_original,
        rows_released=one.comparison.released.rows,
        problem=problem,
        limits=tuple(one.limits.items()),
        shares=tuple((name, finite(getattr(shares, name))) for name in named),
        coefficients=coefficients,
        copies=max(1, len(one.copies)),
    )


def _interval(estimate: Estimate | None) -> content.Interval | None:
    if estimate is None:
        return None
    return content.Interval(**{name: finite(getattr(estimate, name)) for name in content.Interval.model_fields})
