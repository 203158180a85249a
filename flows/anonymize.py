"""The Prefect flow: one task a stage, the stages of `anonpipe.pipeline.run`, and nothing else.

No `from __future__ import annotations` here: with it, `flow.serve()` cannot
resolve the job model. Docstrings of flows have their parameters under `Args:`,
where Prefect takes the texts of its form from.

Parameters are the job (columns, methods, paths) and never rows. Results are
not persisted. Whatever a stage raises is replaced by an error without data
before Prefect sees it, because Prefect stores exception texts for ever.

    python -m anonpipe_flows.anonymize job.yaml
"""

import os

for _name, _value in {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_TASKS_DISABLE_CACHING": "true",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "DASK_LOGGING__DISTRIBUTED": "critical",  # Prefect's logging would print every step of every worker
}.items():
    os.environ.setdefault(_name, _value)
_USUAL_UMASK = os.umask(0o077)  # Prefect writes its own files readable by all

import base64
import contextlib
import logging
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from .access import refuse_open_api, refuse_open_server  # before Prefect starts a server of its own

# isort: split
from prefect import Task, flow, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import emit_event
from prefect.logging.handlers import APILogHandler
from prefect.runtime import flow_run
from pydantic import Field

from anonpipe import display, engine
from anonpipe.engine import Executor
from anonpipe.errors import AnonpipeError, EngineError, GateError, printable
from anonpipe.job.model import Job, load_job
from anonpipe.job.plain_yaml import parse_setting
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.outcome.publish import where_kept
from anonpipe.pipeline.run import Run, RunOutcome
from anonpipe.progress import LOG, Progress, logged
from anonpipe.report import Report
from anonpipe.report.before_after import draw
from anonpipe.rng import require_secret, secret_withheld
from anonpipe.storage import release
from anonpipe.verify import words
from anonpipe.verify.catalogue import Check
from anonpipe.verify.catalogue import Outcome as CheckOutcome
from anonpipe.verify.verdict import Verdict

from .parameters import JobParameter

STAGE_HOURS = 24.0
DETAILS = ContextVar("details", default=False)
"""Whether every check is printed at the end."""


class _FailureOnce(logging.Filter):
    """Prefect tells a failure six times in the log of a run, twice with a call stack of its own; one line is left."""

    last_failure = last_text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether there is something new in a record; what is known is left out of it."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, AnonpipeError):
            before = self.last_failure, self.last_text
            self.last_failure = str(error)
            again = self.last_failure == before[0] or repr(self.last_failure)[1:-1] in before[1]
            record.exc_info = None  # where it is raised again, without data
            record.failure = True
            return not again
        text = record.getMessage()
        short = (
            text.replace(repr(self.last_failure)[1:-1], "…").replace(self.last_failure, "…")
            if self.last_failure
            else text
        )
        if short != text:
            record.msg, record.args = short, ()
        elif record.levelno < logging.ERROR:
            self.last_failure = ""
        self.last_text = text if record.levelno >= logging.ERROR else ""  # of a task that fails at its only try
        return True


def _set_up_logs() -> None:
    """The log of a run gets the lines of anonpipe: each stage, its rows and seconds, and the verdict."""
    if not any(isinstance(handler, APILogHandler) for handler in LOG.handlers):
        handler = APILogHandler()
        # The same program may run anonpipe without a flow, too
        handler.addFilter(lambda _: bool(FlowRunContext.get() or TaskRunContext.get()))
        LOG.addHandler(handler)
    if LOG.level == logging.NOTSET:
        LOG.setLevel(logging.getLogger("prefect.extra").level)  # PREFECT_LOGGING_LEVEL
    once = _FailureOnce()
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addFilter(once)


_set_up_logs()


@contextlib.contextmanager
def _without_data(stage: str) -> Iterator[None]:
    """An error leaves as a text that holds no data, with no cause and no context."""
    failure = None
    try:
        yield
    except TimeoutError:
        failure = engine.Failure(
            f"stage {stage}: took longer than it may (the flow's parameter stage_hours)", "EngineError"
        )
    except Exception as error:
        failure = engine.account(error, f"stage {stage}")
    if failure is not None:
        replace(failure, message=under_prefect(failure.message)).raise_it()


def under_prefect(message: str) -> str:
    """What the command line has an option for, as it is done here.

    Examples
    --------
    >>> under_prefect("the disk is full; free space, then --resume")
    'the disk is full; free space, then retry the run'
    """
    for pattern, here in _UNDER_PREFECT.items():
        message = re.sub(pattern, here, message)
    return message


_UNDER_PREFECT = {
    "(go on|run again|run|try again,) with --resume": "retry the run",
    "then --resume": "then retry the run",
    "run again without --resume": "run it again with the parameter resume off",
}


