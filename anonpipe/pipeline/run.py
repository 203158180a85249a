"""The whole run in order: open, scan, route, group, synthesize (or mask), write, verify, publish.

Each step is a function of the `Run`; the steps between two mapped stages are
the reductions, done here in the order of the partitions. A step that finds
its work done (receipts, written files) goes on from there, so that a run can
be resumed, and Prefect can retry a step.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe import engine, interrupts
from anonpipe.encoding.identifiers import many_rows
from anonpipe.engine import Mapper, Task
from anonpipe.errors import AnonpipeError, DamagedError, InputError, JobError, OutputError
from anonpipe.files import write_atomic
from anonpipe.job.model import Job
from anonpipe.methods.record import Noise
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.moments import GroupedMoments, NoiseScatter, together
from anonpipe.pipeline import evaluation as measuring
from anonpipe.pipeline.collect import (
    by_stratum,
    evidence,
    grouped_by_stratum,
    middle_stages,
    release_warnings,
    scopes_of_noise,
)
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.evaluation import Assessment
from anonpipe.pipeline.facts import gather
from anonpipe.pipeline.fit import fit, trace_of
from anonpipe.pipeline.manifest import manifest
from anonpipe.pipeline.masking import mask_table
from anonpipe.pipeline.original_values import compared_names
from anonpipe.pipeline.partitioning import build_plan
from anonpipe.pipeline.staged import FILES, VALUES, routed_shelf, synthetic_shelf
from anonpipe.pipeline.stages import label_shelf, work
from anonpipe.progress import OnProgress, Progress, log_verdict, logged
from anonpipe.report import Report, documents, internal, releasable
from anonpipe.rng import keyed, require_secret, steward_secret
from anonpipe.source import Source, check_rows, check_types, open_source, source_to_bytes
from anonpipe.storage import release, sealed, versions
from anonpipe.storage import release_log as ledger
from anonpipe.storage.release_log import Found
from anonpipe.storage.staging import (
    Staging,
    delete,
    is_gone,
    lock,
    make_private,
    new_root,
    purge,
    remove,
    roots_of,
    staging_root,
)
from anonpipe.types import FloatArray
from anonpipe.verify.gates import judge
from anonpipe.verify.verdict import Verdict

Repeats = Literal["refuse", "warn", "ignore"]
"""What becomes of a run that overlaps with an earlier release; only one that may be refused is entered in the logs."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    verdict
        All checks.
    version
        Path of the published version, or None where a gate failed.
    rows
        Released rows.
    warnings
        What the steward should look at.
    report
        Path of the steward's report; None where it could not be written.
    """

    verdict: Verdict
    version: str | None
    rows: int
    warnings: tuple[str, ...]
    report: str | None = None


@dataclass(frozen=True)
class Run:
    """One run of a job in its staging folder."""

    job: Job
    staging: Staging
    token: str
    on_progress: OnProgress = lambda _: None
    warnings: tuple[str, ...] = ()
    repeats: Repeats = "refuse"

    @cached_property
    def context(self) -> Context:
        """What the workers see of this run."""
        return Context(self.staging, self.token)

    def map_stage(self, mapper: Mapper, stage: str, count: int, title: str | None = None) -> None:
        """Run the unfinished pieces of a stage; `title` is what progress shows instead of its name."""
        shown = title or stage
        done = self.staging.receipts(stage).done(count)
        state = {"done": len(done), "rows": 0}
        self.on_progress(Progress(shown, state["done"], count, 0))

        def on_done(receipt: dict[str, Any]) -> None:
            state["done"] += 1
            state["rows"] += int(receipt["rows"])
            self.on_progress(Progress(shown, state["done"], count, state["rows"]))

        interrupts.safe_point()
        tasks = [Task(str(self.staging.root), self.token, stage, at) for at in range(count) if at not in done]
        mapper(work, tasks, on_done)

    def mark(self, stage: str, rows: int = 0) -> None:
        """Show that a step of the driver is done."""
        self.on_progress(Progress(stage, 1, 1, rows))


def run_id(job: Job) -> str:
    """The name of a job's stagings: a keyed digest, the same for the same job, input path and output."""
    return keyed(steward_secret(), "run", job.run_digest()).hex()[:16]


