"""A preview of a run from one scan of the input: the content of `anonpipe plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Kind
from anonpipe.encoding.identifiers import SAMPLED_ROWS, Repeats, keep_in, repeats_in, runs_in, warn_of_repeats
from anonpipe.encoding.row_hash import contents_of, keyed_rows, row_lanes
from anonpipe.encoding.tracers import Tracer, comparable_sketches
from anonpipe.encoding.values import plain as plain_array
from anonpipe.encoding.values import plain_type
from anonpipe.engine import default_workers
from anonpipe.errors import GateError, JobError, plural, printable, record_noun
from anonpipe.evaluate.risk import AttackScenario, ScenarioRisk, least_shown
from anonpipe.evaluate.utility._design import condition, plain
from anonpipe.evaluate.utility._formula import columns_in, condition_of
from anonpipe.files import templates
from anonpipe.job.linked import PART
from anonpipe.job.measure import RecipientAnalysis
from anonpipe.job.model import Job
from anonpipe.job.rules import check_counts
from anonpipe.partition.strata import Units
from anonpipe.pipeline.context import Fitted
from anonpipe.pipeline.cut import leaf_counts, partition_rows, predicted_peak_bytes
from anonpipe.pipeline.evaluation.samples import all_class_counts, class_counts, wanted_queries
from anonpipe.pipeline.procedure.record import options_text
from anonpipe.pipeline.resolve import check_whole, counted_units, job_digest, resolve, unit_of
from anonpipe.pipeline.run import without_measures
from anonpipe.pipeline.start import check_input, needs_workers, prepared, refuse_other_table
from anonpipe.pipeline.tasks.scan import FEWEST_HELD, InputCounts, held_rows
from anonpipe.progress import OnProgress
from anonpipe.rng import keyed, steward_secret
from anonpipe.source import Source, Unit, opened, read_batches
from anonpipe.storage import release
from anonpipe.storage.release_log import REMEDY, Overlaps, Trace, find_overlaps, refusal_error
from anonpipe.storage.sketch import Sketch
from anonpipe.storage.staging import scratch
from anonpipe.types import BoolArray, IntArray
from anonpipe.verify import words
from anonpipe.verify.catalogue import GATES, Check, kind_of, worst_of
from anonpipe.verify.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd


MASKED_ROWS = 20_000  # Tables of up to so many rows are masked once by a plan: a matter of seconds


@dataclass(frozen=True)
class Preview:
    """The predicted run."""

    # given, job, source: the job as it was given, and what would run on what
    given: Job
    job: Job
    source: Source
    strata: tuple[tuple[str, int], ...]  # Name and records of each stratum
    values: tuple[str, ...]  # Of each stratum the values of its columns, for the steward's terminal alone; or empty
    dropped: int  # Records of strata under k that the job drops
    width: int  # Columns of the features
    rows: int  # Aimed records of a partition
    # partitions, files: how many of each
    partitions: int
    files: int
    workers: int  # Processes that would be started; 0 where this one does all
    # staging_bytes, peak_bytes: predicted disk use of the staging, and memory of all processes together
    staging_bytes: int
    peak_bytes: int
    warnings: tuple[str, ...]  # What the run would warn of
    methods: tuple[tuple[str, str], ...]  # What would be done with the records: labels and texts
    # recoded, recoded_in_short: what disclosure control does to key variables
    recoded: tuple[str, ...]
    recoded_in_short: str
    again: str  # The version with the same rows, which the run would give a new number; empty for none
    # Risk of the original in the job's scenarios, before suppression of rare categories; for the steward alone
    scenarios: tuple[ScenarioRisk, ...]
    # The run's worst check of covariances, as the table was masked here with the run's own random numbers; None where
    # the table has over `MASKED_ROWS` rows, or the run will be refused earlier
    covariance: Check | None
    # Predicted exit code of the run: 0, or the one of the refusal in `warnings`
    exit_code: int = 0

    @property
    def of_run_alone(self) -> tuple[str, ...]:
        """Limits that the run holds and that nothing here foretells, by their names under `gates` and `analyses`."""
        job, measured = self.job, [name for name, limit in self.job.limits.items() if limit is not None]
        files = job.gates.of_every_run if self.covariance is None and not self.exit_code else ()
        held = [*files, *measured, *(f"analysis {each.name!r}" for each in job.analyses if each.declared)]
        return tuple(name for name in held if name != "local_suppression_rate")

    def end(self, details: bool = False) -> str:
        """What follows for the run, in sentences."""
        if self.exit_code:
            return f"The run will be refused, with exit code {self.exit_code}: the warnings say why, and what helps."
        held = self.of_run_alone
        what = ", ".join(held) if details else plural(len(held), "limit")
        only = f" Only the run measures {what}; anonpipe run --trial does so and publishes nothing." if held else ""
        return f"Nothing that is known now refuses the run.{only}"

    def lines(self, details: bool = False) -> list[str]:
        """The preview as text: on a screen, or with `details` all that is known."""
        return [*self.about(details), *self.warning_lines(), fill(self.end(details), 80, break_on_hyphens=False)]

    def about(self, details: bool = False) -> list[str]:
        """The preview as text, without warnings."""
        environment = templates(Path(__file__).parent)
        environment.filters |= {"size": _size, "labelled": _labelled, "thousands": "{:,}".format}
        environment.globals |= {"counted": plural, "options_text": options_text, "words": words}
        record = record_noun(self.given.whole_release and PART not in self.job.columns)
        job, every = self.job, {name: limit for name, limit in self.job.limits.items() if limit is not None}
        limits, usual = job.gates.of_every_run | every, {name: gate.default for name, gate in GATES.items()}
        own = {name: limit for name, limit in limits.items() if limit != (usual | job.default_limits)[name]}
        given = {"job": job, "source": self.source, "limits": limits, "own": own, "record": record, "details": details}
        text = environment.get_template("plan.jinja").render(plan=self, **given)
        return [line.rstrip() for line in text.rstrip("\n").split("\n")]

    def warning_lines(self) -> list[str]:
        """The warnings as text."""
        return [f"warning: {warning}" for warning in self.warnings]

    def to_dict(self) -> dict[str, Any]:
        """The preview as JSON-able content."""
        plain = ("dropped", "width", "rows", "partitions", "files", "workers", "staging_bytes", "peak_bytes")
        return {
            "input": {"rows": self.source.rows, "bytes": self.source.bytes, "splits": len(self.source.units)},
            "strata": [{"name": name, "rows": rows} for name, rows in self.strata],
            **{name: getattr(self, name) for name in plain},
            "again": self.again or None,
            "of_run_alone": list(self.of_run_alone),
            "scenarios": [measurement.to_dict() for risk in self.scenarios for measurement in risk.measurements()],
            "covariance": None if self.covariance is None else words.content(self.covariance),
            "exit_code": self.exit_code,
            "warnings": list(self.warnings),
            "job": self.job.model_dump(mode="json"),
        }


def _labelled(text: str, label: str, most: int | None = None) -> str:
    """A text with its label, in lines of a terminal, and no more of them than `most`."""
    lines = wrap(f"{label:<11}{text}", 80, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines if most is None or len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][:78]} …"])


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def preview(job: Job, on_progress: OnProgress = lambda _: None) -> Preview:
    """Read the input once in this process, mask a table of few rows, and predict cut, costs, warnings and gates."""
    release.check_writable(release.place(job.output, job.report.internal))
    refuse_other_table(job)
    with (
        opened(job.source.path, job.columns, job.run.staging, job.source) as source,
        scratch("plan", job.run.staging) as folder,
    ):
        source = check_input(job, source)
        given = job
        job, source, whole, controlled = prepared(job.of_rows(source.rows), source, folder)
        scanned = _scan(job, source, folder)
        counts, scan = scanned.counts, scanned.counts.scan
        counts.totals.check(job.source.last_row)
        *runs, pairs = runs_in(folder, (*job.identifiers, "in strata"))
        unit, of_units = unit_of(job, repeats_in(runs, [scanned.repeats], job.k - 1))
        check_whole(job, unit, [scanned.in_strata], pairs)
        unit = None if unit is None else unit.with_constant(counts.of_units, job.columns)
        if whole is not None and unit is not None:
            unit = whole.with_strata(unit, job)
    check_counts(job.parsed_rules, counts.rules if unit is not None else counts.rules.without_units(), job.k)
    resolved = resolve(job, source.schema, scan, unit, "" if whole is None else whole.form)
    fitted = resolved.fitted
    encoder, strata, method = fitted.cells, fitted.strata, fitted.procedure
    digests = resolved.digest, job_digest(job, unit)
    sketches = comparable_sketches(scanned.sketches)
    sums = counted_units(job, [] if counts.changed is None else [counts.changed.sums])
    trace = Trace(*digests, source.rows, tuple(job.released), sketches, sums, job.k)
    if whole is not None:
        trace = replace(trace, rows=whole.rows, columns=whole.released, sketches=comparable_sketches(whole.sketches))
    if controlled is not None:
        trace = replace(trace, sketches=comparable_sketches(controlled.sketches))
    width = max(fitted.width, len(encoder.names))
    cells = len(encoder.names) + sum(len(b.codes) for b in fitted.features.categories if b.name in job.as_probabilities)
    unmet = scanned.unmet + _suppressed(fitted, source, scanned.unmet)
    rows = partition_rows(job, width)
    ranked = cells + fitted.features.width + 2 if fitted.scores is not None else 0
    workers = job.run.workers or default_workers()
    partitions = sum(leaf_counts(strata.rows, rows))
    n_rows = sum(strata.rows)
    failing = [*_too_rare(fitted), *_unmeasured_strata(fitted, source.rows)]
    overlaps = find_overlaps(trace, steward_secret(), release.place(job.output, job.report.internal))
    verdict: Verdict | None = None
    if failing or unmet or source.rows > MASKED_ROWS:
        of_run = [] if job.identifiers else warn_of_repeats(scanned.sample, source.rows, counts.key)
    else:
        verdict, of_run = without_measures(given, on_progress)
    failing, by = failing + _failed(job, verdict), " x ".join(job.strata.by) or "whole table"
    of_preparation = [] if whole is None else [whole.meaning, whole.form, *whole.warnings]
    of_preparation += [] if controlled is None else controlled.warnings
    before, after = (*job.warnings(), *of_units, *of_preparation), (*_repeats(job, overlaps), *map(_unmet, unmet))
    widths = len(encoder.names) + cells + (3 if method.keeps_features else 2) * fitted.width + ranked
    aimed = min(rows, max(strata.rows))
    return Preview(
        given=given,
        job=job,
        source=source if whole is None else replace(source, rows=whole.rows),
        strata=tuple((f"{by} {at}" if len(strata.rows) > 1 else by, n) for at, n in enumerate(strata.rows, 1)),
        values=_stratum_values(fitted),
        dropped=strata.dropped,
        width=width,
        rows=aimed,
        partitions=partitions,
        files=max(1, round(n_rows / job.release.file_rows)) * job.release.copies,
        workers=workers if needs_workers(job, source.rows) else 0,
        staging_bytes=8 * n_rows * widths * job.release.copies + source.bytes,
        peak_bytes=predicted_peak_bytes(aimed, width, cells, workers, job, n_rows if method.by_column else 0),
        warnings=tuple(dict.fromkeys((*before, *resolved.warnings.all(), *of_run, *after, *failing))),
        methods=method.lines,
        recoded=() if controlled is None else controlled.figures,
        recoded_in_short="" if controlled is None else controlled.in_short,
        again=overlaps.again,
        scenarios=tuple(_scenarios(job, scanned.classes, scan.rows if unit is None else unit.distinct)),
        covariance=_covariance(verdict),
        exit_code=_exit_code(job, overlaps, unmet, failing),
    )


def _covariance(verdict: Verdict | None) -> Check | None:
    """The covariances' worst check."""
    checks = () if verdict is None else verdict.checks
    limited = [each for each in checks if each.key.startswith("covariance") and each.limit is not None]
    return worst_of(limited) if limited else None


