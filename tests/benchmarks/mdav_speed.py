"""Seconds and information loss of MDAV, MDAV in blocks, and the local search after it.

    python -m tests.benchmarks.mdav_speed [--k 5] [--most-whole 30000]

Generated rows, and the reference data where they are found: in the folder that
ANONPIPE_BENCH_DATA names, else in ../shared.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from anonpipe.cluster import cluster, information_loss, refine
from tests.cluster.data import reference_folder, standardized

BLOCK_ROWS = 2_000


def generated(rows):
    """Ten correlated, skewed columns in a few clusters."""
    rng = np.random.default_rng(0)
    points = np.exp(0.5 * rng.normal(size=(rows, 10))) @ rng.normal(size=(10, 10))
    return standardized(points + 3 * rng.normal(size=(8, 10))[rng.integers(0, 8, rows)])


def tables():
    """(name, z-scores) of all tables at hand."""
    for rows in (10_000, 30_000, 100_000):
        yield f"generated {rows}", generated(rows)
    folder = reference_folder() / "data"
    for name in ("tarragona", "flights_num10"):
        if (folder / f"{name}.csv").exists():
            points = np.genfromtxt(folder / f"{name}.csv", delimiter=",", skip_header=1)
            for rows in (30_000, len(points)) if len(points) > 30_000 else (len(points),):
                yield f"{name} {rows}", standardized(points[:rows])
        else:
            print(f"{name}.csv is not in {folder}")


def mdav(points, k, block_rows=None):
    return cluster(points, k, "mdav", rng=np.random.default_rng(0), block_rows=block_rows)


def variants(points, k, most_whole):
    """(name, function of no argument that gives labels)."""
    if len(points) <= most_whole:
        yield "whole", lambda: mdav(points, k)
    if len(points) > BLOCK_ROWS:
        yield f"blocks of {BLOCK_ROWS}", lambda: mdav(points, k, BLOCK_ROWS)
    for effort in ("quick", "normal"):
        yield (
            f"blocks, refine {effort}",
            lambda effort=effort: refine(points, mdav(points, k, BLOCK_ROWS), k, effort=effort),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--most-whole", type=int, default=100_000, help="largest table for MDAV without blocks")
    options = parser.parse_args()
    warm = generated(3_000)
    for _, run in variants(warm, options.k, len(warm)):
        run()
    print(f"{'table':24}{'variant':24}{'seconds':>9}{'IL %':>10}{'to first':>10}")
    for name, points in tables():
        first = None
        for variant, run in variants(points, options.k, options.most_whole):
            start = time.perf_counter()
            labels = run()
            seconds = time.perf_counter() - start
            loss = information_loss(points, labels)
            first = first or loss
            print(f"{name:24}{variant:24}{seconds:9.3f}{loss:10.4f}{100 * (loss / first - 1):+9.2f}%", flush=True)


if __name__ == "__main__":
    main()