@contextlib.contextmanager
def open_run(
    job: Job,
    resume: bool = False,
    on_progress: OnProgress = lambda _: None,
    publishes: bool = True,
    repeats: Repeats = "refuse",
) -> Iterator[Run]:
    """Check job and input, lock the job's stagings, and find or make one.

    Parameters
    ----------
    resume
        Go on with a crashed run of the same job, if input and version are
        still what they were and its staging is whole; otherwise start from
        the input, with a warning. Without it, what a crashed run left is
        deleted first.
    publishes
        Whether there may be a release: then its place is tried first.
    """
    engine.no_core_dumps()
    if publishes:
        release.check_writable(release.place(job.output, job.report.internal))
    if job.run.scheduler is not None:
        require_secret("run.scheduler, a cluster of yours,")
    source = open_source(job.input, job.columns)
    check_types(source.schema, job.columns)
    check_rows(source.rows, source.bytes, job.run.most_rows_per_byte)
    folder, name, start = make_private(staging_root(job.run.staging)), run_id(job), secrets.token_hex(8)
    with contextlib.suppress(OSError, AnonpipeError):  # raw data of crashed runs that nobody went on with
        purge(folder, days=job.run.keep_days, but=name)
    with lock(Staging(folder / name)):
        identity = {"input": source.identity(), "version": version("anonpipe")}
        found, why = _left_by_crash(roots_of(folder, name), identity) if resume else (None, None)
        for root in roots_of(folder, name):
            if found is None or root != found:
                delete(root)
        staging = Staging(found or new_root(folder, name), start)
        with _removed_if_hopeless(staging):
            if found is None:
                _begin(staging, job, source, identity)
            write_atomic(staging.file(sealed.START), start.encode())
            begun = () if why is None else (why,)
            yield Run(job, staging, start, logged(on_progress), begun, repeats)


def _begin(staging: Staging, job: Job, source: Source, identity: dict[str, Any]) -> None:
    """Write what a new run begins with; the last file tells the digests of the others."""
    make_private(staging.root)
    write_atomic(staging.file(sealed.KEY), sealed.make_key(staging.root, steward_secret()))
    write_atomic(staging.file(sealed.START), str(staging.start).encode())
    with sealed.recorded() as files:
        staging.write("source.arrow", source_to_bytes(source))
        staging.write_json("job.json", job.model_dump(mode="json"))
        staging.write("start.key", keyed(steward_secret(), "start", job.digest()))
        staging.write("records.key", keyed(steward_secret(), "records"))
    staging.write_json("run.json", {"identity": identity, "files": files})
    sealed.sync_folders(staging.root, ["run.json"])


def _left_by_crash(roots: list[Path], identity: dict[str, Any]) -> tuple[Path | None, str | None]:
    """The folder of a crashed run that can go on; else None and, where there was one, why it cannot."""
    begun = [root for root in roots if not is_gone(root) and (root / "run.json").exists()]
    if not begun:
        return None, None
    root, staging = begun[-1], Staging(begun[-1])
    if len(begun) > 1 or not _is_whole(staging):
        return None, _DAMAGED
    if staging.read_json("run.json")["identity"] != identity:
        return None, _STARTED_ANEW
    return root, None


def _is_whole(staging: Staging) -> bool:
    """Whether all files of a staging are what was written, and none is missing that a receipt tells of.

    Output files that are not what was written are deleted with their
    receipts, and are written again. A mask deletes what later steps do not need.
    """
    key, right = staging.file(sealed.KEY), sealed.make_key(staging.root, steward_secret())
    if not key.exists() or key.read_bytes() != right:
        return False
    found = sealed.digests(staging.root, {sealed.KEY, sealed.START, "dask", FILES, VALUES})
    if found is None:
        return False
    receipts = [name for name in found if name.startswith("receipts/")]
    for name in ["run.json", *receipts]:
        told: dict[str, str] = staging.read_json(name)["files"]
        if any(
            found.get(file) != digest and not (file not in found and _may_go(file)) for file, digest in told.items()
        ):
            return False
    for name in receipts:
        if name.startswith("receipts/write/") and not _is_written(staging, staging.read_json(name)):
            staging.file(name).unlink()
    return True


