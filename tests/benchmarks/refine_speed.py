"""Information loss and time of the local search, effort by effort.

    python -m tests.benchmarks.refine_speed [--k 3 5 10] [--tables tarragona generated]

Every table is grouped by MDAV, in blocks of 2,000 where it has more than 3,000
rows, and then refined. A line gives the loss, the seconds, the microseconds a
row, and the ratio of the loss to that of the start. Normal is left out for
tables of more than --most-normal rows.

Generated rows, and the reference data where they are found: in the folder that
ANONPIPE_BENCH_DATA names, else in ../shared.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from anonpipe.methods.grouping import cluster, information_loss, refine
from tests.benchmarks.mdav_speed import generated
from tests.methods.grouping.data import reference_folder, standardized

COLUMNS = {
    "tarragona": None,
    "pima": [
        "Pregnancies",
        "Glucose",
        "BloodPressure",
        "SkinThickness",
        "Insulin",
        "BMI",
        "DiabetesPedigreeFunction",
        "Age",
    ],
    "thyroid_train2800": ["age", "TSH", "T3", "TT4", "T4U", "FTI"],
    "flights_num10": None,
}
"""Columns of the reference tables that are grouped; None for all."""


def tables(wanted, most_rows):
    """(name, z-scores) of the reference tables at hand and of generated ones."""
    for name, columns in COLUMNS.items():
        path = reference_folder() / "data" / f"{name}.csv"
        if wanted and name not in wanted:
            continue
        if not path.exists():
            print(f"{name}.csv is not in {path.parent}")
            continue
        rows = pd.read_csv(path, usecols=columns, na_values="?").dropna().to_numpy(dtype=np.float64)
        for count in sorted({min(len(rows), 30_000), min(len(rows), most_rows)}):
            yield f"{name} {count}", standardized(rows[:count])
    if not wanted or "generated" in wanted:
        for count in (3_000, 30_000, 1_000_000):
            if count <= most_rows:
                yield f"generated {count}", generated(count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[5])
    parser.add_argument("--tables", nargs="+", default=[])
    parser.add_argument("--most-rows", type=int, default=1_000_000)
    parser.add_argument("--most-normal", type=int, default=50_000)
    options = parser.parse_args()
    warm = generated(3_000)
    refine(warm, np.arange(3_000) // 5, 5)
    print(f"{'table':26}{'k':>3} {'effort':10}{'seconds':>9}{'µs a row':>10}{'IL %':>10}{'to start':>10}")
    for name, features in tables(options.tables, options.most_rows):
        for k in options.k:
            begin = time.perf_counter()
            blocks = 2_000 if len(features) > 3_000 else None
            start = cluster(features, k, "mdav", rng=np.random.default_rng(0), block_rows=blocks)
            first = information_loss(features, start)
            line(name, k, "start", time.perf_counter() - begin, len(features), first, first)
            for effort, most in (("quick", options.most_rows), ("normal", options.most_normal)):
                if len(features) <= most:
                    begin = time.perf_counter()
                    labels = refine(features, start, k, effort)
                    seconds = time.perf_counter() - begin
                    line(name, k, effort, seconds, len(features), information_loss(features, labels), first)


def line(name, k, effort, seconds, rows, loss, first):
    micro = 1e6 * seconds / rows
    print(
        f"{name:26}{k:3} {effort:10}{seconds:9.3f}{micro:10.1f}{loss:10.4f}{100 * (loss / first - 1):+9.2f}%",
        flush=True,
    )


if __name__ == "__main__":
    main()
