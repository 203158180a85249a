"""Information loss of every grouping method on every table at hand, beside the published figures and the bound.

    python -m tests.benchmarks.information_loss [--k 3 4 5 10] [--tables tarragona] [--methods mdav tfrp_2]

Tables are the CSV files of the folder `data` in the folder that
ANONPIPE_BENCH_DATA names, else in ../shared; of their columns the numeric
ones, z-scored over the rows that are complete. Published figures come from
`reference/kabir_wang_tables.csv` there, and from the groups that its last
method formed on raw columns. Every figure is in per cent; the bound holds for
any grouping of at least k on z-scores, the best possible one included. Tables
of more than --most-rows rows are cut to that many.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from anonpipe.methods.grouping import METHODS, cluster, information_loss, information_loss_bound, refine
from tests.methods.grouping.data import reference_folder, standardized

PUBLISHED = {
    "MDAV-MHM": ("mhm", {"order": "mdav"}),
    "MD-MHM": ("mhm", {"order": "md"}),
    "CBFS-MHM": ("mhm", {"order": "cbfs"}),
    "NPN-MHM": ("mhm", {"order": "npn"}),
    "M-d": ("mst_d", {}),
    "mu-Approx": ("mu_approx", {}),
    "TFRP-1": ("tfrp_1", {}),
    "TFRP-2": ("tfrp_2", {}),
    "MDAV-1": ("mdav_1", {}),
    "MDAV-2": ("mdav_2", {}),
    "DBA-1": ("dba_1", {}),
    "DBA-2": ("dba_2", {}),
}
NOT_ATTRIBUTES = {"eia": ("YEAR", "MONTH"), "pima": ("Outcome",)}
"""Numeric columns that the literature leaves out, and classes."""


def tables(names, most_rows):
    """(name, raw numeric columns) of the tables at hand."""
    folder = reference_folder() / "data"
    found = sorted(folder.glob("*.csv"))
    if not found:
        print(f"no CSV file is in {folder}; set ANONPIPE_BENCH_DATA")
    for path in found:
        name = path.stem.lower()
        if names and name not in names:
            continue
        frame = pd.read_csv(path, nrows=most_rows).select_dtypes("number").dropna()
        raw = frame.drop(columns=[c for c in NOT_ATTRIBUTES.get(name, ()) if c in frame]).to_numpy(float)
        if len(raw) >= 100:
            yield name, raw


def published():
    """{(table, k): {published name: per cent}}."""
    path = reference_folder() / "reference" / "kabir_wang_tables.csv"
    if not path.exists():
        print(f"{path} is not at hand: no published figures")
        return {}
    figures = {}
    for row in pd.read_csv(path).itertuples():
        figures.setdefault((row.dataset.lower(), row.k), {})[row.method] = row.information_loss_percent
    return figures


def runs(wanted):
    """(label, method, options) of all methods; those with published figures under their published name too."""
    named = {(method, tuple(options.items())): name for name, (method, options) in PUBLISHED.items()}
    for method in METHODS:
        if wanted and method not in wanted:
            continue
        choices = [options for other, options in PUBLISHED.values() if other == method] or [{}]
        for options in choices:
            label = " ".join([method, *map(str, options.values())])
            yield label, method, options, named.get((method, tuple(options.items())))


def group(features, k, method, options):
    """Labels, or None where the method refuses, and seconds."""
    given = dict(options)
    if METHODS[method].classes:
        given["classes"] = (features[:, 0] > np.median(features[:, 0])).astype(np.int64)
    start = time.perf_counter()
    try:
        labels = cluster(features, k, method, rng=np.random.default_rng(0), **given)
    except ValueError as error:
        return str(error), 0.0
    return labels, time.perf_counter() - start


def line(label, loss, bound, seconds, reference=None):
    there = f"{reference:12.6f}{100 * (loss / reference - 1):+10.3f} %" if reference else " " * 24
    print(f"  {label:24}{loss:12.6f}{there}{loss / bound if bound else 0:9.3f}{seconds:9.2f}", flush=True)


def raw_pairwise(raw, k, figures):
    """The published figures of the pairwise systematic method are those of raw columns."""
    labels, seconds = group(raw, k, "pairwise_systematic", {})
    bound = information_loss_bound(raw, k)
    line("pairwise_systematic, raw", information_loss(raw, labels), bound, seconds, figures.get("P-S"))


def compare(name, raw, k, figures, wanted):
    features = standardized(raw)
    bound = information_loss_bound(features, k)
    print(f"\n{name}: {features.shape[0]:,} x {features.shape[1]}, k={k}, bound of any grouping {bound:.4f} %")
    print(f"  {'method':24}{'ours':>12}{'published':>12}{'difference':>12}{'to bound':>9}{'seconds':>9}")
    for label, method, options, reference in runs(wanted):
        labels, seconds = group(features, k, method, options)
        if isinstance(labels, str):
            print(f"  {label:24}refuses: {labels}")
            continue
        line(label, information_loss(features, labels), bound, seconds, figures.get(reference))
        if method == "pairwise_systematic":
            raw_pairwise(raw, k, figures)
    start = time.perf_counter()
    for effort in ("quick", "normal"):
        labels = refine(features, group(features, k, "mdav", {})[0], k, effort)
        line(f"mdav, refine {effort}", information_loss(features, labels), bound, time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 4, 5, 10])
    parser.add_argument("--tables", nargs="+", help="names of the files, without .csv; all unless given")
    parser.add_argument("--methods", nargs="+", choices=sorted(METHODS), metavar="METHOD")
    parser.add_argument("--most-rows", type=int, default=5_000)
    options = parser.parse_args()
    reference = published()
    for name, raw in tables(options.tables, options.most_rows):
        for k in options.k:
            compare(name, raw, k, reference.get((name, k), {}), options.methods)


if __name__ == "__main__":
    main()
