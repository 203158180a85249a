"""The whole run in order: open, scan, route, encode, transform, decode, assess, write, verify, publish.

Each stage is a function of the `Run` that skips finished work (task results,
written files). So a run can be resumed, and Prefect can retry a stage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe import engine, interrupts
from anonpipe.encoding.identifiers import many_rows, units_meaning
from anonpipe.engine import Executor
from anonpipe.errors import InputError
from anonpipe.job.model import Job
from anonpipe.pipeline.arrays import make_released, routed_array
from anonpipe.pipeline.cut import cut_rows, withhold
from anonpipe.pipeline.evaluation import measures as evaluation
from anonpipe.pipeline.evaluation.measures import load_assessment, pieces, save_assessment
from anonpipe.pipeline.evaluation.samples import gather_queries, samples
from anonpipe.pipeline.evaluation.search import gather_borders
from anonpipe.pipeline.outcome.evidence import evidence
from anonpipe.pipeline.outcome.facts import gather
from anonpipe.pipeline.outcome.publish import (
    RunOutcome,
    allowance_notes,
    check_overlaps,
    finish,
    finish_trial,
    has_overlaps,
    unmeasured_warnings,
    warnings_of,
)
from anonpipe.pipeline.resolve import fit, unpreserved_moments
from anonpipe.pipeline.start import Repeats, Run, open_executor, open_run
from anonpipe.pipeline.tasks.decode import calibrate, drop_waiting, merge_scores
from anonpipe.pipeline.tasks.passes import make_features, run_steps
from anonpipe.pipeline.tasks.route import leaf_units
from anonpipe.pipeline.tasks.unfold import published_files
from anonpipe.pipeline.tasks.write import compared_names
from anonpipe.progress import OnProgress, Progress, log_verdict
from anonpipe.report import Report, external, internal
from anonpipe.storage import sealed
from anonpipe.storage.staging import remove
from anonpipe.verify.gates import judge
from anonpipe.verify.verdict import Assessment, Verdict, worst_verdict
from anonpipe.verify.words import remedies

_Ended = TypeVar("_Ended")


def execute(
    job: Job,
    resume: bool = False,
    cluster: bool = True,
    on_progress: OnProgress = lambda _: None,
    repeats: Repeats = "refuse",
) -> RunOutcome:
    """Run a job from input to release."""
    return to_the_end(
        job, cluster, on_progress, repeats, lambda run: finish(run, verify(run)), resume=resume, publishes=True
    )


def to_the_end(
    job: Job,
    cluster: bool,
    on_progress: OnProgress,
    repeats: Repeats,
    ended: Callable[[Run], _Ended],
    *,
    resume: bool = False,
    publishes: bool = False,
    left_out: Callable[[Run, Executor], None] | None = None,
) -> _Ended:
    """Run a job up to its written files, but for a stage, and return `ended(run)`.

    The staging is deleted, but of a run that publishes: it is kept where that fails, to be resumed.
    """
    try:
        with (
            interrupts.stoppable() if cluster else contextlib.nullcontext(),  # Dask swallows Ctrl-C
            open_run(job, resume, on_progress, publishes=publishes or repeats == "trial", repeats=repeats) as run,
        ):
            try:
                with open_executor(job, run.staging, cluster) as executor:
                    for stage in MAPPED_STAGES:
                        if stage is not left_out:
                            stage(run, executor)
                return ended(run)
            finally:
                if not publishes:
                    remove(run.staging)
    except Exception as error:
        failure = engine.account(error, "the run")
    failure.raise_it()


def scan(run: Run, executor: Executor) -> None:
    """Count the input, then fit encoders, strata and trees of pre-clusters; derive the run's key."""
    work, settled = run.context.work, run.staging.results("fit")
    run.map_stage(executor, "scan", len(work.source.units))
    if not settled.has(0):
        with sealed.recorded() as files:
            fit(work)
        settled.write(0, {"rows": work.source.rows}, files)
    check_overlaps(run)


def route(run: Run, executor: Executor) -> None:
    """Send every row to its partition, and determine the cut of the run."""
    work, fitted = run.context.work, run.context.fitted
    units = len(work.source.units)
    routed_array(work, fitted)
    run.map_stage(executor, "route", units)
    if not run.staging.has("plan.record"):
        counts = [chunk for result in run.staging.results("route").read_all(units) for chunk in result["leaf_rows"]]
        leaf_stratum = [at for at, tree in enumerate(fitted.trees) for _ in range(tree.leaves)]
        cut = cut_rows(run.job, counts, leaf_stratum, leaf_units(work, fitted))
        if cut.rows + fitted.strata.dropped != fitted.scan.rows:
            raise InputError("the input changed while it was read; run again")
        if fitted.rounding is not None:
            cut = withhold(cut, fitted.rounding, work.rng("withheld", 0))
        run.staging.write_record("plan.record", cut)


def encode(run: Run, executor: Executor) -> None:
    """Turn the cells of every partition into features."""
    run.context.call(make_features)
    run.map_stage(executor, "encode", len(run.context.cut.partitions))


def transform(run: Run, executor: Executor) -> None:
    """Run the steps of grouping and synthesis, or of the mask, over the features of all partitions."""
    for one in (run, *(run.copies if run.job.release.copies > 1 else ())):  # first what copies share
        one.context.call(run_steps, partial(one.map_stage, executor))


