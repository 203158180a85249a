"""Which synthesizer an informed intruder links best: the reason for the default.

    python -m tests.benchmarks.linkage

For each original record, the nearest released record (z-scores, all columns)
is looked up. Printed is the share of records for which it comes from the
record's own group, beside what a blind guess would reach. Data: generated
numbers, and tarragona.csv and pima.csv below ANONPIPE_BENCH_DATA/data where
they exist.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import cluster, refine
from anonpipe.methods.synthesis import synthesize
from anonpipe.moments import GroupedMoments, noise_factor, s_delta
from tests.benchmarks.numbers import write_numeric

METHODS = (
    ("micro_perturbation", "independent"),
    ("micro_perturbation", "centred"),
    ("gaussian", None),
    ("centroid", None),
)


def tables() -> Iterator[tuple[str, np.ndarray]]:
    """Name and numbers of each data set."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.parquet"
        write_numeric(path, 10_000)
        yield "generated", pd.read_parquet(path).to_numpy()
    data = Path(os.environ.get("ANONPIPE_BENCH_DATA", "../shared")) / "data"
    for name in ("tarragona", "pima"):
        if (data / f"{name}.csv").exists():
            table = pd.read_csv(data / f"{name}.csv")
            yield name, table.drop(columns=["Outcome"], errors="ignore").to_numpy(dtype=float)


def linked(features: np.ndarray, k: int, method: str, form: str | None) -> float:
    """Share of records whose nearest released record comes from their own group."""
    rng = np.random.default_rng(0)
    labels = refine(features, cluster(features, k, "mdav", rng=rng, block_rows=2_000), k)
    groups = sort_groups(labels)
    options = {}
    if form is not None:
        options = {"form": form, "factor": noise_factor(s_delta(GroupedMoments.of(features, *groups), form))}
    released = synthesize(features, *groups, method, rng=rng, **options)
    nearest = NearestNeighbors(n_neighbors=1).fit(released).kneighbors(features, return_distance=False)[:, 0]
    return float(np.mean(labels[nearest] == labels))


def main() -> None:
    """Print the table."""
    headings = [method if form is None else f"{method}/{form}" for method, form in METHODS]
    print(f"{'data':<12}{'k':>4}{'chance':>9}  " + "  ".join(headings))
    for name, table in tables():
        features = np.ascontiguousarray((table - table.mean(axis=0)) / table.std(axis=0, ddof=1))
        for k in (5, 20):
            shares = [linked(features, k, *method) for method in METHODS]
            cells = "  ".join(f"{share:>{len(h)}.1%}" for share, h in zip(shares, headings, strict=True))
            print(f"{name:<12}{k:>4}{k / len(features):>9.2%}  {cells}")


if __name__ == "__main__":
    main()
