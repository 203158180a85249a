"""What rules between columns change: rows that break a rule, told apart by a classifier, linkage and membership.

python -m tests.benchmarks.rules [rows]

Three tables are made here: schools with 36 columns of which six follow from others, a register with dates in order, and
claims without cost where there was no visit. Each is masked by local synthesis with and without rules. A classifier is
trained to tell released rows from rows of the same population that nobody masked. It has all columns, and of each pair
of columns the difference, the sum and the ratio. 0.5 is chance.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from anonpipe.job.model import parse_job
from anonpipe.pipeline.run import execute

LIMITS = {name: None for name in ("membership_auc", "attribute_inference", "singling_out", "linkability")}
LIMITS |= {"covariance": 1.0, "column_shapes": None, "tail_linkage": None}
DATES = ("diagnosis", "treatment", "death")
MOST_ROWS = 2_000  # Of either table for the classifier


def schools(rows, rng):
    """36 columns: six are sums or differences of others, or follow from a code."""
    size, quality = rng.gamma(4.0, 100.0, rows), rng.normal(size=rows)
    frame = {"county": rng.integers(0, 30, rows)}
    frame["region"] = frame["county"] // 6
    for at in range(4):
        frame[f"enrolled_{at}"] = np.rint(size / 4 * rng.uniform(0.8, 1.2, rows))
    frame["enrolled"] = sum(frame[f"enrolled_{at}"] for at in range(4))
    for year in range(3):
        frame[f"api_{year}"] = np.rint(650 + 60 * quality + 10 * year + rng.normal(0, 15, rows))
    for year in range(1, 3):
        frame[f"growth_{year}"] = frame[f"api_{year}"] - frame[f"api_{year - 1}"]
    frame["tested"] = np.rint(frame["enrolled"] * rng.uniform(0.85, 1.0, rows))
    frame["absent"] = frame["enrolled"] - frame["tested"]
    frame["teachers"], frame["staff"] = np.rint(size / 18 + 3), np.rint(rng.gamma(3.0, 3.0, rows))
    frame["employees"] = frame["teachers"] + frame["staff"]
    for at in range(36 - len(frame)):
        frame[f"score_{at}"] = (quality * rng.uniform(0, 1) + rng.normal(size=rows)).round(2)
    frame = pd.DataFrame(frame)
    names = ("county", "region")
    frame[list(names)] = frame[list(names)].astype(str)
    rules = ["enrolled = enrolled_0 + enrolled_1 + enrolled_2 + enrolled_3", "absent = enrolled - tested"]
    rules += [
        "growth_1 = api_1 - api_0",
        "growth_2 = api_2 - api_1",
        "employees = teachers + staff",
        "county -> region",
    ]
    region = frame.groupby("county")["region"].first()
    checks = [
        lambda t: t.enrolled != t.enrolled_0 + t.enrolled_1 + t.enrolled_2 + t.enrolled_3,
        lambda t: t.absent != t.enrolled - t.tested,
        lambda t: t.growth_1 != t.api_1 - t.api_0,
        lambda t: t.growth_2 != t.api_2 - t.api_1,
        lambda t: t.employees != t.teachers + t.staff,
        lambda t: t.county.map(region) != t.region,
    ]
    kinds = {name: "categorical" if name in names else "integer" for name in frame if not name.startswith("score")}
    columns = {name: {"kind": kinds.get(name, "continuous")} for name in frame}
    columns |= {name: {"kind": "continuous", "step": 0.01} for name in frame if name.startswith("score")}
    return frame, columns, rules, checks


def register(rows, rng):
    """Diagnosis, treatment of most, death of many, in this order."""
    stage, age = rng.integers(1, 5, rows), rng.normal(65, 12, rows).clip(20, 99).astype(int)
    diagnosis = rng.integers(12_000, 16_000, rows)
    treatment = np.where(rng.random(rows) < 0.8, diagnosis + rng.gamma(1.5, 20.0, rows).astype(int), -1)
    death = np.where(treatment >= 0, treatment, diagnosis) + rng.gamma(1.2, 1_500.0 / stage, rows).astype(int)
    dates = {"diagnosis": diagnosis, "treatment": treatment, "death": np.where(rng.random(rows) < 0.6, death, -1)}
    frame = pd.DataFrame({"age": age, "stage": stage.astype(str), "sex": rng.choice(["f", "m"], rows)})
    for name, days in dates.items():
        frame[name] = pd.Series(np.where(days < 0, np.datetime64("NaT"), days.astype("datetime64[D]"))).astype(
            "datetime64[s]"
        )
    checks = [
        lambda t: t.diagnosis > t.treatment,
        lambda t: t.treatment > t.death,
        lambda t: t.diagnosis > t.death,
    ]
    kinds = {"age": "integer", "stage": "categorical", "sex": "binary"}
    columns = {name: {"kind": kinds.get(name, "date")} for name in frame}
    return frame, columns, ["diagnosis <= treatment <= death"], checks


def claims(rows, rng):
    """Visits, and cost and days where there were some; births of women only."""
    sex, age = rng.choice(["f", "m"], rows), rng.integers(18, 90, rows)
    visits = rng.poisson(0.4 + age / 60)
    cost = np.where(visits > 0, (rng.gamma(1.0, 90.0, rows) * np.maximum(visits, 1)).round(2) + 5, 0.0)
    days = np.where(visits > 0, rng.poisson(visits), 0)
    births = np.where(sex == "f", rng.poisson(1.4, rows), np.nan)
    frame = pd.DataFrame({"sex": sex, "age": age, "visits": visits, "cost": cost, "days": days, "births": births})
    rules = ["if visits == 0 then cost == 0 and days == 0", "if visits > 0 then cost > 0"]
    rules += ["if sex == 'm' then births is null", "if sex == 'f' then births is not null"]
    checks = [
        lambda t: (t.visits == 0) & ((t.cost != 0) | (t.days != 0)),
        lambda t: (t.visits > 0) & ~(t.cost > 0),
        lambda t: (t.sex == "m") != t.births.isna(),
    ]
    kinds = {"sex": "binary", "cost": "continuous"}
    columns = {name: {"kind": kinds.get(name, "integer")} for name in frame}
    columns["cost"] = {"kind": "continuous", "step": 0.01}
    return frame, columns, rules, checks


def features(frame):
    """All columns as numbers, and of each pair of columns of numbers the difference, the sum and the ratio."""
    days = {name for name, column in frame.items() if column.dtype.kind == "M" or name in DATES}
    numbers = {
        name: (pd.to_datetime(column) - pd.Timestamp(0)) / pd.Timedelta(days=1) if name in days else column
        for name, column in frame.items()
        if name in days or column.dtype.kind in "if"
    }
    texts = {name: column.astype("category").cat.codes for name, column in frame.items() if name not in numbers}
    found = [np.asarray(each, dtype=float) for each in (*numbers.values(), *texts.values())]
    with np.errstate(divide="ignore", invalid="ignore"):
        for one, other in combinations([np.asarray(each, dtype=float) for each in numbers.values()], 2):
            found += [one - other, one + other, np.where(other == 0, np.nan, one / other)]
    return np.column_stack(found)


def told_apart(released, control, seed=0):
    """Area under the curve of a classifier on rows that it has not seen."""
    rng = np.random.default_rng(seed)
    sides = [features(side.iloc[rng.permutation(len(side))[:MOST_ROWS]]) for side in (released, control)]
    x, y = np.concatenate(sides), np.repeat([1, 0], [len(side) for side in sides])
    order = rng.permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    model = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(x[train], y[train])
    return roc_auc_score(y[test], model.predict_proba(x[test])[:, 1])


def measured(make, rows, with_rules):
    """One line of the table."""
    frame, columns, rules, checks = make(rows, np.random.default_rng(1))
    control = make(MOST_ROWS, np.random.default_rng(2))[0]
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(f"{folder}/table.parquet")
        content = {"input": f"{folder}/table.parquet", "output": f"{folder}/out", "k": 5, "columns": columns}
        content |= {"mask": {"method": "local_synthesis"}, "gates": LIMITS, "repeat": {"allow": "benchmark"}}
        begin = time.process_time()
        outcome = execute(parse_job(content | ({"rules": rules} if with_rules else {})), cluster=False)
        seconds = time.process_time() - begin
        figures = {check.key: check.measured for check in outcome.verdict.checks}
        failed = [f"{check.key} {check.measured:.3g}" for check in outcome.verdict.checks if check.blocks]
        if failed:
            return None, figures, failed, seconds
        released = pd.concat(pd.read_parquet(path) for path in sorted(Path(folder).glob("out/release/*.parquet")))
    broken = np.logical_or.reduce([np.asarray(check(released)) for check in checks]).mean()
    return (broken, told_apart(released, control)), figures, failed, seconds


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    os.environ.setdefault("ANONPIPE_SECRET", "5e1b07c93ad264f8" * 4)
    os.environ["ANONPIPE_HOME"] = tempfile.mkdtemp()
    print(f"{rows:,} rows; release refused: the checks that failed\n")
    print(f"{'table':10} {'rules':6} {'broken':>8} {'AUC':>6} {'linked':>8} {'membership':>10} {'seconds':>8}")
    for make in (register, claims, schools):
        for with_rules in (False, True):
            found, figures, failed, seconds = measured(make, rows, with_rules)
            shown = f"{found[0]:>8.1%} {found[1]:>6.3f}" if found else f"{'refused':>8} {'':>6}"
            linked, member = figures["risk.reidentification_rate"], figures["risk.membership_auc"]
            print(
                f"{make.__name__:10} {'with' if with_rules else 'none':6} {shown} {linked:>8.3%} {member:>10.3f} "
                f"{seconds:>8.0f}  {', '.join(failed)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
