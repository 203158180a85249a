"""What a schedule does with nobody there: runs start, release, and tell of a failure."""

from __future__ import annotations

import json
import re
import time

import yaml

from tests.flows.listening import Told
from tests.flows.poison import Poison
from tests.flows.test_watch import watch

POISON = Poison("canary-nightly", 86420.9753)

SERVE = """
import json, sys
from datetime import UTC, datetime, timedelta
from prefect import serve
from prefect.schedules import Interval
from flows.anonymize import anonymize
soon = Interval(timedelta(minutes=1), anchor_date=datetime.now(UTC) + timedelta(seconds=10))
timed = {"schedule": soon, "concurrency_limit": 1}
jobs = json.loads(sys.argv[1])
serve(*(anonymize.to_deployment(name, parameters={"job": job}, **timed) for name, job in jobs.items()))
"""


def completed(server):
    """The names of the runs of the good job that have ended well."""
    found = server.ask("flow_runs", deployments={"name": {"any_": ["good"]}})
    return [run["name"] for run in found if run["state_name"] == "Completed"]


def test_schedules_fire_and_a_failed_run_is_told_at_once(tmp_path, server, listening, forgotten):
    job = yaml.safe_load(POISON.table(tmp_path).read_text())
    strict = {"decode": {"categories": "sampled"}, "gates": {"category_share": 1e-12}}
    gates = {"rows_under_k": 9, "unchanged_record_rate": 1, "mean": 9, "covariance": 9, "covariance_with_keys": 9}
    columns = job["columns"] | {"age": {"kind": "integer", "role": "sensitive"}}
    jobs = {
        "good": {**job, "columns": columns, "gates": gates},
        "strict": {**job, **strict, "output": str(tmp_path / "strict")},
    }
    done = watch(tmp_path, server, ["--notify", listening])
    assert done.stdout.endswith("codes [0]\n"), done.stderr[-3000:]
    often = POISON.environment(tmp_path, server) | {"PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    printed = [tmp_path / "console.log"] * 2
    serving = server.flows.start(SERVE, json.dumps(jobs), env=often, cwd=tmp_path, printed=printed)
    try:
        until = time.monotonic() + 240
        while not (Told.messages and (released := completed(server))) and time.monotonic() < until:
            assert serving.is_running()
            time.sleep(0.5)
    finally:
        serving.terminate()
        server.flows.ended()
    address = server.url.removesuffix("/api")
    assert Told.messages and json.loads((tmp_path / "out" / "release" / "_manifest.json").read_text())["rows"] > 2000
    failed = re.compile(rf".*run strict-\d{{8}}-\d{{6}} ended as Failed; see {address}/runs/.*")
    assert all(failed.fullmatch(message) for message in Told.messages)
    assert "out-v000001" in [name.rpartition("-")[0] for name in released]
    assert "category" not in "".join(Told.messages)  # nothing of the reason, which may hold counts of few records
    assert POISON.found_in(tmp_path, server.home) == {tmp_path / "poisoned.parquet"}
