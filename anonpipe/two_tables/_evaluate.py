"""Utility, risk, the recipients' analyses and what else two tables tell, held against the limits of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from anonpipe import engine
from anonpipe.columns import Kind, Role
from anonpipe.encoding.row_hash import added, counted, row_numbers
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.utility import (
    Endpoint,
    correlation_changes,
    distributions,
    fit_models,
    survival_pictures,
    utility,
)
from anonpipe.job.analyses import endpoints_of
from anonpipe.job.model import Job, Measure
from anonpipe.pipeline import evaluation
from anonpipe.pipeline.evaluation import AnalysisOutcome, Assessment, NotChecked, typed
from anonpipe.pipeline.evaluation.samples import MODEL_ROWS
from anonpipe.report import Report
from anonpipe.report.build import BothTables, of_two_tables
from anonpipe.rng import generator
from anonpipe.two_tables._known import KEY, KnownOfTables, look, measured_risk, sampled
from anonpipe.two_tables._tables import Tables, open_tables
from anonpipe.types import FloatArray
from anonpipe.verify.catalogue import GATES, MEASURED
from anonpipe.verify.check import Check, held
from anonpipe.verify.output_control import bins_for_steward
from anonpipe.verify.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

USUAL_K = 5


@dataclass(frozen=True)
class Evaluated:
    """What was found; all of it tells of the original, and is for the steward."""

    rows: tuple[int, int]  # Of the original and of the release
    columns: tuple[str, ...]  # Those that were compared
    left_out: dict[str, str]  # Others of either table, and why
    verdict: Verdict  # The limits of the job that two tables can be held against, and in its notes what they cannot
    assessment: Assessment  # All measures, and what was not measured and why
    report: Report  # All of it with pictures; `anonpipe.report.render` makes a page of it
    warnings: tuple[str, ...]  # What should be looked at first


def evaluate_release(
    original: str,
    release: str,
    job: Job | None = None,
    *,
    hold_out: str | None = None,
    paired: bool = False,
    k: int | None = None,
) -> Evaluated:
    """Measure a release of any origin by what a run measures of its own."""
    try:
        with open_tables(original, release, hold_out, job) as tables:
            return _evaluated(tables, job, paired, k)
    except Exception as error:
        failure = engine.account(error, "the evaluation")
    failure.raise_it()


def _evaluated(tables: Tables, job: Job | None, paired: bool, k: int | None) -> Evaluated:
    measure = Measure() if job is None else job.measure
    rows, least = (tables.original.rows, tables.release.rows), k or (USUAL_K if job is None else job.k)
    if least < 2:
        raise JobError(f"k is {least}; give at least 2")
    if paired and rows[0] != rows[1]:
        raise InputError(
            f"the original has {rows[0]:,} rows and the release {rows[1]:,}: row by row they are not of the same "
            "persons; leave out --paired"
        )
    both = tuple(sampled(tables, table, measure.rows) for table in (tables.original, tables.release))
    before, after = (typed(tables.encoder, cells, tables.encoder.names) for cells in both)
    seen = _Seen(before, after, {name: column.kind for name, column in tables.columns.items()}, _endpoints(tables, job))
    assessment = (
        _utility(tables, job, seen, paired, least) + _risk(tables, job, both, paired, least) + _analyses(tables, job)
    )
    limits = dict.fromkeys(MEASURED) if job is None else evaluation.limits_of(job, assessment)
    checks = (*_of_columns(tables, job, least), *evaluation.checks(assessment, limits))
    notes = (*evaluation.notes(assessment, limits), _UNTOLD)
    verdict = Verdict(checks, notes)
    warnings = _warnings(tables, job)
    report = of_two_tables(
        BothTables(
            original=tables.original.url,
            release=tables.release.url,
            rows=rows[1],
            k=least,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            anonpipe=version("anonpipe"),
            verdict=verdict,
            assessment=assessment,
            warnings=warnings,
            distributions=distributions(*seen.tables, bins_for_steward(least)),
            survival=survival_pictures(*seen.tables, seen.endpoints, bins_for_steward(least)),
            correlations=correlation_changes(*seen.tables),
            pictured=len(before),
        )
    )
    return Evaluated(rows, tuple(tables.columns), tables.left_out, verdict, assessment, report, warnings)


@dataclass(frozen=True, eq=False)
class _Seen:
    """A sample of either table, typed, and what is known of the columns."""

    original: pd.DataFrame
    release: pd.DataFrame
    kinds: dict[str, Kind]
    endpoints: list[Endpoint]

    @property
    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Kind]]:
        """As the measures take them."""
        return self.original, self.release, self.kinds


def _endpoints(tables: Tables, job: Job | None) -> list[Endpoint]:
    ends = () if job is None else endpoints_of(job)
    return [end for end in ends if {end.time, end.status} <= set(tables.columns)]


_UNTOLD = (
    "two tables do not tell, and so not checked: sizes of groups, suppression, moments before decoding, and the limits "
    "gates." + ", gates.".join(name for name in GATES if name not in MEASURED and name != "rows_under_k")
)

Both = tuple[FloatArray, ...]


def _utility(tables: Tables, job: Job | None, seen: _Seen, paired: bool, least: int) -> Assessment:
    if job is not None and not job.measure.utility:
        return Assessment(not_checked=(NotChecked("unmeasured.utility", Reason.UTILITY_OFF),))
    found = utility(
        *seen.tables,
        rng=generator(KEY, "utility"),
        least=least,
        of=tables.original.rows,
        paired=paired,
        endpoints=seen.endpoints,
    )
    return Assessment(utility=found)


def _risk(tables: Tables, job: Job | None, both: Both, paired: bool, least: int) -> Assessment:
    if job is not None and not job.measure.risk:
        return Assessment(not_checked=(NotChecked("unmeasured.risk", Reason.RISK_OFF),))
    if job is not None and job.unit_declared:
        return Assessment(not_checked=(NotChecked("unmeasured.risk", Reason.UNITS),))
    before, after = both
    measure = Measure() if job is None else job.measure
    for scenario in measure.scenarios:
        _check_compared(tables, f"scenario {scenario.name!r}", scenario.knows)
    looked = look(tables, measure.queries, before, after)
    known = KnownOfTables(tables, looked, least, (before, after) if paired else None, measure)
    found, not_checked = measured_risk(known)
    return Assessment(risk=found, not_checked=not_checked)


def _analyses(tables: Tables, job: Job | None) -> Assessment:
    """The recipients' models, fitted to both tables."""
    if job is None or not job.analyses:
        return Assessment(not_checked=(NotChecked("unmeasured.analyses", Reason.NO_ANALYSES),))
    for each in job.analyses:
        _check_compared(tables, f"analysis {each.name!r}", job.columns_of(each))
    names, encoder = tables.encoder.names, tables.encoder
    before, after = (
        typed(encoder, sampled(tables, table, MODEL_ROWS), names) for table in (tables.original, tables.release)
    )
    found = []
    for wanted, model in zip(job.analyses, fit_models(before, [each.analysis for each in job.analyses]), strict=True):
        if model.fit.problem is not None:
            raise JobError(f"analysis {wanted.name!r} cannot be fitted to the original ({model.fit.problem})")
        found.append(AnalysisOutcome(model.compare(after), wanted.declared, len(before), tables.original.rows))
    return Assessment(analyses=tuple(found))


