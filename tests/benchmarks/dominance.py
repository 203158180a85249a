"""How often extremes are drawn in, and what that costs the mean: by the p % rule, and with the rule on few apart.

And of columns on a scale of their own by what is looked at there.

Tables of the usual awkward shapes, many of each. A rule that fired in every lognormal would be of no use; one that
lets three giants be is of none either.

`python -m tests.benchmarks.dominance`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from unittest import mock

import numpy as np

from anonpipe.encoding import quantiles
from anonpipe.encoding.quantiles import Quantiles, Radix, run_means
from anonpipe.encoding.rare import drawn_to
from anonpipe.types import BoolArray, FloatArray, IntArray

SHAPES: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal, sd 1": lambda rng, n: rng.lognormal(0, 1, n),
    "lognormal, sd 2": lambda rng, n: rng.lognormal(0, 2, n),
    "lognormal, sd 3": lambda rng, n: rng.lognormal(0, 3, n),
    "Pareto 3": lambda rng, n: 1.0 + rng.pareto(3, n),
    "Pareto 2": lambda rng, n: 1.0 + rng.pareto(2, n),
    "Pareto 1.2": lambda rng, n: 1.0 + rng.pareto(1.2, n),
    "nine tenths 0": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(8, 1.5, n)),
    "half heaped": lambda rng, n: np.where(rng.random(n) < 0.5, 5.0 * rng.integers(0, 20, n), 97.0 * rng.random(n)),
    "hundreds": lambda rng, n: np.round(rng.lognormal(8, 1, n), -2),
    "two heaps": lambda rng, n: rng.normal(size=n) + 100.0 * rng.integers(0, 2, n),
    "three giants": lambda rng, n: np.append(rng.lognormal(10, 1, n - 3), [98.8e6, 87.7e6, 76.5e6]),
    "four giants": lambda rng, n: np.append(rng.lognormal(10, 1, n - 4), [98.8e6, 87.7e6, 76.5e6, 80e6]),
}


def _of_one_only(
    counts: IntArray, values: FloatArray, starts: IntArray, atom: BoolArray, fewer: int, share: float
) -> FloatArray:
    """The means of runs as they are without the rule on few that stand apart: fewer than 0 never do."""
    del fewer
    return run_means(counts, values, starts, atom, 0, share)


def _drawn(values: FloatArray, k: int) -> tuple[float, float]:
    """How far the mean is moved by the p % rule alone, and by both."""
    found = Radix.of(values)
    with mock.patch.object(quantiles, "run_means", _of_one_only):
        alone = Quantiles.fit(found, k).drawn
    return alone, Quantiles.fit(found, k).drawn


def _drawn_on_its_own_scale(values: FloatArray, k: int) -> float:
    """How far the mean is moved where the column is masked as it is."""
    ascending = np.sort(values)
    below, above = drawn_to(-ascending, len(values), k), drawn_to(ascending[::-1], len(values), k)
    return float(np.clip(values, ascending[below], ascending[-1 - above]).mean() - values.mean())


def _largest_three(values: FloatArray, k: int) -> float:
    """The three largest's share of what the k largest have above the next: what a usual dominance rule looks at."""
    largest = np.sort(values)[::-1]
    above = largest[:k] - largest[k]
    return float(above[:3].sum() / above.sum()) if above.sum() > 0 else 0.0


def main() -> None:
    """Print a line a shape."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=int, default=11_000)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--tables", type=int, default=200)
    given = parser.parse_args()
    print(f"{given.tables} tables of {given.rows:,} rows each, k = {given.k}")
    print(
        "tables whose mean moves by over 0.001, mean lost, in parts of the larger of mean and sd: p % rule | few apart "
        "| on its own scale | tables in which a usual rule, three and 95 %, would hold"
    )
    for name, made in SHAPES.items():
        rng, moved, lost, usual = np.random.default_rng(0), [], [], []
        for _ in range(given.tables):
            values = made(rng, given.rows)
            every = *_drawn(values, given.k), _drawn_on_its_own_scale(values, given.k)
            drawn, mean = np.array(every), abs(values.mean())
            moved.append(np.abs(drawn) > 1e-3 * max(mean, values.std()))
            lost.append(np.abs(drawn) / max(mean, values.std()))
            usual.append(_largest_three(values, given.k) > 0.95)
        told = (
            f"{share:6.1%} {cost:7.3%}"
            for share, cost in zip(*(np.mean(each, axis=0) for each in (moved, lost)), strict=True)
        )
        print(f"{name:16} |", " | ".join(told), f"| {np.mean(usual):6.1%}", flush=True)


if __name__ == "__main__":
    main()
