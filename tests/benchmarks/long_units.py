"""What stays of units with many rows: visits of persons, 1 to 60 each, released whole, beside another sample.

    python -m tests.benchmarks.long_units [persons] [--seed N]

Lag-one and intraclass correlation, correlation of following rows within units, a fixed-effects slope, numbers of rows
and gaps: of the original, the release and another sample of the population. Then the areas under the curve by which
the nearest released unit (means, deviations, first and last rows, number of rows) tells members from that sample, and
by which boosting tells units from those of that sample by numbers, means, first and last values.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.spatial import cKDTree

from anonpipe import anonymize
from tests.benchmarks.frontier.comparable import by_unit
from tests.benchmarks.rules import told_apart

JOB = {
    "k": 5,
    "columns": {
        "person": {"role": "unit"},
        "sex": {"kind": "binary", "level": "unit"},
        "birth_year": {"kind": "integer", "level": "unit"},
        "visit": {"kind": "date"},
        "hba1c": {"kind": "continuous", "step": 0.1},
        "dose": {"kind": "integer", "bounds": [0, None]},
        "cost": {"kind": "continuous", "bounds": [0, None], "step": 0.01},
    },
    "release": {"unit": "pseudonym", "order": "visit"},
    "measure": {"hold_out": 0},
}


def visits(persons: int, seed: int) -> pd.DataFrame:
    """A level of each person, a lag, an effect of the dose, costs by frailty, and gaps of any length."""
    rng = np.random.default_rng(seed)
    number = np.minimum(rng.negative_binomial(1.2, 0.1, persons) + 1, 60)
    person = np.repeat(np.arange(persons), number)
    days = np.concatenate([np.sort(rng.integers(0, 2_000, each)) for each in number])
    noise = np.split(rng.normal(0, 0.4, len(person)), np.cumsum(number)[:-1])
    lagged = np.concatenate([lfilter([1.0], [1.0, -0.7], each) for each in noise])
    dose = np.round(rng.gamma(3, 10, len(person)))
    return pd.DataFrame(
        {
            "person": person,
            "sex": rng.choice(["f", "m"], persons)[person],
            "birth_year": rng.integers(1930, 2000, persons)[person],
            "visit": pd.Timestamp("2018-01-01") + pd.to_timedelta(days, "D"),
            "hba1c": (rng.normal(7, 1, persons)[person] + lagged - 0.01 * dose).round(1),
            "dose": dose,
            "cost": np.exp(rng.normal(4 + 0.3 * rng.gamma(2, 1, persons)[person], 0.8)).round(2),
        }
    )


def figures(table: pd.DataFrame) -> dict[str, float]:
    """What a recipient of a panel estimates."""
    table = table.sort_values(["person", "visit"], kind="stable")
    units, value = table["person"], table["hba1c"]
    rows, mean = units.map(units.value_counts()), value.groupby(units).transform("mean")
    within, groups = value - mean, units.nunique()
    between = ((mean - value.mean()) ** 2).sum() / (groups - 1)
    inside = (within**2).sum() / (len(table) - groups)
    size = (len(table) - rows.sum() / len(table)) / (groups - 1)
    dose = table["dose"] - table["dose"].groupby(units).transform("mean")
    gaps = table["visit"].groupby(units).diff().dt.days.dropna()
    return {
        "lag one": value.corr(value.groupby(units).shift()),
        "intraclass": (between - inside) / (between + (size - 1) * inside),
        "lag within": (within * within.groupby(units).shift()).mean() / (within**2).mean(),
        "fixed effect": (dose * within).sum() / (dose**2).sum(),
        "rows": units.value_counts().mean(),
        "sd of rows": units.value_counts().std(),
        "gap, days": gaps.mean(),
    }


def summaries(table: pd.DataFrame) -> np.ndarray:
    """What is known of a whole unit."""
    table = table.sort_values(["person", "visit"], kind="stable").assign(cost=lambda t: np.log(t["cost"] + 1))
    units = table.groupby("person")
    parts = [units[["hba1c", "dose", "cost"]].agg(how) for how in ("mean", "first", "last")]
    parts += [units["hba1c"].std().fillna(0), np.log(units.size()), units["birth_year"].first()]
    return np.column_stack(parts)


def membership(original: pd.DataFrame, released: pd.DataFrame, other: pd.DataFrame) -> float:
    """Area under the curve of the distance to the nearest released unit."""
    known = [summaries(table) for table in (original, released, other)]
    spread = known[1].std(axis=0)
    near = [-cKDTree(known[1] / spread).query(each / spread)[0] for each in (known[0], known[2])]
    order = np.concatenate(near).argsort().argsort()[: len(near[0])]
    return float((order.sum() - len(order) * (len(order) - 1) / 2) / len(near[0]) / len(near[1]))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("persons", type=int, nargs="?", default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    original, other = (visits(given.persons, seed) for seed in (given.seed, given.seed + 1_000))
    found = anonymize(original, JOB)
    if found.table is None:
        raise SystemExit(f"refused: {found.remedies}")
    tables = {"original": original, "release": found.table, "another sample": other}
    print(pd.DataFrame({name: figures(table) for name, table in tables.items()}).round(3).to_string())
    for name, table in list(tables.items())[:2]:
        sides = (by_unit(side.drop(columns="person"), side["person"]) for side in (table, other))
        print(f"{name} told from another sample (AUC): {told_apart(*sides):.3f}")
    print(f"membership by nearest whole units (AUC): {membership(original, found.table, other):.3f}")


if __name__ == "__main__":
    main()
