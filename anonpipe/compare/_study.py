"""All settings measured: on the workers, a trial a task, and kept in a private folder so that nothing runs twice."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.compare._names import check_names
from anonpipe.compare._results import Study, summarise
from anonpipe.compare._settings import DEFAULT_K, DEFAULT_METHODS, Setting, digest_of, grid
from anonpipe.compare._trial import Trial, measure_trial
from anonpipe.engine import Task, TaskResult, account
from anonpipe.errors import EngineError, JobError
from anonpipe.files import drafted, write_atomic
from anonpipe.job.model import Job
from anonpipe.pipeline.run import open_executor
from anonpipe.pipeline.start import check_input
from anonpipe.progress import OnProgress, Progress
from anonpipe.rng import keyed, private_home, steward_secret
from anonpipe.source import Source, opened, read_batches
from anonpipe.storage.staging import Staging, lock, make_private, read_json, remove, staging_root, write_json

Results = dict[str, TaskResult]


def compare(
    job: Job,
    methods: Sequence[str] = DEFAULT_METHODS,
    ks: Sequence[int] = DEFAULT_K,
    *,
    draws: int = 1,
    utility: str | None = None,
    risk: str | None = None,
    refresh: bool = False,
    cluster: bool = True,
    on_progress: OnProgress = lambda _: None,
) -> Study:
    """Try every method with every k on the job's input, and publish nothing.

    The input is read once, into a private copy of the released columns that
    is deleted at the end. Each trial is a whole run of the job in one worker,
    with a secret of its own that follows from the steward's: its draws are
    never those of a release. Figures of finished trials are kept in the
    steward's private folder, and measured again only where input, job,
    setting or version are others.
    """
    try:
        return _compare(job, grid(job, methods, ks), draws, (utility, risk), refresh, cluster, on_progress)
    except Exception as error:
        failure = account(error, "compare")
    failure.raise_it()


def _compare(
    job: Job,
    settings: tuple[Setting, ...],
    draws: int,
    axes: tuple[str | None, str | None],
    refresh: bool,
    cluster: bool,
    on_progress: OnProgress,
) -> Study:
    if draws < 1:
        raise JobError(f"--draws is {draws}; give at least 1")
    check_names(job, axes)
    staging = Staging(make_private(staging_root(job.run.staging)) / f"compare-{_name(job)}")
    with opened(job.input, job.columns, job.run.staging) as source, lock(staging):
        check_input(job, source)
        try:
            make_private(staging.root)
            kept = _Kept.of(job, source, refresh)
            trials, problems = _trials(job, settings, draws, staging)
            results = _measured(job, source, staging, kept, trials, cluster, on_progress)
        finally:
            remove(staging)
    return summarise(job, settings, [(trial.setting, results[trial.key]) for trial in trials], problems, axes)


def _name(job: Job) -> str:
    """A name for everything that belongs to the input; it says nothing of it."""
    return keyed(steward_secret(), "compare", job.input).hex()[:16]


@dataclass(frozen=True)
class _Kept:
    """Figures of finished trials, a private file each."""

    folder: Path

    @classmethod
    def of(cls, job: Job, source: Source, refresh: bool) -> _Kept:
        """Those of this input as it is now; what was kept of another is deleted."""
        folder = private_home() / "compare" / _name(job)
        identity = {"input": source.identity(), "version": version("anonpipe")}
        known = folder / "input.json"
        if refresh or not known.exists() or read_json(known) != identity:
            shutil.rmtree(folder, ignore_errors=True)
            make_private(folder)
            write_json(known, identity)
        return cls(folder)

    def read(self, key: str) -> TaskResult | None:
        """The result of a trial, if there is one."""
        path = self.folder / f"{key}.json"
        found: TaskResult | None = read_json(path) if path.exists() else None
        return found

    def write(self, result: TaskResult) -> None:
        """Keep a result, unless it may be another the next time."""
        if result["final"]:
            write_json(self.folder / f"{result['key']}.json", result)


def _trials(job: Job, settings: Sequence[Setting], draws: int, staging: Staging) -> tuple[list[Trial], dict[int, str]]:
    """The trials of all settings, and for settings that the job does not allow, the reason."""
    base = job.model_copy(update={"columns": job.released})
    trials: list[Trial] = []
    problems: dict[int, str] = {}
    for at, setting in enumerate(settings):
        try:
            asked = setting.job(base)
        except JobError as error:
            problems[at] = " ".join(str(error).split())
            continue
        for draw in range(draws):
            key = digest_of(asked, draw, version("anonpipe"))
            run = _private(asked, staging, key)
            trials.append(Trial(key, at, draw, run.model_dump(mode="json")))
    return trials, problems


def _private(job: Job, staging: Staging, key: str) -> Job:
    """The job of a trial: it reads the private copy, and all that it writes lies in the private folder."""
    runs = staging.file("runs")
    run = job.run.model_copy(update={"staging": str(runs), "scheduler": None, "workers": None})
    paths = {"input": str(staging.file("copy.parquet")), "output": str(runs / f"out-{key}")}
    return job.model_copy(update={**paths, "run": run})


def _measured(
    job: Job,
    source: Source,
    staging: Staging,
    kept: _Kept,
    trials: Sequence[Trial],
    cluster: bool,
    on_progress: OnProgress,
) -> Results:
    """The results of all trials by their key; those that were kept are not measured again."""
    results = {trial.key: found for trial in trials if (found := kept.read(trial.key)) is not None}
    todo = list({trial.key: trial for trial in trials if trial.key not in results}.values())
    total = len(results) + len(todo)
    on_progress(Progress("compare", len(results), total, 0))
    if not todo:
        return results

    def on_done(result: TaskResult) -> None:
        kept.write(result)
        results[result["key"]] = result
        on_progress(Progress("compare", len(results), total, 0))

    _copy(source, list(job.released), staging.file("copy.parquet"))
    for draw in {trial.draw for trial in todo}:
        write_atomic(staging.file(f"draw-{draw}.key"), keyed(steward_secret(), "compare", "draw", str(draw)))
    folder = make_private(staging.file("trials"))
    for at, trial in enumerate(todo):
        write_json(folder / f"{at}.json", asdict(trial))
    tasks = [Task(str(staging.root), "compare", "compare", at) for at in range(len(todo))]
    gone = None
    with open_executor(job, staging, cluster) as executor:
        try:
            executor(measure_trial, tasks, on_done)
        except EngineError:
            gone = EngineError(
                f"the workers gave up over one setting, most likely out of memory; {len(results)} of {total} trials "
                "are kept: lower partition.rows or run.workers, or give run.memory_per_worker more, and compare again"
            )
    if gone is not None:
        raise gone
    return results


def _copy(source: Source, names: list[str], path: Path) -> None:
    """The released columns of the input as one private file, row after row."""
    fields = [source.schema.field(name) for name in source.schema.names if name in names]
    with drafted(path) as draft, pq.ParquetWriter(draft, pa.schema(fields), compression="lz4") as writer:
        for unit in source.units:
            for _, batch in read_batches(source, unit, names):
                writer.write_batch(batch)
