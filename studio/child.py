"""A plan, trial, run or comparison in a process of its own: `python -P child.py run job.yaml`.

It writes one JSON object a line: progress, and at last what the command line prints. SIGINT stops it as Ctrl-C does.
"""

from __future__ import annotations

import signal

# Before slow imports: it is ignored where the studio was begun in the background
signal.signal(signal.SIGINT, signal.default_int_handler)

import base64
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
    lines = [*found.about(details=True), found.end()]
    return {"lines": lines, "warnings": found.warnings, "exit_code": found.exit_code}


def _run(job: Job, trial: bool = False, resume: bool = False) -> dict[str, Any]:
    from anonpipe.pipeline.run import execute, try_out
    from anonpipe.storage.release import prune
    from anonpipe.verify import words

    outcome = try_out(job, on_progress=_progress) if trial else execute(job, resume, on_progress=_progress)
    pruned, problem = list[str](), tuple[str, ...]()
    if outcome.version is not None:
        try:
            pruned = prune(job.output, PRUNED_TO, job.report.internal)
        except AnonpipeError as error:
            problem = (f"old versions were not pruned: {error}",)
    content = display.outcome_content(outcome, pruned)
    figures = words.figures(outcome.verdict) if outcome.verdict.passed else []
    evaluated = [(of, rows) for of, rows in figures if any(row[1] != "not evaluated" for row in rows)]
    lines = outcome.summary
    if outcome.verdict.passed:  # the figures are a table of the page
        left = [f"{of}: not evaluated" for of, rows in figures if (of, rows) not in evaluated]
        lines = [*outcome.first_lines, *left, *outcome.last_lines]
    return content | {"lines": lines, "figures": evaluated, "warnings": [*content["warnings"], *problem]}


def _compare(job: Job, ks: str, methods: str, folder: str) -> dict[str, Any]:
    from anonpipe import compare

    asked = [part.strip() for part in methods.split(",") if part.strip()] or compare.DEFAULT_METHODS
    sizes = [int(part) if part.strip().isdecimal() else 0 for part in ks.split(",")]
    study = compare.compare(job, asked, sizes, on_progress=_progress)
    files = compare.write_study(study, Path(folder))
    chosen = [] if study.choice is None else [f"{study.why}: {study.choice.setting.method}, k={study.choice.setting.k}"]
    return {
        "headings": ["method", "k", "gates", *(axis.name for axis in study.axes)],
        "rows": [(compare.cells(study, row), any(row is one for one in study.front)) for row in study.rows],
        "lines": [*chosen, *compare.legend(study), *compare.reasons(study), *study.notes],
        "map": base64.b64encode(compare.draw_map(study)).decode(),
        "files": [str(file) for file in files],
    }


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "plan": _plan,
    "trial": lambda job: _run(job, trial=True),
    "run": _run,
    "resume": lambda job: _run(job, resume=True),
    "compare": _compare,
}


def main(kind: str, path: str, *options: str) -> None:
    """Do one of `WORK` for a job file."""
    try:
        check_address_space()
        with interrupts.stoppable():
            _tell(outcome=WORK[kind](load_job(Path(path)), *options))
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
