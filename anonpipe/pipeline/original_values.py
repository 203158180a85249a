"""Original and written values of one column against each other, whatever the number of rows.

Both are sorted chunk by chunk into runs on disk, distinct values with their
records, and then merged one range of values after the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.encoding.values import numbers
from anonpipe.job.model import Job
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.partitioning import Cut
from anonpipe.pipeline.staged import FILES, MEASURE_ROWS, VALUES, routed_array
from anonpipe.storage.staging import make_private
from anonpipe.types import FloatArray
from anonpipe.verify.original_values import NEIGHBOURS, Chances, Fineness, chances, coarsest_grid, means_lie_on

Runs = list[npt.NDArray[np.void]]

RUN_ROWS = 2**19
RANGE_ENTRIES = 2**19  # Entries of the original runs that are compared at once, about

SAMPLED = 20_000  # Released values that tell whether rounded values or means are released

_ENTRY = np.dtype([("value", "<f8"), ("rows", "<i8")])


def compared_names(job: Job) -> list[str]:
    """Columns of numbers and dates whose values are replaced."""
    return [name for name, column in job.released.items() if column.role.synthesized and not column.kind.coded]


def compare_values(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Count what one masked column hands on of the values that may be of fewer than k records, or units."""
    name = compared_names(fitted.job)[index]
    # no task but this one reads the runs: they go with it, and are not sealed
    with tempfile.TemporaryDirectory(dir=make_private(work.staging.file(VALUES))) as folder:
        originals = _write_runs(_original(work, fitted, cut, name), Path(folder), "original")
        released = _write_runs(_released(work, fitted, cut, name), Path(folder), "released")
        found = _compare(fitted, name, originals, released)
    return {"rows": cut.rows, "beyond": found.beyond(len(compared_names(fitted.job)))}


def _compare(fitted: Fitted, name: str, originals: Runs, released: Runs) -> Chances:
    fineness = _fineness(fitted, name, originals, released)
    origin = fitted.cells.grid(fitted.cells.names.index(name)).origin
    bounds = np.array([bound - origin for bound in fitted.job.columns[name].numeric_bounds if bound is not None])
    found = Chances.none()
    for values, rows, around in ranges(originals, released):
        rare = values[rows < fitted.least]
        if len(bounds):  # what is cut off at a declared bound takes its value from the job
            rare = rare[np.abs(rare[:, None] - bounds).min(axis=1) > fineness.rounding(rare)]
        found = found.merge(chances(rare, around, fineness))
    return found


def _original(work: Work, fitted: Fitted, cut: Cut, name: str) -> Iterator[FloatArray]:
    staged, position = routed_array(work, fitted), fitted.cells.names.index(name)
    for chunk, counts in enumerate(cut.chunk_leaf_rows):
        if rows := sum(counts):
            yield staged.read(chunk, 0, rows)[:, position] - fitted.cells.grid(position).origin


def _released(work: Work, fitted: Fitted, cut: Cut, name: str) -> Iterator[FloatArray]:
    origin = fitted.cells.grid(fitted.cells.names.index(name)).origin
    for at in range(cut.files):
        parquet = pq.ParquetFile(str(work.staging.file(f"{FILES}/part-{at:05d}.parquet")))
        for batch in parquet.iter_batches(batch_size=MEASURE_ROWS, columns=[name]):
            yield numbers(batch.column(0)) - origin


def _write_runs(parts: Iterator[FloatArray], folder: Path, stem: str) -> Runs:
    """Distinct values with their records, in runs of bounded length; each is mapped from its file."""
    paths: list[Path] = []
    held: list[FloatArray] = []

    def write() -> None:
        values, rows = np.unique(np.concatenate(held), return_counts=True)
        run = np.empty(len(values), dtype=_ENTRY)
        run["value"], run["rows"] = values, rows
        paths.append(folder / f"{stem}-{len(paths)}.npy")
        np.save(paths[-1], run)
        held.clear()

    for part in parts:
        held.append(part[~np.isnan(part)] + 0.0)
        if sum(map(len, held)) >= RUN_ROWS:
            write()
    if held:
        write()
    return [np.load(path, mmap_mode="r") for path in paths]


def _fineness(fitted: Fitted, name: str, originals: Runs, released: Runs) -> Fineness:
    scanned, position = fitted.scan.columns[name], fitted.cells.names.index(name)
    step = fitted.cells.grid(position).step or 0.0
    kind = fitted.cells.schema.field(name).type
    relative = float(np.finfo(np.float32).eps) if pa.types.is_float32(kind) else 0.0
    relative = float(np.finfo(np.float16).eps) if pa.types.is_float16(kind) else relative
    grid = coarsest_grid(lambda: [np.asarray(run["value"]) for run in originals], step, relative)
    meets = bool(step or not grid) or means_lie_on(grid, _some(released), relative)
    return Fineness(scanned.sd + abs(scanned.mean), step, grid, relative, meets)


def _some(runs: Runs) -> FloatArray:
    """Values of all runs, about `SAMPLED` of them, evenly."""
    every = max(1, sum(map(len, runs)) // SAMPLED)
    return np.concatenate([run["value"][::every] for run in runs] or [np.empty(0)])


def ranges(originals: Runs, released: Runs) -> Iterator[tuple[FloatArray, npt.NDArray[np.int64], FloatArray]]:
    """One range of values after the other: distinct originals, their records, and distinct released values around."""
    edges = _edges(originals)
    for low, high in pairwise(edges):
        inside = np.concatenate([run[slice(*_place(run, low, high))] for run in originals])
        values, which = np.unique(inside["value"], return_inverse=True)
        rows = np.zeros(len(values), dtype=np.int64)
        np.add.at(rows, which, inside["rows"])
        around = []
        for run in released:
            begin, end = _place(run, low, high)
            around.append(run["value"][max(0, begin - NEIGHBOURS - 1) : end + NEIGHBOURS + 1])
        yield values, rows, np.unique(np.concatenate(around)) if around else np.empty(0)


def _edges(runs: Runs) -> FloatArray:
    """Borders between ranges that hold about as many entries each."""
    entries = sum(map(len, runs))
    count = max(1, -(-entries // RANGE_ENTRIES))
    sampled = np.concatenate([run["value"][:: max(1, len(run) // 256)] for run in runs] or [np.empty(0)])
    inner = np.quantile(sampled, np.arange(1, count) / count, method="lower") if len(sampled) else np.empty(0)
    return np.concatenate([[-np.inf], np.unique(inner), [np.inf]])


def _place(run: npt.NDArray[np.void], low: float, high: float) -> tuple[int, int]:
    """Where the entries of a range lie in a run: the low edge belongs to it, the high one to the next."""
    begin, end = np.searchsorted(run["value"], [low, high])
    return int(begin), int(end)


def handed_on(job: Job, results: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """The most values that a column hands on beyond chance, and which column it is; empty where none does."""
    counted = {name: result["beyond"] for name, result in zip(compared_names(job), results, strict=True)}
    worst = max(counted, key=lambda name: counted[name], default="")
    return (counted[worst], worst) if worst and counted[worst] else (0, "")
