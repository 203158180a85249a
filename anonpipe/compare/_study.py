"""All settings measured: on the workers, a trial a task, and kept in a private folder so that nothing runs twice."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.compare._results import DISTRIBUTIONS, FURTHEST, Study, summarise
from anonpipe.compare._settings import DEFAULT_K, DEFAULT_METHODS, Setting, digest_of, grid
from anonpipe.engine import Task, TaskResult, account
from anonpipe.environment import package_versions
from anonpipe.errors import EngineError, JobError, OutputError
from anonpipe.evaluate import risk, utility
from anonpipe.evaluate.measurement import Better, Figure, Measurement
from anonpipe.evaluate.utility import shares_changed
from anonpipe.files import drafted, make_private, write_atomic
from anonpipe.job.model import Job, parse_job
from anonpipe.pipeline.evaluation.measures import gated
from anonpipe.pipeline.run import assess_only
from anonpipe.pipeline.start import check_input, open_executor
from anonpipe.progress import OnProgress, Progress
from anonpipe.rng import keyed, private_home, steward_secret, trial_secret
from anonpipe.source import Source, opened, read_batches
from anonpipe.storage.staging import Staging, lock, read_json, remove, staging_root, write_json
from anonpipe.verify import words
from anonpipe.verify.catalogue import KINDS, MEASURED
from anonpipe.verify.output_control import disclosive
from anonpipe.verify.verdict import Assessment, Verdict

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

    The input is read once, into a private copy of the released columns that is deleted at the end. Each trial is a
    whole run of the job in one worker, with a secret of its own that follows from the steward's: its draws are never
    those of a release. Figures of finished trials are kept in the steward's private folder, and measured again only
    where input, job, setting or version are others.
    """
    axes = utility, risk
    try:
        settings = grid(job, methods, ks)
        if draws < 1:
            raise JobError(f"--draws is {draws}; give at least 1")
        check_names(job, axes)
        staging = Staging(make_private(staging_root(job.run.staging)) / f"compare-{_name(job)}")
        with opened(job.source.path, job.columns, job.run.staging, job.source) as source, lock(staging):
            check_input(job, source)  # The copy has no differences: each trial adds them
            try:
                make_private(staging.root)
                trials, problems = _trials(job, settings, draws, staging)
                results = _measured(job, source, staging, _kept(job, source, refresh), trials, cluster, on_progress)
            finally:
                remove(staging)
        return summarise(job, settings, [(trial.setting, results[trial.key]) for trial in trials], problems, axes)
    except Exception as error:
        failure = account(error, "compare")
    failure.raise_it()


def _name(job: Job) -> str:
    """A name for everything that belongs to the input; it says nothing of it."""
    return keyed(steward_secret(), "compare", job.source.path).hex()[:16]


def _kept(job: Job, source: Source, refresh: bool) -> Path:
    """The folder of finished trials of this input as it is now, a private file each; others are deleted."""
    folder = private_home() / "compare" / _name(job)
    identity = {"input": source.identity(), "version": package_versions()["anonpipe"]}
    known = folder / "input.json"
    if refresh or not known.exists() or read_json(known) != identity:
        shutil.rmtree(folder, ignore_errors=True)
        make_private(folder)
        write_json(known, identity)
    return folder


def _needed(job: Job) -> list[str]:
    """Columns that a trial needs: those that are released and, of whole units, those that name and order them."""
    of_units = {job.unit_column, job.release.order} if job.whole_release else set()
    return [name for name in job.columns if name in job.released or name in of_units]


def _trials(job: Job, settings: Sequence[Setting], draws: int, staging: Staging) -> tuple[list[Trial], dict[int, str]]:
    """The trials of all settings, and for settings that the job does not allow, the reason."""
    base = job.model_copy(update={"columns": {name: job.columns[name] for name in _needed(job)}})
    trials: list[Trial] = []
    problems: dict[int, str] = {}
    for at, setting in enumerate(settings):
        try:
            asked = setting.job(base)
        except JobError as error:
            problems[at] = " ".join(str(error).split())
            continue
        for draw in range(draws):
            # It reads the private copy, and all that it writes lies in the private folder
            key, runs = digest_of(asked, draw, package_versions()["anonpipe"]), staging.file("runs")
            run = asked.run.model_copy(update={"staging": str(runs), "scheduler": None, "workers": None})
            paths = {"input": str(staging.file("copy.parquet")), "output": str(runs / f"out-{key}")}
            private = asked.model_copy(update={**paths, "run": run})
            trials.append(Trial(key, at, draw, private.model_dump(mode="json")))
    return trials, problems


