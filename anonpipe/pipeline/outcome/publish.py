"""The end of a run: a release that passed is published at once; a failed one leaves its verdict and report."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe import codebook, interrupts
from anonpipe.columns import Column, Role
from anonpipe.encoding.values import numbers
from anonpipe.errors import OutputError
from anonpipe.files import explained
from anonpipe.job.model import Job
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation import measures as evaluation
from anonpipe.pipeline.evaluation.measures import load_assessment
from anonpipe.pipeline.outcome.evidence import release_warnings
from anonpipe.pipeline.outcome.facts import gather
from anonpipe.pipeline.resolve import WARNINGS, Warnings, trace_of
from anonpipe.pipeline.start import Run
from anonpipe.pipeline.tasks.unfold import declared_of_rows, published_files, released_rows, units_part
from anonpipe.pipeline.tasks.write import written_files
from anonpipe.progress import Progress
from anonpipe.report import Report, as_trial, documents, external, internal
from anonpipe.rng import steward_secret
from anonpipe.storage import release, release_log, versions
from anonpipe.storage.release import signing_key
from anonpipe.storage.release_log import Overlaps
from anonpipe.storage.staging import remove
from anonpipe.types import FloatArray
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import WIDTH, RunFacts, failures, first_lines, remedies, rows_in_copies, table

_NO_REPORT = "the internal report could not be written into the output"
_FILE = "repeats.record"


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run."""

    verdict: Verdict  # All checks
    version: str | None  # Path of the published version, or None where a gate failed
    rows: int  # released
    facts: RunFacts  # methods, strata and hold-out, for the summary
    warnings: tuple[str, ...]  # for the steward
    urgent: tuple[str, ...] = ()  # Those of them that concern disclosure, or what recipients may conclude
    report: str | None = None  # Path of the steward's report; None where it could not be written
    remedies: tuple[str, ...] = ()  # Where a gate failed
    dropped: tuple[str, ...] = ()  # Names of the columns with role dropped
    trial: bool = False  # Whether nothing was to be published
    for_recipients: Report | None = None  # The external report of a release

    @property
    def summary(self) -> list[str]:
        """The verdict on one screen."""
        found = table(self.verdict) if self.verdict.passed else failures(self.verdict, self.remedies)
        return [*self.first_lines, *found, *self.last_lines]

    @property
    def first_lines(self) -> list[str]:
        """The summary before the figures, or the failures."""
        lines = first_lines(self.verdict, self.rows, self.facts)
        if not self.trial:
            return lines
        what = rows_in_copies(self.rows, self.facts.copies) if self.verdict.passed else "nothing"
        return [f"TRIAL    {what} would be released; nothing was published or logged", *lines[self.verdict.passed :]]

    @property
    def last_lines(self) -> list[str]:
        """The summary after them: the columns that a release has not."""
        names = self.dropped if self.version is not None else ()
        return wrap(f"dropped  {', '.join(names)}", WIDTH, subsequent_indent=" " * 9) if names else []


def finish(run: Run, verdict: Verdict) -> RunOutcome:
    """Publish a run that passed, or keep its verdict, with a report; the staging is deleted."""
    # Once pointers lead to the release, failures are warnings only, and Ctrl-C is only noted.
    where = release.place(run.job.output, run.job.report.internal)
    with versions.exclusive_lock(where), contextlib.ExitStack() as quiet:
        return _finish(run, verdict, where, quiet)


