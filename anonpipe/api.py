"""For notebooks: a table in, the released table and its verdict out, without a cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe import release
from anonpipe.errors import InputError
from anonpipe.job import Job, load_job, parse_job
from anonpipe.pipeline import OnProgress, execute
from anonpipe.store import make_private, staging_root
from anonpipe.verify.verdict import Verdict

TableLike = TypeVar("TableLike", pa.Table, pd.DataFrame)


class Anonymized(NamedTuple):
    """The released table (None where a gate failed) and the verdict."""

    table: Any
    verdict: Verdict


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
        gate failed: what is not verified is not returned.

    Raises
    ------
    AnonpipeError
        As `anonpipe run`: bad job, bad input.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> frame = pd.DataFrame(np.random.default_rng(1).normal(size=(2000, 2)), columns=["height", "weight"])
    >>> job = {"k": 5, "columns": {"height": {"kind": "continuous"}, "weight": {"kind": "continuous"}}}
    >>> released, verdict = anonymize(frame, job)
    >>> verdict.passed, len(released)
    (True, 2000)
    """
    arrow = _as_arrow(table)
    parsed = _as_job(job)
    with tempfile.TemporaryDirectory(dir=make_private(staging_root(parsed.run.staging)), prefix="memory-") as folder:
        source = Path(folder) / "table.parquet"
        pq.write_table(arrow, source, compression="lz4")
        inside = parsed.model_copy(update={"input": str(source), "output": str(Path(folder) / "out")})
        outcome = execute(inside, cluster=False, on_progress=on_progress)
        if outcome.version is None:
            return Anonymized(None, outcome.verdict)
        released = _read(outcome.version)
    return Anonymized(released.to_pandas() if isinstance(table, pd.DataFrame) else released, outcome.verdict)


def _as_arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"anonymize takes an Arrow table or a pandas frame, not {type(table).__name__}")
    failed = False
    try:
        arrow = pa.Table.from_pandas(table, preserve_index=False)
    except (pa.ArrowException, ValueError):
        failed = True
    if failed:
        raise InputError("a column of the frame holds values of several types; convert it to one type first")
    return arrow


def _as_job(job: Job | Mapping[str, Any] | str | Path) -> Job:
    if isinstance(job, Job):
        return job
    if isinstance(job, Mapping):
        return parse_job({"input": "memory", "output": "memory", **job})
    return load_job(job)


def _read(version: str) -> pa.Table:
    where = release.resolve(version)
    names = [entry["name"] for entry in release.read_manifest(where)["files"]]
    return pa.concat_tables([pq.read_table(where.path(name)) for name in names])