def _may_help(_task: Any, _task_run: Any, state: Any) -> bool:
    """Try again what failed on the workers; a bad job, bad input or full disk stays what it is."""
    return isinstance(state.data, EngineError) or not isinstance(state.data, AnonpipeError)


_ONCE: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False, "log_prints": False}
_RETRIED: dict[str, Any] = {**_ONCE, "retries": 2, "retry_delay_seconds": 5, "retry_condition_fn": _may_help}


class Bar:
    """The one progress artifact of a flow run: the bar counts finished stages, its text tells what is at work.

    It is updated at most once a second; `stages` are their names in order.
    """

    def __init__(self, stages: Iterable[str]) -> None:
        self.stages, self.at, self.shown = list(stages), 0, 0.0
        self.artifact: Any = None
        with contextlib.suppress(Exception):  # a display that fails
            self.artifact = create_progress_artifact(0.0, key="anonpipe-progress", description="begins")

    def begin(self, stage: str) -> None:
        """Tell which stage begins."""
        self.at = self.stages.index(stage)
        self._show(stage)

    def end(self, text: str) -> None:
        """Tell how the run ended."""
        self.at = len(self.stages)
        self._show(text)

    def __call__(self, news: Progress) -> None:
        """Tell of the parts of a stage."""
        if time.monotonic() - self.shown > 1.0:
            self._show(f"{self.stages[self.at]}: {news.stage}, {news.done} of {news.total} tasks")

    def _show(self, text: str) -> None:
        self.shown = time.monotonic()
        number = min(self.at + 1, len(self.stages))
        with contextlib.suppress(Exception):  # a display that fails
            update_progress_artifact(
                self.artifact, 100.0 * self.at / len(self.stages), f"{number} of {len(self.stages)}: {text}"
            )


def _mapped(function: Callable[[Run, Executor], None]) -> Task[[Run, Executor, Bar], Run]:
    """The task of a mapped stage; a retry does only what has no task result yet.

    It hands the run on to the next one: from that Prefect draws the arrow between them.
    """
    name = function.__name__

    def stage(run: Run, executor: Executor, bar: Bar) -> Run:
        bar.begin(name)
        with _without_data(name):
            function(replace(run, on_progress=logged(bar, run.times)), executor)
        return run

    stage.__name__ = stage.__qualname__ = name
    return task(name=name, task_run_name=name, description=function.__doc__, **_RETRIED)(stage)


STAGES = tuple(_mapped(function) for function in pipeline.MAPPED_STAGES)


@task(name="verify", task_run_name="verify", description="Hold the written rows against the gates.", **_RETRIED)
def verify(run: Run, bar: Bar) -> Verdict:
    """Hold the written rows against the gates, and show the verdict as a table."""
    bar.begin("verify")
    with _without_data("verify"):
        verdict = pipeline.verify(run)
    create_table_artifact(
        [_row(check) for check in _failed_first(verdict.checks)],
        key="anonpipe-verdict",
        description=verdict.word + ("" if verdict.passed else ", nothing was released"),
    )
    return verdict


@task(
    name="publish", task_run_name="publish",
    description="Publish what passed, or keep the verdict of what did not.", **_ONCE,
)  # fmt: skip
def publish(run: Run, verdict: Verdict, keep: int, bar: Bar) -> None:
    """Publish what passed, or keep the verdict and fail; not tried again, as it may have published already."""
    bar.begin("publish")
    with _without_data("publish"), _usual_umask():
        outcome, pruned = _pruned(pipeline.finish(run, verdict), run.job, keep)
    with contextlib.suppress(OSError):  # a terminal that is gone does not undo a release
        display.show_outcome(outcome, display.Form.TABLES, details=DETAILS.get())
        for version in pruned:
            display.line(f"pruned version {version}")
    version = None if outcome.version is None else Path(outcome.version).name
    ended = "gate failed" if version is None else "released"
    bar.end(ended)
    for tell in (
        partial(_tag, run.job, ended, version),
        partial(_create_text, outcome),
        partial(_create_table, outcome.verdict),
        partial(_create_picture, outcome.for_recipients),  # as recipients may see it
    ):
        with contextlib.suppress(Exception):  # a server that is gone does not undo a release
            tell()
    if outcome.version is None:
        failed = "; ".join(map(_line, outcome.verdict.failed))
        remedies = "; for remedies see its artifact anonpipe-release" if outcome.remedies else ""
        raise GateError(f"a gate failed: {failed}; nothing was released, {where_kept(run.job)}{remedies}")


