"""Poisoned tables, runs of the flow on them, and the search for the poison afterwards."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from tests import runs
from tests.flows.loaded import Loaded

WORKERS: dict[str, Any] = {"workers": 2, "memory_per_worker": "2GiB", "retries": 0}
"""The section `run` of a job on two Dask workers."""

ROOT = Path(__file__).resolve().parents[2]
SABOTAGE = "import sys; from tests.flows import sabotage; sys.exit(sabotage.main(*sys.argv[1:]))"
BUSY = 20  # Times that a busy server is asked


@dataclass(frozen=True)
class Server:
    """A running Prefect server: its home (database, storage), the URL of its API, and its name and password.

    `flows` runs programs that use it. `empty` is its database before the first run: migrations take twelve seconds.
    """

    home: Path
    url: str
    password: str
    flows: Loaded
    empty: Path

    def ask(self, what: str, **filters: Any) -> list[dict[str, Any]]:
        """The answer to a filter of the API."""
        found: list[dict[str, Any]] = self.send("POST", f"{what}/filter", filters)
        return found

    def send(self, method: str, path: str, content: Any) -> Any:
        """The answer to any request; while the server's database is busy it answers 503, and is asked again."""
        token = base64.b64encode(self.password.encode()).decode()
        request = urllib.request.Request(
            f"{self.url}/{path}",
            data=json.dumps(content).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Basic {token}"},
            method=method,
        )
        for left in reversed(range(BUSY)):
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    return json.loads(answer.read() or "null")
            except urllib.error.HTTPError as error:
                if error.code != 503 or not left:
                    raise
                time.sleep(1)

    def last_run(self) -> dict[str, Any]:
        """The newest flow run."""
        return self.ask("flow_runs", sort="START_TIME_DESC", limit=1)[0]

    def artifacts(self, flow_run: str, key: str) -> list[dict[str, Any]]:
        """The artifacts of a run under one key."""
        found = self.ask("artifacts", artifacts={"flow_run_id": {"any_": [flow_run]}})
        return [artifact for artifact in found if artifact["key"] == key]


@dataclass(frozen=True)
class Poison:
    """A text and a number that no real table holds; each test has its own."""

    text: str
    number: float

    @property
    def needles(self) -> list[bytes]:
        """The poison as bytes: the text, the number as text, the number as a float64."""
        return [self.text.encode(), str(self.number).encode(), np.float64(self.number).tobytes()]

    def table(self, folder: Path, **changes: Any) -> Path:
        """A job on a table with the poison in an identifier, a masked number and a rare category."""
        rng = np.random.default_rng(3)
        n = 3000
        frame = pd.DataFrame(
            {
                "name": [f"{self.text}-{at}" for at in range(n)],
                "age": rng.integers(20, 90, n),
                "income": rng.lognormal(8, 1, n).round(2),
                "region": rng.choice(["north", "south", "west"], n),
            }
        )
        frame.loc[17, "income"] = self.number
        frame.loc[18, "region"] = f"{self.text}-region"
        frame.to_parquet(folder / "poisoned.parquet", compression=None)
        job = {
            "input": str(folder / "poisoned.parquet"),
            "output": str(folder / "out"),
            "k": 5,
            "repeat": {"allow": "a test"},
            "cluster": {"method": "mdav", "refine": False},
            "columns": {
                "name": {"kind": "categorical", "role": "identifier"},
                "age": {"kind": "integer", "bounds": [0, 110]},
                "income": {"kind": "continuous", "bounds": [0, 1000000], "step": 0.01},
                "region": {"kind": "categorical"},
            },
            "partition": {"rows": 1000, "sample_rows": 1000},
            "measure": {"utility": False, "risk": False},
            "run": {"retries": 0},  # threads of the flow's process; WORKERS has a cluster of its own
            **changes,
        }
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        return folder / "job.yaml"

    def environment(self, folder: Path, server: Server | None, *pieces: str) -> dict[str, str]:
        """As a run's, with Prefect's home and temporary files inside the folder or the server's home."""
        for name in ("tmp", "notes"):
            (folder / name).mkdir(exist_ok=True)
        found = {
            **without_prefect(runs.environment(folder)),
            "PREFECT_HOME": str(server.home if server else folder / "prefect"),
            "TMPDIR": str(folder / "tmp"),
            **noting(server.home if server else folder),
            "SABOTAGE_FOLDER": str(folder / "notes"),
            "SABOTAGE_TEXT": f"{self.text} {self.number}",
            "SABOTAGE_PIECES": " ".join(pieces),
        }
        known = {"PREFECT_API_URL": server.url, "PREFECT_API_AUTH_STRING": server.password} if server else {}
        return {**found, **known}

    def program(
        self, folder: Path, server: Server, code: str, *arguments: Any, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of a user of Prefect; `settings` are more variables of its environment."""
        environment = self.environment(folder, server) | settings
        done = server.flows.run(code, *map(str, arguments), env=environment, cwd=folder)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def run(
        self, folder: Path, server: Server | None, job: Path, pieces: list[str], *options: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the sabotaged flow; its console is kept beside the other traces."""
        environment = self.environment(folder, server, *pieces)
        if server:
            done = server.flows.run(SABOTAGE, str(job), *options, env=environment, cwd=folder)
        else:
            command = [sys.executable, "-m", "tests.flows.sabotage", str(job), *options]
            done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, timeout=240, check=False)
        (folder / "console.log").write_bytes(done.stdout + done.stderr)
        return done

    def found_in(self, *folders: Path) -> set[Path]:
        """Every file below the folders that holds the poison."""
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {path for path in files if any(needle in contents(path) for needle in self.needles)}


def contents(path: Path) -> bytes:
    """The bytes of a file, and what they are where they are base64, as Prefect's pickled errors are."""
    raw = path.read_bytes()
    try:
        return raw + base64.b64decode(b"".join(raw.split()), validate=True)
    except ValueError:
        return raw


def noting(folder: Path) -> dict[str, str]:
    """What has a process note in a file of the folder whatever it sends beyond this machine."""
    return {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'flows' / 'outgoing'}", "OUTGOING": str(folder / "outgoing.txt")}


def without_prefect(environment: dict[str, str]) -> dict[str, str]:
    """Without the settings of a Prefect that the developer uses."""
    return {name: value for name, value in environment.items() if not name.startswith("PREFECT_")}


def private(folder: Path) -> bool:
    """Whether none but the owner can read any file below a folder."""
    return all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*") if path.is_file())


def console(folder: Path) -> str:
    """The end of a run's console, for messages."""
    return (folder / "console.log").read_text(errors="replace")[-3000:]


def umask() -> int:
    """The mask of this process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
