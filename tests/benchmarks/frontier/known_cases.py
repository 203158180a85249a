"""What the other tools say of tables whose figures are known; runs in the judges' environment, for the tests."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pandas as pd

from tests.benchmarks.frontier.comparable import plain
from tests.benchmarks.frontier.judge import of_anonymeter, of_sdmetrics
from tests.benchmarks.frontier.peers import gaussian_copula

KINDS = {"x": "numerical", "y": "numerical", "z": "numerical", "c": "categorical"}


def table(rows: int, seed: int, spread: float = 1.0) -> pd.DataFrame:
    """y follows x and a fifth of it is null, c follows the sign of x."""
    rng = np.random.default_rng(seed)
    x = spread * rng.standard_normal(rows)
    y = np.where(rng.random(rows) < 0.2, np.nan, x + rng.standard_normal(rows))
    z = np.round(3 * rng.random(rows), 1)
    return plain(
        pd.DataFrame({"x": x, "y": y, "z": z, "c": np.where(x + rng.standard_normal(rows) > 0, "a", "b")}), KINDS
    )


def main() -> None:
    warnings.filterwarnings("ignore")
    original, control, another = table(1_000, 1), table(400, 2), table(1_000, 3)
    made = [gaussian_copula(original, KINDS, draw) for draw in (0, 0, 1)]
    found = {
        "sdmetrics": of_sdmetrics(original, table(800, 4, spread=1.5), KINDS),
        "itself": of_anonymeter(original, original, control, KINDS, "c", 100),
        "another": of_anonymeter(original, another, control, KINDS, "c", 100),
        "copula": [made[0].equals(made[1]), made[0].equals(made[2]), *map(len, made)],
        "copula's shapes": of_sdmetrics(original, made[0], KINDS)["shapes"],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
