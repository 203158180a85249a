"""The whole run in order: open, scan, route, group, synthesize, write, verify, publish.

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
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from anonpipe import engine, ledger, release
from anonpipe.codec.cells import CellCodec
from anonpipe.codec.points import PointCodec
from anonpipe.codec.rare import suppress_rare
from anonpipe.codec.scan import Scan, check_scan, merge_scans, read_scan, write_scan
from anonpipe.engine import Mapper, Task
from anonpipe.errors import InputError, JobError
from anonpipe.job import Job, MicroPerturbation
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, PairwiseMoments, merge_all, noise_factor, s_delta
from anonpipe.partition.strata import MOST_COMBINATIONS, Strata, build_strata
from anonpipe.partition.tree import fit_tree
from anonpipe.plan import build_plan, leaf_counts, partition_rows
from anonpipe.rng import keyed, row_keys, steward_secret
from anonpipe.source import check_types, open_source, save_source
from anonpipe.stages import (
    Context,
    count_combinations,
    label_shelf,
    needs_spread,
    routed_shelf,
    synthetic_shelf,
    unchanged_names,
    work,
)
from anonpipe.store import Staging, lock, make_private, read_json, remove, staging_root, write_atomic, write_json
from anonpipe.synthesize import METHODS as SYNTHESIZERS
from anonpipe.verify.gates import Evidence, Limits, Promise, judge
from anonpipe.verify.verdict import Verdict


@dataclass(frozen=True)
class Progress:
    """News for whoever shows progress: a stage, its finished and all pieces, and their rows."""

    stage: str
    done: int
    total: int
    rows: int


OnProgress = Callable[[Progress], None]


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
    """

    verdict: Verdict
    version: str | None
    rows: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One run of a job in its staging folder."""

    job: Job
    staging: Staging
    token: str
    on_progress: OnProgress = lambda _: None
    warnings: tuple[str, ...] = ()

    @cached_property
    def context(self) -> Context:
        """What the workers see of this run."""
        return Context(self.staging, self.token)

    def map_stage(self, mapper: Mapper, stage: str, count: int) -> None:
        """Run the unfinished pieces of a stage."""
        done = self.staging.receipts(stage).done(count)
        state = {"done": len(done), "rows": 0}
        self.on_progress(Progress(stage, state["done"], count, 0))

        def on_done(receipt: dict[str, Any]) -> None:
            state["done"] += 1
            state["rows"] += int(receipt["rows"])
            self.on_progress(Progress(stage, state["done"], count, state["rows"]))

        tasks = [Task(str(self.staging.root), self.token, stage, at) for at in range(count) if at not in done]
        mapper(work, tasks, on_done)

    def mark(self, stage: str, rows: int = 0) -> None:
        """Show that a step of the driver is done."""
        self.on_progress(Progress(stage, 1, 1, rows))


def run_id(job: Job) -> str:
    """The name of a job's staging folder: a keyed digest, the same for the same job, input path and output."""
    return keyed(steward_secret(), "run", job.run_digest()).hex()[:16]


@contextlib.contextmanager
def open_run(job: Job, resume: bool = False, on_progress: OnProgress = lambda _: None) -> Iterator[Run]:
    """Check job and input, lock the staging, and find or make it.

    Parameters
    ----------
    resume
        Go on with a crashed run of the same job, if input and version are
        still what they were; otherwise start anew, with a warning. Without
        it, what a crashed run left is deleted first.
    """
    release.check_writable(release.place(job.output))
    source = open_source(job.input, job.columns)
    check_types(source.schema, job.columns)
    staging = Staging(make_private(staging_root(job.run.staging)) / run_id(job))
    with lock(staging), _removed_if_hopeless(staging):
        known = staging.file("run.json").exists()
        identity = {"input": source.identity(), "version": version("anonpipe")}
        unchanged = known and read_json(staging.file("run.json")) == identity
        if not (resume and unchanged):
            shutil.rmtree(staging.root, ignore_errors=True)
            make_private(staging.root)
            save_source(source, staging.root)
            write_json(staging.file("job.json"), job.model_dump(mode="json"))
            write_atomic(staging.file("start.key"), keyed(steward_secret(), "start", job.digest()))
            write_json(staging.file("run.json"), identity)
        warnings = (_STARTED_ANEW,) if resume and known and not unchanged else ()
        yield Run(job, staging, secrets.token_hex(8), on_progress, warnings)


