"""Map a stage over partitions: in this process, on an own local cluster, or on a given one.

The only module that knows Dask. A task is an importable function of one small
`Task`; it writes whole files and a receipt, so that it can run twice, and its
return value is only the news for the progress display. Exceptions leave a
worker without any text of a library, because such texts quote rows and Dask
and Prefect store them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NoReturn

import psutil

from anonpipe.errors import AnonpipeError, EngineError, InputError, JobError, OutputError
from anonpipe.store import disk_error, make_private

Receipt = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What one task is told: where the run's staging is, which stage, which partition.

    `token` is fresh for every started run, so that a long-lived worker does
    not reuse what it remembers of an earlier run in the same folder.
    """

    staging: str
    token: str
    stage: str
    index: int


@dataclass(frozen=True)
class Failure:
    """A data-free account of what went wrong in a task, safe to store and print."""

    message: str
    kind: str

    def raise_it(self) -> NoReturn:
        """Raise the error that the account describes."""
        import anonpipe.errors

        raise getattr(anonpipe.errors, self.kind)(self.message)


Work = Callable[[Task], Receipt]
OnDone = Callable[[Receipt], None]
Mapper = Callable[[Work, Sequence[Task], OnDone], None]
_FINAL = (InputError, JobError, OutputError)  # trying again cannot help


def describe(error: BaseException, task: Task) -> Failure:
    """The account of what went wrong in a task."""
    return account(error, f"stage {task.stage}, partition {task.index}")


def account(error: BaseException, what: str) -> Failure:
    """Keep our own messages (they hold no data), explain a full disk, and of any other error tell type and place."""
    if isinstance(error, OSError):
        error = disk_error(error, f"running {what}")
    if isinstance(error, AnonpipeError):
        return Failure(str(error), type(error).__name__)
    frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
    place = " < ".join(reversed(frames[-3:]))
    return Failure(f"{what}: {type(error).__name__} at {place}", "EngineError")


class _Guarded:
    """A worker function whose failures carry no text of the data; picklable."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, task: Task) -> Receipt | Failure:
        try:
            return self.work(task)
        except _FINAL as error:
            return describe(error, task)
        except Exception as error:
            failure = describe(error, task)
        raise EngineError(failure.message)


@contextlib.contextmanager
def in_process() -> Iterator[Mapper]:
    """A mapper that runs the tasks one after the other, here."""
    from threadpoolctl import threadpool_limits

    def run(work: Work, tasks: Sequence[Task], on_done: OnDone) -> None:
        for task in tasks:
            outcome = _Guarded(work)(task)
            if isinstance(outcome, Failure):
                outcome.raise_it()
            else:
                on_done(outcome)

    with threadpool_limits(1):
        yield run


def default_workers() -> int:
    """One worker a core, as far as this process may use the cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def local_cluster(workers: int | None, memory: str | None, scratch: Path, retries: int = 2) -> Iterator[Mapper]:
    """A mapper on an own Dask cluster: processes of one thread, TLS, no spilling, private folder."""
    import dask
    from distributed import Client, LocalCluster

    count = workers or default_workers()
    make_private(scratch)
    with dask.config.set(_DASK_SETTINGS), _private_umask(), _quiet_logs(), contextlib.ExitStack() as opened:
        with _interrupts_held():
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                memory_limit=memory or int(psutil.virtual_memory().total * 0.9 / count),
                local_directory=str(scratch),
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                security=True,
            )
            opened.enter_context(cluster)  # before a held interrupt comes through
        yield _dask_mapper(opened.enter_context(Client(cluster)), retries)


@contextlib.contextmanager
def remote_cluster(address: str, retries: int = 2) -> Iterator[Mapper]:
    """A mapper on the cluster at `address` (its TLS files come from Dask's configuration)."""
    import dask
    from distributed import Client

    failed = False
    with dask.config.set(_CLIENT_SETTINGS), _quiet_logs():
        try:
            client = Client(address, timeout="15s")
        except Exception:  # of many types, from a bad address to a refused certificate
            failed = True
        if failed:
            raise EngineError(
                f"no Dask scheduler answers at {address}; check the address, TLS settings and the network"
            )
        with client:
            yield _dask_mapper(client, retries)


_CLIENT_SETTINGS: dict[str, Any] = {"logging": {"distributed": "critical"}}

# Spilling would write raw rows to disk; spilling off with pausing on hangs for ever.
_DASK_SETTINGS: dict[str, Any] = {
    **_CLIENT_SETTINGS,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.allowed-failures": 2,
    "distributed.comm.require-encryption": True,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.nanny.environ.NUMBA_NUM_THREADS": "1",
    "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical",
    "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": "1",
    "distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": "1",
    "distributed.nanny.pre-spawn-environ.MKL_NUM_THREADS": "1",
    "distributed.nanny.pre-spawn-environ.ARROW_DEFAULT_MEMORY_POOL": "system",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": "65536",
}


def _dask_mapper(client: Any, retries: int) -> Mapper:
    from distributed import KilledWorker, as_completed
    from distributed.client import FutureCancelledError

    def run(work: Work, tasks: Sequence[Task], on_done: OnDone) -> None:
        if not tasks:
            return
        futures = client.map(_Guarded(work), tasks, key=[_opaque(task) for task in tasks], retries=retries, pure=False)
        known = dict(zip([future.key for future in futures], tasks, strict=True))
        failure: Failure | None = None
        for future in as_completed(futures):
            task = known[future.key]
            try:
                outcome = future.result()
            except (KilledWorker, FutureCancelledError):
                outcome = Failure(_KILLED.format(task=task), "EngineError")
            except Exception as error:
                outcome = describe(error, task)
            if isinstance(outcome, Failure):
                failure = outcome
                break
            future.release()  # a finished task whose worker dies later must not run again
            on_done(outcome)
        if failure is not None:
            client.cancel(futures)
            failure.raise_it()

    return run


_KILLED = (
    "stage {task.stage}, partition {task.index}: its worker died three times, most likely out of memory; "
    "lower partition.rows or give run.memory_per_worker more, then run again with --resume"
)


def _opaque(task: Task) -> str:
    """Keys are shown in logs and dashboards: a stage, a number, and nothing of the paths."""
    digest = hashlib.sha256(f"{task.staging}|{task.token}".encode()).hexdigest()[:12]
    return f"{task.stage}-{digest}-{task.index}"


@contextlib.contextmanager
def _private_umask() -> Iterator[None]:
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Dask prints exception texts and arguments; nothing of it is for a terminal."""
    import logging

    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep a Ctrl-C until the end; threads and processes that are started meanwhile never hear one.

    It is for the driver, which stops the workers: so the signal is blocked,
    which they inherit, also those started by such a thread later on. Threads
    that were there before can still be handed it, and would have it raised in
    the midst of the block: so the handler only remembers it.
    """
    resource_tracker.ensure_running()  # started inside, it would unblock the signal
    main = threading.current_thread() is threading.main_thread()
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number)) if main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # what is pending comes now
        if main:
            signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)
