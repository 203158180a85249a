"""The Prefect flow: one task a stage, the stages of `anonpipe.pipeline`, and nothing else.

No `from __future__ import annotations` here: with it, `flow.serve()` cannot
resolve the job model.

Parameters are the job (columns, methods, paths) and never rows. Results are
not persisted. Whatever a stage raises is replaced by an error without data
before Prefect sees it, because Prefect stores exception texts for ever.

    python -m flows.anonymize job.yaml
"""

import os

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
os.environ.setdefault("PREFECT_TASKS_DISABLE_CACHING", "true")
os.environ.setdefault("PREFECT_RESULTS_PERSIST_BY_DEFAULT", "false")
os.umask(0o077)  # Prefect writes its own files readable by all

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE

from anonpipe import pipeline
from anonpipe.engine import Mapper, Task, describe
from anonpipe.errors import AnonpipeError, GateError
from anonpipe.job import Job, load_job
from anonpipe.pipeline import Outcome, Progress, Run

_STAGE = {"cache_policy": NO_CACHE, "persist_result": False, "log_prints": False}
_RETRIED = {**_STAGE, "retries": 2, "retry_delay_seconds": 5, "timeout_seconds": 24 * 3600}


def _without_data(stage: str, action: Callable[[], Any]) -> Any:
    """Run `action`; an error leaves as a text that holds no data, with no cause and no context."""
    try:
        return action()
    except Exception as error:
        failure = describe(error, Task("", "", stage, 0))
    failure.raise_it()


class _Bar:
    """A progress artifact of one stage, updated at most once a second."""

    def __init__(self, stage: str) -> None:
        self.stage, self.shown = stage, 0.0
        self.artifact = create_progress_artifact(0.0, key=f"anonpipe-{stage}", description=f"anonpipe: {stage}")

    def __call__(self, news: Progress) -> None:
        finished = news.done >= news.total
        if finished or time.monotonic() - self.shown > 1.0:
            self.shown = time.monotonic()
            update_progress_artifact(self.artifact, 100.0 * news.done / max(1, news.total))


def _mapped(stage: str, function: Callable[[Run, Mapper], None], run: Run, mapper: Mapper) -> None:
    shown = Run(run.job, run.staging, run.token, _Bar(stage))
    _without_data(stage, lambda: function(shown, mapper))


@task(name="scan", **_RETRIED)
def scan(run: Run, mapper: Mapper) -> None:
    """Count the input and fit the codec, the strata and the pre-clusters."""
    _mapped("scan", pipeline.scan, run, mapper)


@task(name="route", **_RETRIED)
def route(run: Run, mapper: Mapper) -> None:
    """Send every row to its partition."""
    _mapped("route", pipeline.route, run, mapper)


@task(name="group", **_RETRIED)
def group(run: Run, mapper: Mapper) -> None:
    """Form groups of at least k records."""
    _mapped("group", pipeline.group, run, mapper)


@task(name="synthesize", **_RETRIED)
def synthesize(run: Run, mapper: Mapper) -> None:
    """Replace the records of every group."""
    _mapped("synthesize", pipeline.synthesize, run, mapper)


@task(name="write", **_RETRIED)
def write(run: Run, mapper: Mapper) -> None:
    """Write and measure the output files in the staging."""
    _mapped("write", pipeline.write, run, mapper)


@task(name="verify and publish", **_STAGE)
def verify_and_publish(run: Run) -> Outcome:
    """Hold the written rows against the gates; publish, or keep the verdict only."""
    outcome: Outcome = _without_data("verify", lambda: pipeline.finish(run, pipeline.verify(run)))
    create_table_artifact(
        [
            {"check": c.name, "outcome": c.outcome.value, "measured": c.measured, "limit": c.limit}
            for c in outcome.verdict.checks
        ],
        key="anonpipe-verdict",
        description=f"verdict: {'passed' if outcome.verdict.passed else 'failed, nothing was released'}",
    )
    return outcome


STAGES = (scan, route, group, synthesize, write)


@flow(name="anonymize", persist_result=False, log_prints=False, validate_parameters=True)
def anonymize(job: Job, resume: bool = True) -> None:
    """Anonymise as `anonpipe run` does; a crashed run of the same job is gone on with unless `resume` is false."""
    outcome: Outcome = _without_data("anonymize", lambda: _run(job, resume))
    if outcome.version is None:
        raise GateError("a gate failed: nothing was released; see the artifact anonpipe-verdict")


def _run(job: Job, resume: bool) -> Outcome:
    with ExitStack() as stack:
        run = stack.enter_context(pipeline.open_run(job, resume))
        with pipeline.open_mapper(job, run.staging) as mapper:
            for stage in STAGES:
                stage(run, mapper)
        return verify_and_publish(run)


def main(arguments: list[str]) -> int:
    """Run the flow on a job file, without a server."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m flows.anonymize job.yaml\n")
        return 2
    try:
        anonymize(load_job(arguments[0]))
    except AnonpipeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
