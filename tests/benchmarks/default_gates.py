"""How often the default gates refuse an honest release of an awkward table, over many secrets.

    python -m tests.benchmarks.default_gates [--secrets 200] [--first 0] [--rows 600] [--k 5]
        [--transform default|none] [--how ...]

A job that says kinds, roles and bounds and nothing else; measures off but with
`--risk`, which holds the usual limits on risk, too, of another table a secret. The table has a long tail with two
extremes, counts full of zeros, heaped values with nulls, a share with mass at both
bounds, halves, dates, survival times by status, a rare category. Printed
are refused runs, which gates refused, the largest measured share of each limit, and
the upper end of the one-sided 95 % interval of the rate (Clopper and Pearson).

`--how` names the ways of the list below; all by default. `--first` goes on from another secret: refusals of several
runs add up.

    python -m tests.benchmarks.default_gates --distributions --secrets 200 --how local_synthesis

counts the gates on distributions that `init` proposes (column_shapes, survival_curves), and pair_shapes, at their limit
of 1: of honest releases, and of releases with one thing wrong, which each gate should catch. What is judged are upper
ends, as in a run; a release that another gate refuses is counted as such, and left out. With `--transform none` the
honest releases are those of columns masked as they are. With `--leave-out day halves` no column follows from another
but for rounding, which no method keeps and of which the figure of pairs tells otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, norm

from anonpipe import anonymize
from anonpipe.verify.check import Check
from tests.benchmarks.beside_chance import compared

COLUMNS: dict[str, Any] = {
    "income": {"kind": "continuous", "bounds": [0, None], "step": 0.01},
    "visits": {"kind": "integer", "bounds": [0, None]},
    "pressure": {"kind": "integer", "bounds": [0, 300]},
    "share": {"kind": "continuous", "bounds": [0, 1], "step": 0.001},
    "halves": {"kind": "continuous", "bounds": [None, None], "step": 1},
    "day": {"kind": "date"},
    "months": {"kind": "continuous", "role": "survival_time", "step": 0.1},
    "status": {"kind": "binary", "role": "survival_status", "event": ["dead"]},
    "site": {"kind": "categorical"},
}
HOW: dict[str, dict[str, Any]] = {
    "default": {},
    "strata": {"cluster": {"method": "mdav"}, "strata": {"by": ["status"]}},
    "pca expected": {"synthesize": {"method": "pca", "moments": "expected"}},
    "centroid": {"synthesize": {"method": "centroid"}},
    "local_synthesis": {"mask": {"method": "local_synthesis"}, "strata": {"by": ["status"]}},
    "data_shuffle": {"mask": {"method": "data_shuffle"}},
}


def awkward(rows: int, seed: int = 0) -> pd.DataFrame:
    """Skewed, full of zeros, heaped, bounded with mass at both ends, with nulls, halves, dates and rare places."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal(np.zeros(6), 0.5 * np.eye(6) + 0.5, rows)
    dead = z[:, 5] < -0.25
    frame = pd.DataFrame(
        {
            "income": np.exp(9 + 1.5 * z[:, 0]).round(2),
            "visits": np.floor(np.where(z[:, 1] < 0.25, 0, np.exp(1.5 * z[:, 1]))).astype(int),
            "pressure": 5 * np.rint((120 + 15 * z[:, 2]) / 5),
            "share": np.clip(0.5 + 0.5 * z[:, 3], 0, 1).round(3),
            "halves": np.floor(3 * norm.cdf(z[:, 0]) + rng.random(rows) * 4) + 0.5,
            "day": pd.Timestamp("2000-01-01") + pd.to_timedelta((3000 * norm.cdf(z[:, 2])).astype(int), unit="D"),
            "months": np.round(np.exp(3 + z[:, 4]) * np.where(dead, 1, 2), 1),
            "status": np.where(dead, "dead", "alive"),
            "site": rng.choice(["a", "b", "c", "d"], rows, p=[0.6, 0.3, 0.08, 0.02]),
        }
    )
    frame.loc[[7, 11], "income"] = [9.9e6, 4.8e6]
    frame.loc[rng.random(rows) < 0.1, "pressure"] = np.nan
    return frame


def upper_end(refused: int, runs: int) -> float:
    """Of the one-sided 95 % interval of a rate.

    Examples
    --------
    >>> round(upper_end(0, 200), 4)
    0.0149
    """
    return float(beta.ppf(0.95, refused + 1, runs - refused)) if refused < runs else 1.0


def checked(frame: pd.DataFrame, job: dict[str, Any], secret: int) -> tuple[Check, ...]:
    """The checks of a run with its own secret."""
    os.environ["ANONPIPE_SECRET"] = hashlib.sha256(str(secret).encode()).hexdigest()
    return anonymize(frame, job).verdict.checks


def shuffled(frame: pd.DataFrame, name: str, rng: np.random.Generator) -> pd.DataFrame:
    """A release one column of which has nothing to do with the others."""
    return frame.assign(**{name: rng.permutation(frame[name])})


