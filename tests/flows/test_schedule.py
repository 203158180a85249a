"""What a schedule does with nobody there: runs start, and tell of a failure."""

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
soon = Interval(timedelta(seconds=20), anchor_date=datetime.now(UTC) + timedelta(seconds=5))
timed = {"schedule": soon, "concurrency_limit": 1}
serve(anonymize.to_deployment("scheduled", parameters={"job": json.loads(sys.argv[1])}, **timed))
"""


def test_a_schedule_fires_and_a_failed_run_is_told_at_once(tmp_path, server, listening, forgotten):
    job = yaml.safe_load(POISON.table(tmp_path).read_text())
    job["columns"]["age"] = {"kind": "integer", "role": "sensitive"}
    job["gates"] = {"rows_under_k": 9, "unchanged_record_rate": 1, "category_share": 1e-12}
    job["decode"] = {"categories": "sampled"}
    done = watch(tmp_path, server, ["--notify", listening])
    assert done.stdout.endswith("codes [0]\n"), done.stderr[-3000:]
    often = POISON.environment(tmp_path, server) | {"PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    printed = [tmp_path / "console.log"] * 2
    serving = server.flows.start(SERVE, json.dumps(job), env=often, cwd=tmp_path, printed=printed)
    try:
        until = time.monotonic() + 240
        while not Told.messages and time.monotonic() < until:
            assert serving.is_running()
            time.sleep(0.5)
    finally:
        serving.terminate()
        server.flows.ended()
    address = server.url.removesuffix("/api")
    verdict = json.loads((tmp_path / "out" / "failed-verdict.json").read_text())  # the job came whole, and was done
    assert {check["key"] for check in verdict["checks"] if check["outcome"] == "failed"} >= {"category_share"}
    failed = re.compile(rf".*run out-\d{{8}}-\d{{6}} ended as Failed; see {address}/runs/.*")
    assert Told.messages and all(failed.fullmatch(message) for message in Told.messages)
    assert "category" not in "".join(Told.messages)  # nothing of the reason, which may hold counts of few records
    assert POISON.found_in(tmp_path, server.home) == {tmp_path / "poisoned.parquet"}