def _may_go(file: str) -> bool:
    return file.startswith("masked/")


def _is_written(staging: Staging, receipt: dict[str, Any]) -> bool:
    path = staging.file(f"{FILES}/{receipt['name']}")
    return path.is_file() and release.sha256(path) == receipt["sha256"]


_STARTED_ANEW = "the input, or anonpipe itself, has changed since the crashed run: the run was started anew"
_DAMAGED = "the staging of the crashed run is damaged: the run was started from the input"


@contextlib.contextmanager
def _removed_if_hopeless(staging: Staging) -> Iterator[None]:
    """Keep the staging for `--resume`, unless job, input or the staging are at fault: then it only holds raw data."""
    try:
        yield
    except (InputError, JobError, DamagedError):
        remove(staging)
        raise


@contextlib.contextmanager
def open_mapper(job: Job, staging: Staging, cluster: bool = True) -> Iterator[Mapper]:
    """The mapper that the job asks for: a given scheduler, an own local cluster, or this process."""
    if not cluster:
        opened = engine.in_process()
    elif job.run.scheduler:
        opened = engine.remote_cluster(job.run.scheduler, job.run.retries)
    else:
        run = job.run
        opened = engine.local_cluster(run.workers, run.memory_per_worker, staging.root / "dask", run.retries)
    with opened as mapper:
        yield mapper


def execute(
    job: Job,
    resume: bool = False,
    cluster: bool = True,
    on_progress: OnProgress = lambda _: None,
) -> Outcome:
    """Run a job from input to release.

    Returns
    -------
    Outcome
        Its `version` is None where a gate failed; then nothing was released.

    Raises
    ------
    AnonpipeError
        Also for errors of libraries, whose own texts may quote data: only
        their type and place are told.
    """
    try:
        with interrupts.stoppable() if cluster else contextlib.nullcontext():  # Dask is what swallows Ctrl-C
            return _execute(job, resume, cluster, on_progress)
    except Exception as error:
        failure = engine.account(error, "the run")
    failure.raise_it()


def assess_only(
    job: Job, *, cluster: bool = False, on_progress: OnProgress = lambda _: None
) -> tuple[Verdict, Assessment]:
    """Run a job to its verdict and publish nothing; the staging is deleted.

    Raises
    ------
    AnonpipeError
        As `execute`.
    """
    return _unpublished(
        job, cluster, on_progress, "ignore", lambda run: (verify(run), measuring.load_assessment(run.context))
    )


@dataclass(frozen=True)
class InMemory:
    """What a run made that publishes nothing.

    Attributes
    ----------
    verdict
        All checks.
    table
        What a release would hold; None where a gate failed.
    warnings
        What the steward should look at.
    report, for_recipients
        The steward's report, and the one that may go with the table, where
        there is one.
    """

    verdict: Verdict
    table: pa.Table | None
    warnings: tuple[str, ...]
    report: Report
    for_recipients: Report | None


def in_memory(job: Job, on_progress: OnProgress = lambda _: None) -> InMemory:
    """Run a job in this process and hand the released table back, read from the very bytes that were checked.

    Nothing is published, nothing is entered in the logs of releases, which
    are asked all the same, and the staging is deleted.

    Raises
    ------
    AnonpipeError
        As `execute`.
    """

    def ended(run: Run) -> InMemory:
        verdict, warnings = verify(run), tuple(_warnings(run))
        facts = gather(run.context, verdict, manifest(run.context, verdict), warnings, _overlaps(run))
        table, for_recipients = (_written(run), releasable(facts)) if verdict.passed else (None, None)
        return InMemory(verdict, table, warnings, internal(facts, None), for_recipients)

    return _unpublished(job, False, on_progress, "warn", ended)


def _written(run: Run) -> pa.Table:
    """All files of the staging, in their order."""
    paths = [run.staging.file(FILES) / f"part-{at:05d}.parquet" for at in range(run.context.plan.files)]
    return pa.concat_tables([pq.read_table(path) for path in paths])


