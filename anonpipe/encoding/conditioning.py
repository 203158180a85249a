"""Columns that are released unchanged, as finite numbers beside the features: what masked columns are drawn given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.columns import Kind
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.scan import MOST_DUMMIES, Scan
from anonpipe.encoding.values import numbers
from anonpipe.errors import InputError
from anonpipe.types import FloatArray


@dataclass(frozen=True, eq=False)
class ConditioningEncoder:
    """How unchanged columns become numbers; there is no way back, as they are released as they are.

    A number or date is one z-score, an ordinal that of its position; nulls
    stand at the mean, with one more column of -1 and +1. A category has
    dummies of -1 and +1, one fewer than categories (nulls are one): with a
    constant they say all.
    """

    positions: tuple[int, ...]  # Where the columns stand among the cells
    tables: tuple[FloatArray, ...]  # Of each column, the numbers of each of its codes, shape (n_codes, its width)

    @classmethod
    def fit(cls, cells: ColumnEncoder, scan: Scan, names: Sequence[str]) -> ConditioningEncoder:
        """The encoder of some unchanged columns.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from anonpipe.encoding.scan import scan_batch
        >>> from anonpipe.columns import Column
        >>> batch = pa.record_batch({"age": [30, None, 50], "sex": ["m", "f", "f"]})
        >>> columns = {"age": Column(kind="integer", role="key"), "sex": Column(kind="binary", role="sensitive")}
        >>> scan = scan_batch(batch, columns, 0, [])
        >>> encoder = ColumnEncoder.fit(batch.schema, columns, scan)
        >>> ConditioningEncoder.fit(encoder, scan, ["age", "sex"]).encode(encoder.to_cells(batch)).tolist()
        [[-1.0, -1.0, 1.0], [0.0, 1.0, -1.0], [1.0, -1.0, -1.0]]
        """
        positions = tuple(cells.names.index(name) for name in names)
        tables = tuple(_table(cells, scan, at) for at in positions)
        width = sum(table.shape[1] for table in tables)
        if width > MOST_DUMMIES:
            raise InputError(
                f"the conditioning variables {', '.join(map(repr, names))} make {width} columns of numbers, more than "
                f"{MOST_DUMMIES}; coarsen or drop those with most categories"
            )
        return cls(positions, tables)

    @property
    def width(self) -> int:
        """Columns of numbers."""
        return sum(table.shape[1] for table in self.tables)

    def encode(self, cells: FloatArray) -> FloatArray:
        """The numbers of cells of shape (n_rows, n_cells), shape (n_rows, width)."""
        parts = [table[cells[:, at].astype(np.int64)] for at, table in zip(self.positions, self.tables, strict=True)]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(cells), 0))


def _table(cells: ColumnEncoder, scan: Scan, position: int) -> FloatArray:
    """The numbers of each code of a column, nulls last if there are any."""
    name, kind = cells.names[position], cells.columns[position].kind
    counts = np.zeros(cells.code_count(name))
    counted = scan.code_counts(name)
    counts[: len(counted)] = counted
    if kind.coded and kind is not Kind.ORDINAL:
        occupied = np.flatnonzero(counts)
        table = np.full((len(counts), max(0, len(occupied) - 1)), -1.0)
        table[occupied[1:], np.arange(len(occupied) - 1)] = 1.0
        return table
    categories = cells.categories[name]
    known = len(categories)
    values = np.arange(known, dtype=np.float64) if kind is Kind.ORDINAL else numbers(categories)
    weights = counts[:known] / max(1.0, counts[:known].sum())
    mean = float(weights @ values)
    spread = float(np.sqrt(weights @ (values - mean) ** 2))
    table = np.zeros((len(counts), 1 + (len(counts) > known)))
    table[:known, 0] = (values - mean) / (spread or 1.0)
    table[:, 1:] = np.where(np.arange(len(counts)) < known, -1.0, 1.0)[:, None]
    return table
