"""Small tables and jobs that run in this process, for tests of the whole pipeline."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typer.main
from rich.console import Console

from anonpipe import cli, display
from anonpipe.compare import _study
from anonpipe.errors import AnonpipeError
from anonpipe.job.model import Job, parse_job
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.context import context
from anonpipe.pipeline.run import RunOutcome, execute
from anonpipe.storage import release

CANARY = "canary83741"
"""A text value that no message may show."""

CANARY_NUMBER = 48_151_623.42
"""A number that no message may show."""

OPEN = "passed, disclosure risk not measured"
"""What the verdict of a job says that measures no risk."""

COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 120]},
    "income": {"kind": "continuous", "bounds": [None, None]},
    "place": {"kind": "categorical"},
}


def unscored(columns: dict[str, Any]) -> dict[str, Any]:
    """The same columns, of which masked numbers and dates are masked as they are: for tests of methods on values."""
    plain = ("continuous", "integer", "date")
    masked = {
        name
        for name, column in columns.items()
        if column.get("kind") in plain and column.get("role", "masked") in ("masked", "survival_time")
    }
    return {name: {"transform": "none"} | column if name in masked else column for name, column in columns.items()}


OFF: dict[str, Any] = {"utility": False, "risk": False, "allow": "a test"}
"""No measures, which take seconds; for tests of other things."""


QUICK: dict[str, Any] = {"method": "local_synthesis", "components": 3, "classes": 2, "iterations": 3}
"""The usual mask without its search for numbers of components and classes; for tests of other things."""


def plain_table(rows: int = 300, seed: int = 0) -> pa.Table:
    """Three columns; the canaries are a category of a third of the rows and one income."""
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10.0, 0.5, rows)
    if rows:
        income[rows // 2] = CANARY_NUMBER
    place = rng.choice(["north", "south", CANARY], rows)
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, rows), pa.int64()),
            "income": pa.array(income),
            "place": pa.array(place, pa.string()),
        }
    )


def write_table(folder: Path, table: pa.Table, name: str = "data.parquet") -> str:
    """Write a table into a folder, and say where."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return str(path)