_STARTED_ANEW = "the input, or anonpipe itself, has changed since the crashed run: the run was started anew"


@contextlib.contextmanager
def _removed_if_hopeless(staging: Staging) -> Iterator[None]:
    """Keep the staging for `--resume`, unless job or input are at fault: then it only holds raw data."""
    try:
        yield
    except (InputError, JobError):
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


def execute(job: Job, resume: bool = False, cluster: bool = True, on_progress: OnProgress = lambda _: None) -> Outcome:
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
        return _execute(job, resume, cluster, on_progress)
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
    if not run.staging.file("trees.json").exists():
        _fit(run, units)


def _fit(run: Run, units: int) -> None:
    ctx, job, staging = run.context, run.job, run.staging
    scans = [read_scan(staging.file("scans") / str(unit)) for unit in range(units)]
    merged = merge_scans(scans)
    warnings = check_scan(merged, job.columns, job.k, () if job.strata.small == "error" else job.strata.by)
    digest = merged.digest(ctx.source.schema)
    nullable = {field.name: field.nullable for field in ctx.source.schema}
    merged, suppression, suppressed = suppress_rare(merged, job.columns, nullable, job.k)
    write_json(staging.file("suppression.json"), suppression.to_dict())
    write_scan(merged, staging.file("scan.all"))
    secret = steward_secret()
    warnings += suppressed + ledger.warn_of_redraws(secret, digest, job.digest())
    write_json(staging.file("digest.json"), digest)
    write_atomic(staging.file("run.key"), keyed(secret, "run", job.digest(), digest))
    codec = CellCodec.fit(ctx.source.schema, job.columns, merged)
    codec.save(staging.folder("codec"))
    strata = strata_of(job, codec, merged)
    warnings += small_group_warnings(job, PointCodec.fit(codec, merged).width)
    warnings += stratum_warnings(job, codec, merged, strata)
    write_json(staging.file("strata.json"), strata.to_dict())
    write_json(staging.file("warnings.json"), warnings)
    write_json(staging.file("trees.json"), _trees(run, codec, strata, units))


def small_group_warnings(job: Job, width: int) -> list[str]:
    """What exact group moments give away in small groups.

    Raises
    ------
    JobError
        k is 2: the synthetic records would be the original ones.
    """
    if not promise_of(job).exact_groups or job.k > width + 1:
        return []
    if job.k == 2:
        raise JobError(
            f"synthesize.method {job.synthesize.method} keeps the moments of every group exactly, and with k=2 the "
            "synthetic records are the original ones; raise k, or take micro_perturbation"
        )
    return [
        f"k={job.k} is at most the {width} columns of points plus one: exact group moments keep the synthetic records "
        "in the span of the originals, and who knows part of a record can solve for the rest; "
        f"raise k above {width + 1}, or take micro_perturbation"
    ]


def strata_of(job: Job, codec: CellCodec, scanned: Scan) -> Strata:
    """The strata that the job asks for, from the counts of the scan."""
    names = job.strata.by
    positions = [codec.names.index(name) for name in names]
    sizes = [len(scanned.code_counts(name)) for name in names]
    if int(np.prod(sizes)) > MOST_COMBINATIONS:
        raise InputError(f"strata.by makes more than {MOST_COMBINATIONS:,} combinations; take fewer or coarser columns")
    counts = scanned.combination_counts(codec, names) if names else np.array([scanned.rows])
    event = None
    if job.event_column in names:
        position = codec.names.index(str(job.event_column))
        event = (names.index(str(job.event_column)), codec.event_codes(position))
    return build_strata(counts, positions, sizes, job.k, job.strata.small, event, job.strata.use_event, names)


