"""The attack on two-way tables: who counts two columns of the release reads a cell of one person as one.

Another sample of the population with the same margins has some small cells by chance; that is the control. And who
knows two values of a person reads from a released pair of rare ones that somebody in the data has it: members are told
from others by how far each pair is above what the release's own margins lead to expect.

`python -m tests.attacks.pair_tables`
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.metrics import roc_auc_score

from anonpipe.job.model import Job
from tests import small

ROWS, K = 4_000, 5
COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [18, 99]},
    "cost": {"kind": "continuous", "bounds": [0, None]},
    "score": {"kind": "continuous"},
    "diagnosis": {"kind": "categorical"},
    "result": {"kind": "categorical"},
    "stage": {"kind": "categorical"},
    "therapy": {"kind": "categorical"},
    "region": {"kind": "categorical", "role": "key"},
    "relapse": {"kind": "binary"},
}
COUNTED = ("score", "diagnosis", "result", "stage", "therapy", "region", "relapse")  # Of score its nulls
SETTINGS: dict[str, dict[str, Any]] = {
    "local_synthesis": {"mask": {"method": "local_synthesis"}},
    "data_shuffle": {"mask": {"method": "data_shuffle"}},
    "spectral_swap": {"mask": {"method": "spectral_swap"}},
    "mdav, micro_perturbation": {},
    "mdav, gaussian": {"synthesize": {"method": "gaussian"}},
}


class Found(NamedTuple):
    """Of the cells of 1 to k - 1 persons those with the same count; of released cells of one, those that are true."""

    cells: int
    exact: int
    ones: int
    true_ones: int

    def __str__(self) -> str:
        return (
            f"{self.exact} of {self.cells} small cells exact ({self.exact / max(1, self.cells):.1%}); "
            f"{self.ones} released as one person, {self.true_ones} are"
        )


def registry(rows: int = ROWS, seed: int = 1) -> pa.Table:
    """Persons with columns of rare categories that go together, and nulls."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(rows, 3))

    def category(name: str, levels: int, weights: tuple[float, ...], skew: float = 2.0) -> Any:
        shares = np.arange(1, levels + 1) ** -skew
        place = latent @ np.array(weights) + rng.normal(size=rows)
        codes = np.searchsorted(np.quantile(place, np.cumsum(shares / shares.sum())[:-1]), place)
        return np.char.add(name, codes.astype(str))

    score = 10.0 + latent[:, 0] + rng.normal(size=rows)
    return pa.table(
        {
            "age": np.clip(np.rint(55 + 12 * latent[:, 0] + 6 * rng.normal(size=rows)), 18, 99).astype(int),
            "cost": np.exp(8 + latent[:, 1] + 0.5 * rng.normal(size=rows)).round(2),
            "score": pa.array(score.round(1), mask=latent[:, 1] + rng.normal(size=rows) > 2.8),
            "diagnosis": category("d", 12, (1, 0.3, 0)),
            "result": category("r", 6, (0.5, 0.5, 0.5)),
            "stage": category("s", 4, (1, 0, 1)),
            "therapy": category("t", 7, (0.3, 1, 0)),
            "region": category("g", 8, (0, 0, 0.2), 0.3),
            "relapse": np.where(latent[:, 2] + rng.normal(size=rows) > 3.0, "yes", "no"),
        }
    )


def setting(folder: Path, table: pa.Table, columns: dict[str, Any] = COLUMNS, **changes: Any) -> Job:
    """A job with these methods, and no gate in the attack's way."""
    gates = {
        "unchanged_record_rate": 1.0, "exact_small_cells": 1.0, "mean": 9, "covariance": 9, "mean_in_unit": 9,
        "variance_in_unit": 9, "covariance_with_keys": 9, "reidentification_rate": None,
    }  # fmt: skip
    return small.job(
        folder, table, columns, **small.as_usual(**{"k": K, "measure": small.OFF, "gates": gates, **changes})
    )


def attack(original: pa.Table, released: pa.Table) -> Found:
    """Count every two columns in both tables."""
    found = np.zeros(4, dtype=int)
    before, after = (_levels(table) for table in (original, released))
    for one, other in itertools.combinations(COUNTED, 2):
        ours, theirs = _counts(before[one], before[other]), _counts(after[one], after[other])
        small_cells = [cell for cell, count in ours.items() if count < K]
        ones = [cell for cell, count in theirs.items() if count == 1]
        found += [
            len(small_cells),
            sum(theirs.get(cell, 0) == ours[cell] for cell in small_cells),
            len(ones),
            sum(ours.get(cell, 0) == 1 for cell in ones),
        ]
    return Found(*found.tolist())


def _levels(table: pa.Table) -> dict[str, list[Any]]:
    columns = {name: table[name].to_pylist() for name in COUNTED}
    return columns | {"score": [value is None for value in columns["score"]]}


