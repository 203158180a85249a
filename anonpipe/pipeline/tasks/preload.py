"""Modules of all own workers, loaded once by the process that they are forked from; nothing imports this.

Besides the tasks: pandas, which pyarrow asks for at the first value of Python's, what numba knows of types, and what
measures need, which each worker would load by itself. The garbage collector leaves alone what is there before the fork:
it would write into memory that workers share.
"""

from __future__ import annotations

import gc

gc.disable()

import pandas  # noqa: E402, F401
import sklearn.ensemble  # noqa: E402, F401
from numba.core.registry import cpu_target  # noqa: E402

import anonpipe.pipeline.tasks.worker  # noqa: E402, F401

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
gc.collect()
gc.freeze()
gc.enable()
