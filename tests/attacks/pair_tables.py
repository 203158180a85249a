"""The attack on two-way tables: who counts two columns of the release reads a cell of one person as one.

Another sample of the population with the same margins has some small cells by chance; that is the control.

`python -m tests.attacks.pair_tables`
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

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


def setting(folder: Path, table: pa.Table, **changes: Any) -> Job:
    """A job with these methods, and no gate in the attack's way."""
    gates = {
        "unchanged_record_rate": 1.0, "exact_small_cells": 1.0, "mean": 9, "covariance": 9, "mean_in_unit": 9,
        "variance_in_unit": 9, "covariance_with_keys": 9, "reidentification_rate": None,
    }  # fmt: skip
    return small.job(
        folder, table, COLUMNS, **small.as_usual(**{"k": K, "measure": small.OFF, "gates": gates, **changes})
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


def main() -> None:
    """Print the attack on each method, and the price, beside another sample."""
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
