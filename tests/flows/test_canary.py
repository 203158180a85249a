"""A flow on poisoned data whose stages fail must leave the poison nowhere."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
import warnings
from collections import Counter

import pandas as pd
import psutil

from tests import runs
from tests.flows.poison import SABOTAGE, WORKERS, Poison, console, private, umask

EVERY_STAGE_ONCE = [f"{stage}:0:once" for stage in runs.STAGES]

MEASURING = ("search", "measure")
"""Parts of one task, which is tried twice again."""


def failed_stages(folder):
    return {path.name.removeprefix("failed-") for path in (folder / "notes").glob("failed-*")}


def test_every_stage_fails_once_without_a_server(tmp_path, server, monkeypatch):
    poison = Poison("canary-7f3e9b", 98765.4321)
    monkeypatch.setenv("SABOTAGE_DATABASE", str(server.empty))
    job = poison.table(tmp_path, measure={"rows": 300, "queries": 100, "hold_out": 0.05})
    of_measures = [f"{stage}:0:once" for stage in MEASURING]
    done = poison.run(tmp_path, None, job, EVERY_STAGE_ONCE + of_measures, "in-process", "verify", "door", "migrated")
    assert done.returncode == 0, console(tmp_path)
    assert failed_stages(tmp_path) == {*runs.STAGES, *MEASURING, "verify"}
    assert (tmp_path / "notes" / "door").read_text() == "401"  # strangers on this machine cannot use its server
    assert b"ValueError at" in done.stderr  # type and place are told
    assert poison.found_in(tmp_path) == {tmp_path / "poisoned.parquet"}
    with contextlib.closing(sqlite3.connect(tmp_path / "prefect" / "prefect.db")) as found:
        assert [*found.execute("SELECT state_name FROM flow_run")] == [("Completed",)]
    assert private(tmp_path / "prefect")
    assert not (tmp_path / "outgoing.txt").exists()  # nothing left the machine
    assert runs.staging_of(tmp_path) is None
    parts = list((tmp_path / "out" / "release").glob("*.parquet"))
    assert all(path.stat().st_mode & 0o777 == 0o666 & ~umask() for path in parts)
    released = pd.concat([pd.read_parquet(path) for path in parts])
    assert 2700 < len(released) < 3000 and not (released["income"] == poison.number).any()


def test_stages_fail_on_workers_and_a_killed_run_goes_on(tmp_path, server):
    poison = Poison("canary-a41c70", 87654.3219)
    job = poison.table(tmp_path, run=WORKERS)
    of_workers, rest = EVERY_STAGE_ONCE[:-2], ["decode:1:once", "write:0:once"]
    environment = poison.environment(tmp_path, server, *of_workers, "decode:1:hang")
    printed = [tmp_path / "workers.log"] * 2

    def started():
        return server.flows.start(SABOTAGE, str(job), env=environment, cwd=tmp_path, printed=printed)

    process, ended = started(), []
    while not (tmp_path / "notes" / "hanging").exists():
        if not process.is_running():  # seen beside other tests that compile, never alone: a run that failed goes on
            ended.append(f"exit code {server.flows.ended()}: {printed[0].read_text()[-6000:]}")
            assert len(ended) < 2, ended
            warnings.warn(ended[0], stacklevel=1)
            process = started()
        time.sleep(0.05)
    assert failed_stages(tmp_path) == set(runs.STAGES[:-2])
    workers = process.children(recursive=True)
    process.kill()
    assert server.flows.ended() == -signal.SIGKILL
    for worker in workers:  # one of them sleeps
        if worker.is_running():
            worker.kill()
    psutil.wait_procs(workers, timeout=30)
    assert runs.staging_of(tmp_path) is not None
    before = (tmp_path / "notes" / "finished").read_text().split()
    assert any(piece.startswith("step-0") for piece in before)
    done = poison.run(tmp_path, server, job, rest, "in-process")
    assert done.returncode == 0, console(tmp_path)
    assert failed_stages(tmp_path) == set(runs.STAGES)
    after = (tmp_path / "notes" / "finished").read_text().split()
    assert after[: len(before)] == before and not set(after[len(before) :]) & set(before)
    assert (tmp_path / "out" / "release" / "_manifest.json").exists()
    assert poison.found_in(tmp_path, server.home) == {tmp_path / "poisoned.parquet"}
    run = server.last_run()
    assert run["state_name"] == "Completed" and run["parameters"]["job"]["output"] == str(tmp_path / "out")
    assert private(server.home)


def test_the_search_finds_poison_where_texts_are_passed_on(tmp_path, server):
    poison = Poison("canary-c0ffee", 76543.2198)
    job = poison.table(tmp_path)
    done = poison.run(tmp_path, server, job, ["scan:0:always"], "in-process", "naked")
    assert done.returncode == 5, console(tmp_path)
    found = poison.found_in(tmp_path, server.home) - {tmp_path / "poisoned.parquet"}
    assert tmp_path / "console.log" in found
    assert any(path.name.startswith("prefect.db") for path in found)
    assert any("storage" in path.parts for path in found)  # the pickled error of the flow


def test_retry_and_next_run_do_only_what_is_missing(tmp_path, server):
    """Also where a stage hangs, and is stopped; the staging of a run that failed is private."""
    poison = Poison("canary-5d2b11", 65432.1987)
    job = poison.table(tmp_path)
    pieces = ["step-0:1:once", "encode:1:slow", "decode:1:always"]
    done = poison.run(tmp_path, server, job, pieces, "in-process", "fast")
    assert done.returncode == 5, console(tmp_path)
    assert failed_stages(tmp_path) == {"step-0"} and (tmp_path / "notes" / "slow-encode").exists()
    run = server.last_run()
    tasks = server.ask("task_runs", task_runs={"flow_run_id": {"any_": [run["id"]]}})
    again = {task["name"].rsplit("-", 1)[0] for task in tasks if task["run_count"] > 1}
    assert run["state_name"] == "Failed" and again == {"encode", "transform", "decode"}
    assert not (tmp_path / "out" / "release").exists()
    left = runs.staging_of(tmp_path)
    assert left is not None and left.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "staging").stat().st_mode & 0o777 == 0o700
    outside = {path for path in poison.found_in(tmp_path, server.home) if left not in path.parents}
    assert outside == {tmp_path / "poisoned.parquet"}
    before = Counter((tmp_path / "notes" / "finished").read_text().split())
    done = poison.run(tmp_path, server, job, [], "in-process")
    assert done.returncode == 0, console(tmp_path)
    after = Counter((tmp_path / "notes" / "finished").read_text().split())
    assert before and set(after.values()) == {1}
    assert {f"{stage}:{piece}" for stage in ("encode", "step-0", "decode") for piece in (0, 1)} <= set(after)
    assert server.last_run()["state_name"] == "Completed" and runs.staging_of(tmp_path) is None
