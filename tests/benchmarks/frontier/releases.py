"""Releases of a table by `anonpipe run`, each by a process of its own, as a steward makes them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.benchmarks.frontier.settings import Setting
from tests.benchmarks.frontier.tables import Table, halves

OPEN = (
    "mean=99", "covariance=99", "covariance_with_keys=99", "mean_in_unit=99", "category_share=1", "null_share=1",
    "rows_under_k=1000000000", "unchanged_record_rate=1", "local_suppression_rate=1",
)  # fmt: skip
"""Gates through which nearly everything goes: a refused setting is looked at, too."""
GATE_FAILED = 3


def prepare(folder: Path, table: Table, seed: int) -> Table:
    """Write what is anonymised and the control, what the judge is told, and the job that is proposed.

    Returns
    -------
    Table
        Without the columns that the proposed job does not release.
    """
    (folder / "releases").mkdir(mode=0o700, parents=True, exist_ok=True)
    kept, control = halves(table.frame, 0.7, seed)
    kept.to_parquet(folder / "original.parquet")
    control.to_parquet(folder / "control.parquet")
    proposed = _anonpipe(folder, "init", "original.parquet", "--output", "out")
    proposed.check_returncode()
    (folder / "job.yaml").write_text(proposed.stdout)
    columns = yaml.safe_load(proposed.stdout)["columns"]
    left = table.without([name for name, said in columns.items() if said["role"] in ("dropped", "identifier")])
    (folder / "table.json").write_text(json.dumps(left.described))
    return left


def release(folder: Path, table: Table, setting: Setting, draw: int) -> dict[str, Any]:
    """Make a release, with the gates open where the usual ones refuse it, and say what became of it.

    Nothing is done where it was made before.
    """
    name = f"{setting.method}, k={setting.k}, {draw}".replace(" ", "_")
    told = folder / "releases" / f"{name}.json"
    if told.exists():
        return dict(json.loads(told.read_text()))
    began = time.perf_counter()
    done = _run(folder, table, setting, draw, ())
    refused = done.returncode == GATE_FAILED
    if refused:
        done = _run(folder, table, setting, draw, OPEN)
    about: dict[str, Any] = {"who": "anonpipe", "method": setting.method, "k": setting.k, "draw": draw}
    about |= {"refused": refused, "seconds": round(time.perf_counter() - began, 1)}
    if done.returncode:
        about["problem"] = " ".join((done.stderr or done.stdout).split())[:300] or f"exit code {done.returncode}"
    else:
        _read_release(folder / "out" / "release").to_pandas().to_parquet(told.with_suffix(".parquet"))
        about |= {"released": f"releases/{name}.parquet", "linked": _linked(folder / "out" / "steward")}
    told.write_text(json.dumps(about))
    return about


def _run(
    folder: Path, table: Table, setting: Setting, draw: int, gates: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    for used in ("out", "home", "staging"):
        shutil.rmtree(folder / used, ignore_errors=True)
    changes = (*table.settings, *(f"gates.{gate}" for gate in gates), "measure.utility=false")
    options = [part for change in changes for part in ("--set", change)]
    masked = [name for name, kind in table.kinds.items() if kind != "categorical"]
    return _anonpipe(
        folder, "run", "job.yaml", "--workers", "1", "--quiet", *options, *setting.arguments(masked), draw=draw
    )


def _anonpipe(folder: Path, *arguments: str, draw: int = 0) -> subprocess.CompletedProcess[str]:
    private = {
        "ANONPIPE_HOME": str(folder / "home"),
        "ANONPIPE_STAGING": str(folder / "staging"),
        "ANONPIPE_SECRET": hashlib.sha256(f"frontier {draw}".encode()).hexdigest(),
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "anonpipe", *arguments]
    return subprocess.run(command, cwd=folder, env=os.environ | private, capture_output=True, text=True, check=False)


def _read_release(version: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(version.glob("part-*.parquet"))])


def _linked(steward: Path) -> float | None:
    """Records whose nearest released one is their own, from the steward's report; None where there is no such thing."""
    [report] = steward.glob("*report.json")
    found = {one["name"]: one["value"] for one in json.loads(report.read_text())["risk"]}
    linked = found.get("linkage.first", found.get("linkage.expected"))
    return None if linked is None else float(linked)
