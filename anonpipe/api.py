"""For notebooks: a table in; the released table, its verdict, report, warnings and measures out, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.encoding.values import plain_type
from anonpipe.errors import GateError, InputError, JobError, plural
from anonpipe.files import write_atomic
from anonpipe.job.model import Job, load_job, parse_job
from anonpipe.pipeline.run import in_memory
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
        What `anonpipe run` prints as such: columns without bounds, what was suppressed, and the like.
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
        return self.table if isinstance(self.table, pd.DataFrame) else _as_arrow(self.table).to_pandas()

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
        columns = sum(each.treatment not in ("not released", "as probabilities") for each in self.report.columns)
        shape = "no table" if self.table is None else f"{self.report.rows:,} rows x {columns} columns"
        passed = self.verdict.passed
        return "\n".join(
            [
                f"Anonymized: {self.verdict.word}, {shape}; {len(self.measures)} measures",
                f"checks   {words.counts(self.verdict)}",
                *(words.table(self.verdict) if passed else words.failures(self.verdict, self.remedies, sys.maxsize)),
                *(f"warning: {warning}" for warning in self.warnings),
            ]
        )

    def _repr_html_(self) -> str:
        """Verdict, warnings, remedies, checks, measures and the first rows, for the steward's eyes."""
        table = self.table.head(5) if isinstance(self.table, pd.DataFrame) else self.table
        first = None if table is None else _as_arrow(table).slice(0, 5)
        return cell(self.report, self.remedies, words.figures(self.verdict), first)


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


def anonymize(
    table: Any, job: Job | Mapping[str, Any] | str | Path, on_progress: OnProgress | None = None
) -> Anonymized:
    """Anonymise a table in memory by the same stages as `anonpipe run`.

    Nothing is published: what is handed back is no release, is entered in no release log, and leaves no file.

    Parameters
    ----------
    table
        One row per person: a pandas frame, an Arrow table, or any table that offers the Arrow PyCapsule interface
        (`__arrow_c_stream__`), as those of polars do.
    job
        A job, a mapping of its keys, or the path of a YAML file. Its `input`
        and `output` are not used and may be missing from a mapping.
    on_progress
        Called with news of the stages. Without it, notebooks with ipywidgets show a bar.

    Returns
    -------
    Anonymized
        Its `table` is of the kind that was given, rows shuffled, without an index, or None where a gate failed: what is
        not verified is not returned. `warnings` are those of a run; read them before the table leaves your hands.

    Raises
    ------
    AnonpipeError
        As `anonpipe run`: bad job, bad input, or records that an earlier
        release shares (`repeat: {allow: "why"}` takes them nevertheless).

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
    arrow = _as_arrow(table)
    if not arrow.num_rows:
        raise InputError("the table has no rows; give one of at least k rows")
    if isinstance(job, Mapping):
        job = parse_job({"input": "memory", "output": "memory", **job})
    if not isinstance(job, Job | str | Path):
        raise JobError(f"the job has type {type(job).__name__}; give a mapping of its keys, or the path of a YAML file")
    parsed = _with_levels(job if isinstance(job, Job) else load_job(job), arrow)
    with scratch("memory", parsed.run.staging) as folder, _bar() as shown:
        source = folder / "table.parquet"
        _write(arrow, source)
        inside = parsed.model_copy(update={"input": str(source), "output": str(folder / "out")})
        made = in_memory(inside, on_progress or shown)
    schema, given = arrow.schema, table
    # New numbers and categories of hierarchies have no type (with its categories) of the original ones
    for name in [str(parsed.unit_column)] if parsed.whole_release else parsed.recategorized:
        schema = schema.remove(schema.get_field_index(name))
        given = given.drop(columns=name) if isinstance(given, pd.DataFrame) else given
    released = None if made.table is None else _like(_in_types_of(made.table, schema), given)
    report = made.report.model_copy(update={"source": "a table in memory", "output": None})
    return Anonymized(released, made.verdict, made.warnings, made.remedies, report, made.for_recipients)


def _with_levels(job: Job, table: pa.Table) -> Job:
    """The job, in which ordered categories of the table are levels, in their order, where it declares none."""
    columns = dict(job.columns)
    for field in table.schema:
        column, kind = columns.get(field.name), field.type
        if column is None or column.levels is not None or not (column.staged_as_codes and pa.types.is_dictionary(kind)):
            continue
        if kind.ordered and (pa.types.is_string(plain_type(kind)) or pa.types.is_integer(kind.value_type)):
            levels = table.column(field.name).unify_dictionaries().chunk(0).dictionary.to_pylist()
            columns[field.name] = column.model_copy(update={"levels": tuple(levels)})
    return job.model_copy(update={"columns": columns})


def _write(arrow: pa.Table, path: Path) -> None:
    """Write the table; what the library says of a type that it cannot write may quote data."""
    columns = []
    for name, column in zip(arrow.column_names, arrow.columns, strict=True):
        try:
            columns.append(_without_views(column))  # polars yields views, which Parquet lacks
            pq.write_table(pa.table({name: columns[-1].slice(0, 0)}), pa.BufferOutputStream())
        except (pa.ArrowException, OSError):
            raise InputError(f"Parquet cannot hold the type of column {name!r}; convert or drop it first") from None
    pq.write_table(pa.table(columns, names=arrow.column_names), path, compression="lz4")


# --- Tables of any library: as Arrow tables, and back as what was given -----------------------------------------------


def _as_arrow(given: Any) -> pa.Table:
    """Arrow table of a pandas frame, an Arrow table, or any object with the Arrow PyCapsule protocol (polars)."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pd.DataFrame):
        names = zip(given.columns, given.columns.duplicated(), strict=True)
        if wrong := [name for name, again in names if again or not isinstance(name, str)]:
            count = plural(len(wrong), "name")
            raise InputError(
                f"the frame has {count} of columns that are no text or repeated ({wrong[0]!r}); rename them"
            )
        columns = {}
        for name in given.columns:
            try:
                columns[name] = pa.array(given[name])
            except (pa.ArrowException, ValueError, TypeError):
                what = "values of several types, or of a type that Arrow lacks; convert it to one type first"
                raise InputError(f"column {name!r} of the frame holds {what}") from None
        return pa.table(columns)
    with suppress(Exception):  # the other library's, whose texts may quote data
        if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
            return pa.table(given)
    raise InputError(
        "anonymize takes a pandas frame, an Arrow table, or a table with __arrow_c_stream__ such as polars frames; "
        f"this {type(given).__name__} cannot be read as one, convert it first"
    )


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if not pa.types.is_dictionary(kind):
        return column.cast(_plain(kind))
    value = _plain(kind.value_type)
    if value == kind.value_type:
        return column
    return _dictionary(column, pa.dictionary(pa.int32(), value, kind.ordered))


