"""How often limits of 1 on distributions, pairs and survival curves refuse an honest release, over many secrets.

    python -m tests.benchmarks.beside_chance [--rows 3000] [--secrets 100] [--ways scores none ...]

Tables of ten columns: an income that is skewed (sd of the logarithm 1.5), visits of which four in ten are 0,
blood pressure in fives with a tenth missing, a share with mass at both ends, a date, two rare-tailed categories, and a
survival time with its status, shorter in higher stages. A new table and a new secret each time; gates on means
and covariances are open. `own` is the same figure of a second sample of the population in place of a release.

Printed are the upper ends of the figures' intervals, which the gates look at. In the table the date and the blood
pressure follow from one another but for rounding, which no method keeps: that is what the pairs' figure shows.
`--colon` adds samples of the Finnish colon registry (colon_finland.csv, see `recipient_models`), where it is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from anonpipe import anonymize
from anonpipe.columns import Kind
from anonpipe.evaluate.utility import MEASURES, Endpoint
from anonpipe.evaluate.utility._tables import typed_tables
from tests.benchmarks.recipient_models import COLUMNS as COLON
from tests.benchmarks.recipient_models import registry

COLUMNS: dict[str, dict[str, Any]] = {
    "income": {"kind": "continuous", "bounds": [0, None], "step": 0.01},
    "visits": {"kind": "integer", "bounds": [0, None]},
    "pressure": {"kind": "continuous", "bounds": [0, None], "step": 5},
    "share": {"kind": "continuous", "bounds": [0, 1]},
    "months": {"kind": "continuous", "role": "survival_time", "step": 0.1},
    "day": {"kind": "date"},
    "status": {"kind": "binary", "role": "survival_status", "event": ["dead"]},
    "sex": {"kind": "binary"},
    "stage": {"kind": "categorical"},
    "site": {"kind": "categorical"},
}
OPEN: dict[str, float | None] = dict.fromkeys(
    ("mean", "covariance", "covariance_with_keys", "mean_in_unit"), 99.0
) | dict.fromkeys(("unchanged_record_rate", "category_share", "null_share", "local_suppression_rate"), 1.0)
OPEN |= dict.fromkeys(("reidentification_rate", "membership_auc", "stratum_inference"))
GROUPS = {"cluster": {"method": "mdav"}}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "scores": ("normal_scores", GROUPS),
    "pca": ("normal_scores", {"synthesize": {"method": "pca", "moments": "expected"}}),
    "gaussian": ("normal_scores", {"k": 20, "synthesize": {"method": "gaussian", "moments": "expected"}}),
    "local_synthesis": ("normal_scores", {"mask": {"method": "local_synthesis"}}),
    "none": ("none", GROUPS),
}
FAMILIES = ("shapes.", "pairs.", "survival.")


def table(rows: int, seed: int) -> pd.DataFrame:
    """Columns as the page's first lines say, from one normal factor."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal(np.zeros(7), 0.5 * np.eye(7) + 0.5, rows)
    dead, stage = z[:, 5] < -0.25, np.digitize(z[:, 6] + rng.normal(size=rows), [-0.8, 0.5, 1.5])
    days = (3_000 / (1 + np.exp(-z[:, 2]))).astype(int)
    frame = pd.DataFrame(
        {
            "income": np.exp(9 + 1.5 * z[:, 0]).round(2),
            "visits": np.floor(np.where(z[:, 1] < -0.25, 0, np.exp(1.2 * (z[:, 1] + 0.3)))).astype(int),
            "pressure": 5 * np.rint((120 + 15 * z[:, 2]) / 5),
            "share": np.clip(0.5 + 0.5 * z[:, 3], 0, 1).round(3),
            "months": np.round(np.exp(3 + z[:, 4] - 0.5 * stage) * np.where(dead, 1, 2), 1) + 0.1,
            "day": pd.Timestamp("2000-01-01") + pd.to_timedelta(days, unit="D"),
            "status": np.where(dead, "dead", "alive"),
            "sex": np.where(rng.random(rows) < 0.5, "m", "f"),
            "stage": np.array(["I", "II", "III", "IV"])[stage],
            "site": np.array([f"s{at}" for at in range(12)])[np.minimum(rng.exponential(2.2, rows).astype(int), 11)],
        }
    )
    frame.loc[rng.random(rows) < 0.1, "pressure"] = np.nan
    return frame