def content(folder: Path, data: str, columns: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A job's content for a file; tests may release the same records again, and leave groups as they are formed."""
    given = {"input": data, "output": str(folder / "out"), "k": 5, "columns": columns or COLUMNS, "measure": OFF}
    grouped = {} if "mask" in changes else {"cluster": {"refine": False}}
    return given | {"repeat": {"allow": "a test"}} | grouped | changes


def as_usual(**changes: Any) -> dict[str, Any]:
    """What `content` is to be given for groups as a job forms them that says no more of them: refined, as attacks need.

    Groups that are left as they are formed are wider, and less is found by them.
    """
    return ({} if "mask" in changes else {"cluster": {"method": "mdav"}}) | changes


def changed(content: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The content with other options; with a mask it forms no groups."""
    return content | ({"cluster": None} if "mask" in changes else {}) | changes


def job(folder: Path, data: pa.Table | str, columns: dict[str, Any] | None = None, **changes: Any) -> Job:
    """A job for a table or a file."""
    path = data if isinstance(data, str) else write_table(folder, data)
    return parse_job(content(folder, path, columns, **changes))


def run(job: Job, resume: bool = False) -> RunOutcome:
    """Run a job here, without a cluster."""
    return execute(job, resume, cluster=False)


def released(job: Job) -> pa.Table:
    """The current release as a table, rows in the order of the files."""
    where = release.resolve(job.output)
    names = [entry["name"] for entry in release.read_manifest(where)["files"]]
    return pa.concat_tables([pq.read_table(where.path(name)) for name in names])


def hashes(job: Job) -> list[str]:
    """SHA-256 of the data files of the current release."""
    return [entry["sha256"] for entry in release.read_manifest(release.resolve(job.output))["files"]]


@contextmanager
def private_home(folder: Path, secret: str) -> Iterator[None]:
    """A secret, a home and staging of their own, for fixtures that several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANONPIPE_SECRET", secret)
        patch.setenv("ANONPIPE_STAGING", str(folder / "staging"))
        patch.setenv("ANONPIPE_HOME", str(folder / "home"))
        yield


class Stopped(Exception):
    """Raised where a test stops a run."""


@contextmanager
def stages_by(changed: Callable[[Any, str, Any], Any]) -> Iterator[None]:
    """Runs whose stages have another executor: what this makes of the run, what is shown of the stage, and its own."""
    whole = pipeline.Run.map_stage

    def mapped(self: Any, executor: Any, stage: str, count: int, shown: str | None = None) -> Any:
        return whole(self, changed(self, shown or stage, executor), stage, count, shown)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline.Run, "map_stage", mapped)
        yield


def stopping_at(title: str, copy: int | None = None) -> AbstractContextManager[None]:
    """A run stops after the first piece of this stage, given by what is shown of it, of any copy or of one."""

    def changed(run: Any, shown: str, executor: Any) -> Any:
        def one(work: Any, tasks: Any, on_done: Any) -> None:
            executor(work, tasks[:1], on_done)
            raise Stopped

        return one if shown == title and copy in (None, run.staging.copy) else executor

    return stages_by(changed)


def as_by_others() -> AbstractContextManager[None]:
    """The pieces of each stage run last first, by who has read the records of the run from the staging: as workers."""

    def changed(_run: Any, _shown: str, executor: Any) -> Any:
        context.cache_clear()
        return lambda work, tasks, on_done: executor(work, tasks[::-1], on_done)

    return stages_by(changed)


def run_with_stops(job: Job, titles: Iterable[str]) -> RunOutcome:
    """A run that is stopped amid each of these stages, and resumed each time."""
    for title in titles:
        with stopping_at(title), pytest.raises(AnonpipeError):
            run(job, resume=True)
    return run(job, resume=True)


_KNOWN: dict[str, list[str]] = {}


def undisturbed(name: str, job: Job) -> list[str]:
    """The hashes of a release that nothing stops, which depend on no folder; of jobs of one name it is made once."""
    if name not in _KNOWN:
        run(job)
        _KNOWN[name] = hashes(job)
    return _KNOWN[name]


def counts(column: pa.Array) -> dict[Any, int]:
    """How often each value occurs."""
    return {entry["values"]: entry["counts"] for entry in pc.value_counts(column).to_pylist()}


def stagings() -> list[Path]:
    """All that lies in the staging folder of the test."""
    root = Path(os.environ["ANONPIPE_STAGING"])
    return sorted(root.iterdir()) if root.is_dir() else []


def left_behind(folder: Path) -> list[str]:
    """Whatever a run left in output and staging."""
    return [str(path) for path in (folder / "out").rglob("*")] + [str(path) for path in stagings()]


class Answer(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


_command = functools.cache(typer.main.get_command)
"""Made once in a process, not for each command."""


def commands(capture: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """A function that runs a command in this process, without a cluster and at 80 columns.

    Parameters
    ----------
    capture
        The fixture `capsys`, or `capfd` where libraries below Python may print too.
    """
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(display, "out", Console(highlight=False, width=80))
    monkeypatch.setattr(display, "err", Console(stderr=True, highlight=False, width=80))
    monkeypatch.setattr("anonpipe.kernels.compiled.any_kept", lambda: True)
    monkeypatch.setattr("typer.main.get_command", _command)
    monkeypatch.setattr(logging.getLogger("anonpipe"), "handlers", [])  # `--verbose` adds one for the whole process
    execute, executor = pipeline.execute, _study.open_executor

    def in_this_process(job, resume, on_progress, repeats="refuse"):
        return execute(job, resume, False, on_progress, repeats)

    monkeypatch.setattr(pipeline, "execute", in_this_process)
    monkeypatch.setattr(_study, "open_executor", lambda job, staging, _, **__: executor(job, staging, False))

    def call(*arguments: Any) -> Answer:
        monkeypatch.setattr(sys, "argv", ["anonpipe", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        printed = capture.readouterr()
        assert "Traceback" not in printed.err + printed.out
        return Answer(code, printed.out, printed.err)

    return call
