"""The start of a run: check job and input, lock the stagings of the job, resume or make one, and start workers."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from anonpipe import engine, interrupts
from anonpipe.engine import Executor, Task
from anonpipe.environment import check_address_space, package_versions
from anonpipe.errors import AnonpipeError, DamagedError, InputError, JobError
from anonpipe.files import absolute, disk_errors, make_private, write_atomic
from anonpipe.job.model import Job
from anonpipe.job.rules import check_values
from anonpipe.pipeline import disclosure, units
from anonpipe.pipeline.arrays import FILES, FOLDER, UNFOLDED, VALUES
from anonpipe.pipeline.context import Context, Work, context
from anonpipe.pipeline.disclosure import Controlled
from anonpipe.pipeline.tasks.worker import work
from anonpipe.pipeline.units import Folded
from anonpipe.progress import OnProgress, Progress, logged
from anonpipe.rng import keyed, require_secret, steward_secret
from anonpipe.source import LakeTable, Query, Source, check_rows, check_types, find_copied, open_source
from anonpipe.storage import release, sealed
from anonpipe.storage.records import from_bytes
from anonpipe.storage.staging import Staging, delete, is_gone, lock, new_root, purge, remove, roots_of, staging_root

# How a run treats an overlap with an earlier release; only with `refuse` it is entered in the logs, and with `unlogged`
# refused, too. A trial warns of those of its output
Repeats = Literal["refuse", "unlogged", "ignore", "trial"]


@dataclass(frozen=True)
class Run:
    """One run of a job in its staging folder."""

    job: Job
    staging: Staging
    token: str
    on_progress: OnProgress = lambda _: None
    warnings: tuple[str, ...] = ()
    repeats: Repeats = "refuse"
    times: dict[str, float] = field(default_factory=dict)  # Seconds of each step that is done

    @cached_property
    def context(self) -> Context:
        """The records of this run that tasks take, the same ones where tasks run in this process."""
        return context(str(self.staging.root), self.token, self.staging.copy)

    @cached_property
    def copies(self) -> tuple[Run, ...]:
        """The run of each copy of the release; itself where there is one."""
        return tuple(replace(self, staging=work.staging) for work in Work(self.staging).copies)

    @property
    def released(self) -> int:
        """Records that are written, of all copies."""
        return self.context.cut.released * self.job.release.copies

    def map_stage(self, executor: Executor, stage: str, count: int, title: str | None = None) -> None:
        """Run the unfinished pieces of a stage; progress shows `title`, or the name of the stage."""
        shown = (title or stage) + (f", copy {self.staging.copy}" if self.staging.copy else "")
        done = self.staging.results(stage).done(count)
        state = {"done": len(done), "rows": 0}
        self.on_progress(Progress(shown, state["done"], count, 0))

        def on_done(result: dict[str, Any]) -> None:
            state["done"] += 1
            state["rows"] += int(result["rows"])
            self.on_progress(Progress(shown, state["done"], count, state["rows"]))

        interrupts.safe_point()
        where = str(self.staging.root), self.token, stage
        tasks = [Task(*where, at, self.staging.copy) for at in range(count) if at not in done]
        executor(work, tasks, on_done)

    def mark(self, stage: str, rows: int = 0) -> None:
        """Show that a step of the driver is done."""
        self.on_progress(Progress(stage, 1, 1, rows))


def run_id(job: Job, what: str = "run") -> str:
    """The name of a job's stagings: a keyed digest of job, input path and output; a trial has its own."""
    # of the whole path: the same job in another folder is another run
    return keyed(steward_secret(), what, job.run_digest(), absolute(job.output)).hex()[:16]


