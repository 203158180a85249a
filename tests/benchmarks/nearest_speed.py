"""Exact nearest records: CPU seconds of `nearest` beside scikit-learn's brute force and KD tree.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.nearest_speed [--rows 1000000] [--queries 2000] [--all-rows 200000]

The five nearest of each query, on made records that lie near five of their
dimensions, as most microdata do, and on records of four numbers and six
categories. First a sample of queries against the whole table, then every record
against all others. scikit-learn's brute force multiplies matrices, which loses
digits where records lie far from zero, and neither of its two settles ties;
`same` is the share of queries for which the rows agree. One process, one
thread. `product` is what a search of all pairs takes at least: a matrix product
of them in float32, in arrays that are made once. `but one` finds the five
nearest in all columns but one, for each column of the records with categories.
`faults` are the minor page faults of the search here.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from sklearn.neighbors import KDTree, NearestNeighbors
from threadpoolctl import threadpool_limits

from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._guesses import nearest_but_one

COUNT = 5


def records(rows: int, width: int) -> np.ndarray:
    """Of five hidden dimensions and noise, z-scores."""
    rng = np.random.default_rng(width)
    hidden = min(5, width)
    mixing = rng.normal(size=(hidden, width)) if width > hidden else np.eye(width)
    features = rng.normal(size=(rows, hidden)) @ mixing + 0.5 * rng.normal(size=(rows, width))
    return np.ascontiguousarray((features - features.mean(axis=0)) / features.std(axis=0))


def mixed(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four numbers and six categories of different sizes: with dummies, with codes, and jumps between these."""
    rng = np.random.default_rng(rows)
    numbers, sizes = rng.normal(size=(rows, 4)), (2, 3, 4, 5, 8, 10)
    codes = [np.minimum(rng.geometric(1.2 / size, rows) - 1, size - 1) for size in sizes]
    apart = [
        2.0 / (1.0 - (np.bincount(each, minlength=size) ** 2).sum() / rows**2)
        for each, size in zip(codes, sizes, strict=True)
    ]
    dummies = [np.eye(size)[each] * np.sqrt(jump / 2.0) for each, size, jump in zip(codes, sizes, apart, strict=True)]
    return np.hstack([numbers, *dummies]), np.column_stack([numbers, *codes]), np.array([0.0] * 4 + apart)


def timed(function: Callable[[], np.ndarray]) -> tuple[float, int, np.ndarray]:
    """CPU seconds, page faults and the result of a function."""
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
    rows = function()
    return time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, rows


def product(features: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """All inner products, in tiles that stay in the cache: no search, only the arithmetic of one."""
    features, queries = features.astype(np.float32), queries.astype(np.float32)
    out = np.empty((256, 1_024), dtype=np.float32)
    for low in range(0, len(queries) - 255, 256):
        part = queries[low : low + 256]
        for at in range(0, len(features) - 1_023, 1_024):
            np.matmul(part, features[at : at + 1_024].T, out=out[: len(part)])
    return out


def compare(features: np.ndarray, queries: np.ndarray, ways: tuple[str, ...]) -> None:
    """One line of times."""
    how = {
        "here": lambda: nearest(features, queries, COUNT).rows,
        "brute": lambda: (
            NearestNeighbors(n_neighbors=COUNT, algorithm="brute")
            .fit(features)
            .kneighbors(queries, return_distance=False)
        ),
        "KD tree": lambda: KDTree(features).query(queries, COUNT, return_distance=False),
        "product": lambda: product(features, queries),
    }
    seconds, faults, rows = {}, {}, {}
    for name in ways:
        seconds[name], faults[name], rows[name] = timed(how[name])
    cells = [f"{name} {seconds[name]:7.2f} s ({seconds[name] / seconds['here']:.2f})" for name in ways]
    others = [name for name in ways if name in ("brute", "KD tree")]
    same = min(((rows[name] == rows["here"]).all(axis=1).mean() for name in others), default=float("nan"))
    print(
        f"  {features.shape[1]:3} columns  " + "  ".join(cells) + f"  same {same:.4f}  faults {faults['here']:,}",
        flush=True,
    )


def main() -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--all-rows", type=int, default=200_000, help="records of the second part")
    given = parser.parse_args()
    small = records(5_000, 3)
    nearest(small, small, COUNT)  # compiles
    nearest_but_one(small, small[:9], np.arange(1, 4), np.zeros(3), COUNT)
    with threadpool_limits(1):
        print(f"{given.queries:,} queries in {given.rows:,} records; in brackets over the time here")
        for width in (12, 30):
            features = records(given.rows, width)
            compare(
                features,
                features[:: max(1, given.rows // given.queries)][: given.queries],
                ("here", "brute", "product"),
            )
        features, coded, jumps = mixed(given.rows)
        some = slice(None, None, max(1, given.rows // given.queries))
        compare(features, features[some][: given.queries], ("here", "brute", "product"))
        asked, ends = coded[some][: given.queries], np.arange(1, 11)
        seconds, faults, _ = timed(lambda: nearest_but_one(coded, asked, ends, jumps, COUNT)[0])
        print(f"  {len(jumps):3} columns  but one {seconds:6.2f} s  faults {faults:,}", flush=True)
        print(f"all of {given.all_rows:,} records")
        for width in (2, 4, 8):
            features = records(given.all_rows, width)
            compare(features, features, ("here", "KD tree"))


if __name__ == "__main__":
    main()