def _measured(
    job: Job,
    source: Source,
    staging: Staging,
    kept: Path,
    trials: Sequence[Trial],
    cluster: bool,
    on_progress: OnProgress,
) -> Results:
    """The results of all trials by their key; those that were kept are not measured again."""
    files = {trial.key: kept / f"{trial.key}.json" for trial in trials}
    results: Results = {key: read_json(path) for key, path in files.items() if path.exists()}
    todo = list({trial.key: trial for trial in trials if trial.key not in results}.values())
    total = len(results) + len(todo)
    on_progress(Progress("compare", len(results), total, 0))
    if not todo:
        return results

    def on_done(result: TaskResult) -> None:
        if result["final"]:  # others may be another the next time
            write_json(files[result["key"]], result)
        results[result["key"]] = result
        on_progress(Progress("compare", len(results), total, 0))

    _copy(source, _needed(job), staging.file("copy.parquet"))
    for draw in {trial.draw for trial in todo}:
        write_atomic(staging.file(f"draw-{draw}.key"), keyed(steward_secret(), "compare", "draw", str(draw)))
    folder = make_private(staging.file("trials"))
    for at, trial in enumerate(todo):
        write_json(folder / f"{at}.json", asdict(trial))
    tasks = [Task(str(staging.root), "compare", "compare", at) for at in range(len(todo))]
    with open_executor(job, staging, cluster, threads=False) as executor:  # a trial records warnings
        try:
            executor(_measure_trial, tasks, on_done)
        except EngineError:
            raise EngineError(
                f"the workers gave up over one setting, most likely out of memory; {len(results)} of {total} trials "
                "are kept: lower partition.rows or run.workers, or give run.memory_per_worker more, and compare again"
            ) from None
    return results


def _copy(source: Source, names: list[str], path: Path) -> None:
    """The released columns of the input as one private file, row after row."""
    fields = [source.schema.field(name) for name in source.schema.names if name in names]
    with drafted(path) as draft, pq.ParquetWriter(draft, pa.schema(fields), compression="lz4") as writer:
        for unit in source.units:
            for _, batch in read_batches(source, unit, names):
                writer.write_batch(batch)


# --- One trial on a worker: a setting's whole job on the private copy of the input, measured and thrown away ----------
# Trials share the copy and nothing else. Of the processor time of 48 settings on 15,564 records (of four on 100,000)
# the scan takes 7 % (4), routing 2 (1), encoding 2 (3), the fits of the recipients' models to the original 4, and what
# masks without regard to k do again for each k 4; measures of the release take half of it, and methods a quarter. To
# hand results on, all settings would draw with one key, and every file be sealed again for each.

# What is kept of a measurement: no parts and no curves
KEPT = ("name", "title", "value", "unit", "better", "low", "high", "baseline", "baseline_is")


@dataclass(frozen=True)
class Trial:
    """A setting and a draw, as a worker reads them."""

    key: str  # Names the result; see `digest_of`
    setting: int  # Position among the settings
    draw: int  # Which of the draws, from 0
    job: dict[str, Any]  # The job's content, its input the private copy


def _measure_trial(task: Task) -> TaskResult:
    """Run the job of a trial in this process, and keep its verdict and its figures."""
    # A setting that is not feasible is a result too: `problem` is its reason. What stopped by an unforeseen error is
    # named, and not `final`: it is tried again the next time.
    staging = Staging(Path(task.staging))
    trial = Trial(**read_json(staging.file("trials") / f"{task.index}.json"))
    begin = time.monotonic()
    result: TaskResult = {"rows": 0, "key": trial.key, "final": True, "problem": None}
    try:
        with trial_secret(staging.file(f"draw-{trial.draw}.key").read_bytes()):
            verdict, assessment = assess_only(parse_job(trial.job))
    except OutputError:  # the disk: every other trial would fail too
        raise
    except Exception as error:
        failure = account(error, "this setting")
        final = failure.kind in ("JobError", "InputError", "InfeasibleError")
        return result | {"problem": failure.message, "final": final}
    return result | _trial_result(verdict, assessment) | {"seconds": time.monotonic() - begin}


