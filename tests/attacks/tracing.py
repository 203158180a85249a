"""Members told by which way means and covariances of a release lean: what the intruder knows of the population decides.

    python -m tests.attacks.tracing [--rows 2500] [--columns 36] [--secrets 4]

Normal numbers that go together, masked by local synthesis. The intruder knows whole records and, of other persons, as
many as are held out, as many as are released, or the whole population. Areas under the curve; theory is that of exactly
kept moments (docs/threats.md).
"""

from __future__ import annotations

import argparse
import os
from unittest import mock

import numpy as np
import pandas as pd
from scipy.stats import norm

from anonpipe import anonymize
from anonpipe.evaluate.risk._membership import traced_membership
from tests.evaluate.risk.tasks import task

POPULATION = 40_000  # Persons who stand for all


def areas(rows: int, columns: int, secret: int) -> list[float]:
    """The area under the curve by each number of other persons that are known."""
    rng = np.random.default_rng(secret)
    spread = 0.4 + 0.6 * np.eye(columns)
    members, *others = (
        rng.multivariate_normal(np.zeros(columns), spread, count) for count in (rows, rows // 9, rows, POPULATION)
    )
    names = [f"x{at}" for at in range(columns)]
    job = {
        "columns": {name: {"kind": "continuous", "bounds": [None, None], "step": 0.001} for name in names},
        "mask": {"method": "local_synthesis"},
        "measure": {"risk": False, "utility": False, "hold_out": 0},
    }
    with mock.patch.dict(os.environ, {"ANONPIPE_SECRET": rng.bytes(32).hex()}):
        released = anonymize(pd.DataFrame(members.round(3), columns=names), {"k": 5, **job}).table.to_numpy(float)
    return [traced_membership(task(released, members, known)).value for known in others]


def main() -> None:
    """Print the mean areas of some secrets, and those of theory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_500)
    parser.add_argument("--columns", type=int, default=36)
    parser.add_argument("--secrets", type=int, default=4)
    given = parser.parse_args()
    found = np.mean([areas(given.rows, given.columns, secret) for secret in range(given.secrets)], axis=0)
    moved = given.columns * (given.columns + 3) / 2 / given.rows
    for known, area in zip((given.rows // 9, given.rows, POPULATION), found, strict=True):
        theory = norm.cdf(np.sqrt(moved * known / (given.rows + known) / 2))
        print(f"{known:,} others known: area {area:.3f}, by theory {theory:.3f}")


if __name__ == "__main__":
    main()