_Ended = TypeVar("_Ended")


def _unpublished(
    job: Job, cluster: bool, on_progress: OnProgress, repeats: Repeats, ended: Callable[[Run], _Ended]
) -> _Ended:
    """What `ended` makes of a run whose files are written; then the staging is deleted."""
    try:
        with open_run(job, False, on_progress, publishes=False, repeats=repeats) as run:
            try:
                with open_mapper(job, run.staging, cluster) as mapper:
                    for stage in MAPPED_STAGES:
                        stage(run, mapper)
                return ended(run)
            finally:
                remove(run.staging)
    except Exception as error:
        failure = engine.account(error, "the run")
    failure.raise_it()


def _execute(job: Job, resume: bool, cluster: bool, on_progress: OnProgress) -> Outcome:
    with open_run(job, resume, on_progress) as run:
        with open_mapper(job, run.staging, cluster) as mapper:
            for stage in MAPPED_STAGES:
                stage(run, mapper)
        return finish(run, verify(run))


def scan(run: Run, mapper: Mapper) -> None:
    """Count the input, then fit what later stages need: codec, strata, trees of pre-clusters, the run's key."""
    units = len(run.context.source.units)
    run.map_stage(mapper, "scan", units)
    settled = run.staging.receipts("fit")
    if not settled.has(0):
        with sealed.recorded() as files:
            fit(run.context)
        settled.write(0, {"rows": run.context.source.rows}, files)
    check_repeats(run)


def check_repeats(run: Run) -> None:
    """Hold the scanned input against earlier releases, and leave what is found in the staging.

    Raises
    ------
    InputError
        It overlaps with one without being equal, and the job does not allow that.
    """
    if run.repeats == "ignore":
        return
    where = release.place(run.job.output, run.job.report.internal) if run.repeats == "refuse" else None
    found = ledger.look(trace_of(run.context), steward_secret(), where)
    if found.problems and run.repeats == "refuse" and run.job.repeat.allow is None:
        raise ledger.refusal(found)
    run.staging.write_json("repeats.json", asdict(found))


def _repeats(run: Run) -> Found:
    """What `check_repeats` found."""
    nothing: dict[str, Any] = {"problems": (), "warnings": ()}
    content = run.staging.read_json("repeats.json") if run.staging.has("repeats.json") else nothing
    return Found(tuple(content["problems"]), tuple(content["warnings"]))


def route(run: Run, mapper: Mapper) -> None:
    """Send every row to its partition; afterwards the cut of the run is known."""
    ctx = run.context
    units = len(ctx.source.units)
    routed_shelf(ctx)
    run.map_stage(mapper, "route", units)
    if not run.staging.has("plan.json"):
        counts = [slab for receipt in run.staging.receipts("route").read_all(units) for slab in receipt["leaf_rows"]]
        leaf_stratum = [at for at, tree in enumerate(ctx.trees) for _ in range(tree.leaves)]
        plan = build_plan(run.job, counts, leaf_stratum)
        if plan.rows + ctx.strata.dropped != ctx.scan.rows:
            raise InputError("the input changed while it was read; run again")
        run.staging.write_json("plan.json", plan.to_dict())


def group(run: Run, mapper: Mapper) -> None:
    """Form groups inside each partition, then reduce their statistics to the global noise covariance.

    Nothing where a mask works on the whole table.
    """
    ctx = run.context
    if run.job.mask is not None:
        return
    label_shelf(ctx)
    run.map_stage(mapper, "group", len(ctx.plan.partitions))
    noise = SYNTHESIZERS[run.job.by_groups.synthesize.method].noise
    if noise is not None and not all(map(run.staging.has, ("noise.npy", "noise_scopes.json"))):
        grouped = grouped_by_stratum(ctx)
        scopes = scopes_of_noise(run.job, grouped)
        run.staging.write_array("noise.npy", np.stack(_noise_factors(ctx, noise, together(grouped, scopes), scopes)))
        run.staging.write_json("noise_scopes.json", scopes)