def _failed(job: Job, verdict: Verdict | None) -> list[str]:
    """The gates that the run will fail, with what helps."""
    if verdict is None or verdict.passed:
        return []
    failed = [
        f"{words.named(each)} {words.measured(each)} ({words.limit(each)})" for each in verdict.checks if each.blocks
    ]
    helps = (f"remedy for {text}" for text in words.remedies(verdict.checks, job.in_force))
    return [f"the run will be refused: {'; '.join(failed)}", *helps]


def _exit_code(job: Job, overlaps: Overlaps, unmet: Sequence[_Requirement], failing: Sequence[str]) -> int:
    """The exit code of the run's first refusal, in its order, as far as release logs and scan predict it."""
    if job.unmeasured is not None:
        return JobError.exit_code
    if overlaps.problems and job.repeat.allow is None:
        return refusal_error(overlaps).exit_code
    if unmet:
        return JobError.exit_code
    return GateError.exit_code if failing else 0


def _too_rare(fitted: Fitted) -> list[str]:
    """A failure of the gate on local suppression, predicted from the scan."""
    suppression, limit = fitted.suppression, fitted.job.gates.of_every_run["local_suppression_rate"]
    if suppression.largest_share <= limit:
        return []
    advice = words.advice_of(kind_of("local_suppression_rate"), fitted.job.in_force)
    return [
        f"the run will be refused: {suppression.largest_share:.1%} of the records have a category of column "
        f"{suppression.largest_in!r} with fewer than k={fitted.job.k} records in their stratum, and "
        f"gates.local_suppression_rate is {limit:g}; {advice}"
    ]