def _finish(run: Run, verdict: Verdict, where: versions.OutputPlace, quiet: contextlib.ExitStack) -> RunOutcome:
    rows, found, done = run.context.call(released_rows), warnings_of(run), _facts(run)
    warnings, urgent = list(found.all()), tuple(found.urgent)
    if not verdict.passed:
        keep_verdict(verdict, where)  # before the report: no fault of that may keep it from the steward
    facts, listed = run.context.call(gather, verdict, tuple(warnings), has_overlaps(run))
    name = versions.new_version(where) if verdict.passed else release.FAILED_RUN
    inside = documents(internal(facts, where.url("versions", name) if verdict.passed else None))
    if not verdict.passed:
        report = _keep_report(where, name, inside)
        remove(run.staging)
        helps = remedies(verdict.checks, run.job.in_force)
        return RunOutcome(verdict, None, rows, done, (*warnings, *_missing(report)), urgent, report, helps)

    reports: list[str | None] = []
    unlogged: list[str] = []

    def before_switch() -> None:
        interrupts.safe_point()
        quiet.enter_context(interrupts.held())
        unlogged.extend(_note_release(run, name))
        reports.append(_keep_report(where, name, inside))

    run.on_progress(Progress("publish", 0, 1, 0))
    files = run.context.call(published_files)
    shown = external(facts)
    external_files = {f"_{file}": content for file, content in documents(shown).items()}
    external_files |= run.context.call(codebook_documents, listed, name)
    try:
        published = release.publish(
            files, listed, where, external_files, name, before_switch, signing_key(steward_secret())
        )
    except BaseException:
        _take_back(run, where, name)
        raise
    warnings += [*unlogged, *published.warnings, *_missing(*reports), *_tidied_up(run, rows)]
    warnings += release.late_interrupt_warning()
    distinct = tuple(dict.fromkeys(warnings))
    report = reports[0] if reports else None
    dropped = _dropped(run)
    return RunOutcome(
        verdict, published.path, rows, done, distinct, urgent, report, dropped=dropped, for_recipients=shown
    )


def finish_trial(run: Run, verdict: Verdict) -> RunOutcome:
    """Keep the internal report of a trial, in place of that of the last one, and nothing else."""
    where = release.place(run.job.output, run.job.report.internal)
    rows, found = run.context.call(released_rows), warnings_of(run)
    warnings = found.all()
    facts, _ = run.context.call(gather, verdict, warnings, has_overlaps(run))
    with versions.exclusive_lock(where):
        report = _keep_report(where, "trial", documents(as_trial(internal(facts, None))))
    dropped = _dropped(run)
    helps = () if verdict.passed else tuple(remedies(verdict.checks, run.job.in_force))
    warnings, urgent = (*warnings, *_missing(report)), tuple(found.urgent)
    return RunOutcome(verdict, None, rows, _facts(run), warnings, urgent, report, helps, dropped, trial=True)


def _dropped(run: Run) -> tuple[str, ...]:
    """Names of the columns that are left out, without those that name persons."""
    folded = run.context.work.folded
    if folded is not None:
        return tuple(name for name, identifies in folded.unreleased if not identifies)
    left_out = Role.DROPPED, Role.REPLICATE_WEIGHT
    return tuple(name for name, column in run.job.columns.items() if column.role in left_out)


def _facts(run: Run) -> RunFacts:
    """Methods, strata and share held out, for the summary."""
    job = run.context.work.job
    methods = job.mask.method if job.mask else f"{job.by_groups.cluster.method} + {job.by_groups.synthesize.method}"
    if not job.replaces:
        methods = "no column is masked: rows are those of persons"
    part = run.context.call(units_part)
    units = "" if part is None else part.line
    recoded = "" if run.context.work.controlled is None else run.context.work.controlled.in_short
    again = _read_overlaps(run).again
    about = {"units": units, "recoded": recoded, "again": again}
    return RunFacts(methods, tuple(job.strata.by), job.measure.held_out, job.release.copies, run.times, **about)


def unmeasured_warnings(run: Run) -> Warnings:
    """Warnings for the steward on job, input and written files."""
    settled = Warnings(**run.staging.read_json(WARNINGS))
    of_files: Warnings = run.context.call(release_warnings)
    return Warnings(run.job.urgent_warnings(), run.job.warnings()) + settled + of_files


def warnings_of(run: Run) -> Warnings:
    """Warnings for the steward."""
    cut, overlaps = run.context.cut, _read_overlaps(run)
    assessment = load_assessment(run.context.work)
    of_measures = evaluation.warnings(assessment, evaluation.limits_of(run.job, assessment))
    warnings = Warnings([*overlaps.problems, *overlaps.warnings, *of_measures]) + unmeasured_warnings(run)
    if cut.released != cut.rows:  # which discloses the exact count
        warnings.others.append(
            f"repeat.growing: {cut.rows - cut.released:,} of {cut.rows:,} synthetic rows are withheld, so that sizes "
            "of strata are rounded; do not disclose this number to recipients"
        )
    return warnings + Warnings(others=list(run.warnings))


