"""Helpers for tests that run the whole program as a user does: in its own process."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from anonpipe.propose.demo import write_registry

STAGES = ("scan", "route", "encode", "step-0", "scores", "decode", "write")
"""Stages of a job with groups and normal scores whose pieces leave task results; groups form in `step-0`."""


def write_patients(path: Path, rows: int, **options: Any) -> None:
    """The made-up registry without treatments, regions and smokers: other columns are of their kinds, too."""
    write_registry(path, rows, **options)
    pq.write_table(pq.read_table(path).drop_columns(["treatment", "region", "smoker"]), path)


def registry_job(folder: Path, rows: int = 6_000, files: int = 6, **changes: Any) -> Path:
    """A made-up registry in several files, and a job that cuts it into many small pieces."""
    data = folder / "registry"
    data.mkdir(parents=True, exist_ok=True)
    write_patients(folder / "whole.parquet", rows)
    table = pq.read_table(folder / "whole.parquet")
    step = -(-rows // files)
    for at in range(files):
        pq.write_table(table.slice(at * step, step), data / f"part-{at}.parquet")
    content: dict[str, Any] = {
        "input": str(data),
        "output": str(folder / "out"),
        "k": 5,
        "columns": registry_columns(table.schema),
        "strata": {"by": ["vital_status"]},
        "partition": {"rows": 1000, "sample_rows": 5000},
        "cluster": {"method": "mdav", "block_rows": 200, "refine": False},
        "release": {"file_rows": 1000},
        "measure": {"utility": False, "risk": False, "allow": "a test"},
        "repeat": {"allow": "a test"},
        "run": {"workers": 2, "memory_per_worker": "2GiB"},
    }
    content.update(changes)
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def registry_columns(schema: pa.Schema) -> dict[str, Any]:
    """The columns of the demonstration registry as a job declares them."""
    columns: dict[str, Any] = {
        "patient_id": {"kind": "integer", "role": "identifier"},
        "age": {"kind": "integer", "bounds": [0, 110]},
        "sex": {"kind": "binary"},
        "stage": {"kind": "categorical"},
        "site": {"kind": "categorical"},
        "tumour_size_mm": {"kind": "continuous", "bounds": [0, 500]},
        "treatment": {"kind": "categorical"},
        "region": {"kind": "categorical"},
        "diagnosis_date": {"kind": "date", "bounds": ["1990-01-01", "2030-12-31"]},
        "smoker": {"kind": "binary"},
        "follow_up_months": {"kind": "continuous", "role": "survival_time", "bounds": [0, 600], "step": 0.1},
        "vital_status": {"kind": "categorical", "role": "survival_status", "event": ["Dead"]},
    }
    return {name: columns[name] for name in schema.names}


SECRET = "5e1b07c93ad264f8" * 4
"""For processes of their own; a plain one is refused there."""


def environment(folder: Path, secret: str = SECRET) -> dict[str, str]:
    """An environment of its own for a run: secret, private home and staging."""
    return {
        **os.environ,
        "ANONPIPE_SECRET": secret,
        "ANONPIPE_HOME": str(folder / "home"),
        "ANONPIPE_STAGING": str(folder / "staging"),
    }


def start_cli(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """`anonpipe` with these arguments, left running."""
    return subprocess.Popen(
        [sys.executable, "-m", "anonpipe", *arguments],
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def released_hashes(output: Path) -> dict[str, str]:
    """SHA-256 of every released data file."""
    manifest = json.loads((output / "release" / "_manifest.json").read_text())
    found = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (output / "release").glob("*.parquet")}
    assert found == {entry["name"]: entry["sha256"] for entry in manifest["files"]}
    return found


def staging_of(folder: Path) -> Path | None:
    """The staging folder of the only run below `folder`."""
    runs = [path for path in (folder / "staging").glob("*") if path.is_dir()] if folder.exists() else []
    return runs[0] if runs else None


def wait_for_stage(folder: Path, stage: str, process: subprocess.Popen[str]) -> bool:
    """Wait until the first piece of a stage has its task result; False if the run ended before."""
    while process.poll() is None:
        staging = staging_of(folder)
        if staging is not None and any((staging / "results" / stage).glob("*.record")):
            return True
        time.sleep(0.01)
    return False


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The worker processes of a run's own cluster: those that its fork server has started."""
    return [child for server in fork_servers(process.pid) for child in _children(server)]


def fork_servers(pid: int) -> list[psutil.Process]:
    """The process that the workers of this one are forked from."""
    return [child for child in _children(psutil.Process(pid)) if "forkserver" in " ".join(_cmdline(child))]


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.Error:
        return []


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def kill_worker(process: subprocess.Popen[str]) -> None:
    """SIGKILL one worker."""
    os.kill(workers_of(process)[0].pid, signal.SIGKILL)


def kill_driver(process: subprocess.Popen[str]) -> None:
    """SIGKILL the driver, and wait until its orphans have gone: the workers, and what they are forked from."""
    orphans = workers_of(process) + fork_servers(process.pid)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(orphans, timeout=60)
    assert alive == []


Kill = Callable[[subprocess.Popen[str]], None]