def _unmeasured_strata(fitted: Fitted, rows: int) -> list[str]:
    """A failure of the gate on stratum inference, predicted from the scan."""
    job, limit = fitted.job, fitted.job.limits["stratum_inference"]
    if limit is None or not job.strata.by:
        return []
    refused, held = "the run will be refused: gates.stratum_inference", round(job.measure.held_out * rows)
    if held < FEWEST_HELD and fitted.unit is not None:
        if "stratum_inference" not in job.gates.given:  # a default limit is of what can be measured
            return []
        return [f"{refused} needs a hold-out where units have several rows: {_NO_HELD}"]
    members = wanted_queries(job, sum(fitted.strata.rows))
    controls, warnings = held if held >= FEWEST_HELD else members, []
    for name in job.strata.by:
        counts = fitted.scan.code_counts(name)
        other = 1.0 - counts.max() / max(1, counts.sum())
        shown = least_shown(other, members, controls)
        if shown > limit:
            warnings.append(
                f"{refused} is {limit:g}. Only {other:.2g} of the records have another value of {name!r} than most, so "
                f"the upper limit of {members:,} attacks is about {shown:.2g} even without disclosure: {_FEW_OTHERS}"
            )
    return warnings


_NO_HELD = "give measure.hold_out, such as 0.05, or set no such gate"
_FEW_OTHERS = (
    "give the column role: masked and take it out of strata.by (its survival time, too), raise measure.queries (and "
    "measure.hold_out), or set no such gate"
)