def _trial_result(verdict: Verdict, assessment: Assessment) -> dict[str, Any]:
    """The verdict and the figures of a trial, JSON-able."""
    failed = [[words.name(check), f"{words.measured(check)}, limit {words.limit(check)}"] for check in verdict.failed]
    # What each gate on measures judges, by the gate's name, so that methods can be compared whose attacks differ
    judged = [(gate, gated(gate.name, assessment.measured)) for gate in MEASURED.values()]
    of_limits = tuple(replace(one, name=gate.name, title=gate.limited) for gate, one in judged if one is not None)
    found = (*assessment.measured, *_of_analyses(assessment), *of_limits, *furthest(of_limits))
    measures = {
        one.name: {name: one.to_dict()[name] for name in KEPT} | {"disclosive": disclosive(one)} for one in found
    }
    return {
        "passed": verdict.passed,
        "failed": failed,
        "measures": measures,
        "utility": [one.name for one in assessment.utility],
        "risk": [one.name for one in assessment.risk],
    }


def furthest(of_limits: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
    """The column, pair of columns or survival curve that is furthest from the original, of all; none where none is."""
    found = [one for one in of_limits if one.name in DISTRIBUTIONS and one.value == one.value]
    if not found:
        return ()
    worst = max(found, key=lambda one: one.value)
    title = "column, pair of columns or survival curve furthest from the original, as a multiple of what chance allows"
    return (replace(worst, name=FURTHEST, title=title),)


_ANALYSIS_FIGURES: dict[str, tuple[str, Better]] = {
    "changed_significance": ("coefficients whose significance changed", "lower"),
    "changed_direction": ("significant coefficients that changed direction", "lower"),
    "outside": ("coefficients outside the original's 95 % interval", "lower"),
    "overlap": ("mean overlap of the 95 % intervals", "higher"),
}


def _of_analyses(assessment: Assessment) -> tuple[Measurement, ...]:
    """What became of the recipient's analyses, all (`analyses.outside`) and each; an undefined share is left out."""
    if not assessment.analyses:
        return ()
    comparisons = {"analyses": [one.comparison for one in assessment.analyses]}
    comparisons |= {f"analysis.{one.comparison.analysis.name}": [one.comparison] for one in assessment.analyses}
    records, of = assessment.analyses[0].records, assessment.analyses[0].of
    found = []
    for prefix, several in comparisons.items():
        shares = shares_changed(several)
        whose = "all analyses" if prefix == "analyses" else f"analysis {prefix.removeprefix('analysis.')!r}"
        for name, (title, better) in _ANALYSIS_FIGURES.items():
            value, audience = getattr(shares, name), KINDS[f"analysis.{name}"].audience
            source = "Gal et al. (2014), section 3, doi:10.1016/j.jbi.2014.01.001"
            figure = Figure(f"{prefix}.{name}", f"{title}, {whose}", "share", source, audience, better)
            if value == value:
                found.append(figure.measured(value, records, of))
    return tuple(found)


# --- The names of measures that a job can have, so that a misspelt one is refused before hours of trials --------------


def known_names(job: Job) -> tuple[str, ...]:
    """The names of all measures that there may be for some setting of a job."""
    families = ["analyses"] if job.analyses else []
    families += [f"analysis.{one.name}" for one in job.analyses]
    scenarios = [one.name for one in job.measure.scenarios]
    risks: list[str] = []
    for name in (name for measure in risk.MEASURES for name in measure.keys):
        stands_for = scenarios if name.startswith("scenarios.") else job.columns if "*" in name else [""]
        risks += [name.replace("*", each) for each in stands_for]
    of_utility = (name for measure in utility.MEASURES for name in measure.keys)
    of_analyses = (f"{name}.{one}" for name in families for one in _ANALYSIS_FIGURES)
    # A gate may have the name of the figure that it judges
    return tuple(dict.fromkeys((*MEASURED, FURTHEST, *of_utility, *risks, *of_analyses)))


def check_names(job: Job, axes: tuple[str | None, str | None]) -> None:
    """Refuse what no measure is called."""
    known = known_names(job)
    for what, name in zip(("utility", "risk"), axes, strict=True):
        if name is not None and name not in known:
            near = get_close_matches(name, known, 3, 0.6)
            those = [one for one in known if not one.startswith("sensitive.")]
            hint = f"near to it are: {', '.join(near)}" if near else f"known are: {', '.join(those)}"
            raise JobError(f"--{what} is {name!r}, and no measure is called so; {hint}")