def _noise_factors(ctx: Context, noise: Noise, grouped: list[GroupedMoments], scopes: list[int]) -> list[FloatArray]:
    """One factor of the noise a scope: the table, a stratum, or small strata together."""
    options, drawn = ctx.job.by_groups.synthesize, [None] * len(grouped)
    if noise.draws_first(options):
        drawn = together(by_stratum(ctx, "group", lambda receipt: NoiseScatter.from_dict(receipt["noise"])), scopes)
    return [noise.factor(options, *each) for each in zip(grouped, drawn, strict=True)]


def synthesize(run: Run, mapper: Mapper) -> None:
    """Replace the records of every partition: group by group, or by a mask of the whole table."""
    partitions = len(run.context.plan.partitions)
    synthetic_shelf(run.context)
    if run.job.mask is None:
        run.map_stage(mapper, "synthesize", partitions)
    else:
        mask_table(run.context, lambda stage, count, title: run.map_stage(mapper, stage, count, title))
    made = run.staging.receipts(middle_stages(run.job)[1]).read_all(partitions)
    counts = [receipt["file_rows"] for receipt in made]
    run.staging.write_json("file_rows.json", counts)


def assess(run: Run, mapper: Mapper) -> None:
    """Measure utility and risk of the release, and fit the recipients' models to both tables.

    Sampled records are searched in every partition of the synthetic rows,
    before these are shuffled together into files.
    """
    ctx = run.context
    partitions = len(ctx.plan.partitions)
    if measuring.samples(run.job):
        run.map_stage(mapper, "sample", partitions, "sample for measures")
        if run.job.measure.risk:
            measuring.gather_queries(ctx)
            run.map_stage(mapper, "search", partitions, "search for records")
        run.map_stage(mapper, "measure", len(measuring.pieces(run.job)))
    measuring.save_assessment(ctx)


def write(run: Run, mapper: Mapper) -> None:
    """Write the output files in the staging, measure them, and hold their values against the original ones."""
    run.map_stage(mapper, "write", run.context.plan.files)
    if columns := len(compared_names(run.job)):
        run.map_stage(mapper, "values", columns, "compare values")


MAPPED_STAGES: tuple[Callable[[Run, Mapper], None], ...] = (scan, route, group, synthesize, assess, write)


def verify(run: Run) -> Verdict:
    """Hold all that was measured against the gates."""
    run.on_progress(Progress("verify", 0, 1, 0))
    gates = run.job.gates
    judged = judge(evidence(run.context), run.job.k, gates.usual)
    assessment = measuring.load_assessment(run.context)
    measured = measuring.checks(assessment, gates.of_measures)
    many = (many_rows(run.job.k),) if run.job.rows_per_unit == "many" else ()
    notes = (*judged.notes, *many, *measuring.notes(assessment, gates.of_measures))
    if _overlaps(run):
        notes += (f"{ledger.ALLOWED}{run.job.repeat.allow}",)
    verdict = Verdict((*judged.checks, *measured), notes)
    run.staging.write_json("verdict.json", verdict.to_dict())
    run.mark("verify", run.context.plan.rows)
    log_verdict(verdict, run.context.plan.rows)
    return verdict


def _overlaps(run: Run) -> bool:
    """Whether records are in earlier releases, too, which the steward has allowed."""
    return bool(_repeats(run).problems) and run.job.repeat.allow is not None


def finish(run: Run, verdict: Verdict) -> Outcome:
    """Publish what passed, or keep the verdict of what did not, with a report; the staging is deleted either way.

    Once readers are led to the release, nothing is an error any more: what
    fails then is a warning, and Ctrl-C is only noted.
    """
    where = release.place(run.job.output, run.job.report.internal)
    with versions.alone(where), contextlib.ExitStack() as quiet:
        return _finish(run, verdict, where, quiet)


