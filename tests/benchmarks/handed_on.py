"""How often the gate on values of single persons refuses an honest release, and how few values handed on it catches.

    python -m tests.benchmarks.handed_on [--releases 3000] [--n 200 1000 5000] [--k 5] [--seconds 400]

A release has eleven columns: lognormal ones to the cent and to the whole number,
heaped whole numbers (three in four on tens), whole years, dates, steps of 0.1,
single precision with and without a step, one of nine zeros in ten, and
whole numbers and tenths that no step is declared for. Groups
are cut along a random direction: what groups these are is of no matter here.
First the chances against what was met, all releases together, by the chance:
the ratio is what `LEEWAY` has to cover. Then refused releases. Then releases
of the first row of each table with single values of it handed on verbatim.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from anonpipe.methods.synthesis import synthesize
from anonpipe.moments import GroupedMoments, noise_factor, s_delta
from anonpipe.verify.original_values import Chances, Fineness, chances, coarsest_grid, means_lie_on
from tests.in_memory import mask

METHODS = ("micro_perturbation", "gaussian", "noise", "synthesis", "centroid")
SINGLE = float(np.finfo(np.float32).eps)
BORN_FAR_OFF = -36_085.0
"""1871-03-17 in days."""


@dataclass(frozen=True)
class Kind:
    """How a column is stored: its step, its type, its lower bound."""

    step: float = 0.0
    single: bool = False
    low: float = -np.inf

    def stored(self, values: Any) -> Any:
        """What is written of some numbers."""
        values = np.maximum(np.rint(values / self.step) * self.step if self.step else values, self.low)
        return values.astype(np.float32).astype(np.float64) if self.single else values


KINDS = {
    "cents": Kind(0.01, low=0.0),
    "long tail, whole": Kind(1.0, low=0.0),
    "heaped, whole": Kind(1.0, low=0.0),
    "years": Kind(1.0, low=0.0),
    "dates": Kind(1.0),
    "steps of 0.1": Kind(0.1, low=0.0),
    "single precision": Kind(single=True),
    "single, steps of 0.1": Kind(0.1, single=True),
    "zeros": Kind(1.0, low=0.0),
    "no step, whole": Kind(),
    "single, no step, tenths": Kind(single=True),
}


def table(rng: np.random.Generator, n: int) -> Any:
    """Eleven columns, shape (n, 11), related to each other."""
    x = rng.normal(size=n)
    weight = rng.normal(80, 14, n)
    columns = [
        rng.lognormal(7, 0.9, n) * np.exp(0.5 * x),
        rng.lognormal(5, 1.5, n),
        np.where(rng.random(n) < 0.75, np.rint(weight / 10) * 10, weight),
        50 + 15 * x + rng.normal(0, 5, n),
        10_000 + 3_000 * rng.random(n) + 500 * x,
        rng.exponential(90, n),
        rng.normal(30, 12, n),
        rng.gamma(2.0, 15, n),
        np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(5, 1.2, n)),
        np.rint(rng.normal(500, 120, n)),
        np.round(rng.gamma(2.0, 15, n), 1),
    ]
    return np.column_stack([kind.stored(column) for kind, column in zip(KINDS.values(), columns, strict=True)])


def release(features: Any, method: str, k: int, rng: np.random.Generator) -> Any:
    """One release, before it is stored."""
    if method in ("noise", "synthesis"):
        return mask(features, method, rng=rng)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    order = np.argsort(scaled @ rng.normal(size=features.shape[1]), kind="stable")
    starts = np.append(np.arange(0, len(features) - k + 1, k)[: len(features) // k], len(features))
    options: dict[str, Any] = {}
    if method == "micro_perturbation":
        factor = noise_factor(s_delta(GroupedMoments.of(features, order, starts), "independent"))
        options = {"form": "independent", "factor": factor}
    elif method == "gaussian":
        options = {"moments": "expected", "n_table": len(features)}
    return synthesize(features, order, starts, method, rng=rng, **options)


def compare(original: Any, released: Any, kind: Kind, k: int) -> Chances:
    """One column, as `anonpipe.pipeline.tasks.write` does it."""
    values, rows = np.unique(original, return_counts=True)
    rare = values[(rows < k) & (values != kind.low)]
    relative = SINGLE if kind.single else 0.0
    grid = coarsest_grid(lambda: [values], kind.step, relative)
    size = float(original.std() + abs(original.mean()))
    made = np.unique(released)
    meets = bool(kind.step or not grid) or means_lie_on(grid, made, relative)
    return chances(rare, made, Fineness(size, kind.step, grid, relative, meets))


def upper(failures: int, draws: int) -> float:
    """Upper end of the 95 % interval of a frequency."""
    return float(beta.ppf(0.95, failures + 1, draws - failures)) if failures < draws else 1.0


def honest(releases: int, sizes: list[int], k: int, seconds: float) -> None:
    """Chances against what was met, and refusals."""
    begun, columns = time.perf_counter(), len(KINDS)
    pooled = Chances.none()
    refused = {(method, n): [0, 0] for method in METHODS for n in sizes}
    by_column = dict.fromkeys(KINDS, 0)
    places = list(refused)
    for at in range(releases):
        if time.perf_counter() - begun > seconds:
            print(f"stopped after {seconds:g} s")
            break
        method, n = places[at % len(places)]
        rng = np.random.default_rng([at, n])
        original = table(rng, n)
        made = release(original, method, k, rng)
        beyond = 0
        for place, (name, kind) in enumerate(KINDS.items()):
            found = compare(original[:, place], kind.stored(made[:, place]), kind, k)
            pooled = pooled.merge(found)
            by_column[name] += bool(found.beyond(columns))
            beyond += found.beyond(columns)
        refused[method, n][0] += bool(beyond)
        refused[method, n][1] += 1
    print(f"{'chance from':>12} {'expected':>12} {'met':>9} {'ratio':>6}")
    for bin_ in np.flatnonzero(pooled.expected > 0.5):
        expected, met = pooled.expected[bin_], pooled.met[bin_]
        print(f"{2.0**-bin_:12.2g} {expected:12.2f} {met:9} {met / expected:6.2f}")
    print(f"\n{'method':<20} {'n':>6} {'releases':>9} {'refused':>8}")
    for (method, n), (bad, among) in refused.items():
        print(f"{method:<20} {n:>6} {among:>9} {bad:>8}")
    bad, among = (sum(part[at] for part in refused.values()) for at in (0, 1))
    print(f"all: {bad} of {among} releases refused, at most {upper(bad, among):.2g} (95 %)")
    print("columns:", {name: count for name, count in by_column.items() if count} or "none")


def caught(sizes: list[int], k: int, draws: int) -> None:
    """Releases with some values handed on verbatim: a lone one far off, then so many of the others."""
    columns = len(KINDS)
    print(f"\n{'handed on':<42} {'n':>6} {'caught':>8}")
    for n in sizes:
        for name, value in (("cents", 98_765_432.11), ("dates", BORN_FAR_OFF)):
            place, kind, found = list(KINDS).index(name), KINDS[name], 0
            for draw in range(draws):
                rng = np.random.default_rng([7, draw, n])
                made = kind.stored(release(table(rng, n), "gaussian", k, rng)[:, place])
                original = np.append(table(rng, n)[:, place], value)
                found += compare(original, np.append(made, value), kind, k).beyond(columns) > 0
            print(f"{f'only {value:.2f} of {name!r}':<42} {n:>6} {found:>4}/{draws}")
        for name in KINDS:
            place, kind = list(KINDS).index(name), KINDS[name]
            for share in (0.01, 0.05, 0.25, 1.0):
                found = 0
                for draw in range(draws):
                    rng = np.random.default_rng([8, draw, n])
                    original = table(rng, n)
                    made = kind.stored(release(original, "gaussian", k, rng)[:, place])
                    rows = rng.random(n) < share
                    made[rows] = original[rows, place]
                    found += compare(original[:, place], made, kind, k).beyond(columns) > 0
                print(f"{f'{share:.0%} of the rows of {name!r}':<42} {n:>6} {found:>4}/{draws}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=3_000)
    parser.add_argument("--n", type=int, nargs="+", default=[200, 1_000, 5_000])
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--draws", type=int, default=20, help="of each line of the second table")
    asked = parser.parse_args()
    honest(asked.releases, asked.n, asked.k, asked.seconds)
    caught(asked.n[:2], asked.k, asked.draws)


if __name__ == "__main__":
    main()
