"""Large tables: how well a release is told apart from a control, by the number of components of its mixture.

    python -m tests.benchmarks.components [--rows 100000] [--tables claims trips wide flights] [--components 8 default]

Three tables that are made here, and flights_num10.csv of the folder that
ANONPIPE_BENCH_DATA names (else ../shared). Each is released by the job that
`anonpipe init` proposes; gradient boosting then tells released records from
30,000 that were never seen (0.5: not at all). Beside it the same of the
original, and seconds of the run as a ratio to the first one's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

CONTROL = 30_000


def claims(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Skewed costs, half of them zero, that rise with chronic diseases; what is paid follows from the plan."""
    age = np.clip(rng.gamma(9, 6, n), 18, 99).astype(int)
    chronic = rng.poisson(0.02 * age)
    visits = rng.negative_binomial(1 + chronic * 0.5, 0.35) * (rng.random(n) < 0.85)
    cost = np.where(visits > 0, np.exp(rng.normal(4 + 0.25 * np.sqrt(visits) + 0.15 * chronic, 0.7)), 0.0)
    plan = np.clip((rng.normal(0, 1, n) + age / 40).astype(int), 0, 3)
    paid = np.maximum(np.array([0.1, 0.2, 0.05, 0.05])[plan] * cost + rng.normal(0, 0.5, n) * (cost > 0), 0.0)
    drugs = np.where(rng.random(n) < 0.6, np.exp(rng.normal(2 + 0.3 * chronic, 1)), 0.0)
    numbers = {"age": age, "chronic": chronic, "visits": visits, "cost": cost, "drugs": drugs, "paid": paid}
    return pd.DataFrame({**numbers, "plan": np.array(list("ABCD"))[plan]}).round(2)


def trips(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Sixty routes, each of one distance and its own speed."""
    route = rng.integers(0, 60, n)
    distance = np.round(np.exp(rng.normal(6, 0.8, 60)))[route].astype(int)
    minutes = distance / rng.normal(420, 25, 60)[route] * 60 + 15 + rng.normal(0, 6, n)
    delay = np.where(rng.random(n) < 0.3, rng.exponential(30, n), rng.normal(-4, 4, n))
    fare = (40 + 0.11 * distance) * np.exp(rng.normal(0, 0.25, n))
    found = {"distance": distance, "minutes": minutes.clip(10), "delay": delay, "arrival": delay + rng.normal(-3, 8, n)}
    return pd.DataFrame(found).round().astype(int).assign(fare=np.round(fare, 2))


def wide(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Twenty-four numbers of four factors, some skewed, with two groups whose correlations differ."""
    factors = rng.normal(size=(n, 4))
    x = factors @ rng.normal(size=(4, 24)) + 0.6 * rng.normal(size=(n, 24))
    case = factors[:, 0] + factors[:, 1] ** 2 > 1
    x[:, ::4], x[:, 1::4] = np.exp(x[:, ::4] / 3), np.abs(x[:, 1::4])
    x[case, 2::4] *= -1
    return pd.DataFrame(x.round(3), columns=[f"x{at}" for at in range(24)]).assign(case=np.where(case, "yes", "no"))


def flights(n: int, rng: np.random.Generator) -> pd.DataFrame:
    table = pd.read_csv(Path(os.environ.get("ANONPIPE_BENCH_DATA", "../shared")) / "data" / "flights_num10.csv")
    return table.iloc[rng.permutation(len(table))[:n]].reset_index(drop=True)


TABLES = {made.__name__: made for made in (claims, trips, wide, flights)}


def told_apart(one: pd.DataFrame, control: pd.DataFrame) -> float:
    """Area under the curve of boosting on records that it has not seen."""
    rows = min(len(one), len(control))
    sides = pd.concat([side.sample(rows, random_state=0)[list(control)] for side in (one, control)])
    x = sides.apply(lambda column: column if column.dtype.kind in "if" else pd.factorize(column, sort=True)[0])
    y = np.repeat([1, 0], rows)
    train, test = np.array_split(np.random.default_rng(0).permutation(2 * rows), 2)
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(random_state=0).fit(x.iloc[train], y[train])
        return float(roc_auc_score(y[test], model.predict_proba(x.iloc[test])[:, 1]))


def released(table: pd.DataFrame, components: str, folder: Path) -> tuple[pd.DataFrame | None, float]:
    """The release of a table (None: refused), and the seconds that it took."""
    table.to_parquet(folder / "table.parquet", index=False)
    tool, output = [sys.executable, "-m", "anonpipe"], folder / f"release-{components}"
    made = subprocess.run(
        [*tool, "init", folder / "table.parquet", "--output", output], capture_output=True, check=True
    )
    (folder / "job.yaml").write_bytes(made.stdout)
    chosen = [] if components == "default" else ["--set", f"mask.components={components}"]
    given, begun = ["--set", 'repeat.allow="benchmark"', *chosen], time.perf_counter()
    run = subprocess.run([*tool, "run", folder / "job.yaml", *given], capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    if run.returncode:
        print(run.stdout, run.stderr, sep="\n", file=sys.stderr)
    return None if run.returncode else pd.read_parquet(output / "release"), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--components", nargs="+", default=["8", "default"])
    given = parser.parse_args()
    print("table    original  " + "  ".join(f"components {each:>8}  time" for each in given.components))
    for name in given.tables:
        table = TABLES[name](given.rows + CONTROL, np.random.default_rng(1))
        original, control = table[CONTROL:], table[:CONTROL]
        cells, first = [f"{name:8} {told_apart(original, control):8.3f}"], None
        with tempfile.TemporaryDirectory() as folder:
            for components in given.components:
                release, seconds = released(original, components, Path(folder))
                first = first or seconds
                told = "refused" if release is None else f"{told_apart(release, control[list(release)]):.3f}"
                cells.append(f"{told:>19}  {seconds / first:4.2f}")
        print("  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