def _finish(run: Run, verdict: Verdict, where: versions.Place, quiet: contextlib.ExitStack) -> Outcome:
    rows = run.context.plan.rows
    warnings = _warnings(run)
    if not verdict.passed:
        keep_verdict(verdict, where)  # before the report: no fault of that may keep it from the steward
    listed = manifest(run.context, verdict)
    facts = gather(run.context, verdict, listed, tuple(warnings), _overlaps(run))
    name = versions.new_version(where) if verdict.passed else release.FAILED_RUN
    inside = documents(internal(facts, where.path("versions", name) if verdict.passed else None))
    if not verdict.passed:
        report = _keep_report(where, name, inside)
        remove(run.staging)
        return Outcome(verdict, None, rows, (*warnings, *_missing(report)), report)

    reports: list[str | None] = []
    unlogged: list[str] = []

    def before_switch() -> None:
        interrupts.safe_point()
        quiet.enter_context(interrupts.held())
        unlogged.extend(_note_release(run, name))
        reports.append(_keep_report(where, name, inside))

    run.on_progress(Progress("publish", 0, 1, 0))
    files = [run.staging.file(FILES) / f"part-{at:05d}.parquet" for at in range(run.context.plan.files)]
    told = {f"_{file}": content for file, content in documents(releasable(facts)).items()}
    try:
        published = release.publish(files, listed, where, told, name, before_switch)
    except BaseException:
        _take_back(run, where, name)
        raise
    warnings += [*unlogged, *published.warnings, *_missing(*reports), *_tidied_up(run, rows), *release.too_late()]
    return Outcome(verdict, published.path, rows, tuple(dict.fromkeys(warnings)), *reports)


def _warnings(run: Run) -> list[str]:
    """What the steward should look at."""
    settled = run.staging.read_json("warnings.json")
    found = [*run.warnings, *run.job.warnings(), *settled, *release_warnings(run.context)]
    return [*found, *_repeats(run).warnings, *_repeats(run).problems]


def _note_release(run: Run, name: str) -> list[str]:
    """Enter the release in the logs before it is out: an entry too many is taken back, one too few hides a repetition.

    Another release may have come out since the scan, so that the logs are
    looked into once more. Returns warnings.
    """
    if run.repeats != "refuse":
        return []
    check_repeats(run)
    reason = None
    try:
        where = release.place(run.job.output, run.job.report.internal)
        return ledger.note_release(trace_of(run.context), steward_secret(), where, name)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "unknown reason"
    raise OutputError(
        f"the log of releases beside the output cannot be written: {reason}; nothing was "
        "published; free space or mend its rights, then --resume"
    )


def _take_back(run: Run, where: versions.Place, name: str) -> None:
    """Take the entry back, unless the version is there all the same."""
    there = True
    with contextlib.suppress(OSError):
        there = where.filesystem.exists(where.path("versions", name))
    if run.repeats == "refuse" and not there:
        ledger.withdraw_note(where, name)


def _tidied_up(run: Run, rows: int) -> list[str]:
    """The last steps of a run whose release is out; what they could not do."""
    found = []
    with contextlib.suppress(Exception):  # a display that fails
        run.mark("publish", rows)
    try:
        remove(run.staging)
    except (OSError, OutputError):
        found.append(_NOT_DELETED.format(staging=run.staging.root))
    return found


def _missing(report: str | None) -> list[str]:
    return [] if report else [_NO_REPORT]


_NOT_DELETED = "the staging {staging} could not be deleted whole; it holds raw data: delete it by hand"
_NO_REPORT = "the steward's report could not be written beside the releases"


def _keep_report(where: versions.Place, name: str, files: dict[str, bytes]) -> str | None:
    """Keep the steward's report; where it is, or None where it cannot be written: the release is out by then."""
    try:
        return release.keep_private(where, name, files)[-1]
    except OSError:
        return None


def keep_verdict(verdict: Verdict, where: versions.Place) -> None:
    """Leave the verdict of a failed run for the steward: beside the releases, or in the place of its own."""
    content = json.dumps(verdict.in_words(), indent=2).encode()
    folder = where.failures
    folder.filesystem.makedirs(folder.root, exist_ok=True)
    path = folder.path(versions.FAILED)
    if folder.local:
        write_atomic(Path(path), content)  # counts under k are the steward's business
    else:
        folder.filesystem.pipe_file(path, content)
