"""Modules of all own workers, loaded once by the process that they are forked from; nothing imports this.

Besides the tasks these are what their first call would load: pandas, which
pyarrow asks for at the first value of Python's, and what numba knows of types.
What is there before the fork is never looked at by the garbage collector of a
worker, which would write into memory that they share; nor while it is loaded,
as nothing of it goes again.
"""

from __future__ import annotations

import gc

gc.disable()

import pandas  # noqa: E402, F401
from numba.core.registry import cpu_target  # noqa: E402

import anonpipe.pipeline.tasks.worker  # noqa: E402, F401

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
gc.collect()
gc.freeze()
gc.enable()
