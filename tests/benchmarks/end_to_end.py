"""The whole run against its floor and its core, in one session.

    python -m tests.benchmarks.end_to_end --rows 1000000 --workers 2

(a) pyarrow reads and writes the same file; (b) clustering, refinement and
synthesis of the same points alone, in this process; (c) the whole run on
workers, stage by stage. Prints seconds and ratios.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from anonpipe.job.model import Job, parse_job
from anonpipe.kernels.points import block_order, sort_groups
from anonpipe.methods.grouping import cluster, refine
from anonpipe.methods.synthesis import synthesize
from anonpipe.moments import GroupedMoments, noise_factor, s_delta
from anonpipe.pipeline import run as pipeline
from tests.benchmarks.numbers import write_numeric


@contextmanager
def timed(name: str, into: dict[str, float]) -> Iterator[None]:
    """Note the wall seconds of a block."""
    began = time.perf_counter()
    yield
    into[name] = time.perf_counter() - began


def numeric_job(data: Path, output: Path, columns: list[str], workers: int) -> Job:
    """The job of a table of numbers, without bounds."""
    return parse_job(
        {
            "input": str(data),
            "output": str(output),
            "k": 5,
            "cluster": {"method": "mdav"},
            "columns": {name: {"kind": "continuous"} for name in columns},
            "measure": {"hold_out": 0},  # as many rows as the core alone has
            "run": {"workers": workers, "staging": str(output.parent / "staging")},
        }
    )


def core(features: np.ndarray, job: Job) -> None:
    """Clustering, refinement and synthesis of the same partitions' worth of points, one after the other."""
    rng = np.random.default_rng(0)
    order, starts = block_order(features, job.partition.rows)
    for begin, end in itertools.pairwise(starts):
        part = np.ascontiguousarray(features[order[begin:end]])
        labels = refine(part, cluster(part, 5, "mdav", rng=rng, block_rows=2_000), 5)
        groups = sort_groups(labels)
        factor = noise_factor(s_delta(GroupedMoments.of(part, *groups), "independent"))
        synthesize(part, *groups, "micro_perturbation", rng=rng, form="independent", factor=factor)


def main() -> None:
    """Measure (a), (b) and (c)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="anonpipe-end-"))
    data, seconds = folder / "numbers.parquet", dict[str, float]()
    write_numeric(data, arguments.rows)
    with timed("a: pyarrow read and write", seconds):
        table = pq.read_table(data)
        pq.write_table(table, folder / "copy.parquet", compression="zstd")
    job = numeric_job(data, folder / "out", table.column_names, arguments.workers)
    features = np.ascontiguousarray(np.column_stack([c.to_numpy() for c in table.columns]))
    features = (features - features.mean(axis=0)) / features.std(axis=0, ddof=1)
    core(features[:20_000], job)  # compile first
    with timed("b: group, refine, synthesize alone", seconds), threadpool_limits(1):
        core(features, job)
    del features, table
    stages = dict[str, float]()
    with timed("c: whole run", seconds), pipeline.open_run(job) as run:
        began = time.perf_counter()
        with pipeline.open_executor(job, run.staging) as executor:
            stages["cluster start-up"] = time.perf_counter() - began
            for stage in pipeline.MAPPED_STAGES:
                with timed(stage.__name__, stages):
                    stage(run, executor)
        with timed("verify and publish", stages):
            outcome = pipeline.finish(run, pipeline.verify(run))
    print(f"{arguments.rows:,} rows x 10 numbers, k=5, {arguments.workers} workers, released: {bool(outcome.version)}")
    past = seconds["c: whole run"] - stages["cluster start-up"]
    for name, value in [*seconds.items(), ("c past cluster start-up", past), *stages.items()]:
        print(f"  {name:<36} {value:>8.2f} s   {value / past:>6.1%} of c past start-up")
    print(f"  ratio c past start-up / b: {past / seconds['b: group, refine, synthesize alone']:.2f}")
    print(f"  ratio c past start-up / a: {past / seconds['a: pyarrow read and write']:.1f}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
