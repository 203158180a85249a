"""Attack: who was in the table is told by the means and covariances that a release keeps, where columns are many.

    python -m tests.attacks.moments

No neighbour is looked for, nothing is trained and nobody else's record is needed: persons are ranked by their
Mahalanobis distance to the mean of the release, in its covariance. Half of each table is released, the other half
never was in it. Printed are the area under the curve, the members found by who is wrong about 1 % of the others, and
what a run expects beforehand; the usual limit (0.6) refuses what is above it before any work.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from anonpipe import anonymize
from anonpipe.errors import JobError
from anonpipe.evaluate.risk import effective_dimension, membership_from_moments
from tests.benchmarks.beside_chance import OPEN

TABLES = ((200, 150), (200, 60), (700, 120), (700, 40), (1_000, 20), (3_000, 120))
"""Records and columns."""

MASKS = ("local_synthesis", "spectral_swap")


def table(rows: int, columns: int, seed: int = 0) -> pd.DataFrame:
    """Eight things that all columns depend on, and twice as much that they do not."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 8)) @ rng.normal(size=(8, columns)) / 8**0.5 + 1.4 * rng.normal(
        size=(rows, columns)
    )
    return pd.DataFrame(values, columns=[f"c{at}" for at in range(columns)])


def found(released: pd.DataFrame, members: pd.DataFrame, others: pd.DataFrame) -> tuple[float, float]:
    """The area under the curve, and the members who are nearer than all but 1 % of the others."""
    mean, inverse = released.mean().to_numpy(), np.linalg.inv(np.cov(released.to_numpy().T))
    near, far = (
        np.einsum("ij,jk,ik->i", away, inverse, away) for away in (each.to_numpy() - mean for each in (members, others))
    )
    return float((near[:, None] < far[None, :]).mean()), float((near < np.quantile(far, 0.01)).mean())


def main() -> None:
    """Attack each table after each mask, and print."""
    for rows, columns in TABLES:
        both = table(2 * rows, columns)
        members, others = both[:rows].reset_index(drop=True), both[rows:]
        job = {"k": 5, "columns": {name: {"kind": "continuous", "transform": "none"} for name in both}}
        told = membership_from_moments(rows, effective_dimension(columns, []))
        for mask in MASKS:
            asked = job | {"mask": {"method": mask}, "measure": {"utility": False}}
            made = anonymize(members, asked | {"gates": OPEN})
            area, certain = found(made.table, members, others)
            try:
                anonymize(members, asked | {"gates": OPEN | {"membership_auc": "default"}})
                outcome = "released"
            except JobError:
                outcome = "refused"
            print(f"{rows:5} x {columns:3} {mask:16} {area:.3f}, {certain:.0%} found; expected {told:.3f}: {outcome}")


if __name__ == "__main__":
    main()