def stratum_warnings(job: Job, codec: CellCodec, scanned: Scan, strata: Strata) -> list[str]:
    """What became of records in strata under k: columns and counts, no value."""
    if not job.strata.by:
        return []
    counts = scanned.combination_counts(codec, job.strata.by)
    merged = int(counts[np.asarray(strata.recoded) != np.arange(len(counts))].sum())
    whose, found = ", ".join(map(repr, job.strata.by)), []
    if merged:
        found.append(
            f"strata.small is merge: {merged:,} records of strata under k={job.k} take the values of larger strata in "
            f"{whose}, which is otherwise released unchanged"
        )
    if strata.dropped:
        found.append(f"strata.small is drop: {strata.dropped:,} records of strata under k={job.k} are left out")
    return found


def _trees(run: Run, codec: CellCodec, strata: Strata, units: int) -> list[dict[str, Any]]:
    """One tree a stratum, fitted on the sampled rows of that stratum."""
    ctx = run.context
    points = PointCodec.fit(codec, ctx.scan)
    cells, keys = _sample(run, codec, units)
    ctx.suppression.apply(cells, codec.names)
    stratum = strata.assign(cells)
    scaled = points.encode(cells) * np.sqrt(ctx.weights)
    trees = []
    rows = partition_rows(run.job, max(points.width, len(codec.names)))
    for at, leaves in enumerate(leaf_counts(strata.rows, rows)):
        inside = stratum == at
        trees.append(fit_tree(scaled[inside], keys[inside], leaves).to_dict())
    return trees


def _sample(run: Run, codec: CellCodec, units: int) -> tuple[Any, Any]:
    cells, count = [], 0
    for unit in range(units):
        with pa.OSFile(str(run.staging.file("samples") / f"{unit}.arrow"), "rb") as source:
            for batch in pa.ipc.open_stream(source):
                cells.append(codec.to_cells(batch.select(list(codec.names))))
                count += batch.num_rows
    keys = row_keys(run.staging.file("start.key").read_bytes(), 0, count)
    return np.concatenate(cells) if cells else np.empty((0, len(codec.names))), keys


def route(run: Run, mapper: Mapper) -> None:
    """Send every row to its partition; afterwards the cut of the run is known."""
    ctx = run.context
    units = len(ctx.source.units)
    routed_shelf(ctx)
    run.map_stage(mapper, "route", units)
    if not run.staging.file("plan.json").exists():
        counts = [slab for receipt in run.staging.receipts("route").read_all(units) for slab in receipt["leaf_rows"]]
        leaf_stratum = [at for at, tree in enumerate(ctx.trees) for _ in range(tree.leaves)]
        plan = build_plan(run.job, counts, leaf_stratum)
        if plan.rows + ctx.strata.dropped != ctx.scan.rows:
            raise InputError("the input changed while it was read; run again")
        write_json(run.staging.file("plan.json"), plan.to_dict())


def group(run: Run, mapper: Mapper) -> None:
    """Form groups inside each partition, then reduce their statistics to the global noise covariance."""
    ctx = run.context
    label_shelf(ctx)
    run.map_stage(mapper, "group", len(ctx.plan.partitions))
    if isinstance(run.job.synthesize, MicroPerturbation) and not run.staging.file("noise.npy").exists():
        by_stratum = _grouped_by_stratum(run)
        scopes = by_stratum if run.job.synthesize.noise_scope == "stratum" else [merge_all(by_stratum)]
        factors = [noise_factor(s_delta(scope, run.job.synthesize.form)) for scope in scopes]
        draft = run.staging.file("noise.draft.npy")
        np.save(draft, np.stack(factors))
        draft.replace(run.staging.file("noise.npy"))


def synthesize(run: Run, mapper: Mapper) -> None:
    """Replace the records of every partition."""
    synthetic_shelf(run.context)
    run.map_stage(mapper, "synthesize", len(run.context.plan.partitions))