def _repeats(job: Job, overlaps: Overlaps) -> list[str]:
    """Warnings and problems from the release logs."""
    problems = list(overlaps.problems)
    if problems and job.repeat.allow is None:
        problems = [*(f"the run will be refused: {problem}" for problem in problems), REMEDY]
    return [*overlaps.warnings, *problems]


@dataclass(frozen=True)
class _Scanned:
    """The counts of the input, unmet conditions of analyses, repeats of identifiers, and sketches for the logs."""

    counts: InputCounts
    unmet: list[_Requirement]
    repeats: list[Repeats]
    in_strata: Repeats | None
    sketches: dict[str, Sketch]
    classes: list[list[IntArray]]
    sample: list[pa.RecordBatch]  # About `SAMPLED_ROWS` rows of the released columns


def _scan(job: Job, source: Source, folder: Path) -> _Scanned:
    """Read the input once (twice where records are held out)."""
    tracer = Tracer.of(source.schema, job.columns, keyed(steward_secret(), "records"))
    key = keyed(steward_secret(), "start", job.digest())
    counts = InputCounts.of(job, source.rows, keep_in(folder), (key, tracer.key))
    unmet = _requirements(job)
    sample, rng = [], np.random.default_rng(0)
    classes: list[list[IntArray]] = [[] for _ in job.measure.scenarios]
    for unit in source.units:
        held = _held(job, source, unit, key) if job.measure.held_out else None
        for first_row, batch in read_batches(source, unit, [*tracer.names, *counts.writers]):
            tracer.add(batch)
            drawn = rng.random(batch.num_rows) < SAMPLED_ROWS / max(1, source.rows)
            sample.append(batch.select(list(job.released)).filter(pa.array(drawn)))
            begin = first_row - unit.first_row
            rows = None if held is None else held[begin : begin + batch.num_rows]
            _, units, kept = counts.add(batch, first_row, rows)
            for parts, scenario in zip(classes, job.measure.scenarios, strict=True):
                if not scenario.tolerance:
                    parts.append(_classes(job, batch.select(scenario.knows), kept, units, key, source.rows))
            unmet = [item for item in unmet if not _met(job, item, batch)]
    return _Scanned(counts, _without_followers(unmet), *counts.close(), tracer.sketches, classes, sample)