def decode(run: Run, executor: Executor) -> None:
    """Turn the channels of the last pass into released rows, and sample pairs of original and released rows."""
    for one in run.copies:
        partitions, fitted = len(one.context.cut.partitions), one.context.fitted
        one.context.call(make_released)
        if fitted.scores is not None and not one.staging.has("file_rows.json"):
            one.map_stage(executor, "scores", partitions, "rank")
            one.context.call(merge_scores)
        if fitted.weight is not None and not one.staging.has("file_rows.json"):
            one.map_stage(executor, "weights", partitions)
            one.context.call(calibrate)
        one.map_stage(executor, "decode", partitions)
        decoded = one.staging.results("decode").read_all(partitions)
        one.staging.write_json("file_rows.json", [result["file_rows"] for result in decoded])
        one.context.call(drop_waiting)


def assess(run: Run, executor: Executor) -> None:
    """Measure utility and risk of the release, and fit the recipients' models to both tables."""
    # Sampled records are searched in the released rows of every partition.
    if samples(run.job):
        if run.job.measure.risk:
            run.context.call(gather_queries)
            run.context.call(gather_borders)
            for one in run.copies:
                one.map_stage(executor, "search", len(one.context.cut.partitions), "search for records")
        run.map_stage(executor, "measure", len(pieces(run.job)))
    save_assessment(run.context.work)


def write(run: Run, executor: Executor) -> None:
    """Write the output files in the staging, measure them, and compare their values with the original ones."""
    for one in run.copies:
        one.map_stage(executor, "write", one.context.cut.files)
        if columns := len(compared_names(run.context.work)):
            one.map_stage(executor, "values", columns, "compare values")
    if run.context.work.folded is not None:
        run.map_stage(executor, "unfold", run.context.cut.files, "rows of units")


MAPPED_STAGES: tuple[Callable[[Run, Executor], None], ...] = (scan, route, encode, transform, decode, assess, write)


def verify(run: Run) -> Verdict:
    """Compare all measurements with the gates."""
    run.on_progress(Progress("verify", 0, 1, 0))
    judged = _judged(run)
    assessment = load_assessment(run.context.work)
    limits = evaluation.limits_of(run.job, assessment)
    measured = evaluation.checks(assessment, limits, run.job.gates.at_default)
    moved = unpreserved_moments(run.context.fitted)
    notes = (*judged.notes, *_meanings(run), *moved, *evaluation.notes(assessment, limits), *allowance_notes(run))
    verdict = Verdict((*judged.checks, *measured), notes)
    run.staging.write_json("verdict.json", verdict.to_dict())
    run.mark("verify", run.released)
    log_verdict(verdict, run.released)
    return verdict


def _meanings(run: Run) -> list[str]:
    """What k, records and survey weights mean in this run."""
    work, fitted, found = run.context.work, run.context.fitted, []
    if fitted.unit is not None or work.folded is not None:
        found.append(units_meaning(run.job.k))
    elif run.job.rows_per_unit == "many":
        found.append(many_rows(run.job.k))
    found += [each.meaning for each in (work.folded, work.controlled) if each is not None]
    if work.controlled is not None:
        found += [f"disclosure, {figure}" for figure in work.controlled.figures]
    return found + [each.meaning for each in (fitted.weight, fitted.replicates) if each is not None]


def _judged(run: Run) -> Verdict:
    """The checks of every run: of several copies of the release the worst."""
    job = run.job
    return worst_verdict([judge(one.context.call(evidence), job.k, job.gates.of_every_run) for one in run.copies])


# --- Runs that publish nothing


@dataclass(frozen=True)
class InMemoryRelease:
    """The result of a run that publishes nothing."""

    verdict: Verdict  # All checks
    table: pa.Table | None  # The rows of a release; None where a gate failed
    warnings: tuple[str, ...]  # For the steward
    # report, for_recipients: the steward's report, and the one that may go with the table, where there is one
    report: Report
    for_recipients: Report | None
    remedies: tuple[str, ...] = ()  # Where a gate failed


def assess_only(job: Job) -> tuple[Verdict, Assessment]:
    """Run a job in this process to its verdict and publish nothing; the staging is deleted."""
    return to_the_end(
        job, False, lambda _: None, "ignore", lambda run: (verify(run), load_assessment(run.context.work))
    )


def without_measures(job: Job, on_progress: OnProgress) -> tuple[Verdict, list[str]]:
    """What the checks of every run say of the files that a run would write, and its warnings; nothing stays."""

    def judged(run: Run) -> tuple[Verdict, list[str]]:
        return _judged(run), list(unmeasured_warnings(run).all())

    return to_the_end(job, False, on_progress, "ignore", judged, left_out=assess)


def try_out(job: Job, cluster: bool = True, on_progress: OnProgress = lambda _: None) -> RunOutcome:
    """Run a job to its verdict and internal report; nothing is published or logged, and the staging is deleted."""
    return to_the_end(job, cluster, on_progress, "trial", lambda run: finish_trial(run, verify(run)))


def in_memory(job: Job, on_progress: OnProgress = lambda _: None) -> InMemoryRelease:
    """Run a job in this process and return the released table, read from the bytes that were checked.

    Nothing is published. The release logs are compared but not changed, and the staging is deleted.
    """
    return to_the_end(job, False, on_progress, "unlogged", _ended)


def _ended(run: Run) -> InMemoryRelease:
    verdict, warnings, records = verify(run), warnings_of(run).all(), run.context
    facts, _ = records.call(gather, verdict, warnings, has_overlaps(run))
    table, for_recipients = (_written(run), external(facts)) if verdict.passed else (None, None)
    helps = () if verdict.passed else remedies(verdict.checks, run.job.in_force)
    return InMemoryRelease(verdict, table, warnings, internal(facts, None), for_recipients, helps)


def _written(run: Run) -> pa.Table:
    """All files of the staging, in their order."""
    return pa.concat_tables([pq.read_table(path) for path in run.context.call(published_files)])