@contextlib.contextmanager
def open_run(
    job: Job,
    resume: bool = False,
    on_progress: OnProgress = lambda _: None,
    publishes: bool = True,
    repeats: Repeats = "refuse",
) -> Iterator[Run]:
    """Check job and input, lock the stagings of the job, and resume or make one."""
    engine.no_core_dumps()
    check_address_space()
    if repeats in ("refuse", "trial") and job.unmeasured is not None:
        raise JobError(job.unmeasured)
    if publishes:
        release.check_writable(release.place(job.output, job.report.internal))
        refuse_other_table(job)
    if job.run.scheduler is not None:
        require_secret("run.scheduler, a cluster of yours,")
    source = find_copied(job.source.path, job.source) or _opened(job)
    name = run_id(job, "trial" if repeats == "trial" else "run")
    folder, start = make_private(staging_root(job.run.staging)), secrets.token_hex(8)
    with contextlib.suppress(OSError, AnonpipeError):  # raw data of crashed runs that were not resumed
        purge(folder, days=job.run.keep_days, but=name)
    with lock(Staging(folder / name)):
        identity = {"input": source.identity(), "version": package_versions()["anonpipe"]}
        resumed, why = _crashed_run(roots_of(folder, name), identity) if resume else (None, None)
        for root in roots_of(folder, name):
            if resumed is None or root != resumed:
                delete(root)
        staging = Staging(resumed or new_root(folder, name), start)
        with _removed_unless_resumable(staging):
            if resumed is None:
                _begin(staging, job, source, identity)
            of_staging = Work(staging)
            if job.whole_release or job.disclosure or job.design:  # the records of the run are units, or recoded
                job = of_staging.job.model_copy(update={"run": job.run})
            job = job.of_rows(of_staging.source.rows)
            write_atomic(staging.file(sealed.START), start.encode())
            warnings = () if why is None else (why,)
            times: dict[str, float] = {}
            yield Run(job, staging, start, logged(on_progress, times), warnings, repeats, times)


def is_resumable(job: Job) -> bool:
    """Whether a crashed run of the job can be resumed, as far as its folder tells."""
    return bool(_resumable(roots_of(staging_root(job.run.staging), run_id(job))))


def _resumable(roots: list[Path]) -> list[Path]:
    """The folders of runs that can be resumed."""
    return [root for root in roots if not is_gone(root) and (root / "run.json").exists()]


def refuse_other_table(job: Job) -> None:
    """Refuse an output that holds a release of another table, which this run would replace."""
    try:
        columns = release.read_manifest(release.resolve(job.output))["columns"]
    except (AnonpipeError, KeyError):  # nothing is there, or no release
        return
    earlier = {info.get("column", name) for name, info in columns.items()}
    if 2 * len(earlier & set(job.released)) < min(len(earlier), len(job.released)):
        raise InputError(
            f"{job.output} holds a release of another table: this job has {len(earlier & set(job.released))} of its "
            f"{len(earlier)} columns; give another output, or delete that release"
        )


def check_input(job: Job, source: Source) -> Source:
    """Refuse an input that does not fit the job; returns it with the differences that rules need."""
    for name in set(job.differences).intersection(source.schema.names):
        raise InputError(f"the input has column {name!r}, and what a rule or spike masks has this name; rename it")
    check_types(source.schema, {name: column for name, column in job.columns.items() if name not in job.differences})
    check_rows(source.rows, source.bytes, job.run.max_rows_per_byte)
    check_values(job.parsed_rules, job.columns, source.schema)
    return source.with_orders(job.parsed_rules)


def _opened(job: Job) -> Source:
    """The files of a job's input, checked."""
    return check_input(job, open_source(job.source.path, job.columns, job.source))


def prepared(job: Job, source: Source, folder: Path) -> tuple[Job, Source, Folded | None, Controlled | None]:
    """Lay the rows of whole units side by side, or recode key variables; the job and the input of the run then."""
    folded, controlled = None, None
    with disk_errors("preparing the input"):
        if job.whole_release:
            job, source, folded = units.fold(job, source, folder / units.FOLDER)
        elif job.disclosure is not None or job.design is not None:
            job, source, controlled = disclosure.control(job, source, folder / disclosure.FOLDER)
        else:
            return job, source, None, None
    job = job.of_rows(source.rows)
    return job, check_input(job, source), folded, controlled


def _begin(staging: Staging, job: Job, source: Source | Query | LakeTable, identity: dict[str, Any]) -> None:
    """Write the first files of a new run; the last one lists the digests of the others."""
    make_private(staging.root)
    if is_copied := not isinstance(source, Source):  # once a run: it is of one moment, and its workers need no database
        source = check_input(job, source.read(staging.file(_ANSWER)))
    given = job.of_rows(source.rows)
    job, source, folded, controlled = prepared(given, source, staging.root)
    if (folded or controlled) and not is_copied and _opened(given).identity() != identity["input"]:
        raise InputError("the input changed while it was read; run again when nobody writes to it")
    write_atomic(staging.file(sealed.KEY), sealed.make_key(staging.root, steward_secret()))
    write_atomic(staging.file(sealed.START), str(staging.start).encode())
    with sealed.recorded() as files:
        staging.write_record("source.record", source)
        if folded is not None:
            staging.write_record(units.RECORD, folded)
        if controlled is not None:
            staging.write_record(disclosure.RECORD, controlled)
        staging.write_json("job.json", job.model_dump(mode="json"))
        staging.write("start.key", keyed(steward_secret(), "start", job.digest()))
        staging.write("records.key", keyed(steward_secret(), "records"))
    staging.write_json("run.json", {"identity": identity, "files": files})
    sealed.sync_folders(staging.root, ["run.json"])


