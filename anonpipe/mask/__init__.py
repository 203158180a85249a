"""Mask whole tables: noise, shuffling, swapping, synthesis, suppression and generalisation.

`mask` runs a method of `MASKERS` on an array. A method is a tuple of steps
that see one part of the rows, or one column of all rows, at a time
(`anonpipe.mask._steps`), so that the same steps mask tables that lie on disk.
"""

from anonpipe.mask._driver import counted, placed_at, run_steps
from anonpipe.mask._expected import Expected, expect_together
from anonpipe.mask._generalize import Intervals, intervals
from anonpipe.mask._local_synthesis import RecordsAndDraws
from anonpipe.mask._records import RECORDS
from anonpipe.mask._registry import MASKERS, Masker, mask
from anonpipe.mask._steps import Columns, Reduce, Rows, Step

__all__ = [
    "MASKERS",
    "RECORDS",
    "Columns",
    "Expected",
    "Intervals",
    "Masker",
    "RecordsAndDraws",
    "Reduce",
    "Rows",
    "Step",
    "counted",
    "expect_together",
    "intervals",
    "mask",
    "placed_at",
    "run_steps",
]
