"""For notebooks: a table in; the released table, its verdict, report, warnings and measures out, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe import tables
from anonpipe.errors import GateError, InputError, JobError
from anonpipe.files import write_atomic
from anonpipe.job.model import Job, load_job, parse_job
from anonpipe.pipeline.run import InMemoryRelease, in_memory
from anonpipe.progress import OnProgress, Progress
from anonpipe.report import Report, before_after, cell, render
from anonpipe.storage.staging import scratch
from anonpipe.verify import words
from anonpipe.verify.verdict import Verdict


@dataclass(frozen=True, eq=False, repr=False)
class Anonymized:
    """What `anonymize` gives; in a notebook it shows itself.

    Up to the next version it can also be unpacked as before, into table, verdict and warnings.

    Attributes
    ----------
    table
        The released one, of the kind that was given; None where a gate failed.
    verdict
        All checks, and notes.
    warnings
        What `anonpipe run` prints as such: columns without bounds, what was
        suppressed, and that the same data were released before under another
        job or secret, whose two releases can be held against each other.
    remedies
        What can be done about the gates that failed; empty where none did.
    report
        The internal report. It tells of the original: not for recipients.
    for_recipients
        The external report, which may go with the table; None where there is no table.
    """

    table: Any
    verdict: Verdict
    warnings: tuple[str, ...]
    remedies: tuple[str, ...]
    report: Report
    for_recipients: Report | None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.table, self.verdict, self.warnings))

    def __getitem__(self, at: int) -> Any:
        return tuple(self)[at]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return self.verdict.passed

    @property
    def summary(self) -> pd.DataFrame:
        """The figures of risk and utility that are looked at first, with their limits: a row each, as text."""
        rows = [(of, *row) for of, found in words.figures(self.verdict) for row in found]
        return pd.DataFrame(rows, columns=["of", "measure", "estimate", "upper_95", "limit"])

    def to_pandas(self) -> pd.DataFrame:
        """The released table as a pandas frame, of whatever kind it is; an error where a gate failed."""
        if self.table is None:
            raise GateError("a gate failed, and there is no table to convert; see verdict and remedies")
        return self.table if isinstance(self.table, pd.DataFrame) else tables.as_arrow(self.table).to_pandas()

    def plot(self) -> Any:
        """Draw the report's figures, original and release side by side: a matplotlib figure, for the steward's eyes."""
        return before_after.figure(self.report)

    @cached_property
    def measures(self) -> pd.DataFrame:
        """The measures of utility and risk by name; for the steward, but where `disclosive` is False."""
        names = ("title", "value", "low", "high", "baseline", "baseline_is", "unit", "better", "records", "of")
        figures = [("utility", each) for each in self.report.utility] + [("risk", each) for each in self.report.risk]
        rows = [{"of_what": what} | {n: getattr(f, n) for n in (*names, "disclosive")} for what, f in figures]
        index = pd.Index([figure.name for _, figure in figures], name="measure", dtype=object)
        found = pd.DataFrame(rows, index=index, columns=["of_what", *names, "disclosive"])
        return found.astype({name: float for name in ("value", "low", "high", "baseline")})

    def save_report(self, path: str | Path) -> None:
        """Write the internal report as a page that only its owner can read."""
        write_atomic(Path(path), render(self.report).encode())

    def __repr__(self) -> str:
        shape = "no table" if self.table is None else f"{self.report.rows:,} rows x {self._columns} columns"
        passed = self.verdict.passed
        return "\n".join(
            [
                f"Anonymized: {self.verdict.word}, {shape}; {len(self.measures)} measures",
                f"checks   {words.counts(self.verdict)}",
                *(words.table(self.verdict) if passed else words.failures(self.verdict, self.remedies, sys.maxsize)),
                *(f"warning: {warning}" for warning in self.warnings),
            ]
        )

    @property
    def _columns(self) -> int:
        return sum(column.treatment not in ("not released", "as probabilities") for column in self.report.columns)

    def _repr_html_(self) -> str:
        """Verdict, warnings, remedies, checks, measures and the first rows, for the steward's eyes."""
        return cell(
            self.report, self.remedies, words.figures(self.verdict), None if self.table is None else _head(self.table)
        )


