"""A flow on poisoned data whose every stage fails once must leave the poison nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from tests import runs

CANARY_TEXT = "canary-7f3e9b"
CANARY_NUMBER = 98765.4321

SABOTAGED_FLOW = '''
"""Run the flow in one process, with each stage failing once and quoting the poison."""
import sys
from anonpipe import pipeline, stages
from anonpipe.job import load_job

job = load_job(sys.argv[1])
real = dict(stages.STAGES)
failed = set()

def sabotaged(name):
    def stage(context, index):
        if name not in failed:
            failed.add(name)
            raise ValueError("row with {text} and {number}")
        return real[name](context, index)
    return stage

for name in real:
    stages.STAGES[name] = sabotaged(name)
opened = pipeline.open_mapper
pipeline.open_mapper = lambda job, staging: opened(job, staging, cluster=False)

from flows import anonymize as module
module.STAGES = tuple(stage.with_options(retry_delay_seconds=0) for stage in module.STAGES)
module.anonymize(job)
assert failed == set(real), failed
print("every stage failed once:", sorted(failed))
'''


def poisoned(folder: Path) -> Path:
    """A table with the poison in an identifier, a masked number and a rare category."""
    rng = np.random.default_rng(3)
    n = 3000
    frame = pd.DataFrame(
        {
            "name": [f"{CANARY_TEXT}-{at}" for at in range(n)],
            "age": rng.integers(20, 90, n),
            "income": rng.lognormal(8, 1, n).round(2),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    frame.loc[17, "income"] = CANARY_NUMBER
    frame.loc[18, "region"] = f"{CANARY_TEXT}-region"
    frame.to_parquet(folder / "poisoned.parquet", compression=None)
    job = {
        "input": str(folder / "poisoned.parquet"),
        "output": str(folder / "out"),
        "k": 5,
        "columns": {
            "name": {"kind": "categorical", "role": "identifier"},
            "age": {"kind": "integer", "bounds": [0, 110]},
            "income": {"kind": "continuous", "bounds": [0, 1000000], "step": 0.01},
            "region": {"kind": "categorical"},
        },
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return folder / "job.yaml"


def environment(folder: Path) -> dict[str, str]:
    """As a run's, with Prefect's home and temporary files inside the folder too."""
    (folder / "tmp").mkdir()
    return {
        **runs.environment(folder),
        "PREFECT_HOME": str(folder / "prefect"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }


def files_holding(folder: Path, needles: list[bytes]) -> list[str]:
    """Every file below a folder that holds one of the byte strings."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and any(needle in path.read_bytes() for needle in needles):
            found.append(str(path))
    return found


def test_poison_is_nowhere_after_every_stage_failed_once(tmp_path):
    job = poisoned(tmp_path)
    script = tmp_path / "sabotage.py"
    script.write_text(SABOTAGED_FLOW.replace("{text}", CANARY_TEXT).replace("{number}", str(CANARY_NUMBER)))
    done = subprocess.run(
        [sys.executable, str(script), str(job)],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        timeout=280,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output.decode()[-3000:]
    assert b"every stage failed once" in output
    needles = [CANARY_TEXT.encode(), str(CANARY_NUMBER).encode(), np.float64(CANARY_NUMBER).tobytes()]
    (tmp_path / "console.log").write_bytes(output)
    own = {str(script), str(tmp_path / "poisoned.parquet")}
    assert own <= set(files_holding(tmp_path, needles))  # the search does find what is there
    assert set(files_holding(tmp_path, needles)) == own
    assert (tmp_path / "out" / "release" / "manifest.json").exists()
    assert (tmp_path / "prefect" / "prefect.db").exists()
    released = pd.concat([pd.read_parquet(p) for p in (tmp_path / "out" / "release").glob("*.parquet")])
    assert not released["region"].astype(str).str.contains(CANARY_TEXT).any()
    assert not (released["income"] == CANARY_NUMBER).any()


def test_prefect_files_are_private(tmp_path):
    assert os.environ.get("HOME")
    code = "import flows.anonymize, os; m = os.umask(0); print(oct(m))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert done.stdout.strip() == "0o77"
