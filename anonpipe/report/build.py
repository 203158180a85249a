"""From the facts of a run to the two reports: pure, and the place that decides what recipients may see.

The releasable report is put together from what is allowed, not by deleting
from the steward's: a new fact is not in it before somebody puts it there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anonpipe.evaluate.utility import Analysis, Estimate, Fit, Measurement
from anonpipe.job.model import Job
from anonpipe.report import words
from anonpipe.report.content import (
    AnalysisPart,
    Audience,
    Coefficient,
    Correlations,
    Figure,
    FileLine,
    Interval,
    Line,
    Picture,
    Report,
    SizeLine,
    Unchecked,
)
from anonpipe.verify.check import Check
from anonpipe.verify.output_control import fewest_told, released_check, released_checks
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import limit, line, name

if TYPE_CHECKING:
    from anonpipe.evaluate.utility import CorrelationMatrices, Distribution
    from anonpipe.verify.assessment import AnalysisOutcome, Assessment


@dataclass(frozen=True)
class Facts:
    """What a run knows at its end.

    Attributes
    ----------
    job, verdict, assessment, warnings
        As the run has them.
    columns
        Those that the written files hold, in their order, as in the manifest.
    overlaps
        Whether the steward allowed the overlap with earlier releases.
    created, anonpipe
        Time of the end (UTC, ISO) and version of the program.
    rows, partitions
        Released rows, and partitions.
    identical
        Whether the records of a group (or of a set that a mask makes) are
        released as one and the same.
    group_sizes
        The manifest's ranges, none under k; None where there are no groups.
    files
        Name, rows, bytes and SHA-256 of each written file.
    distributions
        Of the columns, for either audience; empty where nothing was measured.
    correlations
        Of both tables; None where nothing was measured.
    pictured
        Records that distributions and correlations were measured on.
    """

    job: Job
    verdict: Verdict
    assessment: Assessment
    warnings: tuple[str, ...]
    columns: Mapping[str, Mapping[str, Any]]
    overlaps: bool
    created: str
    anonpipe: str
    rows: int
    partitions: int
    identical: bool
    group_sizes: Sequence[Mapping[str, Any]] | None
    files: Sequence[Mapping[str, Any]]
    distributions: Mapping[Audience, Sequence[Distribution]]
    correlations: CorrelationMatrices | None
    pictured: int


def internal(facts: Facts, version: str | None) -> Report:
    """The steward's report: everything.

    Parameters
    ----------
    version
        The published version's path; None where nothing was released.
    """
    assessed = facts.assessment
    return Report(
        audience="internal",
        source=facts.job.input,
        output=facts.job.output,
        version=version,
        columns=words.columns(facts.job, facts.columns, releasable=False),
        correlations=_correlations(facts.correlations, with_original=True),
        utility=tuple(_figure(one) for one in assessed.utility),
        risk=tuple(_figure(one) for one in assessed.risk),
        analyses=tuple(_analysis(one) for one in assessed.analyses),
        not_checked=_not_checked(each.check for each in assessed.not_checked),
        files=_files(facts) if version is not None else (),
        warnings=facts.warnings,
        notes=facts.verdict.notes,
        **_common(facts, "internal", facts.verdict.checks),
    )


def releasable(facts: Facts) -> Report:
    """The recipients' report: nothing of single persons, no original moment, no place of the input."""
    assessed, k = facts.assessment, facts.job.k
    open_ones = (released_check(each.check, k, facts.rows) for each in assessed.not_checked)
    return Report(
        audience="releasable",
        columns=words.columns(facts.job, facts.columns, releasable=True),
        correlations=_correlations(facts.correlations, with_original=False),
        utility=_released_figures(assessed.utility, k),
        risk=_released_figures(assessed.risk, k),
        analyses=tuple(_released_analysis(one, k) for one in assessed.analyses),
        not_checked=(*_not_checked(open_ones), *_too_few(assessed, k)),
        files=_files(facts),
        **_common(facts, "releasable", released_checks(facts.verdict, k, facts.rows)),
    )


_OVERLAPS = (
    "Records of this release are in earlier releases, too, which the steward has allowed; what both together tell was "
    "not measured."
)


