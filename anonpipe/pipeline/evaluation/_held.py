"""The hold-out: records that nothing is formed from or learnt of, the control of attacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.encoding.contents import Contents, canonical_order, column_keys
from anonpipe.encoding.values import plain
from anonpipe.pipeline.context import Context
from anonpipe.rng import keyed
from anonpipe.types import BoolArray, FloatArray

FEWEST_HELD = 30
"""Records below which a hold-out is no control."""


def held_rows(start_key: bytes, share: float, contents: Contents) -> BoolArray:
    """Which rows of the input are held out, shape (n_rows,).

    It follows from the steward's secret, the job and the row's content; of
    equal rows the share is held out.

    Examples
    --------
    >>> rows = Contents(np.arange(10_000, dtype=np.uint64), np.zeros(10_000, dtype=np.uint32))
    >>> int(held_rows(b"k" * 16, 0.25, rows).sum())
    2468
    >>> held_rows(b"k" * 16, 0.0, rows[:3]).tolist()
    [False, False, False]
    """
    if share == 0.0:
        return np.zeros(len(contents.rows), dtype=bool)
    return contents.keys(keyed(start_key, "held out")) < np.uint64(share * 2**64)


def start_key(ctx: Context) -> bytes:
    """The key of what is decided before the data have been read."""
    return bytes(ctx.staging.read("start.key"))


def held_in(ctx: Context, contents: Contents) -> BoolArray:
    """Which of these rows of the input this run holds out."""
    return held_rows(start_key(ctx), ctx.job.measure.hold_out, contents)


def keep_held(ctx: Context, unit: int, parts: list[FloatArray]) -> None:
    """Leave the cells of a unit's held-out records, as many as are looked for."""
    ctx.staging.write_array(_file(unit), np.concatenate([np.empty((0, len(ctx.cells.names))), *parts]))


def held_sample(ctx: Context, batch: pa.RecordBatch, contents: Contents) -> FloatArray:
    """Cells of a keyed sample of held-out rows: those that a released record could be compared with.

    A category that occurs in no other record, or a stratum that is left out,
    is none of the release, and such records are passed over. Rare categories
    and strata become what they became in the release.

    Parameters
    ----------
    batch
        Consecutive rows of the input, held out or not, of the released columns.
    contents
        Of the same rows.
    """
    share = ctx.job.measure.hold_out
    enough = min(1.0, ctx.job.measure.queries / max(1.0, share * ctx.source.rows))
    drawn = contents.keys(keyed(start_key(ctx), "of those held out"))
    chosen = held_in(ctx, contents) & (drawn <= np.uint64(min(2**64 - 1, int(enough * 2**64))))
    cells = ctx.cells.to_cells(batch.filter(pa.array(chosen & _categorised(ctx, batch))))
    cells = cells[_occurring(ctx, cells, ctx.job.strata.by)]
    ctx.suppression.apply(cells, ctx.cells.names, ctx.strata.assign(cells))
    cells = cells[_occurring(ctx, cells, ctx.cells.names) & ~np.isinf(cells).any(axis=1)]
    stratum = ctx.strata.assign(cells)
    ctx.strata.recode(cells)
    return cells[stratum >= 0]


def _categorised(ctx: Context, batch: pa.RecordBatch) -> BoolArray:
    """Rows whose categories the codec knows."""
    known = np.ones(batch.num_rows, dtype=bool)
    for name, categories in ctx.cells.categories.items():
        values = plain(batch.column(name))
        known &= pc.or_(pc.is_in(values, value_set=categories), values.is_null()).to_numpy(zero_copy_only=False)
    return known


def _occurring(ctx: Context, cells: FloatArray, names: Sequence[str]) -> BoolArray:
    """Rows whose categories and nulls in some columns other records have."""
    known = np.ones(len(cells), dtype=bool)
    for name in names:
        position = ctx.cells.names.index(name)
        column, missing = cells[:, position], np.isnan(cells[:, position])
        if name in ctx.cells.categories:
            counts = np.append(ctx.scan.code_counts(name), 0)
            known &= missing | (counts[np.where(missing, 0, column).astype(np.int64)] > 0)
        known &= ~missing | (ctx.scan.columns[name].nulls > 0)
    return known


def held_cells(ctx: Context) -> FloatArray:
    """Cells of the sampled held-out records, shape (n_rows, n_columns); no rows where nothing is held out."""
    if not ctx.job.measure.hold_out:
        return np.empty((0, len(ctx.cells.names)))
    cells = np.concatenate([ctx.staging.read_array(_file(unit)) for unit in range(len(ctx.source.units))])
    return np.asarray(cells[canonical_order(cells, column_keys(ctx.staging.key, ctx.cells.names))])


def _file(unit: int) -> str:
    return f"held/{unit}.npy"
