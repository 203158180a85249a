"""Nothing leaves the machine: server, worker, deployment and run, with the lines of the runbook."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

from tests.flows.poison import ROOT, Poison

POISON = Poison("canary-outgoing", 11223.3445)
LEAVES = "import urllib.request; urllib.request.urlopen('https://sens-o-matic.prefect.io/')"


def test_a_deployed_run_sends_nothing_beyond_this_machine(tmp_path, server, forgotten):
    job = yaml.safe_load(POISON.table(tmp_path).read_text())
    environment = {**POISON.environment(tmp_path, server), "ANONPIPE_CHECKOUT": str(ROOT)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    notes = Path(environment["OUTGOING"])

    def prefect(*arguments, **options):
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *arguments],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            **options,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    once = ("worker", "start", "--type", "process", "--pool", "local-process", "--run-once")
    prefect(*once)  # which makes the pool; `prefect work-pool create` has the server ask GitHub for types of workers
    prefect("--no-prompt", "deploy", "--all", "--prefect-file", "deploy/prefect.yaml")
    prefect("deployment", "run", "anonymize/nightly", "--params", json.dumps({"job": job}))
    prefect(*once)
    run = server.last_run()
    assert (run["state_name"], run["work_pool_name"]) == ("Completed", "local-process"), run["state"]
    assert not notes.exists(), notes.read_text()
    subprocess.run([sys.executable, "-c", LEAVES], env=environment, capture_output=True, check=False)
    assert "sens-o-matic.prefect.io" in notes.read_text()  # it would have been seen
    notes.unlink()
