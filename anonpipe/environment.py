"""What decides about the bytes of a release in this process: versions of packages, and the threads of libraries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import ThreadpoolController

# Whose arithmetic, random numbers or files a release consists of
PACKAGES = ("anonpipe", "numpy", "scipy", "numba", "pyarrow", "scikit-learn")


@lru_cache(maxsize=1)
def package_versions() -> dict[str, str]:
    """Versions of Python (without its patch release) and of those packages.

    Examples
    --------
    >>> sorted(package_versions())
    ['anonpipe', 'numba', 'numpy', 'pyarrow', 'python', 'scikit-learn', 'scipy']
    """
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}"} | {name: _of(name) for name in PACKAGES}


def _of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Differences of versions as text; empty without any.

    Examples
    --------
    >>> differences({"numpy": "2.2.0", "numba": "0.61"}, {"numpy": "2.1.3", "numba": "0.61"})
    'numpy 2.1.3 (here 2.2.0)'
    """
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
