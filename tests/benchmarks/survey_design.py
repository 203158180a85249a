"""Totals by region, and coverage of design-based 95 % intervals, of simulated surveys and their releases.

`python -m tests.benchmarks.survey_design --surveys 100 --groups 3`: a stratified sample of two stages (4 regions, 12
sampling units each, 20 persons each) whose units differ, with weights by region, size and age group. Intervals of the
original and of the release are those of `svymean`, `svytotal` and `svyglm`.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

from anonpipe import anonymize
from anonpipe.evaluate.utility import Analysis, fit_models
from anonpipe.evaluate.utility._weighted import Psus, weighted_means

COLUMNS: dict[str, Any] = {
    "region": {"kind": "categorical", "role": "key"},
    "psu": {"kind": "categorical", "role": "key"},
    "size": {"kind": "categorical"},
    "band": {"kind": "ordinal", "levels": ["18-39", "40-59", "60+"]},
    "income": {"kind": "continuous", "bounds": [0, None], "step": 10},
    "employed": {"kind": "binary"},
    "weight": {
        "kind": "continuous",
        "role": "sampling_weight",
        "by": ["region", "size", "band"],
        "calibrate": ["region"],
    },
}
JOB: dict[str, Any] = {
    "k": 5,
    "columns": COLUMNS,
    "strata": {"by": ["region", "psu"]},
    "design": {"strata": "region", "cluster": "psu"},
    "measure": {"utility": False, "risk": False, "hold_out": 0, "allow": "a simulation"},
    "repeat": {"allow": "a simulation"},
}


def survey(seed: int, psus: int = 12, rows: int = 20) -> pd.DataFrame:
    """A sample of 4 regions, with 48 distinct weights."""
    rng = np.random.default_rng(seed)
    region, psu = np.repeat(np.arange(4), psus * rows), np.repeat(np.arange(4 * psus), rows)
    effect = rng.normal(size=4 * psus)[psu]
    size, band = rng.choice(4, len(psu), p=[0.3, 0.35, 0.2, 0.15]), rng.choice(3, len(psu), p=[0.4, 0.35, 0.25])
    weight = 20.0 * 2.0**region * np.array([1.3, 1.0, 0.9, 0.7])[size] * np.array([1.2, 0.9, 1.05])[band]
    income = np.exp(9.8 + 0.1 * region + 0.25 * effect + 0.1 * band + rng.normal(0, 0.5, len(psu))).round(-1)
    employed = rng.random(len(psu)) < 1 / (1 + np.exp(-0.2 - 0.5 * effect + 0.3 * band))
    return pd.DataFrame(
        {
            "region": np.array(list("ABCD"))[region],
            "psu": 1000 + psu,
            "size": np.array(["1", "2", "3", "4+"])[size],
            "band": np.array(COLUMNS["band"]["levels"])[band],
            "income": income,
            "employed": employed.astype(int),
            "weight": weight.round(2),
        }
    )


def estimates(table: pd.DataFrame, design: bool) -> dict[str, tuple[float, float]]:
    """Means, a total by region, and a coefficient, each with half of its interval."""
    codes = {name: np.unique(table[name], return_inverse=True)[1].astype(float) for name in ("region", "psu")}
    psus = Psus.of(codes["region"], codes["psu"]) if design else None
    # Of one region the degrees of freedom are its own, as of `subset` of a design in R
    degrees = (np.inf, np.inf) if psus is None else (psus.degrees, psus.degrees // 4)
    reach, in_region = t.ppf(0.975, degrees)
    weights, found = table["weight"].to_numpy(), {}
    for name in ("income", "employed"):
        values = table[name].to_numpy(float)
        mean, error = weighted_means(values, weights, psus=psus)
        means, errors = weighted_means(values, weights, codes["region"], 4, psus)
        found |= {name: (mean[0], reach * error[0]), f"{name} in C": (means[2], in_region * errors[2])}
    others = {"cluster": "psu", "design_strata": "region"} if design else {}
    analysis = Analysis("m", "linear", "np.log(income + 1) ~ band + employed", weights="weight", **others)
    slope = fit_models(table, [analysis])[0].fit.estimates["employed"]
    return found | {"coefficient": (slope.value, (slope.high - slope.low) / 2)}


def totals(table: pd.DataFrame, release: pd.DataFrame) -> pd.DataFrame:
    """Totals of income by region, the half of their interval, and how far the release is off."""
    codes = {name: np.unique(table[name], return_inverse=True)[1].astype(float) for name in ("region", "psu")}
    psus, weights = Psus.of(codes["region"], codes["psu"]), table["weight"].to_numpy()
    mean, error = weighted_means(table["income"].to_numpy(), weights, codes["region"], 4, psus)
    half = t.ppf(0.975, psus.degrees) * error * weights.sum()
    after = (release["income"] * release["weight"]).groupby(release["region"]).sum().to_numpy()
    found = pd.DataFrame({"total": mean * weights.sum(), "half": half, "release": after}, index=list("ABCD"))
    return found.assign(inside=abs(found["release"] - found["total"]) <= found["half"])


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--surveys", type=int, default=100)
    parser.add_argument("--groups", type=int, default=3)
    given = parser.parse_args()
    truth = {name: value for name, (value, _) in estimates(survey(0, 4000, 40), False).items()}
    job, rows, begin = JOB | {"design": JOB["design"] | {"random_groups": given.groups}}, [], process_time()
    for seed in range(1, given.surveys + 1):
        table = survey(seed)
        release = anonymize(table, job).table
        if seed == 1:
            without = {name: column for name, column in COLUMNS.items() if name != "psu"}
            plain = JOB | {"columns": without, "strata": {"by": ["region"]}, "design": None}
            for what, each in (("design", release), ("no design", anonymize(table.drop(columns="psu"), plain).table)):
                between = [np.log(one["weight"]).groupby(one["region"]).mean().var() for one in (table, each)]
                print(f"{what}: distinct weights {table['weight'].nunique()} and {each['weight'].nunique()}, ", end="")
                print(f"variance of log weights between regions {between[0]:.3f} and {between[1]:.3f}")
                print(totals(table, each).round(0).to_string())
        sides = (("original", table, True), ("release", release, True), ("release, records alone", release, False))
        for side, frame, design in sides:
            for name, (value, half) in estimates(frame, design).items():
                rows.append((name, side, abs(value - truth[name]) <= half, half, value - truth[name]))
        if seed % 25 == 0 or seed == given.surveys:
            found = pd.DataFrame(rows, columns=["estimate", "of", "inside", "half", "off"])
            print(f"{seed} surveys, {given.groups} random groups a region, {process_time() - begin:.0f} s of processor")
            every = {"inside": "mean", "half": "mean", "off": ["mean", "std"]}
            print(found.groupby(["estimate", "of"], sort=False).agg(every).to_string(), flush=True)


if __name__ == "__main__":
    main()