def _head(table: Any, rows: int = 5) -> pa.Table:
    return tables.as_arrow(table.head(rows) if isinstance(table, pd.DataFrame) else table).slice(0, rows)


def anonymize(
    table: Any, job: Job | Mapping[str, Any] | str | Path, on_progress: OnProgress | None = None
) -> Anonymized:
    """Anonymise a table in memory by the same stages as `anonpipe run`.

    Nothing is published: what is handed back is no release, is entered in no release log, and leaves no file.

    Parameters
    ----------
    table
        One row per person: a pandas frame, an Arrow table, or any table that
        offers the Arrow PyCapsule interface (`__arrow_c_stream__`), as those
        of polars do.
    job
        A job, a mapping of its keys, or the path of a YAML file. Its `input`
        and `output` are not used and may be missing from a mapping.
    on_progress
        Called with news of the stages. Without it, notebooks with ipywidgets show a bar.

    Returns
    -------
    Anonymized
        Its `table` is of the kind that was given, rows shuffled, or None where
        a gate failed: what is not verified is not returned. `warnings` are
        those of a run; read them before the table leaves your hands.

    Raises
    ------
    AnonpipeError
        As `anonpipe run`: bad job, bad input.

    Notes
    -----
    The result used to be a tuple of table, verdict and warnings, and can be
    unpacked as such in this version, not in the next.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> frame = pd.DataFrame(np.random.default_rng(1).normal(size=(1500, 2)), columns=["height", "weight"])
    >>> job = {"k": 5, "columns": {"height": {"kind": "continuous"}, "weight": {"kind": "continuous"}}}
    >>> made = anonymize(frame, job)
    >>> made.passed, made.table.shape, bool(made.measures.value["reidentification_rate"] < 0.5)
    (True, (1500, 2), True)
    """
    if not (on_progress is None or callable(on_progress)):
        raise JobError(f"on_progress has type {type(on_progress).__name__}; give a function, or leave it out")
    arrow = tables.as_arrow(table)
    if not arrow.num_rows:
        raise InputError("the table has no rows; give one of at least k rows")
    parsed = _as_job(job)
    with scratch("memory", parsed.run.staging) as folder, _bar() as shown:
        source = folder / "table.parquet"
        _write(arrow, source)
        inside = parsed.model_copy(update={"input": str(source), "output": str(folder / "out")})
        return _anonymized(in_memory(inside, on_progress or shown), arrow.schema, table)


@contextmanager
def _bar() -> Iterator[OnProgress]:
    """A bar of the stage at work, in notebooks; it is gone at the end."""
    from rich import get_console
    from rich.progress import Progress as Bars

    seen = get_console().is_jupyter and find_spec("ipywidgets") is not None
    with Bars(transient=True, disable=not seen) as bars:
        task = bars.add_task("", total=None)

        def show(news: Progress) -> None:
            bars.update(task, description=news.stage, completed=news.done, total=news.total)

        yield show


def _anonymized(made: InMemoryRelease, schema: pa.Schema, given: Any) -> Anonymized:
    released = None if made.table is None else tables.like(tables.in_types_of(made.table, schema), given)
    report = made.report.model_copy(update={"source": "a table in memory", "output": None})
    return Anonymized(released, made.verdict, made.warnings, made.remedies, report, made.for_recipients)


def _write(arrow: pa.Table, path: Path) -> None:
    """Write the table; what the library says of a type that it cannot write may quote data."""
    try:
        pq.write_table(tables.writable(arrow), path, compression="lz4")
    except pa.ArrowException as error:
        if isinstance(error, OSError):
            raise
    else:
        return
    raise InputError("the table has a column of a type that Parquet cannot hold; drop or convert it first")


def _as_job(job: Job | Mapping[str, Any] | str | Path) -> Job:
    if isinstance(job, Job):
        return job
    if isinstance(job, Mapping):
        return parse_job({"input": "memory", "output": "memory", **job})
    if not isinstance(job, str | Path):
        raise JobError(f"the job has type {type(job).__name__}; give a mapping of its keys, or the path of a YAML file")
    return load_job(job)
