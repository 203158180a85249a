"""Work for the engine's tests; in a module of its own, so that worker processes can import it."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from pathlib import Path

from threadpoolctl import threadpool_info

from anonpipe.engine import Task, TaskResult
from anonpipe.errors import InputError

CANARY = "canary-5d1c"


def count(task: Task) -> TaskResult:
    """Succeed."""
    return {"index": task.index, "rows": 1}


def unforeseen(task: Task) -> TaskResult:
    """Fail with a text that quotes a row, from a cause that quotes one too."""
    try:
        raise KeyError(CANARY)
    except KeyError as error:
        raise ValueError(f"bad row {CANARY}") from error


def refused(task: Task) -> TaskResult:
    """Fail as a stage does that finds bad input, and count how often it was tried."""
    with open(Path(task.staging) / "tries", "a") as tries:
        tries.write("x")
    raise InputError("column 'age' holds 3 infinite values; replace them")


def flaky(task: Task) -> TaskResult:
    """Fail at the first try only."""
    mark = Path(task.staging) / f"tried-{task.index}"
    if not mark.exists():
        mark.write_text("")
        raise OSError(CANARY)
    return {"index": task.index, "rows": 1}


def deadly(task: Task) -> TaskResult:
    """Kill the worker that runs piece 1; the other pieces are harmless."""
    if task.index == 1:
        os._exit(3)
    return {"index": task.index, "rows": 1}


def deadly_once(task: Task) -> TaskResult:
    """Kill the first worker that comes to piece 1."""
    mark = Path(task.staging) / "killed"
    if task.index == 1 and not mark.exists():
        mark.write_text("")
        os._exit(3)
    return {"index": task.index, "rows": 1}


LOADED_IN = os.getpid()


def parent(task: Task) -> TaskResult:
    """Tell what the worker is forked from, whether that had loaded this module, and how private its files are."""
    umask = os.umask(0o077)
    os.umask(umask)
    return {"index": task.index, "rows": 1, "parent": os.getppid(), "loaded": os.getppid() == LOADED_IN, "umask": umask}


def slow(task: Task) -> TaskResult:
    """Take a while."""
    time.sleep(0.3)
    return {"index": task.index, "rows": 1, "pid": os.getpid()}


def in_thread(task: Task) -> TaskResult:
    """Tell the thread, how private its files are, and how many threads OpenMP may start from it."""
    time.sleep(0.05)
    umask = os.umask(0o077)
    os.umask(umask)
    cores = max(library["num_threads"] for library in threadpool_info())
    name = threading.current_thread().name
    return {"index": task.index, "rows": 1, "stage": task.stage, "thread": name, "umask": umask, "cores": cores}


def crowded(task: Task) -> TaskResult:
    """Tell how private the worker is, and whether Ctrl-C is kept from it."""
    mask = os.umask(0o077)
    os.umask(mask)
    deaf = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with open("/proc/self/environ", "rb") as started:
        secret = b"ANONPIPE_SECRET" in started.read() or "ANONPIPE_SECRET" in os.environ
    limit = resource.getrlimit(resource.RLIMIT_CORE)[0]
    threads = os.environ.get("OMP_NUM_THREADS")
    return {"index": task.index, "rows": mask, "threads": threads, "deaf": deaf, "secret": secret, "core": limit}
