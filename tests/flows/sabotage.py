"""A worker function that fails on purpose, quoting poison; importable, so that Dask workers find it too.

What it does is in the environment: SABOTAGE_FOLDER for its notes,
SABOTAGE_TEXT for the poison, SABOTAGE_PIECES a space-separated list of
`stage:piece:how` with how `once`, `always`, `slow` (once) or `hang`.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from anonpipe.engine import Task
from anonpipe.pipeline.tasks import worker as tasks


def folder() -> Path:
    return Path(os.environ["SABOTAGE_FOLDER"])


def first_time(name: str) -> bool:
    """Whether nobody has asked this before, in any process."""
    try:
        (folder() / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def fail() -> None:
    """Raise as a library does: an error that quotes a row, because of another one."""
    poison = os.environ["SABOTAGE_TEXT"]
    try:
        raise KeyError(poison)
    except KeyError as error:
        raise ValueError(f"cannot convert {poison} in row 17") from error


def work(task: Task) -> dict[str, Any]:
    """As `tasks.work`, with the sabotage before it and a note after it."""
    for entry in os.environ["SABOTAGE_PIECES"].split():
        stage, piece, how = entry.split(":")
        if (stage, int(piece)) != (task.stage, task.index):
            continue
        if how == "always" or (how == "once" and first_time(f"failed-{stage}")):
            fail()
        if how == "hang" or (how == "slow" and first_time(f"slow-{stage}")):
            (folder() / "hanging").touch()
            time.sleep(60 if how == "hang" else 6)  # longer than `fast` lets a stage take
    result = tasks.work(task)
    with open(folder() / "finished", "a") as notes:
        notes.write(f"{task.stage}:{task.index}\n")
    return result


def ask_the_door() -> None:
    """What the server that a run brings answers to a request without a password, from inside the run."""
    from prefect.server.api.server import SubprocessASGIServer

    url = SubprocessASGIServer().api_url
    try:
        status = urllib.request.urlopen(f"{url}/admin/version", timeout=30).status
    except urllib.error.HTTPError as error:
        status = error.code
    (folder() / "door").write_text(str(status))


def main(job: str, *options: str) -> int:
    """Run the flow on the sabotaged pipeline.

    Options: `in-process`, `fast` (stages of at most 4 s), `verify` (fails
    once), `naked` (error texts are passed on: what must not be), `door` (notes
    what the run's own server answers to a stranger), `migrated` (its database is
    a copy of SABOTAGE_DATABASE).
    """
    from anonpipe import engine
    from anonpipe.errors import AnonpipeError
    from anonpipe.job.model import load_job
    from anonpipe.pipeline import run as pipeline
    from anonpipe.pipeline import start as opening
    from tests.flows import sabotage

    opening.work = sabotage.work
    if "in-process" in options:
        opened = pipeline.open_executor
        pipeline.open_executor = lambda job, staging: opened(job, staging, cluster=False)
    if "verify" in options:
        verify = pipeline.verify
        pipeline.verify = lambda run: fail() if first_time("failed-verify") else verify(run)
    if "door" in options:
        opened_run = pipeline.open_run
        pipeline.open_run = lambda *given: ask_the_door() or opened_run(*given)
    if "naked" in options:
        engine.account = lambda error, what: engine.Failure(str(error), "EngineError")
    from flows import anonymize as module

    if "migrated" in options:  # the file gets the rights that this process gives, as the server's own do
        (home := Path(os.environ["PREFECT_HOME"])).mkdir(exist_ok=True)
        shutil.copyfile(os.environ["SABOTAGE_DATABASE"], home / "prefect.db")
    module.STAGES = tuple(stage.with_options(retry_delay_seconds=0) for stage in module.STAGES)
    module.verify = module.verify.with_options(retry_delay_seconds=0)
    if "fast" in options:
        try:
            module.anonymize(load_job(job), stage_hours=4 / 3600)
        except AnonpipeError as error:
            return error.exit_code
        return 0
    return module.main([job])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