def write(run: Run, mapper: Mapper) -> None:
    """Write the output files in the staging and measure them."""
    run.map_stage(mapper, "write", run.context.plan.files)


MAPPED_STAGES: tuple[Callable[[Run, Mapper], None], ...] = (scan, route, group, synthesize, write)


def _by_stratum(run: Run, stage: str, read: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """Merge what the partitions of each stratum reported, in the order of the partitions."""
    receipts = run.staging.receipts(stage).read_all(len(run.context.plan.partitions))
    strata = range(len(run.context.strata.rows))
    return [merge_all([read(r) for r in receipts if r["stratum"] == at]) for at in strata]


def _grouped_by_stratum(run: Run) -> list[GroupedMoments]:
    return _by_stratum(run, "group", lambda receipt: GroupedMoments.from_dict(receipt["grouped"]))


def verify(run: Run) -> Verdict:
    """Hold all that was measured against the gates."""
    run.on_progress(Progress("verify", 0, 1, 0))
    limits = Limits(**run.job.gates.model_dump())
    verdict = judge(_evidence(run), promise_of(run.job), run.job.k, limits)
    write_json(run.staging.file("verdict.json"), verdict.to_dict())
    run.mark("verify", run.context.plan.rows)
    return verdict


def promise_of(job: Job) -> Promise:
    """What the job's synthesizer promises of means and covariances."""
    options = job.synthesize
    exact_groups = SYNTHESIZERS[options.method].exact_group_moments and getattr(options, "moments", "exact") == "exact"
    form = options.form if isinstance(options, MicroPerturbation) else getattr(options, "moments", None)
    strata = exact_groups or options.method == "centroid"
    if isinstance(options, MicroPerturbation):
        strata = options.noise_scope == "stratum"
    return Promise(options.method, form, strata, exact_groups)


def _evidence(run: Run) -> Evidence:
    ctx, staging, job = run.context, run.staging, run.job
    written = staging.receipts("write").read_all(ctx.plan.files)
    made = staging.receipts("synthesize").read_all(len(ctx.plan.partitions))
    released = [
        merge_all([PairwiseMoments.from_dict(r["released"][str(at)]) for r in written if str(at) in r["released"]])
        for at in range(len(ctx.strata.rows))
    ]
    return Evidence(
        rows_in=ctx.scan.rows,
        rows_dropped=ctx.strata.dropped,
        rows_out=sum(receipt["rows"] for receipt in written),
        smallest_group=min(receipt["smallest_group"] for receipt in made),
        rows_under_k=_rows_under_k(ctx),
        rows_as_they_were=sum(receipt["as_they_were"] for receipt in made),
        unchanged=tuple(unchanged_names(ctx)),
        released_names=tuple(ctx.cells.names),
        forbidden_names=tuple(name for name, column in job.columns.items() if not column.role.released),
        beyond_limits=sum(receipt["beyond_limits"] for receipt in written),
        files=len(written),
        view=ctx.view,
        original=_by_stratum(run, "group", lambda r: PairwiseMoments.from_dict(r["original"])),
        released=released,
        grouped=_grouped_by_stratum(run),
        synthesized=_by_stratum(run, "synthesize", lambda r: Moments.from_dict(r["synthesized"])),
        spread=_by_stratum(run, "group", lambda r: GroupSpread.from_dict(r["spread"])) if needs_spread(job) else None,
    )


def _rows_under_k(ctx: Context) -> int:
    names = unchanged_names(ctx)
    folder = ctx.staging.file("combinations")
    frames = [pd.read_parquet(folder / f"part-{at:05d}.parquet") for at in range(ctx.plan.files)]
    rows = count_combinations(frames, names)["rows"]
    return int(rows[rows < ctx.job.k].sum()) if names else 0


def finish(run: Run, verdict: Verdict) -> Outcome:
    """Publish what passed, or keep the verdict of what did not; the staging is deleted either way."""
    job, rows = run.job, run.context.plan.rows
    warnings = (*run.warnings, *job.warnings(), *read_json(run.staging.file("warnings.json")))
    where = release.place(job.output)
    published = None
    if verdict.passed:
        run.on_progress(Progress("publish", 0, 1, 0))
        files = [run.staging.file("files") / f"part-{at:05d}.parquet" for at in range(run.context.plan.files)]
        published = release.publish(files, manifest(run, verdict), where)
        ledger.note_release(steward_secret(), read_json(run.staging.file("digest.json")), job.digest(), job.output)
        run.mark("publish", rows)
    else:
        keep_verdict(verdict, where)
    remove(run.staging)
    return Outcome(verdict, published, rows, warnings)


def keep_verdict(verdict: Verdict, where: release.Place) -> None:
    """Leave the verdict of a failed run beside the releases, for the steward."""
    content = json.dumps(verdict.to_dict(), indent=2).encode()
    where.filesystem.makedirs(where.root, exist_ok=True)
    path = where.path(release.FAILED)
    where.filesystem.pipe_file(path, content)
    if where.local:
        os.chmod(path, 0o600)  # counts under k are the steward's business


def manifest(run: Run, verdict: Verdict) -> dict[str, Any]:
    """What a recipient may know of the release: nothing secret, no count under k, no path of the input."""
    ctx, job = run.context, run.job
    written = run.staging.receipts("write").read_all(ctx.plan.files)
    return {
        "anonpipe": version("anonpipe"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": ctx.plan.rows,
        "k": job.k,
        "methods": {
            "cluster": job.cluster.model_dump(mode="json"),
            "synthesize": job.synthesize.model_dump(mode="json"),
            "decode": job.decode.model_dump(mode="json"),
        },
        "schema": release.describe_schema(ctx.cells.schema),
        "columns": {
            name: {"kind": column.kind.value, "treatment": "unchanged" if column.role.unchanged else "synthetic"}
            for name, column in zip(ctx.cells.names, ctx.cells.columns, strict=True)
        },
        "group_sizes": group_size_histogram(run),
        "verdict": {"verdict": "passed" if verdict.passed else "failed", "checks": _releasable(verdict, job.k)},
        "versions": {name: version(name) for name in ("numpy", "pyarrow", "numba", "scipy")},
        "files": [{key: receipt[key] for key in ("name", "rows", "bytes", "sha256")} for receipt in written],
    }


def _releasable(verdict: Verdict, k: int) -> list[dict[str, Any]]:
    """The checks as a recipient may see them: a count of rows between 0 and k is not told."""
    checks: list[dict[str, Any]] = verdict.to_dict()["checks"]
    for check in checks:
        if check["name"].startswith("rows ") and check["measured"].isdigit() and 0 < int(check["measured"]) < k:
            check["measured"] = f"fewer than {k}"
    return checks


def group_size_histogram(run: Run) -> list[dict[str, Any]]:
    """Groups by size, in ranges of at least k groups each, so that no cell of the manifest is under k."""
    k, counts = run.job.k, Counter[int]()
    for receipt in run.staging.receipts("group").read_all(len(run.context.plan.partitions)):
        counts.update({int(size): number for size, number in receipt["group_sizes"].items()})
    cells: list[dict[str, Any]] = []
    for size in sorted(counts):
        if cells and (cells[-1]["groups"] < k):
            cells[-1] = {"from": cells[-1]["from"], "to": size, "groups": cells[-1]["groups"] + counts[size]}
        else:
            cells.append({"from": size, "to": size, "groups": counts[size]})
    if len(cells) > 1 and cells[-1]["groups"] < k:
        last = cells.pop()
        cells[-1] = {"from": cells[-1]["from"], "to": last["to"], "groups": cells[-1]["groups"] + last["groups"]}
    if len(cells) == 1 and cells[0]["groups"] < k:
        return [{"from": cells[0]["from"], "to": cells[0]["to"], "groups": f"fewer than {k}"}]
    return cells
