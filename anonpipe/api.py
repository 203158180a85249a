"""For notebooks: a table in; the released table, its verdict and the warnings out, without a cluster."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import InputError
from anonpipe.job.model import Job, load_job, parse_job
from anonpipe.pipeline.run import execute
from anonpipe.progress import OnProgress
from anonpipe.storage import release
from anonpipe.storage.staging import Staging, lock, make_private, remove, staging_root
from anonpipe.verify.verdict import Verdict

TableLike = TypeVar("TableLike", pa.Table, pd.DataFrame)


class Anonymized(NamedTuple):
    """What `anonymize` gives: three parts, so that who unpacks them sees the warnings.

    Attributes
    ----------
    table
        The released one, None where a gate failed.
    verdict
        All checks.
    warnings
        What `anonpipe run` prints as such: columns without bounds, what was
        suppressed, and that the same data were released before under another
        job or secret, whose two releases can be held against each other.
    """

    table: Any
    verdict: Verdict
    warnings: tuple[str, ...]


def anonymize(
    table: TableLike, job: Job | Mapping[str, Any] | str | Path, on_progress: OnProgress = lambda _: None
) -> Anonymized:
    """Anonymise a table in memory by the same stages as `anonpipe run`.

    Parameters
    ----------
    table
        Arrow table or pandas frame, one row a person.
    job
        A job, a mapping of its keys, or the path of a YAML file. Its `input`
        and `output` are not used and may be missing from a mapping.
    on_progress
        Called with news of the stages.

    Returns
    -------
    Anonymized
        `table` is of the type that was given, rows shuffled, or None where a
        gate failed: what is not verified is not returned. `warnings` are
        those of a run; read them before the table leaves your hands.

    Raises
    ------
    AnonpipeError
        As `anonpipe run`: bad job, bad input.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> frame = pd.DataFrame(np.random.default_rng(1).normal(size=(2000, 2)), columns=["height", "weight"])
    >>> job = {"k": 5, "columns": {"height": {"kind": "continuous"}, "weight": {"kind": "continuous"}}}
    >>> released, verdict, warnings = anonymize(frame, job)
    >>> verdict.passed, len(released), len(warnings)
    (True, 2000, 1)
    """
    arrow = _as_arrow(table)
    parsed = _as_job(job)
    staging = Staging(make_private(staging_root(parsed.run.staging)) / f"memory-{secrets.token_hex(8)}")
    with lock(staging):  # by the lock, `anonpipe purge` tells what a killed notebook left from what is in use
        try:
            return _anonymize(table, arrow, parsed, make_private(staging.root), on_progress)
        finally:
            remove(staging)


def _anonymize(given: Any, arrow: pa.Table, job: Job, folder: Path, on_progress: OnProgress) -> Anonymized:
    source = folder / "table.parquet"
    _write(arrow, source)
    inside = job.model_copy(update={"input": str(source), "output": str(folder / "out")})
    outcome = execute(inside, cluster=False, on_progress=on_progress, repeats="warn")
    if outcome.version is None:
        return Anonymized(None, outcome.verdict, outcome.warnings)
    released = _read(outcome.version, arrow.schema)
    return Anonymized(_as_given(released, given), outcome.verdict, outcome.warnings)


def _as_arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"anonymize takes an Arrow table or a pandas frame, not {type(table).__name__}")
    if not all(isinstance(name, str) for name in table.columns) or not table.columns.is_unique:
        raise InputError("the frame's columns need names that are text and differ; rename them first")
    try:
        return pa.Table.from_pandas(table, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError):
        pass
    raise InputError("a column of the frame holds values of several types; convert it to one type first")


def _write(arrow: pa.Table, path: Path) -> None:
    """Write the table; what the library says of a type that it cannot write may quote data."""
    try:
        pq.write_table(arrow, path, compression="lz4")
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
    return load_job(job)


def _read(version: str, given: pa.Schema) -> pa.Table:
    """The release in the very types that were given: Parquet has no seconds and no small dictionary indices."""
    where = release.resolve(version)
    names = [entry["name"] for entry in release.read_manifest(where)["files"]]
    table = pa.concat_tables([pq.read_table(where.path(name)) for name in names])
    fields = [given.field(name) if name in given.names else table.schema.field(name) for name in table.column_names]
    return pa.table([_as_type(table.column(field.name), field.type) for field in fields], schema=pa.schema(fields))


def _as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast; Parquet returns dictionaries of other values than text as plain columns."""
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(column.type):
        column = column.cast(kind.value_type).dictionary_encode().unify_dictionaries()
    return column.cast(kind)


def _as_given(released: pa.Table, given: Any) -> Any:
    """A frame for a frame, its columns of the same dtypes."""
    if isinstance(given, pa.Table):
        return released
    frame = released.to_pandas()
    dtypes = {name: _nullable(given[name].dtype, frame[name]) for name in frame.columns if name in given}
    return frame.astype({name: dtype for name, dtype in dtypes.items() if frame[name].dtype != dtype})


def _nullable(dtype: Any, column: pd.Series[Any]) -> Any:
    """The dtype, or for plain integers and booleans that now hold nulls (rare categories) the one that can."""
    if isinstance(dtype, np.dtype) and dtype.kind in "iub" and column.isna().any():
        return "boolean" if dtype.kind == "b" else dtype.name.capitalize().replace("Uint", "UInt")
    return dtype