def _dictionary(column: pa.ChunkedArray, kind: pa.DictionaryType) -> pa.ChunkedArray:
    """Cast indices and values; no cast leads from or to a dictionary of views."""
    parts = [
        pa.DictionaryArray.from_arrays(
            part.indices.cast(kind.index_type), part.dictionary.cast(kind.value_type), ordered=kind.ordered
        )
        for part in column.chunks
    ]
    return pa.chunked_array(parts, kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _in_types_of(table: pa.Table, given: pa.Schema) -> pa.Table:
    """The released table in the very types that were given: Parquet has no seconds and no small dictionary indices."""
    fields = [given.field(name) if name in given.names else table.schema.field(name) for name in table.column_names]
    return pa.table([_as_type(table.column(field.name), field.type) for field in fields], schema=pa.schema(fields))


def _as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast; Parquet returns dictionaries of other values than text as plain columns."""
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    if not pa.types.is_dictionary(column.type):
        column = column.cast(_plain(kind.value_type)).dictionary_encode()
    return _dictionary(column.unify_dictionaries(), kind)


def _like(released: pa.Table, given: Any) -> Any:
    """The released table as the kind of table that was given, its columns of the same types."""
    # What is neither of pandas nor of Arrow is made by the `from_arrow` of its class or of its library; where there is
    # none, the Arrow table is returned.
    if isinstance(given, pd.DataFrame):
        frame: pd.DataFrame = released.to_pandas(integer_object_nulls=True)  # floats else, in columns of objects
        dtypes = {name: _nullable(given[name].dtype, frame[name]) for name in frame.columns if name in given}
        return frame.astype({name: dtype for name, dtype in dtypes.items() if frame[name].dtype != dtype})
    library = sys.modules.get(type(given).__module__.partition(".")[0])
    makers = (getattr(place, "from_arrow", None) for place in (type(given), library))
    make = next(filter(callable, makers), None)
    made = released if make is None or isinstance(given, pa.Table) else make(released)
    return made if isinstance(made, type(given)) else released


def _nullable(dtype: Any, column: pd.Series[Any]) -> Any:
    """The dtype, or for plain integers and booleans that now hold nulls (rare categories) the one that can."""
    if isinstance(dtype, np.dtype) and dtype.kind in "iub" and column.isna().any():
        return "boolean" if dtype.kind == "b" else dtype.name.capitalize().replace("Uint", "UInt")
    return dtype
