"""Writing the output files: rows in random order as Parquet, then measured as a reader gets them."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import EngineError
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.partitioning import Cut
from anonpipe.pipeline.staged import ADDED, FILES, SYNTHETIC, released_array
from anonpipe.pipeline.written import measure_file
from anonpipe.storage import sealed
from anonpipe.storage.release import sha256
from anonpipe.types import FloatArray


def write_file(work: Work, fitted: Fitted, cut: Cut, file_rows: list[list[int]], index: int) -> dict[str, Any]:
    """Write one output file in random order, then measure what a reader of it gets."""
    rows, added = _gathered(work, fitted, cut, file_rows, index)
    name = f"{FILES}/part-{index:05d}.parquet"
    written = _write_parquet(work, fitted, name, rows, added)
    path = work.staging.file(name)
    sealed.sync_folders(work.staging.root, [name])
    try:
        result = measure_file(work, fitted, index, path)
    except Exception:  # a damaged file may lead to anything
        if sha256(path) == written:
            raise
    else:
        if result["sha256"] == written:
            return result
    path.unlink()
    raise EngineError(f"{path.name} was damaged on the disk before it was measured; check the disk, then --resume")


def _gathered(
    work: Work, fitted: Fitted, cut: Cut, file_rows: list[list[int]], index: int
) -> tuple[FloatArray, FloatArray | None]:
    """The rows of an output file in random order, and what is released besides."""
    pieces = []
    for partition, counts in enumerate(file_rows):
        begin = sum(counts[:index])
        pieces.append((partition, begin, begin + counts[index]))
    rows = released_array(work, cut, SYNTHETIC, len(fitted.cells.names)).gather(pieces)
    order = work.rng("order", index).permutation(len(rows))
    if not fitted.added:
        return rows[order], None
    return rows[order], released_array(work, cut, ADDED, len(fitted.added)).gather(pieces)[order]


def _write_parquet(work: Work, fitted: Fitted, name: str, rows: FloatArray, added: FloatArray | None) -> str:
    """Write the file, whole or not at all; the SHA-256 of what was written."""
    step = fitted.job.release.row_group_rows
    with (
        work.staging.renamed(name) as draft,
        _Hashing(draft) as out,
        pq.ParquetWriter(out, fitted.schema, compression="zstd", store_schema=True) as writer,
    ):
        for at in range(0, len(rows), step):
            ends = None if added is None else added[at : at + step]
            writer.write_batch(released_batch(fitted, rows[at : at + step], ends), row_group_size=step)
    return out.digest.hexdigest()


def released_batch(fitted: Fitted, rows: FloatArray, added: FloatArray | None) -> pa.RecordBatch:
    """Released rows as they are written."""
    arrays, intervals = list(fitted.cells.from_cells(rows).columns), fitted.procedure.decoder.intervals
    if intervals is not None and added is not None:
        arrays += intervals.arrays(added)
    if fitted.probabilities is not None and added is not None:
        arrays = fitted.probabilities.in_place(arrays, added)
    return pa.RecordBatch.from_arrays(arrays, schema=fitted.worked_schema).select(fitted.schema.names)


class _Hashing(io.FileIO):
    """A file that is hashed as it is written, and on the disk when it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "wb")
        self.digest = hashlib.sha256()

    def write(self, content: Any) -> int:
        """Write all of it."""
        whole, done = memoryview(content).cast("B"), 0
        while done < len(whole):
            done += super().write(whole[done:])
        self.digest.update(whole)
        return done

    def close(self) -> None:
        """Sync, then close."""
        if not self.closed:
            os.fsync(self.fileno())
        super().close()
