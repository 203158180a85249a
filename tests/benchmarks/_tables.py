"""What benchmarks of two tables may take for granted of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError
from anonpipe.types import FloatArray


def checked_tables(original: npt.ArrayLike, released: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as float64 tables of the same columns, finite and of two rows or more."""
    old, new = (np.ascontiguousarray(table, dtype=np.float64) for table in (original, released))
    if old.ndim != 2 or new.ndim != 2 or old.shape[1] != new.shape[1] or min(len(old), len(new)) < 2:
        raise InputError(f"the tables have shapes {old.shape} and {new.shape}; give two rows or more, of equal width")
    if not (np.isfinite(old).all() and np.isfinite(new).all()):
        raise InputError("a table has values that are not finite; fill or drop them first")
    return old, new