def with_transform(columns: dict[str, Any], transform: str) -> dict[str, Any]:
    """The columns, each masked number or date with this transform."""
    numbers = ("continuous", "integer", "date")
    given = {"transform": transform}
    return {
        name: one | given
        if one["kind"] in numbers and one.get("role", "masked") in ("masked", "survival_time")
        else one
        for name, one in columns.items()
    }


def compared(old: pd.DataFrame, new: pd.DataFrame, columns: dict[str, Any], k: int, seed: int) -> dict[str, Any]:
    """The figures beside chance of two tables."""
    tables = typed_tables(old, new, {name: Kind(one["kind"]) for name, one in columns.items()}, least=k)
    roles = {one.get("role", "masked"): (name, one) for name, one in columns.items()}
    (time_name, _), (status, told) = roles["survival_time"], roles["survival_status"]
    tables = replace(tables, endpoints=(Endpoint("", time_name, status, tuple(told["event"])),))
    chosen = [measure for measure in MEASURES if measure.keys[0].startswith(FAMILIES) and measure.draws]
    return {one.name: one for each in chosen for one in each.of(tables, np.random.default_rng(seed))}


def released(old: pd.DataFrame, columns: dict[str, Any], way: str, seed: int) -> tuple[pd.DataFrame | None, int]:
    """A release, or None where another gate refuses it, and its k."""
    os.environ["ANONPIPE_SECRET"] = hashlib.sha256(f"beside chance {seed}".encode()).hexdigest()
    transform, changes = WAYS[way]
    status = next(name for name, one in columns.items() if one.get("role") == "survival_status")
    job = {"k": 5, "columns": with_transform(columns, transform), "gates": OPEN | {"rows_under_k": 10**9}}
    job |= {"measure": {"utility": False, "risk": False}, "strata": {"by": [status], "small": "merge"}} | changes
    return anonymize(old, job).table, job["k"]


def study(name: str, way: str, rows: int, secrets: int) -> None:
    """Print what many releases of one way come to."""
    found: dict[str, list[float]] = {}
    worst: dict[str, Counter[tuple[str, ...]]] = {}
    begin, refused, colon = time.time(), 0, registry() if name == "colon" else None
    columns = COLON if name == "colon" else COLUMNS
    for seed in range(secrets):
        rng = np.random.default_rng(seed)
        old = table(rows, seed) if colon is None else colon.sample(rows, random_state=rng)
        new, k = (table(rows, 10**6 + seed), 5) if way == "own" else released(old, columns, way, seed)
        if new is None:
            refused += 1
            continue
        for figure, one in compared(old, new, columns, k, seed).items():
            found.setdefault(figure, []).append(one.value if one.high is None else one.high)
            worst.setdefault(figure, Counter())[one.worst] += 1
    print(f"{name}, {way}, {rows} rows, {secrets} secrets, {time.time() - begin:.0f} s; refused otherwise: {refused}")
    for figure, each in found.items():
        values, most = np.array(each), worst[figure].most_common(1)[0]
        over = f"over 1: {(values > 1).sum()} of {len(values)}; most often {' and '.join(most[0])}"
        print(
            f"  {figure:24s} median {np.median(values):7.3f}  90 % {np.quantile(values, 0.9):7.3f}  largest "
            f"{values.max():7.3f}  {over if figure.endswith('chance') else ''}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--secrets", type=int, default=100)
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, "own"], default=["scores", "own", "none"])
    parser.add_argument("--colon", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    for way in given.ways:
        study("generated", way, given.rows, given.secrets)
        if given.colon and way != "own":
            study("colon", way, given.rows, given.secrets)


if __name__ == "__main__":
    main()
