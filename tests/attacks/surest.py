"""The attack of the careful: who guesses only where the nearest released records agree, and says nothing of others.

Stage follows from nothing else here: what is guessed of it beyond its shares is of the person. Over all guesses
the many hide the few.

`python -m tests.attacks.surest`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anonpipe.job.model import Job
from tests import small
from tests.attacks.runs import assessed, show

ROWS, K = 12_000, 5
COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [18, 100]},
    "size": {"kind": "continuous", "bounds": [0, None]},
    "income": {"kind": "continuous", "bounds": [0, None]},
    "stage": {"kind": "categorical"},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "centroid, values as they are": {"synthesize": {"method": "centroid"}, "transform": "none"},
    "micro_perturbation": {},
    "micro_perturbation, k=20": {"k": 20},
    "local_synthesis": {"mask": {"method": "local_synthesis"}},
}


class Found(NamedTuple):
    """The largest risk of a column: of all guesses, of the surest tenth, and what is reported and held by the gate."""

    every: float
    surest: float
    reported: float
    links: float
    surest_links: float

    def __str__(self) -> str:
        return (
            f"attribute inference: all guesses {self.every:6.1%}, surest 10 % {self.surest:6.1%}, reported "
            f"{self.reported:6.1%}; links: all {self.links:6.1%}, surest 10 % {self.surest_links:6.1%}"
        )


def registry(rows: int = ROWS, seed: int = 2) -> pa.Table:
    """Persons, some far from all others."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.integers(18, 100, rows).astype(float),
        "size": rng.lognormal(3.0, 1.0, rows).round(1),
        "income": rng.lognormal(10.0, 1.0, rows).round(),
        "stage": rng.choice(["I", "II", "III", "IV"], rows, p=[0.4, 0.3, 0.2, 0.1]),
    }
    return pa.table(columns)


def setting(folder: Path, table: pa.Table, transform: str | None = None, **changes: Any) -> Job:
    """A job with these methods, a third of the records held out."""
    measure = {"utility": False, "queries": table.num_rows, "hold_out": 0.33}
    columns = {
        name: one | ({"transform": transform} if transform and "bounds" in one else {}) for name, one in COLUMNS.items()
    }
    gates = {"unchanged_record_rate": 1.0}
    usual = {"k": K, "measure": measure, "gates": gates, "partition": {"rows": 20_000}}
    return small.job(folder, table, columns, **small.as_usual(**{**usual, **changes}))


def attack(job: Job) -> Found:
    """Run the job, whatever its verdict, and guess."""
    risks = {one.name: one for one in assessed(job).risk}
    risk = risks["attribute_inference"]
    sure, links = risks["attribute_inference.surest_10"], risks["linkage.surest_10"]
    assert links.baseline is not None
    return Found(max(value for _, value in risk.parts), sure.value, risk.value, links.baseline, links.value)


def main() -> None:
    """Print a line a setting."""
    table = registry()
    print(f"{ROWS} records, a third of them held out; k={K} where not said")
    show(SETTINGS, lambda folder, **changes: attack(setting(folder, table, **changes)))


if __name__ == "__main__":
    main()