def _classes(
    job: Job, batch: pa.RecordBatch, kept: BoolArray | None, units: Units | None, key: bytes, of: int
) -> IntArray:
    """Numbers and sizes of a scenario's equivalence classes; with units, distinct pairs of class and unit."""
    lanes = row_lanes(batch, job.columns)
    numbers = (keyed_rows(lanes, keyed(key, "classes"), keyed(key, "classes, too")) >> np.uint64(1)).astype(np.int64)
    chosen = slice(None) if kept is None else kept
    return class_counts(numbers[chosen], None if units is None else units[chosen].view(np.int64), of)


def _scenarios(job: Job, classes: Sequence[Sequence[IntArray]], persons: int) -> Iterator[ScenarioRisk]:
    """The risk of the original in each scenario."""
    measure = job.measure
    for scenario, parts in zip(measure.scenarios, classes, strict=True):
        if scenario.tolerance:
            continue
        sizes = all_class_counts(parts, job.unit_column is not None)[1]
        if len(sizes):
            fraction = measure.sampling_fraction
            given = AttackScenario(scenario.knows, sizes, sampling_fraction=fraction, of=persons)
            yield ScenarioRisk(scenario.name, job.k, given)


def _held(job: Job, source: Source, unit: Unit, key: bytes) -> BoolArray:
    """Which rows of an input split a run would hold out."""
    lanes = (row_lanes(batch, job.columns) for _, batch in read_batches(source, unit, list(job.released)))
    return held_rows(key, job.measure.held_out, contents_of(lanes, key))


@dataclass(frozen=True)
class _Requirement:
    """The `subset` of an analysis, or its `event`, which counts inside the subset."""

    analysis: RecipientAnalysis
    what: str
    suppressed: bool = False  # Whether records meet it, none of which keeps its categories


def _requirements(job: Job) -> list[_Requirement]:
    """The conditions of all analyses."""
    every = [_Requirement(analysis, what) for analysis in job.analyses for what in ("subset", "event")]
    return [each for each in every if getattr(each.analysis, each.what) is not None]


def _without_followers(unmet: list[_Requirement]) -> list[_Requirement]:
    """The conditions without events inside of a subset that nobody is in."""
    empty = [item.analysis for item in unmet if item.what == "subset"]
    return [item for item in unmet if item.what == "subset" or item.analysis not in empty]


def _suppressed(fitted: Fitted, source: Source, unmet: Sequence[_Requirement]) -> list[_Requirement]:
    """Conditions that only rows meet whose categories are not released; the input is read again where it matters."""
    job, gone = fitted.job, _gone(fitted)
    found = [replace(item, suppressed=True) for item in _requirements(job) if item not in unmet and _named(gone, item)]
    for unit in source.units if found else ():
        for _, batch in read_batches(source, unit, list(job.released)):
            rare = {name: pc.is_in(plain_array(batch.column(name)), gone[name]).to_numpy(False) for name in gone}
            kept = [~np.any([rare[name] for name in _named(gone, item)], axis=0) for item in found]
            pairs = zip(found, kept, strict=True)
            found = [item for item, rows in pairs if not _met(job, item, batch.filter(pa.array(rows)))]
    return _without_followers(found)