def _counts(one: list[Any], other: list[Any]) -> dict[tuple[Any, Any], int]:
    found: dict[tuple[Any, Any], int] = {}
    for pair in zip(one, other, strict=True):
        found[pair] = found.get(pair, 0) + 1
    return found


def run(job: Job) -> pa.Table:
    """The released table."""
    outcome = small.run(job)
    if outcome.version is None:
        raise AssertionError([check.key for check in outcome.verdict.failed])
    return small.released(job)


def correlation_change(original: pa.Table, released: pa.Table) -> float:
    """The price: mean change of the correlations of all levels of different columns."""
    before, after = (_levels(table) for table in (original, released))
    levels = [(name, level) for name in COUNTED for level in sorted(set(before[name]))]
    correlations = [
        np.corrcoef([[value == level for value in columns[name]] for name, level in levels])
        for columns in (before, after)
    ]
    names = np.array([name for name, _ in levels])
    return float(np.nanmean(np.abs(correlations[0] - correlations[1])[names[:, None] != names]))


class Told(NamedTuple):
    """What pairs tell of persons."""

    members: float  # Area under the curve, of members against persons of another sample
    rare_members: float  # Of those whose pair has an expectation below one person
    true_pairs: float  # Share of the released rare pairs that somebody in the original has
    by_chance: float  # The same of another sample's pairs

    def __str__(self) -> str:
        return (
            f"members {self.members:.3f}, of rare pairs {self.rare_members:.3f}; {self.true_pairs:.1%} of released "
            f"rare pairs occur, by chance {self.by_chance:.1%}"
        )


def two_columns(rows: int, levels: tuple[int, int] = (90, 60), seed: int = 1) -> pa.Table:
    """Persons with two skewed categories that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    shares = [(weights := np.arange(1, size + 1) ** -0.8) / weights.sum() for size in levels]
    diagnosis, region = (rng.choice(size, rows, p=each) for size, each in zip(levels, shares, strict=True))
    return pa.table(
        {
            "age": np.clip(rng.normal(50, 15, rows), 0, 99).astype(int),
            "cost": np.exp(rng.normal(7, 1, rows)).round(2),
            "diagnosis": np.char.add("d", diagnosis.astype(str)),
            "region": np.char.add("r", region.astype(str)),
        }
    )


def told_by_pairs(original: pa.Table, other: pa.Table, released: pa.Table) -> Told:
    """Attack the persons of the original and of another sample by diagnosis and region."""
    names = ("diagnosis", "region")
    tables = [[table[name].to_numpy(zero_copy_only=False) for name in names] for table in (original, other, released)]
    known = [np.unique(np.concatenate([table[at] for table in tables])) for at in (0, 1)]
    codes = [[np.searchsorted(known[at], table[at]) for at in (0, 1)] for table in tables]
    counts = [np.zeros((len(known[0]), len(known[1]))) for _ in tables]
    for count, pair in zip(counts, codes, strict=True):
        np.add.at(count, tuple(pair), 1)
    before, control, shown = counts
    expected = np.outer(shown.sum(axis=1), shown.sum(axis=0)) / shown.sum()
    rare, score = expected < 1.0, shown / np.maximum(expected, 1e-9)
    scores = [(score[tuple(pair)], rare[tuple(pair)]) for pair in codes[:2]]
    areas = [
        roc_auc_score(np.repeat([1, 0], [len(inside), len(outside)]), np.concatenate([inside, outside]))
        for inside, outside in ([s for s, _ in scores], [s[few] for s, few in scores])
    ]
    precision = [float((before[(table > 0) & rare] > 0).mean()) for table in (shown, control)]
    return Told(*map(float, areas), *precision)


def main() -> None:
    """Print the attack on each method, and the price, beside another sample."""
    pairs, other = two_columns(20_000), two_columns(20_000, seed=2)
    columns = {name: COLUMNS[name] for name in ("age", "cost", "diagnosis")} | {"region": COLUMNS["diagnosis"]}
    print(f"{'another sample':24} {told_by_pairs(pairs, other, two_columns(20_000, seed=3))}", flush=True)
    for name in ("local_synthesis", "data_shuffle", "spectral_swap"):
        with tempfile.TemporaryDirectory() as folder:
            released = run(setting(Path(folder), pairs, columns, mask={"method": name}))
            print(f"{name:24} {told_by_pairs(pairs, other, released)}", flush=True)
    table = registry()

    def show(name: str, released: pa.Table) -> None:
        change = correlation_change(table, released)
        print(f"{name:24} {attack(table, released)}; correlations {change:.4f} off", flush=True)

    show("another sample", registry(seed=2))
    for name, changes in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            show(name, run(setting(Path(folder), table, **changes)))


if __name__ == "__main__":
    main()