def _tag(job: Job, ended: str | None = None, version: str | None = None) -> None:
    """Tag the flow run by what is looked for: method, k, and how it ended; name it by the version that it released."""
    chosen = [job.mask] if job.mask else [job.by_groups.cluster, job.by_groups.synthesize]
    name = flow_run.name if version is None else f"{_last_part(job.output)}-{version}"
    before = set(flow_run.tags) - {"released", "gate failed"}  # of a run that is retried
    tags = {*before, "anonpipe", f"k={job.k}", *(each.method for each in chosen), *filter(None, [ended])}
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), name=name, tags=sorted(tags))


def _create_text(outcome: RunOutcome) -> None:
    about = (
        "nothing was released" if outcome.version is None else f"{_last_part(outcome.version)}, {outcome.rows:,} rows"
    )
    create_markdown_artifact(in_words(outcome), key="anonpipe-release", description=about)


def _create_table(verdict: Verdict) -> None:
    figures = [
        dict(zip(("of", "measure", "estimate", "95 % upper", "limit"), (of, *row[:-1], *limit), strict=True))
        for of, rows in words.figures(verdict)
        for row in rows
        for limit in [["none" if row[-1] == "-" else row[-1]]]  # a dash alone would be drawn as a list
    ]
    about = "risk and utility" + ("" if verdict.passed else " of what was not released")
    create_table_artifact(figures, key="anonpipe-report", description=about)


def _create_picture(report: Report | None) -> None:
    if report is not None:
        about = "each column, original and release, as in the report for recipients"
        create_picture(draw(report, dpi=70), "anonpipe-columns", about)


def create_picture(image: bytes, key: str, about: str) -> None:
    """A picture as an artifact of its own, in Markdown: below one of images the page writes all of it as a link."""
    text = f"![{about}](data:image/png;base64,{base64.b64encode(image).decode()})\n"
    create_markdown_artifact(text, key=key, description=about)


def _failed_first(checks: Iterable[Any]) -> list[Any]:
    """Checks, or lines of a verdict; the page shows few at once."""
    return sorted(checks, key=lambda each: each.outcome is not CheckOutcome.FAILED)


def _row(check: Check) -> dict[str, str]:
    """A check for the table of the page, which cuts off what is on the right: the long text is there."""
    limited, full = check.reason is None, words.named(check)
    return {
        "check": textwrap.shorten(words.name(check), 42, placeholder="…"),
        "outcome": check.outcome.value,
        "measured": words.measured(check, short=True),
        "limit": words.limit(check, short=True) if limited else "",
        "in full": full if limited else f"{full}: {words.limit(check)}",
    }


def _pruned(outcome: RunOutcome, job: Job, keep: int) -> tuple[RunOutcome, list[str]]:
    """The outcome, and the versions deleted after it; the release is out, so that what fails is a warning."""
    if outcome.version is None or not keep:
        return outcome, []
    try:
        return outcome, release.prune(job.output, keep, job.report.internal)
    except AnonpipeError as error:
        problem = f"old versions were not pruned: {error}"
        return replace(outcome, warnings=(*outcome.warnings, problem)), []


def _last_part(place: str) -> str:
    """The last part of a path or URL."""
    return Path(place.rstrip("/")).name


def _first_name() -> str:
    """The name of a run until its release has one: the output folder, or the job file, and when it was to begin."""
    given = flow_run.parameters
    place = given.get("job_file")
    if place is None:
        job = given["job"]
        place = job.output if isinstance(job, Job) else job["output"]
    return f"{_last_part(place)}-{flow_run.scheduled_start_time:%Y%m%d-%H%M%S}"


@flow(name="anonymize", flow_run_name=_first_name, persist_result=False, log_prints=False, validate_parameters=True)
def anonymize(job: JobParameter, resume: bool = True, stage_hours: float = STAGE_HOURS, keep: int = 1) -> None:
    """Anonymise as `anonpipe run` does: publish a verified release, or nothing.

    Args:
        job: The job, with the keys of a job file.
        resume: Go on with a crashed run of the same job on the same input; off, what it left is deleted.
        stage_hours: A stage that takes longer is stopped and tried again from its finished tasks.
        keep: How many versions stay afterwards, the new one counted; 0 for all.
    """
    _anonymize(job, resume, stage_hours, keep)


@flow(
    name="anonymize-file", flow_run_name=_first_name, persist_result=False, log_prints=False, validate_parameters=True
)
def anonymize_file(
    job_file: str,
    changes: list[str] = [],  # noqa: B006 (a default that the form shows)
    resume: bool = True,
    keep: Annotated[int, Field(ge=0)] = 1,
) -> None:
    """Anonymise by a job file: publish a verified release, or nothing. The form for jobs that others wrote.

    Args:
        job_file: Path of a job file, as the worker sees it.
        changes: Keys of the job that differ from the file, each as KEY=VALUE, such as k=10.
        resume: Go on with a crashed run of the same job on the same input; off, what it left is deleted.
        keep: How many versions stay afterwards, the new one counted; 0 for all.
    """
    with _without_data("anonymize"):
        job = load_job(job_file, dict(parse_setting(change) for change in changes))
    _anonymize(job, resume, STAGE_HOURS, keep)


