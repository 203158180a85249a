"""How often gates on distributions are above 1, of honest releases and of releases with one thing wrong.

    python -m tests.benchmarks.distribution_gates [--secrets 200] [--first 0] [--rows 600] [--k 5]
        [--transform default|none] [--how ...] [--leave-out COLUMN ...]

The gates on distributions that `init` proposes, and pair_shapes, at their limit of 1, of the difficult table of
`false_refusals`. What is judged are upper ends, as in a run; a release that another gate refuses is left out.
With `--transform none` the honest releases are those of columns masked as they are.
With `--leave-out day halves` no column follows from another but for rounding, which no method keeps and of which the
figure of pairs tells otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from anonpipe import anonymize
from tests.benchmarks.beside_chance import compared
from tests.benchmarks.false_refusals import AWKWARD, HOW, awkward


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
    parser.add_argument("--leave-out", nargs="+", choices=tuple(AWKWARD), default=[], metavar="COLUMN")
    given = parser.parse_args()
    columns = {name: each for name, each in AWKWARD.items() if name not in given.leave_out}
    if given.transform == "none":
        numbers = ("continuous", "integer", "date")
        columns = {
            name: each | ({"transform": "none"} if each["kind"] in numbers else {}) for name, each in columns.items()
        }
    frame = awkward(given.rows)[[*columns]]
    job = {"k": given.k, "columns": columns, "measure": {"utility": False, "risk": False}}
    print(f"{given.rows} rows, k={given.k}, transform {given.transform}, {given.secrets} secrets each")
    for how in given.how:
        count_distributions(frame, job | HOW[how], how, range(given.first, given.first + given.secrets))


if __name__ == "__main__":
    main()
