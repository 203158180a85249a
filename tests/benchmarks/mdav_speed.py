"""Seconds and information loss of MDAV, its plain loop, MDAV in blocks, and the local search after it.

    python -m tests.benchmarks.mdav_speed [--k 5] [--most-whole 100000] [--most-plain 30000] [--only-whole]

Generated rows, and the reference data where they are found: in the folder that
ANONPIPE_BENCH_DATA names, else in ../shared. Seconds are of one processor, not
of the clock, so that other work on the machine disturbs them less. "to plain"
is plain over fast, both in this run and with equal groups. The last lines fit
seconds to a power of the rows, from which larger tables can be expected.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from anonpipe.methods.grouping import cluster, information_loss, information_loss_bound, refine
from anonpipe.methods.grouping._mdav import groups_from_outside
from tests.benchmarks.plain_mdav import plain_pairs
from tests.methods.grouping.data import reference_folder, standardized

BLOCK_ROWS = 2_000


def generated(rows):
    """Ten correlated, skewed columns in a few clusters."""
    rng = np.random.default_rng(0)
    features = np.exp(0.5 * rng.normal(size=(rows, 10))) @ rng.normal(size=(10, 10))
    return standardized(features + 3 * rng.normal(size=(8, 10))[rng.integers(0, 8, rows)])


def tables():
    """(name, z-scores) of all tables at hand."""
    for rows in (2_000, 10_000, 30_000, 100_000):
        yield "generated", generated(rows)
    folder = reference_folder() / "data"
    for name in ("tarragona", "flights_num10"):
        if (folder / f"{name}.csv").exists():
            features = np.genfromtxt(folder / f"{name}.csv", delimiter=",", skip_header=1)
            for rows in (30_000, 100_000, len(features)) if len(features) > 100_000 else (len(features),):
                yield name, standardized(features[:rows])
        else:
            print(f"{name}.csv is not in {folder}")


def mdav(features, k, block_rows=None):
    return cluster(features, k, "mdav", rng=np.random.default_rng(0), block_rows=block_rows)


def variants(features, k, most_whole):
    """(name, function of no argument that gives labels)."""
    if len(features) <= most_whole:
        yield "whole", lambda: mdav(features, k)
    if len(features) > BLOCK_ROWS:
        yield f"blocks of {BLOCK_ROWS}", lambda: mdav(features, k, BLOCK_ROWS)
    for effort in ("quick", "normal"):
        yield (
            f"blocks, refine {effort}",
            lambda effort=effort: refine(features, mdav(features, k, BLOCK_ROWS), k, effort=effort),
        )


def seconds_of(run):
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def compare(features, k):
    """Plain over fast, after the groups were found equal; the better of two runs for small tables."""
    times = []
    for _ in range(2 if len(features) <= 30_000 else 1):
        fast, labels = seconds_of(lambda: groups_from_outside(features, k, 2 * k, True))
        plain, same = seconds_of(lambda: plain_pairs(features, k, 2 * k))
        if not np.array_equal(labels, same):
            raise SystemExit("the fast loop and the plain one form different groups")
        times.append((fast, plain))
    fast, plain = np.min(times, axis=0)
    return plain / fast


def fit(name, rows, seconds):
    if len(rows) > 1:
        power, constant = np.polyfit(np.log(rows), np.log(seconds), 1)
        expected = np.exp(constant) * 327_346**power
        print(f"{name}: seconds grow as rows^{power:.2f}; 327,346 rows would take {expected:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--most-whole", type=int, default=100_000, help="largest table for MDAV without blocks")
    parser.add_argument("--most-plain", type=int, default=30_000, help="largest table for the plain loop")
    parser.add_argument("--only-whole", action="store_true", help="leave blocks, refinement and the bound out")
    options = parser.parse_args()
    warm = generated(5_000)
    compare(warm, options.k)
    information_loss_bound(warm, options.k)
    for _, run in variants(warm, options.k, len(warm)):
        run()
    print(f"{'table':24}{'variant':24}{'seconds':>9}{'IL %':>10}{'to first':>10}{'to plain':>10}")
    sizes = {}
    for table, features in tables():
        name, first = f"{table} {len(features)}", None
        for variant, run in variants(features, options.k, options.most_whole):
            if options.only_whole and variant != "whole":
                continue
            seconds, labels = seconds_of(run)
            loss = information_loss(features, labels)
            first = first or loss
            line = f"{name:24}{variant:24}{seconds:9.3f}{loss:10.4f}{100 * (loss / first - 1):+9.2f}%"
            if variant == "whole":
                # Small tables are one leaf and tell nothing about large ones.
                if len(features) >= 10_000:
                    sizes.setdefault(table, []).append((len(features), seconds))
                if len(features) <= options.most_plain:
                    line += f"{compare(features, options.k):10.2f}"
            print(line, flush=True)
        if not options.only_whole:
            seconds, bound = seconds_of(lambda features=features: information_loss_bound(features, options.k))
            print(f"{name:24}{'lower bound':24}{seconds:9.3f}{bound:10.4f}", flush=True)
    for table, measured in sizes.items():
        fit(table, *np.transpose(measured))


if __name__ == "__main__":
    main()
