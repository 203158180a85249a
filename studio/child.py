"""A plan, trial or run in a process of its own: `python -P child.py run job.yaml`.

It writes one JSON object a line: progress, and at last what the command line prints. SIGINT stops it as Ctrl-C does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from anonpipe import display, errors, interrupts
from anonpipe.environment import check_address_space
from anonpipe.errors import AnonpipeError
from anonpipe.job.model import Job, load_job
from anonpipe.progress import Progress

PRUNED_TO = 1  # Versions that stay, as after `anonpipe run`


def _tell(**content: Any) -> None:
    from pydantic_core import to_jsonable_python

    sys.stdout.write(json.dumps(to_jsonable_python(content, inf_nan_mode="null")) + "\n")
    sys.stdout.flush()


def _progress(news: Progress) -> None:
    _tell(stage=news.stage, done=news.done, total=news.total, rows=news.rows)


def _plan(job: Job) -> dict[str, Any]:
    from anonpipe.pipeline.preview import preview

    found = preview(job, _progress)
    found = replace(found, values=("",) * len(found.strata))  # the values of strata are for a terminal
    warnings = len(found.warnings)
    lines = found.lines()
    return {"lines": lines[: len(lines) - warnings], "warnings": found.warnings, "exit_code": found.exit_code}


def _run(job: Job, trial: bool = False, resume: bool = False) -> dict[str, Any]:
    from anonpipe.pipeline.run import execute, try_out
    from anonpipe.storage.release import prune

    outcome = try_out(job, on_progress=_progress) if trial else execute(job, resume, on_progress=_progress)
    pruned, problem = list[str](), tuple[str, ...]()
    if outcome.version is not None:
        try:
            pruned = prune(job.output, PRUNED_TO, job.report.internal)
        except AnonpipeError as error:
            problem = (f"old versions were not pruned: {error}",)
    content = display.outcome_content(outcome, pruned)
    return content | {"lines": outcome.summary, "warnings": [*content["warnings"], *problem]}


WORK: dict[str, Callable[[Job], dict[str, Any]]] = {
    "plan": _plan,
    "trial": lambda job: _run(job, trial=True),
    "run": _run,
    "resume": lambda job: _run(job, resume=True),
}


def main(kind: str, path: str) -> None:
    """Do one of `WORK` for a job file."""
    try:
        check_address_space()
        with interrupts.stoppable():
            _tell(outcome=WORK[kind](load_job(Path(path))))
    except KeyboardInterrupt:
        _tell(error="stopped", exit_code=130)
    except AnonpipeError as error:
        _tell(error=str(error), exit_code=error.exit_code)
    except Exception as error:
        from anonpipe.engine import account

        failure = account(error, "this command")
        _tell(error=failure.message, exit_code=getattr(errors, failure.kind).exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
