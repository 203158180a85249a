"""Ctrl-C, raised at safe points, and held where it would hide that a release is out.

Python raises a KeyboardInterrupt wherever the main thread happens to be. In a callback of the garbage collector (Dask
has one) or in a `__del__` it is printed and lost. So a run remembers the first Ctrl-C and raises it at its next safe
point; a second one is raised at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

_watch: _Interrupts | None = None  # signals and their handlers belong to the process


@dataclass
class _Interrupts:
    heard: int = 0
    held: bool = False


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise a first Ctrl-C at the next `safe_point` only, a second at once; inside another one it changes nothing.

    Nothing changes either outside the main thread, or where somebody else handles the signal or ignores it.
    """
    with _watching():
        yield


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Only remember Ctrl-C until the end of the block or of the surrounding `stoppable`."""
    if _watch is not None:
        _watch.held = True
    with _watching(held=True):
        yield


def asked_to_stop() -> bool:
    """Whether a Ctrl-C is pending."""
    return _watch is not None and _watch.heard > 0


def safe_point() -> None:
    """Raise a pending Ctrl-C, at a place where nothing is half done."""
    if _watch is not None and _watch.heard and not _watch.held:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _watching(held: bool = False) -> Iterator[None]:
    global _watch
    main = threading.current_thread() is threading.main_thread()
    if _watch is not None or not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    before, _watch = signal.signal(signal.SIGINT, _remember), _Interrupts(held=held)
    try:
        yield
    finally:
        _watch = None
        signal.signal(signal.SIGINT, before)


def _remember(_number: int, _frame: FrameType | None) -> None:
    if _watch is None:
        raise KeyboardInterrupt
    _watch.heard += 1
    if _watch.held:
        return
    if _watch.heard > 1:
        raise KeyboardInterrupt
    with contextlib.suppress(OSError):
        os.write(2, b"stopping; Ctrl-C again stops at once\n")  # a print could meet another one in its midst
