"""Correlated, skewed numbers for benchmarks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from anonpipe.errors import InputError
from anonpipe.propose.demo import BLOCK_ROWS, PUBLIC_SEED, write_blocks


def write_numeric(path: str | Path, rows: int, columns: int = 10, *, seed: int = PUBLIC_SEED) -> None:
    """Write correlated, skewed numeric columns to one Parquet file, for benchmarks.

    Notes
    -----
    Three common normal factors and an own part make each column; every second
    one is then exponentiated (lognormal), and each has a scale of its own.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> path = Path(tempfile.mkdtemp()) / "numbers.parquet"
    >>> write_numeric(path, 1000, columns=4)
    >>> pq.read_table(path).column_names
    ['x1', 'x2', 'x3', 'x4']
    """
    if not 1 <= columns <= 10_000:
        raise InputError(f"columns is {columns}; give 1 to 10000")
    schema = pa.schema([pa.field(f"x{number}", pa.float64()) for number in range(1, columns + 1)])
    write_blocks(path, rows, seed, schema, partial(_numeric_block, columns))


def _numeric_block(columns: int, rng: np.random.Generator, first: int) -> list[pa.Array]:
    """Draw a block of records; a column's law depends on its number, not on how many columns there are."""
    factors = rng.standard_normal((3, BLOCK_ROWS))
    arrays = []
    for number in range(columns):
        loadings = 0.75 * np.cos(np.array([1.0, 2.0, 3.0]) * (number + 1))
        normal = loadings @ factors + 0.5 * rng.standard_normal(BLOCK_ROWS)
        values = np.exp(0.8 * normal) if number % 2 else normal
        arrays.append(pa.array(values * 10.0 ** (number % 4)))
    return arrays
