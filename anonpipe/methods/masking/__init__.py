"""Mask whole tables: noise, shuffling, swapping, synthesis, suppression and generalisation.

`mask` runs a method of `MASKERS` on an array. A method is a tuple of steps that see one part of the rows, or one column
of all rows, at a time (`anonpipe.methods.steps`), so that the same steps mask tables that lie on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.points import LARGEST
from anonpipe.methods.executor import run_steps
from anonpipe.methods.masking import (
    _data_shuffle,
    _generalize,
    _local_synthesis,
    _noise,
    _rank_swap,
    _sequential_regression,
    _spectral,
)
from anonpipe.methods.masking._draws import DrawnSample
from anonpipe.methods.masking._generalize import Intervals, intervals
from anonpipe.methods.masking._local_synthesis import RecordsAndDraws
from anonpipe.methods.options import MaskOptions
from anonpipe.methods.record import Masker, by_name
from anonpipe.methods.steps import Columns, Reduce, Rows, Step
from anonpipe.moments import Moments
from anonpipe.types import FloatArray

__all__ = [
    "MASKERS", "RECORDS", "Columns", "DrawnSample", "Intervals", "MaskOptions", "RecordsAndDraws", "Reduce", "Rows",
    "Step", "intervals", "mask", "run_steps",
]  # fmt: skip

# All maskers by name; a new one is a line here
MASKERS: dict[str, Masker] = by_name(
    Masker, (_noise, _data_shuffle, _rank_swap, _spectral, _sequential_regression, _generalize, _local_synthesis)
)

# What steps count and learn: the records that lie on disk between two steps
RECORDS: tuple[type, ...] = (Moments, *(kind for masker in MASKERS.values() for kind in masker.learns))


def mask(
    features: FloatArray,
    method: str,
    *,
    rng: np.random.Generator,
    partitions: Sequence[int] | None = None,
    **options: Any,
) -> FloatArray:
    """Mask a table in memory by a method of `MASKERS`.

    Shapes: features (n_rows, width).
    """
    if method not in MASKERS:
        raise JobError(f"unknown masker {method!r}; known are: {', '.join(MASKERS)}")
    steps = MASKERS[method].steps(**options)
    table = _checked(features)
    parts = [len(table)] if partitions is None else list(partitions)
    if any(rows < 0 for rows in parts) or sum(parts) != len(table):
        raise InputError(f"partitions have {sum(parts)} rows, and there are {len(table)}; give all rows to parts")
    masked = run_steps(table, steps, key=rng.bytes(32), parts=parts)
    return np.ascontiguousarray(masked[:, : table.shape[1]]) if MASKERS[method].grouped else masked


def _checked(features: FloatArray) -> FloatArray:
    if features.ndim != 2 or features.shape[1] == 0:
        raise InputError(f"features of shape {features.shape} are no table; give rows and one column or more")
    table = np.ascontiguousarray(features, dtype=np.float64)
    if len(table) < 2:
        raise InputError(f"a table of {len(table)} records cannot be masked; give two or more")
    if not (table.min() >= -LARGEST and table.max() <= LARGEST):
        raise InputError("features hold NaN, infinity or numbers above 1e100 in size; encode nulls and scale first")
    return table
