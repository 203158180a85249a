"""What every measure may take for granted of the two tables that it compares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.types import FloatArray


def checked_tables(
    original: npt.ArrayLike, released: npt.ArrayLike, *, least_rows: int = 2
) -> tuple[FloatArray, FloatArray]:
    """Both as float64 tables of the same columns."""
    tables = [np.ascontiguousarray(table, dtype=np.float64) for table in (original, released)]
    for name, table in zip(("original", "released"), tables, strict=True):
        if table.ndim != 2 or table.shape[1] == 0:
            raise InputError(f"the {name} records have shape {table.shape}; give rows and one column or more")
        if len(table) < least_rows:
            raise InputError(f"there are {len(table)} {name} records, and this measure needs {least_rows} or more")
        bad = int(np.count_nonzero(~np.isfinite(table).all(axis=1)))
        if bad:
            raise InputError(
                f"{bad} of {len(table)} {name} records have values that are not finite; fill or drop them first"
            )
    if tables[0].shape[1] != tables[1].shape[1]:
        raise InputError(
            f"the original has {tables[0].shape[1]} columns and the release {tables[1].shape[1]}; give both the same"
        )
    return tables[0], tables[1]


def check_least(least: float) -> None:
    """`least` is 0 or a positive number."""
    if not (np.isfinite(least) and least >= 0):
        raise JobError(f"least={least} was given as the smallest size of a term; give 0 or a positive number")


def spreads(table: FloatArray) -> FloatArray:
    """Standard deviation (over n - 1) of each column, exactly 0 for a constant one, shape (width,)."""
    deviations = table.std(axis=0, ddof=1)
    return np.where((table == table[0]).all(axis=0), 0.0, deviations)
