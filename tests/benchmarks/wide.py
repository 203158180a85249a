"""Coefficients of recipients on tables of many columns, masked by local synthesis and by sequential regression.

    python -m tests.benchmarks.wide [table ...] [--draws 3]

*survey*: 40 ordinals in blocks of near repetitions. *factors*: 60 numbers of eight factors, a third of them skewed.
*body*: 59 lengths, areas and volumes that nearly follow from each other, and a status. *tumours*: 20 collinear numbers
of 284 persons, half of scikit-learn's breast cancer table. A linear and a logistic regression has all other columns.
*Outside*: coefficients beyond the original's 95 % interval; *z*: the root mean square of what they are off, in
standard errors of the original; *errors*: median ratio of standard errors. *Told*: AUC of gradient boosting, 0.5 is
chance. *Member*: AUC of the distance to the nearest released row. The last line of each table is another sample.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
import warnings

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer

from anonpipe import anonymize
from tests.benchmarks.frontier.measures import membership, told_apart

METHODS = ("local_synthesis", "sequential_regression")
OPEN = {"covariance": 1e9, "column_shapes": None}


def survey(rng, rows):
    """Answers, and what they say of a score and a status."""
    traits = rng.normal(size=(rows, 8)) @ np.linalg.cholesky(0.3 + 0.7 * np.eye(8)).T
    cuts = [np.array([-1.8, -0.6, 0.5, 1.7]) * scale for scale in (0.8, 1.0, 1.3)]
    answers = [1.6 * traits[:, at // 5] + 0.4 * rng.normal(size=rows) for at in range(40)]
    table = pd.DataFrame({f"q{at:02}": 1 + np.digitize(each, cuts[at % 3]) for at, each in enumerate(answers)})
    table["out"] = (10 + 2 * traits[:, 0] - traits[:, 3] + 0.5 * table["q01"] + 2 * rng.normal(size=rows)).round(1)
    return table.assign(ill=drawn(rng, 0.5 * traits[:, 1] - 0.4 * traits[:, 5] - 0.5))


def factors(rng, rows):
    """Numbers of common factors."""
    score, loads = rng.normal(size=(rows, 8)), rng.normal(size=(8, 58))
    values = score @ loads + 0.8 * rng.normal(size=(rows, 58))
    values[:, ::3] = np.exp(0.4 * values[:, ::3])
    table = pd.DataFrame(values.round(3), columns=[f"m{at:02}" for at in range(58)])
    table["out"] = (score[:, 0] + 0.5 * score[:, 1] + rng.normal(size=rows)).round(2)
    return table.assign(ill=drawn(rng, 0.7 * score[:, 1] - 0.4 * score[:, 5]))


def body(rng, rows):
    """Sizes to the first, second and third power."""
    size, noise = rng.normal(size=(rows, 6)), (0.03, 0.08, 0.2)
    logs = [0.35 * size[:, at % 6] + 0.12 * size[:, (at + 1) % 6] for at in range(58)]
    logs = [each + noise[at // 18 % 3] * rng.normal(size=rows) for at, each in enumerate(logs)]
    table = pd.DataFrame({f"b{at:02}": np.exp(1 + (1 + at // 6 % 3) * each).round(3) for at, each in enumerate(logs)})
    table["out"] = (2 * table["b00"] + 0.2 * table["b06"] + 0.02 * table["b12"] + 3 * rng.normal(size=rows)).round(2)
    return table.assign(ill=drawn(rng, 0.5 * (table["b01"] - 3) - 0.4 * size[:, 5]))


def tumours(rng, rows):
    """Means and worst values, of which perimeter and area nearly follow from the radius."""
    known = load_breast_cancer(as_frame=True).frame.sample(rows, random_state=int(rng.integers(10**6)), replace=False)
    table = known.drop(columns="target").rename(columns={"worst area": "out"}).reset_index(drop=True)
    table.columns = [name.replace(" ", "_") for name in table]
    named = [name for name in table if not name.endswith("_error")]
    return table[named].assign(ill=np.where(known["target"].to_numpy() == 1, "no", "yes"))


TABLES = {"survey": (survey, 2_500), "factors": (factors, 2_000), "body": (body, 2_000), "tumours": (tumours, 284)}


def drawn(rng, logit):
    """A status of that chance."""
    return np.where(rng.random(len(logit)) < 1 / (1 + np.exp(-logit)), "yes", "no")


def coefficients(original, table, target):
    """Coefficients and standard errors of all other columns, in standard deviations of the original."""
    numbers = [name for name in original if name not in ("ill", target)]
    design = (table[numbers] - original[numbers].mean()) / original[numbers].std()
    if target == "out":
        design["ill"], known = table["ill"] == "yes", table["out"]
        found = sm.OLS(known, sm.add_constant(design.astype(float))).fit()
    else:
        found = sm.Logit((table["ill"] == "yes").astype(float), sm.add_constant(design)).fit(disp=0, maxiter=100)
    return found.params.to_numpy()[1:], found.bse.to_numpy()[1:]


def figures(original, released, control):
    """What is printed of a release."""
    found = []
    for target in ("out", "ill"):
        (before, error), (after, later) = (coefficients(original, each, target) for each in (original, released))
        off = (after - before) / error
        found += [np.mean(np.abs(off) > 1.96), np.sqrt(np.mean(np.square(off))), np.median(later / error)]
    kinds = {name: "categorical" if name == "ill" else "numerical" for name in original}
    member = np.nan if released is control else membership(original, control, released, kinds)[0]
    return [*found, told_apart(original, released, kinds), member]


def columns_of(table):
    """The columns of the job, as a code book has them."""
    numbers = table.drop(columns="ill")
    lower = {name: 0 if (numbers[name] >= 0).all() else None for name in numbers}
    found = {name: {"kind": "continuous", "bounds": [each, None]} for name, each in lower.items()}
    for name in table.columns[table.columns.str.fullmatch("q[0-9]+")]:
        found[name] = {"kind": "ordinal", "levels": sorted(table[name].unique().tolist())}
    return found | {"ill": {"kind": "binary"}}


def main() -> None:
    """Print a line a table and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}; all without")
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(f"{'':32}linear: outside, z, errors  logistic: the same      told member seconds")
    for name in given.tables or TABLES:
        make, rows = TABLES[name]
        whole = make(np.random.default_rng(7), 2 * rows)
        original, control = (part.reset_index(drop=True) for part in (whole[:rows], whole[rows:]))
        job = {"k": 5, "columns": columns_of(original), "gates": OPEN}
        job["measure"] = {"risk": False, "utility": False, "hold_out": 0}
        numbers = dict.fromkeys([column for column in original if column != "ill"], float)
        original, control = original.astype(numbers), control.astype(numbers)
        for method in (*METHODS, "another sample"):
            lines, began = [], time.process_time()
            for draw in range(1 if method not in METHODS else given.draws):
                released = control
                if method in METHODS:
                    os.environ["ANONPIPE_SECRET"] = hashlib.sha256(f"wide {draw}".encode()).hexdigest()
                    made = anonymize(whole[:rows].reset_index(drop=True), job | {"mask": {"method": method}})
                    if made.table is None:
                        print(f"{name}, {method}: refused, {', '.join(each.key for each in made.verdict.failed)}")
                        continue
                    released = made.table.astype(numbers)
                lines.append(figures(original, released, control))
            if lines:
                seconds = (time.process_time() - began) / len(lines)
                told = " ".join(f"{each:6.3f}" for each in np.mean(lines, axis=0))
                print(f"{name + ', ' + method:32}{told} {seconds:6.1f}", flush=True)


if __name__ == "__main__":
    main()
