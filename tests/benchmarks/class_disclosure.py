"""What groupings disclose of a confidential class, beside table 1 of Li and Sarkar 2013 for its Diabetes data.

    python -m tests.benchmarks.class_disclosure [--most-k 60]

The data are pima.csv and reference/li_sarkar_table1.csv in the folder that
ANONPIPE_BENCH_DATA names, else in ../shared. Distances are taken between
columns scaled to [0, 1], as in the paper, and between z-scores; information
loss is always that of z-scores.
"""

from __future__ import annotations

import argparse
import csv

import numpy as np
from sklearn.neighbors import NearestNeighbors

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import class_disclosure, cluster, information_loss
from anonpipe.methods.synthesis import synthesize
from anonpipe.moments import GroupedMoments, noise_factor, s_delta
from tests.methods.grouping.data import reference_folder, standardized

METHODS: tuple[tuple[str, dict[str, float]], ...] = (
    ("mdav", {}),
    ("mst", {}),
    ("mst_t_close", {"t": 0.3}),
    ("mst_t_close", {"t": 0.2}),
    ("crest_partial", {}),
    ("crest", {}),
    ("class_mdav", {}),
    ("kd_tree", {}),
    ("class_kd_tree", {}),
)
PUBLISHED = {"Benchmark": ("mst", "mst_t_close"), "Partial CAMP-CREST": ("crest_partial",), "CAMP-CREST": ("crest",)}
DRAWS = 5


def title(method, options):
    return method + "".join(f" {name}={value}" for name, value in options.items())


def grouped(features, classes, k, method, options):
    """Labels by one method, on the whole table."""
    given = options if method in ("mdav", "mst", "kd_tree") else {"classes": classes, **options}
    return cluster(features, k, method, rng=np.random.default_rng(0), **given)


def released(features, labels, form, seed):
    """Group means, or micro-perturbed records as published."""
    groups = sort_groups(labels)
    if form is None:
        return synthesize(features, *groups, "centroid", rng=np.random.default_rng(seed))
    factor = noise_factor(s_delta(GroupedMoments.of(features, *groups), form))
    rng = np.random.default_rng(seed)
    return synthesize(features, *groups, "micro_perturbation", rng=rng, form=form, factor=factor)


def linkage(features, labels, form):
    """Percentage of released records whose own original is the nearest or second nearest of all originals."""
    index = NearestNeighbors(n_neighbors=2).fit(features)
    shares = []
    for seed in range(1 if form is None else DRAWS):
        nearest = index.kneighbors(released(features, labels, form, seed), return_distance=False)
        shares.append(100 * (nearest == np.arange(len(features))[:, None]).any(axis=1).mean())
    return float(np.mean(shares))


def print_fixed_k(features, classes, scores):
    print(
        f"{'method':22}{'k':>4}{'X2':>7}{'homogeneous %':>15}{'IL %':>7}{'groups':>8}{'mean size':>11}{'largest t':>11}"
    )
    for k in (3, 5, 10, 20):
        for method, options in METHODS:
            labels = grouped(features, classes, k, method, options)
            found = class_disclosure(labels, classes)
            print(
                f"{title(method, options):22}{k:4}{found.chi_square:7.2f}{100 * found.homogeneous_share:15.1f}"
                f"{information_loss(scores, labels):7.1f}{found.n_groups:8}{len(features) / found.n_groups:11.1f}"
                f"{found.largest_total_variation:11.2f}"
            )


def print_searches(features, classes, most_k):
    """Smallest k without a homogeneous group, the k from which there is none any more, and X2 at equal mean sizes."""
    sizes = (8, 15, 30)
    heading = "".join(f"{f'X2 at {size} a group (k)':>26}" for size in sizes)
    print(f"{'method':22}{'none homogeneous at k':>22}{'from k on':>11}{heading}")
    for method, options in METHODS:
        found = {
            k: class_disclosure(grouped(features, classes, k, method, options), classes) for k in range(2, most_k + 1)
        }
        first = next((str(k) for k, f in found.items() if f.homogeneous_share == 0), f"over {most_k}")
        last = max((k for k, f in found.items() if f.homogeneous_share > 0), default=1)
        cells = []
        for size in sizes:
            k = min(found, key=lambda k: abs(len(features) / found[k].n_groups - size))
            cells.append(f"{found[k].chi_square:.2f} at {len(features) / found[k].n_groups:.1f} ({k})")
        print(f"{title(method, options):22}{first:>22}{last + 1:11}" + "".join(f"{cell:>26}" for cell in cells))


def print_equal_linkage(features, classes, rows, most_k):
    """X2 at the smallest k whose linkage is no more than the published one."""
    print(f"{'published':20}{'linkage':>9}{'X2':>6}   {'here':22}{'k':>4}{'linkage':>9}{'X2':>6}{'homogeneous %':>15}")
    for row in rows:
        for method, options in METHODS:
            if method not in PUBLISHED[row["method"]]:
                continue
            form = None if row["method"] == "Benchmark" else "published"
            for k in range(2, most_k + 1):
                labels = grouped(features, classes, k, method, options)
                share = linkage(features, labels, form)
                if share <= float(row["linkage_percent"]):
                    break
            found = class_disclosure(labels, classes)
            print(
                f"{row['method']:20}{float(row['linkage_percent']):9.2f}{float(row['chi_square']):6.2f}   "
                f"{title(method, options):22}{k:4}{share:9.2f}{found.chi_square:6.2f}"
                f"{100 * found.homogeneous_share:15.1f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most-k", type=int, default=60, help="largest k that is tried")
    most_k = parser.parse_args().most_k
    data = reference_folder() / "data" / "pima.csv"
    if not data.exists():
        print(f"pima.csv is not in {data.parent}; set ANONPIPE_BENCH_DATA")
        return
    table = np.genfromtxt(data, delimiter=",", skip_header=1)
    features, classes = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    scores = standardized(features)
    unit = np.ascontiguousarray((features - features.min(axis=0)) / np.ptp(features, axis=0))
    path = reference_folder() / "reference" / "li_sarkar_table1.csv"
    rows = []
    if path.exists():
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["dataset"] == "Diabetes"]
    else:
        print(f"li_sarkar_table1.csv is not in {path.parent}; nothing published is printed")
    for name, scaled in (("columns on [0, 1]", unit), ("z-scores", scores)):
        print(f"\ndistances between {name}")
        print_fixed_k(scaled, classes, scores)
        print()
        print_searches(scaled, classes, most_k)
        if rows:
            print()
            print_equal_linkage(scaled, classes, rows, most_k)


if __name__ == "__main__":
    main()