def _check_compared(tables: Tables, what: str, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in tables.columns]:
        raise InputError(
            f"{what} needs column {missing[0]!r}, which is not compared: "
            f"{tables.left_out.get(missing[0], 'it is in neither table')}"
        )


def _of_columns(tables: Tables, job: Job | None, least: int) -> tuple[Check, ...]:
    """Columns that should not be in a release, and combinations of its key variables that few records have."""
    if job is None:
        return ()
    own, files = tables.release.source.schema.names, {"files": len(tables.release.source.paths)}
    forbidden = [name for name in own if name in job.columns and not job.columns[name].role.released]
    checks = [held("columns.forbidden", len(forbidden), 0, about=files)]
    keys = [at for at, name in enumerate(tables.encoder.names) if job.columns[name].role.unchanged]
    if keys:
        parts = [counted(row_numbers(cells[:, keys])) for _, cells in tables.cells(tables.release)]
        counts = added(parts)[1]
        names = ", ".join(tables.encoder.names[at] for at in keys)
        about = files | {"names": names, "k": least, "whom": "records"}
        rare = int(counts[counts < least].sum())
        checks.append(held("keys.rare", rare, job.gates.of_every_run["rows_under_k"], about=about))
    return tuple(checks)


def _warnings(tables: Tables, job: Job | None) -> tuple[str, ...]:
    found = [f"column {name!r} is not compared: {why}" for name, why in tables.left_out.items()]
    if job is not None:
        return tuple(found)
    named = [name for name, why in tables.left_out.items() if why == f"its role is {Role.IDENTIFIER.value}"]
    there = [name for name in named if name in tables.release.source.schema.names]
    return (*(f"column {name!r} is in the release and looks like an identifier of persons" for name in there), *found)