def _named(columns: Iterable[str], item: _Requirement) -> list[str]:
    """The columns that a condition names, or the subset inside which it counts."""
    analysis, named = item.analysis.analysis, set[str]()
    for what in {"subset", item.what}:
        if (text := getattr(analysis, what)) is not None:
            named |= columns_in(condition_of(analysis, what, text))
    return [name for name in columns if name in named]


def _gone(fitted: Fitted) -> dict[str, pa.Array]:
    """Categories that records have and no released record will, by suppression or as small strata are merged."""
    scan, strata, names = fitted.scan, fitted.strata, fitted.job.strata.by
    known = {name: each.categories for name, each in scan.columns.items() if each.categories is not None}
    found = {
        name: (np.array(before[:-1]) > 0) & (scan.code_counts(name)[: len(before) - 1] == 0)
        for name, before in fitted.suppression.before.items()
    }
    if names:
        there = scan.combination_counts(fitted.cells, names) > 0
        kept = np.asarray(strata.recoded)[there & (np.asarray(strata.stratum) >= 0)]
        had, taken = (np.unravel_index(each, strata.sizes) for each in (np.flatnonzero(there), kept))
        for name, before, after in zip(names, had, taken, strict=True):
            codes = np.arange(len(known[name]))
            found[name] = np.isin(codes, before) & ~np.isin(codes, after)
    return {name: known[name].filter(pa.array(each)) for name, each in found.items() if each.any()}


def _met(job: Job, requirement: _Requirement, batch: pa.RecordBatch) -> bool:
    """Whether a row meets the condition, or the condition cannot be evaluated here."""
    analysis = requirement.analysis.analysis
    conditions = dict.fromkeys((("subset",) if analysis.subset else ()) + ((requirement.what,)))
    names = job.columns_of(requirement.analysis)
    try:
        part = plain(_frame(job, batch, names), names)
        held = [condition(part, analysis, what) == 1.0 for what in conditions]
    except JobError:  # the run, which has all columns in their released form, will report it
        return True
    return bool(np.logical_and.reduce(held).any())


def _frame(job: Job, batch: pa.RecordBatch, names: Sequence[str]) -> pd.DataFrame:
    """Columns of the input; texts with declared levels of kind ordinal in their order."""
    import pandas as pd

    columns = {}
    for name in names:
        values, column = batch.column(name).to_pandas(date_as_object=False), job.columns[name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            values = values.astype(object)
        if column.kind is Kind.ORDINAL and column.levels and pa.types.is_string(plain_type(batch.column(name).type)):
            values = pd.Series(pd.Categorical(values, categories=list(map(str, column.levels)), ordered=True))
        columns[name] = values
    return pd.DataFrame(columns)


def _unmet(unmet: _Requirement) -> str:
    which = "no released record" if unmet.suppressed else "no record"
    of = f"{which} of its subset has" if unmet.what == "event" and unmet.analysis.subset else f"{which} meets"
    helps = "correct the spelling of values"
    if unmet.suppressed:
        helps = "its categories are too rare to be released: join them in the input"
    return (
        f"the run will be refused: analysis {unmet.analysis.name!r} cannot be fitted, as {of} the {unmet.what} "
        f"{getattr(unmet.analysis, unmet.what)!r}; {helps}, or widen it"
    )


def _stratum_values(fitted: Fitted) -> tuple[str, ...]:
    """The values that all records of a stratum have in its columns; nothing where they have several."""
    names, shown = fitted.job.strata.by, []
    for codes in fitted.strata.codes() if names else [None]:
        texts = []
        for name, code in zip(names, codes or (), strict=codes is not None):
            known = fitted.cells.categories[name]
            texts.append(f"{name} = {known[code].as_py() if code < len(known) else 'missing'}")
        shown.append(printable(" x ".join(texts)))
    return tuple(shown)
