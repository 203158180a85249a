"""Releases of a table, by the stages of `anonpipe run` in memory, on the job that `anonpipe init` proposes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from anonpipe import anonymize
from anonpipe.api import Anonymized
from anonpipe.errors import AnonpipeError
from anonpipe.job.model import load_job
from anonpipe.job.plain_yaml import parse_setting
from anonpipe.propose.propose import propose_job
from anonpipe.verify import words
from anonpipe.verify.catalogue import GATES
from tests.benchmarks.frontier.settings import Setting
from tests.benchmarks.frontier.tables import Table, halves
from tests.benchmarks.populations import broken

OPEN = (
    *(f"gates.{name}={'null' if gate.figures else gate.most or 1_000_000_000}" for name, gate in GATES.items()),
    "measure.utility=false",  # not of risk: a job may set records aside for it, or name scenarios
)
"""Gates through which nearly everything goes: a refused setting is looked at, too."""


def prepare(folder: Path, table: Table, seed: int) -> Table:
    """Write what is anonymised and the control, what the judge is told, and the job that is proposed; only once.

    Returns
    -------
    Table
        Without the columns that the proposed job does not release.
    """
    (folder / "releases").mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "table.json").exists():
        for name, rows in zip(("original", "control"), halves(table.frame, 0.7, seed, table.unit), strict=True):
            rows.to_parquet(folder / f"{name}.parquet")
        (folder / "job.yaml").write_text(propose_job(str(folder / "original.parquet"), str(folder / "out"), 5))
    columns = yaml.safe_load((folder / "job.yaml").read_text())["columns"]
    unreleased = [name for name, said in columns.items() if said["role"] in ("dropped", "identifier")]
    left = table.without([name for name in unreleased if name != table.unit])
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
    about: dict[str, Any] = {"who": "anonpipe", "method": setting.method, "k": setting.k, "draw": draw}
    about["refused"] = False
    try:
        made = _anonymized(folder, table, setting, draw)
        about |= {"linked": _linked(made), "refused": not made.passed}
        if not made.passed:
            about["why"] = "; ".join(f"{words.named(one)}: {words.line(one).measured}" for one in made.verdict.failed)
            made = _anonymized(folder, table, setting, draw, OPEN)
        if made.passed:
            made.table.to_parquet(told.with_suffix(".parquet"))
            about["released"] = f"releases/{name}.parquet"
        else:
            about["problem"] = f"refused with open gates: {words.named(made.verdict.failed[0])}"
    except AnonpipeError as error:
        about["problem"] = " ".join(str(error).split())[:300]
    about["seconds"] = round(time.perf_counter() - began, 1)
    told.write_text(json.dumps(about))
    return about


def count_broken(folder: Path, table: Table) -> None:
    """Of a table with rules, add to the figures of every release the share of its rows that break one."""
    for told in (folder / "releases").glob("*.json") if table.checks else ():
        about = json.loads(told.read_text())
        if "released" in about and "broken" not in about.get("figures", {}):
            share = broken(pd.read_parquet(folder / about["released"]), table.checks)
            about["figures"] = about.get("figures", {}) | {"broken": share}
            told.write_text(json.dumps(about))


def _anonymized(folder: Path, table: Table, setting: Setting, draw: int, gates: tuple[str, ...] = ()) -> Anonymized:
    changes = (*table.settings, *setting.changes_of(table.numbers), *gates)
    job = load_job(folder / "job.yaml", dict(map(parse_setting, changes)))
    os.environ["ANONPIPE_SECRET"] = hashlib.sha256(f"frontier {draw}".encode()).hexdigest()
    return anonymize(pd.read_parquet(folder / "original.parquet"), job)


def _linked(made: Anonymized) -> float | None:
    """Records whose nearest released one is their own, from the report; None where there is no such thing."""
    found = {one.name: one.value for one in made.report.risk}
    linked = found.get("reidentification_rate")
    return None if linked is None else float(linked)