def dropped(frame: pd.DataFrame, name: str, value: Any) -> pd.DataFrame:
    """A release in which a category has become the commonest one."""
    return frame.assign(**{name: frame[name].where(frame[name] != value, frame[name].mode()[0])})


WRONG: dict[str, Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]] = {
    "as it is": lambda frame, rng: frame,
    "survival times x 1.2": lambda frame, rng: frame.assign(months=(1.2 * frame["months"]).round(1)),
    "survival times x 1.5": lambda frame, rng: frame.assign(months=(1.5 * frame["months"]).round(1)),
    "survival times shuffled": lambda frame, rng: shuffled(frame, "months", rng),
    "statuses shuffled": lambda frame, rng: shuffled(frame, "status", rng),
    "income shuffled": lambda frame, rng: shuffled(frame, "income", rng),
    "income drawn from a normal law": lambda frame, rng: frame.assign(
        income=rng.normal(frame["income"].mean(), frame["income"].std(), len(frame)).clip(0)
    ),
    "zeros of visits spread to 0, 1, 2": lambda frame, rng: frame.assign(
        visits=np.where(frame["visits"] == 0, rng.integers(0, 3, len(frame)), frame["visits"])
    ),
    "a category of 8 % dropped": lambda frame, rng: dropped(frame, "site", "c"),
    "a category of 30 % dropped": lambda frame, rng: dropped(frame, "site", "b"),
    "no nulls in pressure": lambda frame, rng: frame.assign(pressure=frame["pressure"].fillna(120)),
}
"""What may be wrong with a release."""

DAMAGED = 20
"""Releases that this is tried with."""


def count_distributions(frame: pd.DataFrame, job: dict[str, Any], how: str, secrets: range) -> None:
    """Print how often each gate on distributions is above 1, of honest and of wrong releases."""
    figures = ("column_shapes", "pair_shapes", "survival_curves")
    found: dict[str, list[list[float]]] = {wrong: [] for wrong in WRONG}
    refused = 0
    for secret in secrets:
        os.environ["ANONPIPE_SECRET"] = hashlib.sha256(str(secret).encode()).hexdigest()
        made = anonymize(frame, job).table
        if made is None:
            refused += 1
            continue
        for wrong, change in WRONG.items() if len(found["as it is"]) < DAMAGED else [*WRONG.items()][:1]:
            told = compared(frame, change(made, np.random.default_rng(secret)), job["columns"], job["k"], secret)
            ends = [told[figure].value if told[figure].high is None else told[figure].high for figure in figures]
            found[wrong].append([float(end) for end in ends])
    print(f"{how}: {len(secrets)} secrets, {refused} refused by other gates; above 1 (median):")
    if refused == len(secrets):
        return
    for wrong, each in found.items():
        ends = np.array(each).reshape(-1, len(figures))
        told_of = (
            f"{figure.split('.')[0]} {(column > 1).sum()} of {len(column)} ({np.median(column):.2f})"
            for figure, column in zip(figures, ends.T, strict=True)
        )
        print(f"   {wrong}: " + ", ".join(told_of), flush=True)


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--secrets", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--transform", choices=("default", "none"), default="default")
    parser.add_argument("--how", nargs="+", choices=tuple(HOW), default=tuple(HOW))
    parser.add_argument("--distributions", action="store_true")
    parser.add_argument("--risk", action="store_true", help="with the usual limits on risk, of a table a secret")
    parser.add_argument("--leave-out", nargs="+", choices=tuple(COLUMNS), default=[], metavar="COLUMN")
    given = parser.parse_args()
    columns = {name: each for name, each in COLUMNS.items() if name not in given.leave_out}
    if given.transform == "none":
        numbers = ("continuous", "integer", "date")
        columns = {
            name: each | ({"transform": "none"} if each["kind"] in numbers else {}) for name, each in columns.items()
        }
    frame = awkward(given.rows)[[*columns]]
    secrets = range(given.first, given.first + given.secrets)
    job = {"k": given.k, "columns": columns, "measure": {"utility": False, "risk": given.risk}}
    print(f"{given.rows} rows, k={given.k}, transform {given.transform}, {given.secrets} secrets each")
    for how in given.how:
        if given.distributions:
            count_distributions(frame, job | HOW[how], how, secrets)
            continue
        failed: Counter[str] = Counter()
        nearest: dict[str, float] = {}
        refused = 0
        for secret in secrets:
            table = awkward(given.rows, secret)[[*columns]] if given.risk else frame
            checks = checked(table, job | HOW[how], secret)
            blocked = [check.key for check in checks if check.blocks]
            failed.update(blocked)
            refused += bool(blocked)
            for check in checks:
                if check.unit and check.limit is not None:
                    nearest[check.key] = max(nearest.get(check.key, 0.0), check.ratio)
        told = ", ".join(f"{key} {count}" for key, count in failed.most_common()) or "none"
        print(f"{how}: {refused} refused, rate at most {upper_end(refused, given.secrets):.2%} (95 %); gates: {told}")
        print("   largest share of its limit: " + ", ".join(f"{key} {value:.2f}" for key, value in nearest.items()))


if __name__ == "__main__":
    main()
