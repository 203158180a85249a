"""Seconds of each synthesizer: python -m tests.benchmarks.synthesize_speed [rows] [columns] [k]."""

from __future__ import annotations

import sys
import time

import numpy as np

from anonpipe.encoding.features import keep_group_sums
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.synthesis import noise_scatter, restore_by_rank, synthesize
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, PairwiseMoments, exact_factor, noise_factor, s_delta


def main(rows: int, columns: int, k: int) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(rows, columns))
    order, starts = sort_groups(rng.permutation(np.arange(rows) // k))
    grouped = GroupedMoments.of(features, order, starts)
    factor = {form: noise_factor(s_delta(grouped, form)) for form in ("independent", "centred")}
    factor["exact"] = exact_factor(noise_scatter(starts, columns, rng=rng), grouped.within)
    kept = rng.normal(size=(rows, max(1, k - 3)))
    codes = rng.integers(0, 6, (rows, columns))
    cases = {
        "Moments.of": lambda p, o, s: Moments.of(p),
        "GroupedMoments.of": GroupedMoments.of,
        "GroupSpread.of": GroupSpread.of,
        "PairwiseMoments.of": lambda p, o, s: PairwiseMoments.of(p),
        "centroid": lambda p, o, s: synthesize(p, o, s, "centroid", rng=rng),
        "centroid, median of one column": lambda p, o, s: synthesize(
            p, o, s, "centroid", rng=rng, statistics=["median"] + ["mean"] * (columns - 1)
        ),
        "gaussian": lambda p, o, s: synthesize(p, o, s, "gaussian", rng=rng),
        "gaussian expected": lambda p, o, s: synthesize(p, o, s, "gaussian", rng=rng, moments="expected", n_table=rows),
        "pca expected": lambda p, o, s: synthesize(p, o, s, "pca", rng=rng, moments="expected", n_table=rows),
        "micro_perturbation independent": lambda p, o, s: synthesize(
            p, o, s, "micro_perturbation", rng=rng, factor=factor["independent"]
        ),
        "micro_perturbation centred": lambda p, o, s: synthesize(
            p, o, s, "micro_perturbation", rng=rng, factor=factor["centred"], form="centred"
        ),
        "noise_scatter (first pass of exact)": lambda p, o, s: noise_scatter(s, columns, rng=rng),
        "micro_perturbation exact": lambda p, o, s: synthesize(
            p, o, s, "micro_perturbation", rng=rng, factor=factor["exact"], form="exact"
        ),
        f"r_microhybrid, {kept.shape[1]} kept": lambda p, o, s: synthesize(
            p, o, s, "r_microhybrid", rng=rng, kept=kept[: len(p)], rule="rank"
        ),
        "histogram exact": lambda p, o, s: synthesize(codes[: len(p)], o, s, "histogram", rng=rng),
        "histogram expected": lambda p, o, s: synthesize(
            codes[: len(p)], o, s, "histogram", rng=rng, counts="expected"
        ),
        "restore_by_rank": lambda p, o, s: restore_by_rank(p[:, 0], p[:, 1], o, s),
        "keep_group_sums": lambda p, o, s: keep_group_sums(p[:, 0].copy(), o, s, -1.0, 1.0),
    }
    small = features[: 3 * k], *sort_groups(np.arange(3 * k) // k)
    seconds = {}
    for name, case in cases.items():
        case(*small)
        begin = time.perf_counter()
        case(features, order, starts)
        seconds[name] = time.perf_counter() - begin
    begin = time.perf_counter()
    rng.standard_normal(rows * columns)
    seconds["(drawing rows x columns normals)"] = time.perf_counter() - begin
    print(f"{rows} rows x {columns} columns, k = {k}")
    for name, value in seconds.items():
        print(f"{name:36s} {value:7.3f} s   {value / seconds['centroid']:6.1f} x centroid")


if __name__ == "__main__":
    given = [int(value) for value in sys.argv[1:]]
    main(*(given + [1_000_000, 10, 5][len(given) :]))
