"""One thread for libraries that would take more: so that the bits of a result do not follow the machine's cores."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """A block in which BLAS and OpenMP use one thread, also such of theirs as modules loaded before it."""
    limited: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries of this process; a search takes as long as many a task, and no library comes without modules."""
    return ThreadpoolController()
