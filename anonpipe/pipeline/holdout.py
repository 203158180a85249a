"""The hold-out: records that nothing is formed from or learnt of, the control of attacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.encoding.contents import Contents, canonical_order, column_keys
from anonpipe.encoding.values import plain
from anonpipe.partition.unit_sets import Units
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.rng import keyed, number_keys
from anonpipe.types import BoolArray, FloatArray

FEWEST_HELD = 30  # Records below which a hold-out is no control


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


def held_of_units(start_key: bytes, share: float, units: Units) -> BoolArray:
    """Which rows are held out where the job names their units: all of a unit, or none, as the others tell of them.

    Examples
    --------
    >>> held_of_units(b"k" * 16, 0.5, np.array([8, 8, 4, 4], dtype=np.uint64)).tolist()
    [True, True, False, False]
    """
    return np.asarray(number_keys(keyed(start_key, "held out"), units) < np.uint64(share * 2**64))


def held_in(work: Work, contents: Contents, units: Units | None) -> BoolArray:
    """Which of these rows of the input this run holds out."""
    if work.job.unit_declared and units is not None:
        return held_of_units(work.start_key, work.job.measure.held_out, units)
    return held_rows(work.start_key, work.job.measure.held_out, contents)


def keep_held(work: Work, fitted: Fitted, unit: int, parts: list[FloatArray]) -> None:
    """Leave the cells of an input unit's held-out records, as many as are looked for; their units in a last column."""
    width = len(fitted.cells.names) + (fitted.unit is not None)
    work.staging.write_array(_file(unit), np.concatenate([np.empty((0, width)), *parts]))


def drawn_held(work: Work, contents: Contents, units: Units | None) -> BoolArray:
    """Which rows are in the keyed sample of held-out rows: as many as are looked for."""
    share = work.job.measure.held_out
    enough = min(1.0, work.job.measure.queries / max(1.0, share * work.source.rows))
    drawn = contents.keys(keyed(work.start_key, "of those held out"))
    return held_in(work, contents, units) & (drawn <= np.uint64(min(2**64 - 1, int(enough * 2**64))))


def comparable_cells(
    fitted: Fitted, batch: pa.RecordBatch, chosen: BoolArray, units: Units | None = None
) -> FloatArray:
    """Cells of those chosen rows that a released record could be compared with.

    A category that occurs in no other record, or a stratum that is left out,
    is none of the release, and such records are passed over. Rare categories
    and strata become what they became in the release.
    """
    chosen = chosen & _categorised(fitted, batch)
    cells, own = fitted.cells.to_cells(batch.filter(pa.array(chosen))), None if units is None else units[chosen]
    there = np.flatnonzero(_occurring(fitted, cells, fitted.job.strata.by))
    cells = cells[there]
    for change in (fitted.suppression, fitted.extremes):
        change.apply(cells, fitted.cells.names, fitted.strata.assign(cells))
    kept = _occurring(fitted, cells, fitted.cells.names) & ~np.isinf(cells).any(axis=1)
    cells, there = cells[kept], there[kept]
    stratum = fitted.strata.assign(cells)
    fitted.strata.recode(cells)
    cells, there = cells[stratum >= 0], there[stratum >= 0]
    return cells if own is None else np.column_stack([cells, own[there].astype(np.float64)])


def _categorised(fitted: Fitted, batch: pa.RecordBatch) -> BoolArray:
    """Rows whose categories the encoder knows."""
    known = np.ones(batch.num_rows, dtype=bool)
    for name, categories in fitted.cells.categories.items():
        values = plain(batch.column(name))
        known &= pc.or_(pc.is_in(values, value_set=categories), values.is_null()).to_numpy(zero_copy_only=False)
    return known


def _occurring(fitted: Fitted, cells: FloatArray, names: Sequence[str]) -> BoolArray:
    """Rows whose categories and nulls in some columns other records have."""
    known = np.ones(len(cells), dtype=bool)
    for name in names:
        position = fitted.cells.names.index(name)
        column, missing = cells[:, position], np.isnan(cells[:, position])
        if name in fitted.cells.categories:
            counts = np.append(fitted.scan.code_counts(name), 0)
            known &= missing | (counts[np.where(missing, 0, column).astype(np.int64)] > 0)
        known &= ~missing | (fitted.scan.columns[name].nulls > 0)
    return known


def held_cells(work: Work, fitted: Fitted) -> FloatArray:
    """Cells of the sampled held-out records, shape (n_rows, n_columns); no rows where nothing is held out.

    Of units with several rows each has one: persons are counted, not rows.
    """
    if not work.job.measure.held_out:
        return np.empty((0, len(fitted.cells.names)))
    cells = np.concatenate([work.staging.read_array(_file(unit)) for unit in range(len(work.source.units))])
    width = len(fitted.cells.names)
    order = canonical_order(cells[:, :width], column_keys(work.key, fitted.cells.names))
    if fitted.unit is not None:
        order = order[np.sort(np.unique(cells[order, width], return_index=True)[1])]
    return np.ascontiguousarray(cells[order, :width])


def _file(unit: int) -> str:
    return f"held/{unit}.npy"