def _common(facts: Facts, audience: Audience, checks: tuple[Check, ...]) -> dict[str, Any]:
    """What both reports hold."""
    job, passed = facts.job, facts.verdict.passed
    grouped = any(check.key == "group.smallest" for check in checks)
    overlaps = [_OVERLAPS] if facts.overlaps else []
    lines = tuple(Line(**line(check).to_dict()) for check in checks)
    return {
        "created": facts.created,
        "anonpipe": facts.anonpipe,
        "passed": passed,
        "headline": words.headline(passed, facts.rows, lines),
        "summary": words.summary(lines),
        "k": job.k,
        "rows": facts.rows,
        "strata": job.strata.by,
        "partitions": facts.partitions,
        "methods": words.methods(job),
        "promises": words.promises(job, grouped, facts.identical),
        "limits_of_promise": (*words.limits_of_promise(job, grouped, facts.identical), *overlaps),
        "checks": lines,
        "group_sizes": tuple(
            SizeLine(smallest=line["from"], largest=line["to"], groups=line["groups"])
            for line in facts.group_sizes or ()
        ),
        "pictures": tuple(_picture(job, one) for one in facts.distributions.get(audience, ())),
        "pictured": facts.pictured,
    }


def _not_checked(checks: Iterable[Check]) -> tuple[Unchecked, ...]:
    return tuple(Unchecked(what=name(check), why=limit(check)) for check in checks)


def _too_few(assessed: Assessment, k: int) -> tuple[Unchecked, ...]:
    """What recipients are told in place of figures on too few records."""
    why = f"measured on too few records, fewer than {fewest_told(k)}"
    figures = (one.title for one in (*assessed.utility, *assessed.risk) if not (one.disclosive or _tellable(one, k)))
    analyses = (f"analysis {one.comparison.analysis.name!r}" for one in assessed.analyses if not _tellable(one, k))
    return tuple(Unchecked(what=what, why=why) for what in (*figures, *analyses))


def _tellable(one: Measurement | AnalysisOutcome, k: int) -> bool:
    return one.records >= fewest_told(k)


def _files(facts: Facts) -> tuple[FileLine, ...]:
    return tuple(FileLine(**{key: entry[key] for key in FileLine.model_fields}) for entry in facts.files)


def _picture(job: Job, one: Distribution) -> Picture:
    unchanged = one.name in job.columns and job.columns[one.name].role.unchanged
    return Picture(
        name=one.name,
        kind=one.kind.value,
        treatment="unchanged" if unchanged else "synthetic",
        edges=one.edges if one.original else (),
        labels=one.labels if one.original else (),
        original=_shares(one.original),
        released=_shares(one.released),
        nulls_original=_null_share(one.original_nulls, one.original_records),
        nulls_released=_null_share(one.released_nulls, one.released_records),
        note=one.note,
    )


def _shares(counts: Sequence[int]) -> tuple[float, ...]:
    total = sum(counts)
    return tuple(round(count / total, 6) if total else 0.0 for count in counts)


def _null_share(nulls: int | None, records: int | None) -> float | None:
    return round(nulls / records, 6) if nulls is not None and records else None


def _correlations(found: CorrelationMatrices | None, with_original: bool) -> Correlations | None:
    if found is None or len(found.names) < 2:
        return None
    original = _matrix(found.original) if with_original else None
    return Correlations(names=found.names, original=original, released=_matrix(found.released))


def _matrix(values: Any) -> tuple[tuple[float | None, ...], ...]:
    return tuple(
        tuple(round(v, 4) if math.isfinite(v) else None for v in row)
        for row in np.asarray(values, dtype=float).tolist()
    )


def _figure(one: Measurement) -> Figure:
    return Figure(**one.to_dict())


DIGITS = 3
"""Of a released figure. In full precision the distance of one record would tell which of the possible values it has."""


def _released_figures(measured: Iterable[Measurement], k: int) -> tuple[Figure, ...]:
    """What is not disclosive, was not measured on few records, and does not count fewer than k persons."""
    figures = (_figure(one) for one in measured if not one.disclosive and _tellable(one, k))
    return tuple(_coarsened(_hidden_count(figure, k)) for figure in figures)


