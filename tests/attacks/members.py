"""The attack on membership: who was in the table, told by one distance and by a classifier that has seen others.

Half of the persons live close together and half far from each other, so that no one distance is small for both.

`python -m tests.attacks.members`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anonpipe.job.model import Job
from anonpipe.pipeline.evaluation.measures import gated
from tests import small
from tests.attacks.runs import assessed, show

ROWS, K = 6_000, 5
COLUMNS: dict[str, Any] = {
    "age": {"kind": "continuous"},
    "income": {"kind": "continuous"},
    "wealth": {"kind": "continuous"},
    "place": {"kind": "categorical"},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "centroid, values as they are": {"transform": "none", "synthesize": {"method": "centroid"}},
    "micro_perturbation, values as they are": {"transform": "none"},
    "micro_perturbation": {},
    "local_synthesis": {"mask": {"method": "local_synthesis"}},
}


class Found(NamedTuple):
    """Area under the curve by one distance, by the classifier, and what the gate holds (the upper end)."""

    distance: float
    trained: float
    held: float

    def __str__(self) -> str:
        return f"AUC by distance {self.distance:.3f}, trained {self.trained:.3f}, held by the gate {self.held:.3f}"


def persons(rows: int = ROWS, seed: int = 3) -> pa.Table:
    """Persons of two kinds."""
    rng = np.random.default_rng(seed)
    wide = rng.random(rows) < 0.5
    places = rng.normal(size=(rows, 3)) * np.where(wide, 10.0, 0.1)[:, None] + 60.0 * wide[:, None]
    columns = dict(zip(("age", "income", "wealth"), places.T, strict=True))
    return pa.table({**columns, "place": np.where(wide, "country", "town")})


def setting(folder: Path, table: pa.Table, transform: str | None = None, **changes: Any) -> Job:
    """A job with these methods, a third of the persons held out."""
    given = {"transform": transform} if transform else {}
    columns = {name: one | (given if one["kind"] == "continuous" else {}) for name, one in COLUMNS.items()}
    measure = {"utility": False, "queries": table.num_rows, "hold_out": 0.33}
    gates = {"unchanged_record_rate": 1.0, "mean": 9, "covariance": 9, "mean_in_unit": 9, "variance_in_unit": 9}
    return small.job(
        folder, table, columns, **small.as_usual(**{"k": K, "measure": measure, "gates": gates, **changes})
    )


def attack(job: Job) -> Found:
    """Run the job, whatever its verdict, and tell members from others."""
    measured = assessed(job).measured
    risks = {one.name: one.value for one in measured}
    held = gated("membership_auc", measured)
    assert held is not None and held.high is not None
    return Found(risks["membership_auc"], risks["membership.trained_auc"], held.high)


def main() -> None:
    """Print a line a setting."""
    table = persons()
    print(f"{ROWS} persons, a third of them held out; k={K}")
    show(SETTINGS, lambda folder, **changes: attack(setting(folder, table, **changes)))


if __name__ == "__main__":
    main()