def _note_release(run: Run, name: str) -> list[str]:
    """Enter the release in the logs before it is out; returns warnings."""
    # Another release may have come out since the scan, so the logs are compared once more. An entry too many is taken
    # back; one too few would hide a repetition.
    if run.repeats != "refuse":
        return []
    check_overlaps(run)
    remedy = "nothing was published; free space or correct its permissions, then --resume"
    with explained("the release log in the output cannot be written", remedy):
        where = release.place(run.job.output, run.job.report.internal)
        uncounted = _read_overlaps(run).uncounted
        return release_log.note_release(run.context.call(trace_of), steward_secret(), where, name, uncounted)


def _take_back(run: Run, where: versions.OutputPlace, name: str) -> None:
    """Take the entry back, unless the version exists."""
    is_out = True
    with contextlib.suppress(OSError):
        is_out = versions.exists(where, "versions", name)
    if run.repeats == "refuse" and not is_out:
        release_log.withdraw_note(where, name)


def _tidied_up(run: Run, rows: int) -> list[str]:
    """The last steps of a run whose release is out; returns warnings."""
    warnings = []
    with contextlib.suppress(Exception):  # a display that fails
        run.mark("publish", rows)
    try:
        remove(run.staging)
    except (OSError, OutputError):
        warnings.append(
            f"the staging {run.staging.root} could not be deleted whole; it holds raw data: delete it by hand"
        )
    return warnings


def _missing(report: str | None) -> list[str]:
    return [] if report else [_NO_REPORT]


def _keep_report(where: versions.OutputPlace, name: str, files: dict[str, bytes]) -> str | None:
    """Write the steward's report; returns its place, or None where it cannot be written."""
    try:
        return release.keep_private(where, name, files)[-1]
    except OSError:
        return None


def where_kept(job: Job) -> str:
    """Where the verdict of a failed run lies, in words."""
    return f"the verdict is kept in {job.report.internal or job.output}/{versions.FAILED}"


def keep_verdict(verdict: Verdict, where: versions.OutputPlace) -> None:
    """Write the verdict of a failed run for the steward."""
    content = json.dumps(verdict.in_words(), indent=2).encode()
    folder = where.failures
    folder.filesystem.makedirs(folder.root, exist_ok=True)
    versions.put(folder, content, versions.FAILED)  # private: counts under k are the steward's business


# --- Earlier releases


def check_overlaps(run: Run) -> None:
    """Compare the scanned input with earlier releases, and write the overlaps into the staging."""
    if run.repeats == "ignore":
        return
    known = run.repeats in ("refuse", "trial")
    where = release.place(run.job.output, run.job.report.internal) if known else None
    overlaps = release_log.find_overlaps(run.context.call(trace_of), steward_secret(), where)
    if overlaps.problems and run.repeats in ("refuse", "unlogged") and run.job.repeat.allow is None:
        raise release_log.refusal_error(overlaps)
    run.staging.write_record(_FILE, overlaps)


def _read_overlaps(run: Run) -> Overlaps:
    """The overlaps that `check_overlaps` wrote."""
    return run.staging.read_one(_FILE, Overlaps) if run.staging.has(_FILE) else Overlaps()


def has_overlaps(run: Run) -> bool:
    """Whether earlier releases share records, allowed by the steward or by `repeat.growing`."""
    overlaps = _read_overlaps(run)
    return bool(overlaps.held) or (bool(overlaps.problems) and run.job.repeat.allow is not None)