def _hidden_count(figure: Figure, k: int) -> Figure:
    """An exact share of all records is a count of persons, and so is the rest: told from k on only."""
    if figure.unit != "share" or figure.low is not None or figure.records != figure.of:
        return figure

    def few(share: float | None) -> bool:
        persons = 0.0 if share is None else min(abs(share), abs(1.0 - share)) * figure.of
        return 1e-6 < persons < k - 1e-6

    def told(shares: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(None if few(share) else share for share in shares)

    if few(figure.value):
        note = f"fewer than {k} records, or all but fewer; the figure is not told. {figure.note}".strip()
        return figure.model_copy(update={"value": None, "note": note, "parts": (), "curves": ()})
    parts = tuple((name, None if few(share) else share) for name, share in figure.parts)
    curves = tuple(
        line.model_copy(update={"y": told(line.y), "baseline": told(line.baseline)}) for line in figure.curves
    )
    return figure.model_copy(update={"parts": parts, "curves": curves})


def _coarsened(figure: Figure) -> Figure:
    """All numbers of a figure with few digits."""
    numbers = {name: _coarse(getattr(figure, name)) for name in ("value", "low", "high", "baseline")}
    parts = tuple((name, _coarse(value)) for name, value in figure.parts)
    curves = tuple(
        line.model_copy(update={name: tuple(map(_coarse, getattr(line, name))) for name in ("x", "y", "baseline")})
        for line in figure.curves
    )
    return figure.model_copy(update={**numbers, "parts": parts, "curves": curves})


def _coarse(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _analysis(one: AnalysisOutcome) -> AnalysisPart:
    compared = one.comparison
    coefficients = tuple(
        Coefficient(name=words.coefficient(c.name), original=_interval(c.original), released=_interval(c.released))
        for c in compared.coefficients
    )
    problem = compared.original.problem or compared.released.problem
    return _analysis_part(one, compared.original.rows, problem, coefficients, _SHARES)


def _released_analysis(one: AnalysisOutcome, k: int) -> AnalysisPart:
    """The release's own coefficients, which every recipient can compute, and shares that changed.

    Not their overlap: of few coefficients it would lead back to the original's
    intervals. And no coefficients where a function of the formula has learnt
    from the original: of ``standardize(age)`` they are in its deviations, of
    ``bs(age, df=4)`` they follow from its quantiles and extremes.
    """
    fit: Fit = one.comparison.released
    coefficients = tuple(
        Coefficient(name=words.coefficient(name), original=None, released=_interval(estimate))
        for name, estimate in fit.estimates.items()
        if estimate is not None and not learns(one.comparison.analysis)
    )
    return _analysis_part(one, None, fit.problem, coefficients, _SHARES[:3] if _tellable(one, k) else ())


def learns(analysis: Analysis) -> bool:
    """Whether a function of the formula takes means, deviations or quantiles of the table that it is first given.

    Examples
    --------
    >>> learns(Analysis("a", "linear", "pay ~ center (age)")), learns(Analysis("a", "linear", "pay ~ np.log(scale)"))
    (True, False)
    """
    return re.search(rf"\b({'|'.join(_LEARNING)})\s*\(", analysis.formula) is not None


_LEARNING = ("center", "standardize", "scale", "bs", "cr", "cc", "te")
"""Functions of patsy that keep what they have seen."""

_SHARES = ("changed_significance", "changed_direction", "outside", "overlap")


def _analysis_part(
    one: AnalysisOutcome,
    rows_original: int | None,
    problem: str | None,
    coefficients: tuple[Coefficient, ...],
    named: tuple[str, ...],
) -> AnalysisPart:
    analysis, shares = one.comparison.analysis, one.comparison.shares
    return AnalysisPart(
        name=analysis.name,
        model=analysis.model,
        formula=analysis.formula,
        event=analysis.event,
        subset=analysis.subset,
        records=one.records,
        of=one.of,
        rows_original=rows_original,
        rows_released=one.comparison.released.rows,
        problem=problem,
        limits=tuple(one.limits.items()),
        shares=tuple((name, _finite(getattr(shares, name))) for name in named),
        coefficients=coefficients,
    )


def _interval(estimate: Estimate | None) -> Interval | None:
    if estimate is None:
        return None
    return Interval(**{name: _finite(getattr(estimate, name)) for name in Interval.model_fields})


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
