"""Nothing leaves the machine: server, worker, deployment and run, with the lines of the runbook."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tests.flows.poison import ROOT, Poison

POISON = Poison("canary-outgoing", 11223.3445)


def wait_until(there, worker):
    """Until what is asked for is there, for four minutes; the worker lives meanwhile."""
    end = time.monotonic() + 240
    while not there():
        assert worker.poll() is None and time.monotonic() < end
        time.sleep(0.5)


PREFECT = "from prefect.cli import app; app()"
LEAVES = "import urllib.request; urllib.request.urlopen('https://sens-o-matic.prefect.io/')"


def test_a_deployed_run_sends_nothing_beyond_this_machine(tmp_path, server, forgotten):
    job = yaml.safe_load(POISON.table(tmp_path).read_text())
    environment = {**POISON.environment(tmp_path, server), "ANONPIPE_CHECKOUT": str(ROOT)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    notes = Path(environment["OUTGOING"])

    def prefect(*arguments):
        done = server.flows.run(PREFECT, *arguments, env=environment, cwd=ROOT)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    # The worker makes the pool; `prefect work-pool create` has the server ask GitHub for types of workers
    start = [sys.executable, "-m", "prefect", "worker", "start", "--type", "process", "--pool", "local-process"]
    often = {"PREFECT_WORKER_QUERY_SECONDS": "1"}
    with open(tmp_path / "worker.log", "wb") as log:
        worker = subprocess.Popen(start, env=environment | often, cwd=ROOT, stdout=log, stderr=log)
    try:
        wait_until(lambda: server.ask("work_pools"), worker)
        prefect("--no-prompt", "deploy", "--all", "--prefect-file", "deploy/prefect.yaml")
        prefect("deployment", "run", "anonymize/nightly", "--params", json.dumps({"job": job}))
        of_pool = {"work_pools": {"name": {"any_": ["local-process"]}}}
        wait_until(lambda: all(run["end_time"] for run in server.ask("flow_runs", **of_pool)), worker)
    finally:
        worker.kill()
        worker.wait()
    (run,) = server.ask("flow_runs", **of_pool)
    assert (run["state_name"], run["work_pool_name"]) == ("Completed", "local-process"), run["state"]
    assert run["name"].startswith("out-v000001-")
    assert not notes.exists(), notes.read_text()
    subprocess.run([sys.executable, "-c", LEAVES], env=environment, capture_output=True, check=False)
    assert "sens-o-matic.prefect.io" in notes.read_text()  # it would have been seen
    notes.unlink()
