"""Lasko & Vinterbo's Table I, on made data of the same shape, beside their figures.

    python -m tests.benchmarks.masker_table [--rows 2000] [--times 5] [--rows-timed 200000]

From a made population of 11,763 records (10 continuous columns, logarithms
taken and standardised; 6 ordinal ones; 12 binary ones in -1 and +1) two
samples of 2,000 are drawn that share no record: one to mask, one to compare
with. Printed are the median absolute differences to the original of column
means (over standard deviations), of variances (over variances), and of the
entries of the correlation and the rank correlation matrix, averaged over the
repetitions. Values of masked binary columns are taken as they are, not put
back to -1 and +1. The paper's figures are of other data (NHANES), so only
their order of magnitude compares. Then the seconds of each masker.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import cluster
from anonpipe.methods.synthesis import centroid
from tests.benchmarks._lasko_table import lasko_table
from tests.in_memory import mask
from tests.methods.grouping.data import reference_folder, standardized

CONTINUOUS, ORDINAL, BINARY = 10, 6, 12
METHODS = {
    "spectral swapping": ("spectral_swap", {}),
    "data shuffling": ("data_shuffle", {}),
    "additive noise": ("noise", {"amount": 0.1, "form": "centred"}),
    "(plain swapping)": ("spectral_swap", {"basis": "columns"}),
    "(noise, exact)": ("noise", {"amount": 0.1, "form": "exact"}),
    "(noise, independent)": ("noise", {"amount": 0.1, "form": "centred", "basis": "columns"}),
    "(spectral synthesis, normal)": ("synthesis", {}),
    "(spectral synthesis, quantiles)": ("synthesis", {"draw": "quantiles"}),
    "(spectral suppression, 5 %)": ("suppression", {}),
    "(sequential regression)": (
        "sequential_regression",
        {"categories": tuple((CONTINUOUS + ORDINAL + j,) for j in range(BINARY))},
    ),
    "(generalisation, k = 5)": ("generalize", {"k": 5}),
}


def population(rows, rng):
    """Continuous, ordinal and binary columns that follow five hidden traits, not all of them linearly."""
    width = CONTINUOUS + ORDINAL + BINARY
    traits = rng.normal(size=(rows, 5))
    traits[:, 4] = 0.7 * traits[:, 0] ** 2 + 0.5 * traits[:, 4]
    weights = rng.normal(size=(5, width)) * (rng.random(size=(5, width)) < 0.5) * 0.7
    hidden = standardized(traits @ weights + rng.normal(size=(rows, width)))
    values = hidden.copy()
    values[:, :CONTINUOUS] = np.exp(0.6 * hidden[:, :CONTINUOUS] + 0.2 * np.abs(hidden[:, :CONTINUOUS]))
    for j in range(CONTINUOUS, CONTINUOUS + ORDINAL):
        values[:, j] = np.searchsorted([-1.2, -0.3, 0.4, 1.1], hidden[:, j])
    shares = rng.uniform(0.05, 0.5, BINARY)
    for j, share in zip(range(CONTINUOUS + ORDINAL, width), shares, strict=True):
        values[:, j] = np.where(hidden[:, j] > np.quantile(hidden[:, j], 1 - share), 1.0, -1.0)
    return values


def coded(values):
    """Logarithms of the continuous columns, then z-scores of these and of the ordinal ones."""
    features = values.copy()
    features[:, :CONTINUOUS] = np.log(values[:, :CONTINUOUS])
    features[:, : CONTINUOUS + ORDINAL] = standardized(features[:, : CONTINUOUS + ORDINAL])
    return features


def spectral_rhs(features, rng):
    """Centroids of the groups; means of T = UD turned back are means of the points."""
    order, starts = sort_groups(cluster(features, 5, "spectral_rhs", rng=rng))
    return centroid(features, order, starts)


def differences(original, masked):
    """The four medians."""
    table = lasko_table(original, masked)
    return [part.median for part in (table.means, table.variances, table.correlations, table.rank_correlations)]


def published():
    path = reference_folder() / "reference" / "lasko_table1.csv"
    if not path.exists():
        print(f"{path} is not at hand: no published figures")
        return {}
    return {row[0].lower(): list(row[1:]) for row in pd.read_csv(path, dtype=str).itertuples(index=False)}


def measured(rows, times):
    """Mean over repetitions of the four medians, by method."""
    found = {}
    for turn in range(times):
        rng = np.random.default_rng(turn)
        both = coded(population(11_763, rng))[rng.permutation(11_763)[: 2 * rows]]
        original, other = both[:rows], both[rows:]
        results = {"nonoverlapping sample": other, "spectral RHS": spectral_rhs(original, rng)}
        for name, (method, options) in METHODS.items():
            results[name] = mask(original, method, rng=rng, partitions=[rows // 3, rows - rows // 3], **options)
        for name, masked in results.items():
            found.setdefault(name, []).append(differences(original, masked))
    return {name: np.mean(values, axis=0) for name, values in found.items()}


def timed(rows):
    rng = np.random.default_rng(0)
    features = coded(population(rows, rng))
    print(f"\nseconds for {rows:,} x {features.shape[1]} in parts of 50,000")
    parts = [50_000] * (rows // 50_000) + [rows % 50_000] * (rows % 50_000 > 0)
    for name, (method, options) in METHODS.items():
        begin = time.perf_counter()
        mask(features, method, rng=rng, partitions=parts, **options)
        print(f"  {name:34}{time.perf_counter() - begin:8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--rows-timed", type=int, default=200_000)
    given = parser.parse_args()
    theirs = published()
    heads = ("mean", "variance", "correlation", "rank corr.")
    print("median difference in     " + " " * 11 + "".join(f"{head:>12}" for head in heads) + "    published")
    for name, values in sorted(
        measured(given.rows, given.times).items(), key=lambda item: (item[0][0] == "(", item[0])
    ):
        beside = "  ".join(theirs.get(name.lower(), []))
        print(f"  {name:34}" + "".join(f"{value:12.3g}" for value in values) + f"    {beside}")
    timed(given.rows_timed)


if __name__ == "__main__":
    main()