def _anonymize(job: Job, resume: bool, stage_hours: float, keep: int) -> None:
    with _without_data("anonymize"):
        require_secret("a flow")
        refuse_open_api()
        _run(job, resume, 3600.0 * stage_hours, keep)


def _tell_first_state() -> None:
    """Send the event of a run's first state, which Prefect leaves out for scheduled runs.

    Until it comes, the server holds back all later events for up to 15 minutes, and reports no failure.
    """
    with contextlib.suppress(Exception), get_client(sync_client=True) as client:
        first = min(client.read_flow_run_states(UUID(flow_run.id)), key=lambda state: state.timestamp)
        resource = {"prefect.resource.id": f"prefect.flow-run.{flow_run.id}", "prefect.resource.name": flow_run.name}
        emit_event("prefect.flow-run.Scheduled", resource, occurred=first.timestamp, id=first.id)


def _run(job: Job, resume: bool, stage_seconds: float, keep: int) -> None:
    _tell_first_state()
    bar = Bar([*(stage.name for stage in STAGES), verify.name, publish.name])
    with contextlib.suppress(Exception):  # a display that fails
        _tag(job)
    with contextlib.ExitStack() as stack:
        with _usual_umask():  # the output folder is made here; the staging is private whatever the mask
            run = stack.enter_context(pipeline.open_run(job, resume))
        with pipeline.open_executor(job, run.staging) as executor:
            for stage in STAGES:
                run = stage.with_options(timeout_seconds=stage_seconds)(run, executor, bar)
        verdict = verify.with_options(timeout_seconds=stage_seconds)(run, bar)
        publish(run, verdict, keep, bar)


@contextlib.contextmanager
def _usual_umask() -> Iterator[None]:
    """Releases get the usual rights of the machine."""
    before = os.umask(_USUAL_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def _line(check: Check) -> str:
    return f"{words.named(check)} ({words.measured(check)}, limit: {words.limit(check)})"


def _report_line(path: str | None) -> list[str]:
    """Where the steward's report is; no link, which browsers refuse from a page of a server to a file."""
    return [] if path is None else [f"Internal report, for the data steward only: `{path}`"]


def _text(text: str) -> str:
    """Text as it is in Markdown, on one line: names of columns and analyses may hold any character."""
    return re.sub(r"([\\|`\[])", r"\\\1", printable(" ".join(text.split()))).replace("<", "&lt;")


def _list(texts: Iterable[str]) -> list[str]:
    """A list in Markdown."""
    return [f"- {_text(text)}" for text in texts]


def in_words(outcome: RunOutcome) -> str:
    """The outcome of a run as Markdown."""
    released = outcome.version is not None
    lines = ["# Released" if released else "# Nothing was released", "", *_list(_in_short(outcome)), ""]
    lines += ["The artifact `anonpipe-report` has risk and utility, `anonpipe-verdict` each check.", ""]
    lines += [*([f"Release: `{outcome.version}`", ""] if released else []), *_report_line(outcome.report)]
    if outcome.warnings:
        lines += ["", "## Warnings", "", *_list(outcome.warnings)]
    lines += ["", "## Notes", "", *_list(outcome.verdict.notes)] if outcome.verdict.notes else []
    return "\n".join(lines) + "\n"


def _in_short(outcome: RunOutcome) -> list[str]:
    """The summary, each entry a line, with all remedies; without the table of figures, which the page cuts off."""
    failures = [] if outcome.verdict.passed else words.failures(outcome.verdict, outcome.remedies, sys.maxsize)
    lines = [*outcome.first_lines, *failures, *outcome.last_lines]
    return re.sub(r"\n +", " ", "\n".join(lines)).split("\n")  # goes on where it is indented


def main(arguments: list[str]) -> int:
    """Run the flow on a job file; without a server (PREFECT_API_URL) it brings its own for the run."""
    files = [one for one in arguments if one != "--details"]
    if len(files) != 1:
        sys.stderr.write("usage: python -m anonpipe_flows.anonymize job.yaml [--details]\n")
        return 2
    DETAILS.set(len(files) < len(arguments))
    for handler in logging.getLogger().handlers:  # the terminal, which has the failure from below
        handler.addFilter(lambda record: not hasattr(record, "failure"))
    try:
        job = load_job(files[0])
        refuse_open_server()
        with secret_withheld():  # from the server that a run without one starts
            anonymize(job)
    except AnonpipeError as error:
        display.say("[bold red]error:[/]", str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
