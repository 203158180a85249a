"""Mask whole tables: noise, shuffling, swapping, synthesis, suppression and generalisation.

`mask` runs a method of `MASKERS` on an array. A method is a tuple of steps that see one part of the rows, or one column
of all rows, at a time (`anonpipe.methods.steps`), so that the same steps mask tables that lie on disk.
"""

from anonpipe.methods.executor import run_steps
from anonpipe.methods.masking._draws import DrawnSample
from anonpipe.methods.masking._generalize import Intervals, intervals
from anonpipe.methods.masking._local_synthesis import RecordsAndDraws
from anonpipe.methods.masking._registry import MASKERS, RECORDS, mask
from anonpipe.methods.options import MaskOptions
from anonpipe.methods.steps import Columns, Reduce, Rows, Step

__all__ = [
    "MASKERS",
    "RECORDS",
    "Columns",
    "DrawnSample",
    "Intervals",
    "MaskOptions",
    "RecordsAndDraws",
    "Reduce",
    "Rows",
    "Step",
    "intervals",
    "mask",
    "run_steps",
]
