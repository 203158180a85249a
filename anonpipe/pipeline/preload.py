"""What all own workers need, loaded once by the process that they are forked from; nothing imports it.

Beside the tasks these are what their first call would load: pandas, which
pyarrow asks for at the first value of Python's, and what numba knows of types.
What is there before the fork is never looked at by the garbage collector of a
worker, which would write into memory that they share.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401
from numba.core.registry import cpu_target

import anonpipe.pipeline.tasks  # noqa: F401

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
gc.collect()
gc.freeze()
