"""Cox coefficients of the demonstration, as it is and with the stage of the tumour as a key in `strata.by`.

python -m tests.benchmarks.cox_strata [--rows 50000] [--draws 2]

A line each: the change of a coefficient in standard errors of the original, the mean and each draw.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from statsmodels.duration.hazard_regression import PHReg

from anonpipe.api import anonymize
from anonpipe.propose.demo import demo_job, write_registry
from anonpipe.rng import trial_secret

SHOWN = ("age", "Male", "Regional", "Distant", "Unknown")


def fit(table: pd.DataFrame) -> pd.DataFrame:
    """Coefficients and their standard errors, by statsmodels with Efron's ties."""
    columns: list[Any] = [table[["age"]].astype(float)]
    columns += [pd.get_dummies(table[name].astype(str)).astype(float) for name in ("sex", "stage", "site", "treatment")]
    predictors = pd.concat(columns, axis=1).drop(columns=["Female", "Localised", "Breast", "Surgery"])
    died = (table["vital_status"] == "Dead").to_numpy(dtype=float)
    months = table["follow_up_months"].to_numpy(dtype=float)
    fitted = PHReg(months, predictors.to_numpy(), status=died, ties="efron").fit()
    return pd.DataFrame({"value": fitted.params, "error": fitted.bse}, index=predictors.columns).loc[list(SHOWN)]


def with_stage(job: dict[str, Any]) -> dict[str, Any]:
    """The job with the stage released unchanged, and its values never in one group."""
    stage = job["columns"]["stage"] | {"role": "key"}
    return job | {"columns": job["columns"] | {"stage": stage}, "strata": {"by": ["vital_status", "stage"]}}


def main() -> None:
    """Print the changes of each job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--draws", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "registry.parquet")
        write_registry(path, given.rows)
        table = pd.read_parquet(path)
        plain = yaml.safe_load(demo_job(path, str(Path(folder) / "out"), 5, drawn=True))
    original = fit(table)
    for called, job in (("vital_status", plain), ("vital_status, stage", with_stage(plain))):
        changes = []
        for draw in range(given.draws):
            with trial_secret(bytes([draw + 1]) * 32):
                released = anonymize(table, {key: job[key] for key in job if key not in ("input", "output")})
            changes.append((fit(released.table)["value"] - original["value"]) / original["error"])
        for name in SHOWN:
            single = ", ".join(f"{change[name]:.1f}" for change in changes)
            mean = sum(change[name] for change in changes) / len(changes)
            print(f"strata.by [{called}], {name}: {mean:.1f} ({single})", flush=True)


if __name__ == "__main__":
    main()
