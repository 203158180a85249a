"""What decides about the bytes of a release in this process: versions and threads of libraries; loading of modules."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import ThreadpoolController

from anonpipe.errors import JobError

# Whose arithmetic, random numbers or files a release consists of
PACKAGES = ("anonpipe", "numpy", "scipy", "numba", "pyarrow", "scikit-learn")


@lru_cache(maxsize=1)
def package_versions() -> dict[str, str]:
    """Versions of Python (without its patch release) and of those packages."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"} | dict.fromkeys(PACKAGES, "none")
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Differences of versions as text; empty without any."""
    return ", ".join(
        f"{name} {theirs.get(name, 'none')} (here {here})" for name, here in ours.items() if theirs.get(name) != here
    )


# --- Threads


def one_thread() -> AbstractContextManager[object]:
    """A block in which BLAS and OpenMP use one thread, also such of theirs as modules loaded before it."""
    limited: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries of this process; a search takes as long as many a task, and no library comes without modules."""
    return ThreadpoolController()


# --- Loading


@contextmanager
def loaded_beside(*names: str) -> Iterator[None]:
    """A block beside which a thread loads these modules, one after the other; at its end no more are begun."""
    thread = ThreadPoolExecutor(1)
    try:
        for name in names:
            thread.submit(import_module, name)  # an error stays there: who needs the module says what is wrong with it
        yield
    finally:
        thread.shutdown(cancel_futures=True)  # waits: Python may crash if it ends while a thread loads compiled code


# --- Limits of memory

# Bytes that one process of a run reserves on top of its data: for libraries and compiled code (measured: 2,535 MiB on
# two cores), and for the threads of each core (128 MiB, an estimate: the stack and two heaps of the allocator). Most of
# it is never used. Where it is refused, LLVM ends the process by SIGABRT instead of an error.
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ADDRESS_SPACE = (3 << 30) + (128 << 20) * _CORES

_LIMITED = (
    "this process may reserve {given:,} MiB of memory ({option}), and anonpipe needs {needed:,} MiB on top of the "
    "data, most of which it never uses; set {option} unlimited, and limit memory by run.memory_per_worker, a container "
    "or a control group (systemd: MemoryMax)"
)


def check_address_space() -> None:
    """Refuse limits of memory under which libraries would end the process without an error."""
    written = ADDRESS_SPACE * 2 // 3  # Without what is mapped from files (measured: 1,491 MiB)
    limits = (resource.RLIMIT_AS, "ulimit -v", ADDRESS_SPACE), (resource.RLIMIT_DATA, "ulimit -d", written)
    for limit, option, least in limits:
        soft, _ = resource.getrlimit(limit)
        if soft != resource.RLIM_INFINITY and soft < least:
            raise JobError(_LIMITED.format(given=soft >> 20, needed=least >> 20, option=option))