def _crashed_run(roots: list[Path], identity: dict[str, Any]) -> tuple[Path | None, str | None]:
    """The folder of a crashed run to resume; else None and, where there was one, the reason."""
    found = _resumable(roots)
    if not found:
        return None, None
    root, staging = found[-1], Staging(found[-1])
    with contextlib.suppress(AnonpipeError, OSError):  # first: another anonpipe's task results need not be readable
        if staging.read_json("run.json")["identity"] != identity:
            return None, _STARTED_AGAIN
    if len(found) > 1 or not _is_intact(staging):
        return None, _DAMAGED
    return root, None


def _is_intact(staging: Staging) -> bool:
    """Whether all files of a staging are undamaged and none that a task result lists is missing."""
    # Damaged output files are deleted with their task results, and written again. Passes delete what later ones do
    # not need, so that files of channels may be missing.
    key, right = staging.file(sealed.KEY), sealed.make_key(staging.root, steward_secret())
    if not key.exists() or key.read_bytes() != right:
        return False
    on_disk = sealed.digests(
        staging.root, {sealed.KEY, sealed.START, "dask", _ANSWER, units.FOLDER, disclosure.FOLDER, FILES, VALUES}
    )
    if on_disk is None:
        return False
    results = [name for name in on_disk if "results" in name.split("/")[:3]]
    read = {name: from_bytes(staging.read(name)) for name in results}
    for record in (staging.read_json("run.json"), *read.values()):
        digests: dict[str, str] = record["files"]
        needed = (file for file in digests if file in on_disk or FOLDER not in file.split("/")[:3])
        if any(on_disk.get(file) != digests[file] for file in needed):
            return False
    for name, result in read.items():
        for stage, folder in (("write", FILES), ("unfold", UNFOLDED)):
            if f"results/{stage}/" in name:
                path = staging.file(f"{folder}/{result['name']}")
                if not path.is_file() or release.sha256(path) != result["sha256"]:
                    staging.file(name).unlink()
    return True


_ANSWER = "query"  # Folder of the rows of a query, whose pages have checksums of their own

_STARTED_AGAIN = "input or version of anonpipe changed since the crashed run: the run started again from the input"
_DAMAGED = "the staging of the crashed run is damaged: the run started again from the input"


@contextlib.contextmanager
def _removed_unless_resumable(staging: Staging) -> Iterator[None]:
    """Remove the staging after errors of job, input or staging, which no `--resume` mends; keep it after others."""
    try:
        yield
    except (InputError, JobError, DamagedError):
        remove(staging)
        raise


SMALL = 1_500_000
"""Cells of input up to which starting workers costs more than they save: 100,000 rows of 15 columns."""

_NOT_THREAD_SAFE = ("measure",)
"""Stages whose tasks record the warnings of libraries where there are analyses, which is not thread-safe."""


@contextlib.contextmanager
def open_executor(job: Job, staging: Staging, cluster: bool = True, threads: bool = True) -> Iterator[Executor]:
    """The executor of the job: its scheduler, an own local cluster, or this process."""
    # It is this process for a small input, unless the job names workers or their memory, or tasks cannot be threads.
    run = job.run
    if not cluster:
        opened = engine.in_process()
    elif run.scheduler:
        opened = engine.remote_cluster(run.scheduler, run.retries)
    elif not threads or needs_workers(job, Work(staging).source.rows):
        scratch = staging.root / "dask"
        opened = engine.local_cluster(
            run.workers, run.memory_per_worker, scratch, run.retries, preload=["anonpipe.pipeline.tasks.preload"]
        )
    else:
        alone = _NOT_THREAD_SAFE if job.analyses else ()
        opened = engine.in_process(engine.default_workers(), run.retries, alone)
        if job.measure.utility or job.measure.risk:  # modules that import each other fail where two threads load them
            import sklearn.ensemble  # noqa: F401
    with opened as executor:
        yield executor


def needs_workers(job: Job, rows: int) -> bool:
    """Whether a local run of so many input rows starts workers, because the job names some or because it is large."""
    return bool(job.run.workers or job.run.memory_per_worker) or rows * len(job.columns) > SMALL
