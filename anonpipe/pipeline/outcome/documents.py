"""The code book that is published with a release: of the manifest, declared columns and the written rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe import codebook
from anonpipe.columns import Column
from anonpipe.encoding.values import numbers
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.tasks.unfold import declared_of_rows, published_files
from anonpipe.pipeline.tasks.write import written_files
from anonpipe.types import FloatArray

_BATCH = 65_536
_WIDTH = 0.01  # Of the range of a column's released values
_NEAR = 1e-6  # Of a bound: an original value as near as this, or as half a step, is the bound


def codebook_documents(
    work: Work, fitted: Fitted, cut: Cut, manifest: Mapping[str, Any], version: str
) -> dict[str, bytes]:
    """`_datapackage.json` of a release, and the schema of its table where it has several files."""
    counts = codebook.count_levels(_batches(published_files(work, cut), names := codebook.coded_names(manifest)), names)
    listed = {"version": version, **manifest}
    columns = declared_of_rows(work, publishable_columns(work, fitted, cut))
    return codebook.datapackage(codebook.describe(listed, columns, counts))


def publishable_columns(work: Work, fitted: Fitted, cut: Cut) -> dict[str, Column]:
    """The declared columns of a release, without bounds that may be values of few persons.

    A bound should come from a code book. One that is the outermost value of the original could have been copied from
    there: it is published only where the released values of as many records as a group has lie within 1 % of their
    range of it, so that it tells of one person what the release tells of all of these.
    """
    released = {name: column for name, column in fitted.job.released.items() if name in fitted.schema.names}
    copied = {name: _copied(fitted, name, column) for name, column in released.items()}
    names = [name for name, ends in copied.items() if any(ends)]
    files = written_files(work, cut)
    for name, (lows, highs) in _outermost(_batches(files, names), names, fitted.min_rows).items():
        low, high = released[name].numeric_bounds
        room = max(_reach(released[name], 0.0), _WIDTH * (highs.max() - lows.min())) if len(lows) else 0.0
        few = len(lows) < fitted.min_rows
        hidden = (
            copied[name][0] and (few or low is None or lows.max() - low > room),
            copied[name][1] and (few or high is None or high - highs.min() > room),
        )
        bounds = zip(released[name].bounds or (None, None), hidden, strict=True)
        kept = tuple(None if is_hidden else bound for bound, is_hidden in bounds)
        released[name] = released[name].model_copy(update={"bounds": kept})
    return released


def _outermost(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], number: int
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """The lowest and the highest values of columns, so many of each (or all), ascending."""
    found = {name: (np.empty(0), np.empty(0)) for name in names}
    for batch in batches:
        for name, (lows, highs) in found.items():
            values = numbers(batch.column(name))
            values = values[~np.isnan(values)]
            ends = np.sort(np.append(lows, values))[:number], np.sort(np.append(highs, values))[-number:]
            found[name] = ends
    return found


def _copied(fitted: Fitted, name: str, column: Column) -> tuple[bool, bool]:
    """Whether each declared bound is the outermost value of the original; unknown counts as yes."""
    if column.bounds is None or column.role.unchanged:  # true values, of which recipients see the outermost
        return False, False
    scanned, coded = fitted.scan.columns.get(name), fitted.scan.outermost.get(name)
    if scanned is None:
        return True, True
    ends = [scanned.least, scanned.most]
    if coded is not None and len(coded.values):  # before top and bottom coding
        ends = [min(ends[0], float(coded.values.min())), max(ends[1], float(coded.values.max()))]
    low, high = (
        bound is not None and not abs(bound - end) > _reach(column, bound)
        for bound, end in zip(column.numeric_bounds, ends, strict=True)
    )
    return low, high


def _reach(column: Column, bound: float) -> float:
    return max(0.5 * (column.resolution or 0.0), _NEAR * abs(bound))


def _batches(files: Sequence[Path], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The written rows, of some columns; none where no column is asked for."""
    for path in files if names else ():
        yield from pq.ParquetFile(str(path)).iter_batches(_BATCH, columns=list(names))
