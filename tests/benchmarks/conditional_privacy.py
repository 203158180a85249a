"""How often the interval of conditional privacy covers the true value, over draws of laws whose value is known.

python -m tests.benchmarks.conditional_privacy --draws 200 --rows 500 2000
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from anonpipe.evaluate.risk import Pairs
from anonpipe.evaluate.risk._conditional_privacy import conditional_privacy

NORMAL = math.sqrt(2 * math.pi * math.e)
Pair = tuple[np.ndarray, np.ndarray]


def normal(related: float) -> Callable[[np.random.Generator, int], Pair]:
    def drawn(rng: np.random.Generator, rows: int) -> Pair:
        a, other = rng.normal(size=(2, rows))
        return a, related * a + math.sqrt(1 - related**2) * other

    return drawn


def ages(noise: float) -> Callable[[np.random.Generator, int], Pair]:
    def drawn(rng: np.random.Generator, rows: int) -> Pair:
        a = np.round(60 + 12 * rng.normal(size=rows))
        return a, np.round(a + noise * rng.normal(size=rows))

    return drawn


def costs(rng: np.random.Generator, rows: int) -> Pair:
    a, other = rng.normal(size=(2, rows))
    return np.exp(a), np.exp(a + 0.3 * other)


def months(rng: np.random.Generator, rows: int) -> Pair:
    a, b = costs(rng, rows)
    return np.round(20 * a), np.round(20 * b)


def visits(rng: np.random.Generator, rows: int) -> Pair:
    """Counts that are mostly 0."""
    a = rng.poisson(4, rows) * (rng.random(rows) < 0.3) * 1.0
    return a, a + rng.normal(size=rows)


def group_means(rng: np.random.Generator, rows: int) -> Pair:
    """Means of five ages that lie near each other in age and another column."""
    a = np.round(60 + 12 * rng.normal(size=rows))
    order = np.argsort(a + 6 * rng.normal(size=rows))
    b = np.empty(rows)
    b[order] = np.repeat(a[order].reshape(-1, 5).mean(axis=1), 5)
    return a, b


def kept_or_drawn(values: int, kept: float) -> Callable[[np.random.Generator, int], Pair]:
    def drawn(rng: np.random.Generator, rows: int) -> Pair:
        a, other = rng.integers(0, values, (2, rows))
        return a * 1.0, np.where(rng.random(rows) < kept, a, other) * 1.0

    return drawn


def left_of(values: int, kept: float) -> float:
    """2^H(A|B) of a category that is kept with a chance, and drawn evenly otherwise."""
    own, other = kept + (1 - kept) / values, (1 - kept) / values
    return math.exp(-own * math.log(own) - (values - 1) * (other * math.log(other) if other else 0.0))


def discrete_normal(noise: float) -> float:
    """2^H(A|B) of `ages`, in standard deviations, by summing over the grid."""
    grid = np.arange(-80.0, 81.0)
    joint = np.exp(-0.5 * (grid[:, None] / 12) ** 2)
    steps = [(np.array([math.erf(x / math.sqrt(2)) for x in (grid + end) / 12])) for end in (-0.5, 0.5)]
    shares = (steps[1] - steps[0]) / 2
    if noise:
        ends = [
            np.array([[math.erf((b - a + end) / noise / math.sqrt(2)) for b in grid] for a in grid])
            for end in (-0.5, 0.5)
        ]
        joint = shares[:, None] * (ends[1] - ends[0]) / 2
    else:
        joint = np.diag(shares)
    joint = joint / joint.sum()
    seen = joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.nansum(joint * np.log(joint / seen))
    variance = float((joint.sum(axis=1) * grid**2).sum())
    return math.exp(-lost) / math.sqrt(variance)


LAWS: dict[str, tuple[Callable[[np.random.Generator, int], Pair], float | None, bool]] = {
    **{f"normal, r={r}": (normal(r), NORMAL * math.sqrt(1 - r * r), False) for r in (0.0, 0.5, 0.9, 0.99)},
    "costs, long-tailed": (costs, None, False),
    **{f"ages, noise {noise}": (ages(noise), discrete_normal(noise), False) for noise in (2.0, 5.0, 20.0)},
    "ages, a copy": (ages(0.0), discrete_normal(0.0), False),
    "months, long-tailed": (months, None, False),
    "visits, mostly 0": (visits, None, False),
    "ages, group means": (group_means, None, False),
    **{
        f"categories, {m}, kept {kept}": (kept_or_drawn(m, kept), left_of(m, kept), True)
        for m, kept in ((2, 0.5), (5, 0.7), (20, 0.3), (40, 0.9))
    },
}


def figure(pair: Pair, category: bool):
    columns = [column[:, None] for column in pair]
    (found,) = conditional_privacy(Pairs(*columns, ["column"], [0] if category else ()))
    return found


def main() -> None:
    """Print a line for each law and number of rows."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--draws", type=int, default=200)
    asked.add_argument("--rows", type=int, nargs="+", default=[500, 2_000])
    asked.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    options = asked.parse_args()
    print(f"{'law':28} {'rows':>6} {'true':>7} {'mean':>7} {'half':>7}  covered")
    for name, (drawn, known, category) in LAWS.items():
        if name not in options.laws:
            continue
        rng = np.random.default_rng(1)
        true = known if known is not None else figure(drawn(rng, 200_000), category).value
        for rows in options.rows:
            every = [figure(drawn(rng, rows), category) for _ in range(options.draws)]
            found = [one for one in every if one.low is not None]
            told = f"{name:28} {rows:6} {true:7.3f}"
            if not found:
                print(f"{told} left out: pairs of categories occur too seldom", flush=True)
                continue
            covered = np.mean([one.low <= true <= one.high for one in found])
            half = np.mean([one.high - one.value for one in found])
            mean = np.mean([one.value for one in found])
            print(f"{told} {mean:7.3f} {half:7.3f}  {covered:.3f} of {len(found)}", flush=True)


if __name__ == "__main__":
    main()
