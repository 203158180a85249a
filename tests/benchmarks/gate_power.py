"""How often the gates on promised means and covariances refuse an honest run, and how often they catch a wrong one.

    python -m tests.benchmarks.gate_power [--draws 1200] [--n 500 5000] [--k 3 20] [--seconds 400]

Tables of four columns: normal; lognormal (sd of the logarithm 2); Student's t
with 3 degrees of freedom; numbers of which nine in ten are 0; and normal ones
with a single outlier of 1,000 standard deviations. Groups by MDAV. Each draw
is one release; its largest measured-to-limit ratio over all entries is that of
the gates, beside the largest distance in standard errors, which six were the
limit of before. Then the same with something wrong.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import beta

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import cluster
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.masking._spectral import axes_of
from anonpipe.methods.synthesis import METHODS, synthesize
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, noise_factor, s_delta
from anonpipe.verify.catalogue import Scope
from anonpipe.verify.expectations import Target, against_expectation, of_groups
from tests.in_memory import mask

WIDTH = 4
LINE = "{:<16} {:>6} {:>3}  {:<32} {:>7} {:>9} {:>9} {:>8} {:>8}"


def normal(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(size=(n, WIDTH)) @ (np.eye(WIDTH) + 0.4)


def lognormal(rng: np.random.Generator, n: int) -> Any:
    return np.exp(2.0 * rng.normal(size=(n, WIDTH)))


def student(rng: np.random.Generator, n: int) -> Any:
    return rng.standard_t(3, size=(n, WIDTH)) + rng.normal(size=(n, 1))


def zeros(rng: np.random.Generator, n: int) -> Any:
    return np.where(rng.random((n, WIDTH)) < 0.9, 0.0, rng.lognormal(0.0, 1.5, (n, WIDTH)))


def giant(rng: np.random.Generator, n: int) -> Any:
    features = rng.normal(size=(n, WIDTH))
    features[0, :2] = 1000.0
    return features


TABLES: tuple[Callable[[np.random.Generator, int], Any], ...] = (normal, lognormal, student, zeros, giant)
GROUPED = (
    ("micro_perturbation", "independent"),
    ("micro_perturbation", "centred"),
    ("gaussian", "expected"),
)
MASKED: tuple[tuple[str, dict[str, Any]], ...] = (("noise", {}), ("synthesis", {}), ("spectral_swap", {}))


class Grouped:
    """A table in its groups, what a method promises of it, and its draws, right or wrong."""

    def __init__(self, features: Any, groups: tuple[Any, Any], method: str, form: str) -> None:
        self.features, self.groups, self.method, self.form = features, groups, method, form
        self.grouped = GroupedMoments.of(features, *groups)
        spread = [GroupSpread.of(features, *groups)] if form == "expected" else None
        record = METHODS[method]
        assert record.guarantee is not None and record.options is not None and record.forms is not None
        options = record.options(method=method, **{record.forms: form})
        self.target = of_groups([self.grouped], spread, record.guarantee(options))

    def draw(self, rng: np.random.Generator, wrong: str | None = None) -> Moments:
        """Moments of one release."""
        features, options = self.features, {}
        if self.method == "micro_perturbation":
            other = {"independent": "centred", "centred": "independent"}[self.form]
            noise = s_delta(self.grouped, other if wrong == OTHER_FORM else self.form)
            factor = noise_factor(noise * (1.1 if wrong == WIDER else 1.0))
            options = {"form": self.form, "factor": factor}
        else:
            options = {"moments": self.form} | ({"n_table": len(features)} if self.form == "expected" else {})
        new = synthesize(features, *self.groups, self.method, rng=rng, **options)
        if wrong in (WIDER, OTHER_FORM) and self.method != "micro_perturbation":  # W/(n-1) in place of W/n
            order, starts = self.groups
            factor = np.full(len(features), 1.1)
            if wrong == OTHER_FORM:
                sizes = np.diff(starts)
                factor[order] = np.repeat(sizes / (sizes - 1), sizes)
            centres = synthesize(features, *self.groups, "centroid", rng=rng)
            new = centres + (new - centres) * np.sqrt(factor)[:, None]
        return Moments.of(damaged(new, self.groups, wrong))


class Masked:
    """A table, what a masker promises of it, and its draws."""

    def __init__(self, features: Any, method: str, options: dict[str, Any]) -> None:
        self.features, self.method, self.form = features, method, ""
        total = Moments.of(features)
        asked = dict(options)
        if MASKERS[method].permutes:
            axes = axes_of(total, "spectral")
            asked["largest"] = np.abs((features - axes.centre) @ axes.vectors).max(axis=0)
        expect = MASKERS[method].expect
        assert expect is not None
        self.target = Target(total, expect(total, **asked))

    def draw(self, rng: np.random.Generator, wrong: str | None = None) -> Moments:
        """Moments of one release."""
        return Moments.of(mask(self.features, self.method, rng=rng))


WIDER, SHIFTED, SWAPPED, OTHER_FORM = (
    "variance of the noise x 1.1",
    "a mean shifted by 0.05 sd",
    "a column swapped in two rows",
    "noise of the other form",
)
WRONG = (WIDER, SHIFTED, SWAPPED, OTHER_FORM)


def damaged(new: Any, groups: tuple[Any, Any], wrong: str | None) -> Any:
    """A release with one thing wrong that is wrong after the draws."""
    if wrong == SHIFTED:
        new[:, 1] += 0.05 * new[:, 1].std()
    if wrong == SWAPPED:  # in two rows of every group
        order, starts = groups
        one, two = order[starts[:-1]], order[starts[:-1] + 1]
        new[one, 0], new[two, 0] = new[two, 0].copy(), new[one, 0].copy()
    return new


def measured(target: Target, made: Moments) -> tuple[float, float]:
    """The largest ratio of the gates, and the largest distance in standard errors."""
    held = against_expectation(Scope.TABLE, target, made, [f"column {at}" for at in range(len(target.scale))])
    expected, scale = target.expected, target.scale
    assert expected is not None
    if not expected.covariance_error.any():
        ratio = max(each.ratio for each in held)
        return ratio, 7.0 if ratio > 1 else 0.0  # held to nine digits, now as before
    square = np.outer(scale, scale)
    mean = np.abs(made.mean - target.original.mean) / (expected.mean_error + 1e-9 * scale)
    covariance = np.abs(made.covariance - expected.covariance) / (expected.covariance_error + 1e-9 * square)
    return max(each.ratio for each in held), float(max(mean.max(), covariance.max()))


def upper(failures: int, draws: int) -> float:
    """Upper end of the 95 % interval of a rate, one-sided (Clopper and Pearson)."""
    return float(beta.ppf(0.95, failures + 1, max(draws - failures, 1)))


def cases(features: Any, k: int) -> list[Grouped | Masked]:
    """All that can be promised of one table."""
    groups = sort_groups(cluster(features, k, "mdav", rng=np.random.default_rng(0)))
    grouped: list[Grouped | Masked] = [Grouped(features, groups, *each) for each in GROUPED]
    return grouped + [Masked(features, *each) for each in MASKED] if k == 3 else grouped


def run(each: Grouped | Masked, draws: int, rng: np.random.Generator, until: float, wrong: str | None = None) -> Any:
    """Ratios and distances of so many draws, fewer where the time is over."""
    found = []
    for _ in range(draws):
        found.append(measured(each.target, each.draw(rng, wrong)))
        if time.monotonic() > until:
            break
    return np.array(found)


def widest(target: Target) -> float:
    """The widest limit on a covariance, in standard errors."""
    assert target.expected is not None
    error = target.expected.covariance_error
    return float(np.max(np.divide(target.limits[1], error, out=np.zeros_like(error), where=error > 0)))


def honest(sizes: list[int], ks: list[int], draws: int, until: float) -> None:
    """False refusals, line by line and together."""
    print(LINE.format("table", "n", "k", "method", "draws", "> 6 s.e.", "refused", "largest", "limit"))
    print(f"{'':<61} {'':>7} {'':>9} {'':>9} {'ratio':>8} {'s.e.':>8}")
    sums, case = np.zeros(3, dtype=np.int64), 0
    for make in TABLES:
        for n in sizes:
            features = scores(make(np.random.default_rng(1), n))
            for k in ks:
                for each in cases(features, k):
                    count = max(draws * min(500, n) // n, 50)
                    case += 1
                    found = run(each, count, np.random.default_rng([2, case]), until)
                    beyond, refused = int((found[:, 1] > 6).sum()), int((found[:, 0] > 1).sum())
                    sums += [len(found), beyond, refused]
                    name = f"{each.method} {each.form}".strip()
                    shown = len(found), beyond, refused, f"{found[:, 0].max():.2f}", f"{widest(each.target):.1f}"
                    print(LINE.format(make.__name__, n, k, name, *shown), flush=True)
    draws_made, beyond, refused = (int(value) for value in sums)
    print(f"\n{draws_made:,} draws: beyond six standard errors {beyond} ({100 * beyond / draws_made:.3f} %)")
    print(f"refused {refused}; upper 95 % limit of the rate {upper(refused, draws_made):.2e}")


def power(sizes: list[int], k: int, draws: int, until: float) -> None:
    """Shares of wrong runs that are caught: by the limits, and by six standard errors."""
    line = "{:<10} {:>6} {:<32} {:<30} {:>9} {:>9}"
    print("\n" + line.format("table", "n", "method", "wrong", "caught", "6 s.e."))
    for make in (normal, student):
        for n in sizes:
            features = scores(make(np.random.default_rng(1), n))
            groups = sort_groups(cluster(features, k, "mdav", rng=np.random.default_rng(0)))
            for method, form in (*GROUPED, ("gaussian", "exact")):
                each = Grouped(features, groups, method, form)
                for wrong in WRONG:
                    found = run(each, draws, np.random.default_rng(3), until, wrong)
                    caught, before = np.mean(found > [1.0, 6.0], axis=0)
                    shown = f"{caught:.0%}", f"{before:.0%}"
                    print(line.format(make.__name__, n, f"{method} {form}", wrong, *shown), flush=True)


def scores(features: Any) -> Any:
    """Z-scores."""
    return np.ascontiguousarray((features - features.mean(axis=0)) / features.std(axis=0, ddof=1))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_200, help="a case of 500 rows; fewer of larger tables")
    parser.add_argument("--n", type=int, nargs="+", default=[500, 5_000])
    parser.add_argument("--k", type=int, nargs="+", default=[3, 20])
    parser.add_argument("--seconds", type=float, default=400.0, help="after which every case gets one draw")
    chosen = parser.parse_args()
    begin = time.monotonic()
    honest(chosen.n, chosen.k, chosen.draws, begin + chosen.seconds)
    power([*chosen.n, 20_000], chosen.k[0], 20, begin + 2 * chosen.seconds)


if __name__ == "__main__":
    main()