def allowance_notes(run: Run) -> tuple[str, ...]:
    """Notes of the verdict on earlier releases, and why risk was not measured."""
    overlaps, allowed = _read_overlaps(run), run.job.measure.allow
    notes = [] if allowed is None else [f"risk was not measured, as measure.allow says: {allowed}"]
    if overlaps.problems and run.job.repeat.allow is not None:
        notes.append(f"{release_log.ALLOWED}{run.job.repeat.allow}")
    elif overlaps.held:
        notes.append(release_log.HELD.format(count=overlaps.held, at_least=run.job.fewest_changed))
    return tuple(notes)


# --- The code book that is published with a release -------------------------------------------------------------------

_BATCH = 65_536
_WIDTH = 0.01  # Of the range of a column's released values
_NEAR = 1e-6  # Of a bound: an original value as near as this, or as half a step, is the bound


def codebook_documents(
    work: Work, fitted: Fitted, cut: Cut, manifest: Mapping[str, Any], version: str
) -> dict[str, bytes]:
    """`_datapackage.json` of a release, and the schema of its table where it has several files."""
    counts = codebook.count_levels(_batches(published_files(work, cut), names := codebook.coded_names(manifest)), names)
    listed = {"version": version, **manifest}
    columns = declared_of_rows(work, publishable_columns(work, fitted, cut))
    return codebook.datapackage(codebook.describe(listed, columns, counts))


def publishable_columns(work: Work, fitted: Fitted, cut: Cut) -> dict[str, Column]:
    """The declared columns of a release, without bounds that may be values of few persons."""
    # A bound should come from a code book. One that is the outermost value of the original could have been copied from
    # there: it is published only where the released values of as many records as a group has lie within 1 % of their
    # range of it, so that it tells of one person what the release tells of all of these.
    released = {name: column for name, column in fitted.job.released.items() if name in fitted.schema.names}
    copied = {name: _copied(fitted, name, column) for name, column in released.items()}
    names = [name for name, ends in copied.items() if any(ends)]
    files = written_files(work, cut)
    for name, (lows, highs) in _outermost(_batches(files, names), names, fitted.min_rows).items():
        low, high = released[name].numeric_bounds
        room = max(_reach(released[name], 0.0), _WIDTH * (highs.max() - lows.min())) if len(lows) else 0.0
        few = len(lows) < fitted.min_rows
        hidden = (
            copied[name][0] and (few or low is None or lows.max() - low > room),
            copied[name][1] and (few or high is None or high - highs.min() > room),
        )
        bounds = zip(released[name].bounds or (None, None), hidden, strict=True)
        kept = tuple(None if is_hidden else bound for bound, is_hidden in bounds)
        released[name] = released[name].model_copy(update={"bounds": kept})
    return released


def _outermost(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], number: int
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """The lowest and the highest values of columns, so many of each (or all), ascending."""
    found = {name: (np.empty(0), np.empty(0)) for name in names}
    for batch in batches:
        for name, (lows, highs) in found.items():
            values = numbers(batch.column(name))
            values = values[~np.isnan(values)]
            ends = np.sort(np.append(lows, values))[:number], np.sort(np.append(highs, values))[-number:]
            found[name] = ends
    return found


def _copied(fitted: Fitted, name: str, column: Column) -> tuple[bool, bool]:
    """Whether each declared bound is the outermost value of the original; unknown counts as yes."""
    if column.bounds is None or column.role.unchanged:  # true values, of which recipients see the outermost
        return False, False
    scanned, coded = fitted.scan.columns.get(name), fitted.scan.outermost.get(name)
    if scanned is None:
        return True, True
    ends = [scanned.least, scanned.most]
    if coded is not None and len(coded.values):  # before top and bottom coding
        ends = [min(ends[0], float(coded.values.min())), max(ends[1], float(coded.values.max()))]
    low, high = (
        bound is not None and not abs(bound - end) > _reach(column, bound)
        for bound, end in zip(column.numeric_bounds, ends, strict=True)
    )
    return low, high


def _reach(column: Column, bound: float) -> float:
    return max(0.5 * (column.resolution or 0.0), _NEAR * abs(bound))


def _batches(files: Sequence[Path], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The written rows, of some columns; none where no column is asked for."""
    for path in files if names else ():
        yield from pq.ParquetFile(str(path)).iter_batches(_BATCH, columns=list(names))
