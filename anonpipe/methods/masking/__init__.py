"""Mask whole tables: noise, shuffling, swapping, synthesis, suppression and generalisation.

A method of `MASKERS` is a tuple of steps that see one part of the rows, or one column of all rows, at a time
(`anonpipe.methods.executor`), so that they mask tables that lie on disk.
"""

from __future__ import annotations

from anonpipe.methods.executor import Columns, Reduce, Rows, Step
from anonpipe.methods.masking import (
    _data_shuffle,
    _generalize,
    _local_synthesis,
    _noise,
    _pram,
    _sequential_regression,
    _spectral,
)
from anonpipe.methods.masking._draws import DrawnSample
from anonpipe.methods.masking._generalize import Intervals, intervals
from anonpipe.methods.masking._local_synthesis import RecordsAndDraws
from anonpipe.methods.masking._pram import Transitions
from anonpipe.methods.options import MaskOptions
from anonpipe.methods.record import Masker, by_name
from anonpipe.moments import Moments

__all__ = [
    "MASKERS", "RECORDS", "Columns", "DrawnSample", "Intervals", "MaskOptions", "RecordsAndDraws", "Reduce", "Rows",
    "Step", "Transitions", "intervals",
]  # fmt: skip

# All maskers by name; a new one is a line here
MASKERS: dict[str, Masker] = by_name(
    Masker, (_noise, _pram, _data_shuffle, _spectral, _sequential_regression, _generalize, _local_synthesis)
)

# What steps count and learn: the records that lie on disk between two steps
RECORDS: tuple[type, ...] = (Moments, *(kind for masker in MASKERS.values() for kind in masker.learns))
