"""Changes of the input file while a run reads it; the number of rows stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Change = Callable[[pa.Table, np.random.Generator], pa.Table]


def one_value(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Another value in one cell of the first number column."""
    at = next(at for at, field in enumerate(table.schema) if pa.types.is_floating(field.type))
    values = table.column(at).to_numpy().copy()
    values[rng.integers(len(values))] *= 1.01
    return table.set_column(at, table.schema.field(at), pa.array(values))


def rows_swapped(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The same rows in another order."""
    return table.take(pa.array(rng.permutation(table.num_rows)))


def column_shuffled(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The values of the last column with other rows: every column's counts and moments stay."""
    at = table.num_columns - 1
    return table.set_column(at, table.schema.field(at), table.column(at).take(pa.array(rng.permutation(len(table)))))


CHANGES: dict[str, Change] = {each.__name__: each for each in (one_value, rows_swapped, column_shuffled)}


def rewrite(path: Path, change: Change, rng: np.random.Generator) -> None:
    """Put the changed table in place of a Parquet file."""
    table = pq.read_table(path)
    changed = change(table, rng)
    assert len(changed) == len(table) and not changed.equals(table)
    pq.write_table(changed, path)
