"""The hold-out: records that nothing is formed from or learnt of, the control of attacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.codec.values import plain
from anonpipe.context import Context
from anonpipe.rng import keyed, row_keys

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


FEWEST_HELD = 30
"""Records below which a hold-out is no control."""


def held_rows(start_key: bytes, share: float, first_row: int, count: int) -> BoolArray:
    """Which of `count` rows of the input are held out, shape (count,).

    It follows from the steward's secret, the job and the row's place.

    Examples
    --------
    >>> int(held_rows(b"k" * 16, 0.25, 0, 10_000).sum())
    2468
    >>> held_rows(b"k" * 16, 0.0, 0, 3).tolist()
    [False, False, False]
    """
    if share == 0.0:
        return np.zeros(count, dtype=bool)
    return row_keys(keyed(start_key, "held out"), first_row, count) < np.uint64(share * 2**64)


def start_key(ctx: Context) -> bytes:
    """The key of what is decided before the data have been read."""
    return bytes(ctx.staging.read("start.key"))


def held_in(ctx: Context, first_row: int, count: int) -> BoolArray:
    """Which of these rows of the input this run holds out."""
    return held_rows(start_key(ctx), ctx.job.measure.hold_out, first_row, count)


def keep_held(ctx: Context, unit: int, parts: list[FloatArray]) -> None:
    """Leave the cells of a unit's held-out records, as many as are looked for."""
    ctx.staging.write_array(_file(unit), np.concatenate([np.empty((0, len(ctx.cells.names))), *parts]))


def held_sample(ctx: Context, batch: pa.RecordBatch, first_row: int) -> FloatArray:
    """Cells of a keyed sample of held-out rows: those that a released record could be compared with.

    A category that occurs in no other record, or a stratum that is left out,
    is none of the release, and such records are passed over. Rare categories
    and strata become what they became in the release.

    Parameters
    ----------
    batch
        Consecutive rows of the input, held out or not, of the released columns.
    first_row
        Position of the first in the input.
    """
    share = ctx.job.measure.hold_out
    enough = min(1.0, ctx.job.measure.queries / max(1.0, share * ctx.source.rows))
    drawn = row_keys(keyed(start_key(ctx), "of those held out"), first_row, batch.num_rows)
    chosen = held_in(ctx, first_row, batch.num_rows) & (drawn <= np.uint64(min(2**64 - 1, int(enough * 2**64))))
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
    return np.concatenate([ctx.staging.read_array(_file(unit)) for unit in range(len(ctx.source.units))])


def _file(unit: int) -> str:
    return f"held/{unit}.npy"
