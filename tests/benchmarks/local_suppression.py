"""What local suppression gives away: python -m tests.benchmarks.local_suppression.

A survey with areas, a register with rare diagnoses and claims by post code, each under both conventions of nulls: cells
suppressed, persons who fit fewer than k released rows though all their keys are known, and suppressed values that
follow from the rest, as every other category is released with the row's other keys (minimality attack).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from anonpipe.encoding.disclosure import NULL, suppress


def tables() -> dict[str, tuple[int, pd.DataFrame]]:
    """Keys of three tables, and their k."""
    rng = np.random.default_rng(2)
    survey = {
        "area": rng.choice(30, 6_000, p=rng.dirichlet(np.full(30, 0.7))),
        "sex": rng.integers(0, 2, 6_000),
        "age": np.minimum(rng.integers(15, 99, 6_000), 85) // 5,
        "education": rng.choice(4, 6_000, p=[0.4, 0.4, 0.19, 0.01]),
    }
    ranks = 1 / np.arange(1, 9) ** 1.8
    register = {
        "sex": rng.integers(0, 2, 20_000),
        "born": rng.integers(1920, 2010, 20_000) // 10,
        "diagnosis": rng.choice(8, 20_000, p=ranks / ranks.sum()),
        "region": rng.choice(6, 20_000, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03]),
    }
    claims = {
        "post_code": rng.integers(10_000, 10_400, 30_000) // 10,
        "age": np.minimum(rng.integers(0, 95, 30_000), 85) // 5,
        "plan": rng.choice(3, 30_000, p=[0.6, 0.35, 0.05]),
        "group": rng.choice(4, 30_000, p=[0.6, 0.3, 0.09, 0.01]),
    }
    made = {"survey": (3, survey), "register": (5, register), "claims": (3, claims)}
    return {name: (k, pd.DataFrame(columns)) for name, (k, columns) in made.items()}


def attacked(k: int, frame: pd.DataFrame, wildcard: bool) -> dict[str, int]:
    """Suppressed cells, persons with fewer than k fitting rows, and values that follow."""
    codes, records = np.unique(frame.to_numpy(), axis=0, return_counts=True)
    hidden = suppress(codes, records.astype(np.float64), k, [1.0] * codes.shape[1], wildcard)
    released = np.where(hidden, NULL, codes)
    domains = [np.unique(column) for column in codes.T]
    whole = set(map(tuple, released[~hidden.any(axis=1)]))
    few = inferred = 0
    for at in np.flatnonzero(hidden.any(axis=1)):
        fits = ((released == codes[at]) | (released == NULL)).all(axis=1)
        few += int(records[at]) if records[fits].sum() < k else 0
        if hidden[at].sum() == 1:
            key = int(np.argmax(hidden[at]))
            rest = [(*codes[at, :key], value, *codes[at, key + 1 :]) for value in domains[key]]
            inferred += int(records[at]) if sum(row not in whole for row in rest) == 1 else 0
    cells = int(records @ hidden.sum(axis=1))
    return {"suppressed": cells, "fit fewer than k rows": few, "follow from the rest": inferred}


def main() -> None:
    """Print all figures."""
    for name, (k, frame) in tables().items():
        for nulls in ("any", "category"):
            print(f"{name} ({len(frame):,} rows, k={k}), nulls {nulls}: {attacked(k, frame, nulls == 'any')}")


if __name__ == "__main__":
    main()
