"""Map a stage over partitions: in this process, on an own local cluster, or on a given one.

The only module that knows Dask. A task is an importable function of one small `Task`; it writes whole files and a task
result, so that it can run twice, and its return value is only the news for the progress display. Exceptions leave a
worker without any text of a library, because such texts quote rows and Dask and Prefect store them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, NoReturn

import psutil

from anonpipe import errors, interrupts
from anonpipe.environment import differences, one_thread, package_versions
from anonpipe.errors import AnonpipeError, DamagedError, EngineError, InputError, JobError, OutputError
from anonpipe.files import FULL, disk_error, make_private, private_umask, system_code
from anonpipe.rng import secret_withheld

TaskResult = dict[str, Any]

MINIMUM_MEMORY = 400 << 20  # Bytes of a worker with all imports and no data: measured 311 MiB, it may use 95 %
_FINAL = (InputError, JobError, OutputError, DamagedError)  # trying again cannot help

# Dask sets it once it has chosen the modules that the server loads, which would not be ours
_LOADS_ITS_OWN = "_forkserver_preload_set"
_CLIENT_SETTINGS: dict[str, Any] = {"logging": {"distributed": "critical"}}
# With Dask's threshold of 64 KiB each freed array goes back to the system at once, and so does the heap of each thread:
# three of four page faults, half of the system time. The features of a partition are larger than glibc's largest
# threshold, 32 MiB: no array is mapped by itself, which saves a third of what is left and takes no more memory.
_WORKER_ENVIRONMENT = {
    "DASK_LOGGING__DISTRIBUTED": "critical",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}

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
    "distributed.worker.profile.enabled": False,
    # What Dask measures of itself for dashboards, 250 times a second, costs 6 % of a core; nobody looks at it here
    "distributed.admin.tick.interval": "2s",
    "distributed.admin.tick.cycle": "10s",
    "distributed.admin.tick.limit": "60s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.worker.memory.monitor-interval": "250ms",
    "distributed.nanny.pre-spawn-environ": _WORKER_ENVIRONMENT,
}
_POLL = 0.2
_GO_ON = "see to the workers (memory, machine, network, packages), then go on with --resume"
_NOT_STARTED = (
    "the {count} own workers could not be started ({error}); give run.workers fewer or run.memory_per_worker more, "
    "then run again with --resume"
)
_OTHER_VERSIONS = (
    "other versions on {workers} than in this process would give other bytes: {other}; install the same ones "
    "everywhere (pip install -c deploy/constraints.txt), then go on with --resume"
)
_LACKING = (
    "anonpipe as it is here cannot be loaded on {workers}; install it and its packages there as here "
    "(pip install -c deploy/constraints.txt), then go on with --resume"
)
_LOST = "the Dask scheduler has lost the tasks of this run; see to it, then go on with --resume"
_KILLED = (
    "{task.place}: its worker died three times, most likely out of memory (or, on a "
    "cluster of yours, without the packages of this process); lower partition.rows or give run.memory_per_worker more, "
    "then run again with --resume"
)


@dataclass(frozen=True)
class Task:
    """One task. Its `token` is of one run: a long-lived worker remembers nothing of another in the same folder."""

    staging: str
    token: str
    stage: str
    index: int
    copy: int = 0  # Of the release, from 1; 0 for what copies share

    @property
    def place(self) -> str:
        """For messages."""
        return f"stage {self.stage}, partition {self.index}" + (f", copy {self.copy}" if self.copy else "")


@dataclass(frozen=True)
class Failure:
    """A data-free description of an error, safe to store and print."""

    message: str
    kind: str

    def raise_it(self) -> NoReturn:
        """Raise the error that the account describes."""
        raise getattr(errors, self.kind)(self.message)


@dataclass(frozen=True)
class Timeouts:
    """Seconds until a run gives up on a cluster."""

    start: float = 60.0  # Until an own worker must have started
    silence: float = 60.0  # Without a heartbeat of any worker, or of the scheduler
    look: float = 2.0  # Between two checks of the workers


_TIMEOUTS = Timeouts()

Work = Callable[[Task], TaskResult]
OnDone = Callable[[TaskResult], None]
Executor = Callable[[Work, Sequence[Task], OnDone], None]


def account(error: BaseException, what: str) -> Failure:
    """Describe an error without data: own messages, errors of the disk, else type and place."""
    if isinstance(error, AnonpipeError):
        return Failure(str(error), type(error).__name__)
    if isinstance(error, OSError) or system_code(error) in FULL:
        explained = disk_error(error, f"running {what}")
        return Failure(str(explained), type(explained).__name__)
    frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
    place = " < ".join(reversed(frames[-3:]))
    return Failure(f"{what}: {type(error).__name__} at {place}", "EngineError")


def no_core_dumps() -> None:
    """Forbid core dumps, as memory holds rows; by 1 byte, which Linux heeds where they are piped (core(5))."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if soft not in (0, 1) or hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))


class _Guarded:
    """A picklable worker function whose failures carry no data; in a process of other versions it does nothing."""

    def __init__(self, work: Work, versions: dict[str, str] | None = None) -> None:
        self.work, self.versions = work, versions

    def __call__(self, task: Task) -> TaskResult | Failure:
        no_core_dumps()
        if self.versions is not None and (other := differences(self.versions, package_versions())):
            return Failure(_OTHER_VERSIONS.format(workers="a worker", other=other), "EngineError")
        try:
            return self.work(task)
        except _FINAL as error:
            return account(error, task.place)
        except Exception as error:
            failure = account(error, task.place)
        raise EngineError(failure.message)


@contextlib.contextmanager
def in_process(threads: int = 1, retries: int = 0, alone: Collection[str] = ()) -> Iterator[Executor]:
    """An executor that runs the tasks here, by several threads except in the stages `alone`."""

    def run(work: Work, tasks: Sequence[Task], on_done: OnDone) -> None:
        several = threads > 1 and len(tasks) > 1 and tasks[0].stage not in alone
        tried = partial(_tried, _Guarded(work), retries)
        for outcome in _by_threads(tried, tasks, threads) if several else map(tried, _until_stopped(tasks)):
            if isinstance(outcome, Failure):
                outcome.raise_it()
            on_done(outcome)

    with one_thread(), private_umask():  # tasks set the mask too, and threads share it
        yield run


def _tried(work: _Guarded, retries: int, task: Task) -> TaskResult | Failure:
    for _ in range(retries):
        with contextlib.suppress(EngineError):
            return work(task)
    return work(task)


def _until_stopped(tasks: Sequence[Task]) -> Iterator[Task]:
    for task in tasks:
        interrupts.safe_point()
        yield task


def _by_threads(
    work: Callable[[Task], TaskResult | Failure], tasks: Sequence[Task], threads: int
) -> Iterator[TaskResult | Failure]:
    """The outcomes in the order in which they come; after an error or Ctrl-C only what runs is finished."""
    pool = ThreadPoolExecutor(threads, initializer=one_thread)  # OpenMP counts the threads of each thread that calls it
    try:
        waiting = {pool.submit(work, task) for task in tasks}
        while waiting:
            interrupts.safe_point()
            done, waiting = wait(waiting, timeout=_POLL, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        pool.shutdown(cancel_futures=True)


def default_workers() -> int:
    """One worker a core, as far as this process may use the cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def allow_files(needed: int) -> None:
    """Raise the limit on open files; short of them, Dask hangs or prints arguments."""
    timeouts = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (sys.maxsize if limit == resource.RLIM_INFINITY else limit for limit in timeouts)
    if soft >= needed:
        return
    if hard < needed:
        raise JobError(
            f"this account may open {hard} files at once, and the local cluster needs {needed}; raise the limit "
            f"(ulimit -n {needed}), or lower run.workers"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, timeouts[1]))


@contextlib.contextmanager
def local_cluster(
    workers: int | None,
    memory: str | None,
    scratch: Path,
    retries: int = 2,
    timeouts: Timeouts = _TIMEOUTS,
    preload: Sequence[str] = (),
) -> Iterator[Executor]:
    """An executor on an own Dask cluster: processes of one thread, TLS, no spilling, a private folder, no secret.

    `preload` are modules with the work, which are then loaded once for all workers.
    """
    import dask
    import distributed  # noqa: F401 - imported below a changed configuration, it would lose its defaults with that

    count = workers or default_workers()
    limit = _enough(memory) if memory else int(psutil.virtual_memory().total * 0.9 / count)
    allow_files(40 + 12 * count)
    make_private(scratch)
    no_core_dumps()
    settings = {
        **_DASK_SETTINGS,
        "distributed.scheduler.worker-ttl": f"{timeouts.silence * 2 / 3}s",
        "temporary-directory": str(scratch),  # the scheduler has a folder too
    }
    with contextlib.ExitStack() as opened:
        for settled in (dask.config.set(settings), private_umask(), _quiet_logs(), secret_withheld()):
            opened.enter_context(settled)
        client = _start_cluster(opened, count, limit, scratch, timeouts, preload)
        if isinstance(client, str):
            raise EngineError(_NOT_STARTED.format(count=count, error=client))
        yield _dask_executor(client, retries, timeouts)


def _start_cluster(
    opened: contextlib.ExitStack, count: int, memory: int, scratch: Path, timeouts: Timeouts, preload: Sequence[str]
) -> Any:
    """A client of a new cluster; the name of an error where it does not start."""
    import dask
    from distributed import Client, LocalCluster

    try:
        with _interrupts_held():
            method = "forkserver" if opened.enter_context(_fork_server(preload)) else "spawn"
            opened.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": method}))
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                memory_limit=memory,
                local_directory=str(scratch),
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                security=True,
                death_timeout=timeouts.start,
            )
            opened.enter_context(cluster)  # before a held interrupt comes through
        return opened.enter_context(Client(cluster, timeout=timeouts.start))
    except Exception as error:  # of many types; their texts hold addresses and paths
        return type(error).__name__


@contextlib.contextmanager
def _fork_server(preload: Sequence[str]) -> Iterator[bool]:
    """Whether a process runs that has loaded the modules, and of which workers are forked; it ends with the block."""
    # A spawned worker loads them by itself: 2 s of computing and 150 MiB each. There is none elsewhere than on Linux,
    # or where the path of its socket is too long. A server that this program already has knows another environment.
    import distributed.utils

    server: Any = forkserver._forkserver  # there is no public way to end it
    if not preload or sys.platform != "linux" or server._forkserver_pid is not None:
        yield False
        return
    usual = server._preload_modules, getattr(distributed.utils, _LOADS_ITS_OWN, None)
    try:
        setattr(distributed.utils, _LOADS_ITS_OWN, True)
        forkserver.set_forkserver_preload(["distributed.nanny", "distributed.worker", *preload])
        with contextlib.suppress(OSError), _environment(_WORKER_ENVIRONMENT):
            forkserver.ensure_running()
        yield server._forkserver_pid is not None
    finally:
        server._preload_modules = usual[0]
        setattr(distributed.utils, _LOADS_ITS_OWN, usual[1])
        if server._forkserver_pid is not None:
            os.kill(server._forkserver_pid, signal.SIGKILL)  # it would wait for a worker that hangs
            server._stop()


@contextlib.contextmanager
def _environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """For processes that are started inside: variables with these values, unless they are set."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _enough(memory: str) -> int:
    """The bytes of a worker, in Dask's notation."""
    from dask.utils import parse_bytes

    if (n_bytes := int(parse_bytes(memory))) >= MINIMUM_MEMORY:
        return n_bytes
    raise JobError(
        f"run.memory_per_worker is {memory}: a worker needs {MINIMUM_MEMORY >> 20} MiB before it has read a row; "
        "give it some GiB, or leave the key out"
    )


@contextlib.contextmanager
def remote_cluster(address: str, retries: int = 2, timeouts: Timeouts = _TIMEOUTS) -> Iterator[Executor]:
    """An executor on a cluster, by Dask's TLS files; a queue of workers may need Dask's `anonpipe.worker-wait` (s)."""
    import dask
    from distributed import Client

    with dask.config.set(_CLIENT_SETTINGS), _quiet_logs():
        try:
            client = Client(address, timeout="15s")
        except Exception:  # of many types, from a bad address to a refused certificate
            raise EngineError(
                f"no Dask scheduler answers at {address}; check the address, TLS settings and the network"
            ) from None
        wait = float(dask.config.get("anonpipe.worker-wait", timeouts.silence))
        with client:
            if (problem := _unequal(client, timeouts)) is not None:
                raise EngineError(problem)
            yield _dask_executor(client, retries, replace(timeouts, silence=wait), package_versions())


def _unequal(client: Any, timeouts: Timeouts) -> str | None:
    """A problem with the installed versions of the present workers; later ones are checked with their first task."""
    try:
        answers = client.sync(client._run, package_versions, on_error="return", callback_timeout=timeouts.silence)
    except Exception:  # of many types
        return f"the workers did not report their versions within {timeouts.silence:.0f} s; {_GO_ON}"
    if lacking := sum(isinstance(installed, BaseException) for installed in answers.values()):
        return _LACKING.format(workers=_counted(lacking, len(answers)))
    others = [other for installed in answers.values() if (other := differences(package_versions(), installed))]
    workers = _counted(len(others), len(answers))
    return _OTHER_VERSIONS.format(workers=workers, other=min(others)) if others else None


def _counted(some: int, of: int) -> str:
    return f"{some} of {of} worker{'s' * (of != 1)}"


def _dask_executor(client: Any, retries: int, timeouts: Timeouts, versions: dict[str, str] | None = None) -> Executor:
    def run(work: Work, tasks: Sequence[Task], on_done: OnDone) -> None:
        if not tasks:
            return
        interrupts.safe_point()
        guarded = _Guarded(work, versions)
        digest = hashlib.sha256(f"{tasks[0].staging}|{tasks[0].token}".encode()).hexdigest()[:12]
        keys = [f"{task.stage}-{digest}-{task.copy}-{task.index}" for task in tasks]  # for logs, without paths
        futures = client.map(guarded, tasks, key=keys, retries=retries, pure=False)
        try:
            failure = _collect(client, dict(zip(futures, tasks, strict=True)), on_done, timeouts)
        except BaseException:
            _cancel(client, futures)
            raise
        if failure is not None:
            _cancel(client, futures)
            failure.raise_it()

    return run


def _collect(client: Any, tasks: dict[Any, Task], on_done: OnDone, timeouts: Timeouts) -> Failure | None:
    """Wait for all futures as they finish, never long, so that Ctrl-C is heard; the first failure ends it."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future in tasks:
        future.add_done_callback(finished.put)
    watch, left = _Heartbeats(client, timeouts), len(tasks)
    while left:
        interrupts.safe_point()
        if (problem := watch.look()) is not None:
            return Failure(problem, "EngineError")
        try:
            future = finished.get(timeout=_POLL)
        except queue.Empty:
            continue
        task = tasks[future]
        try:
            outcome = future.result(timeout=timeouts.look)
        except TimeoutError:  # who has the result is silent, or has died: then the task runs again
            future.add_done_callback(finished.put)
            continue
        except KilledWorker:
            return Failure(_KILLED.format(task=task), "EngineError")
        except FutureCancelledError:
            return Failure(_LOST, "EngineError")
        except Exception as error:
            return account(error, task.place)
        if isinstance(outcome, Failure):
            return outcome
        left -= 1
        future.release()  # a finished task whose worker dies later must not run again
        on_done(outcome)
    return None


def _cancel(client: Any, futures: Sequence[Any]) -> None:
    """Cancel what has not run, unless the scheduler does not answer."""
    if client.status == "running":
        with contextlib.suppress(Exception):
            client.cancel(futures)


class _Heartbeats:
    """Notices when no worker's heartbeat reaches the scheduler any more; it compares no clocks."""

    def __init__(self, client: Any, timeouts: Timeouts) -> None:
        self.client, self.timeouts = client, timeouts
        self.beats: dict[str, float] = {}
        self.looked = self.alive = time.monotonic()

    def look(self) -> str | None:
        """The problem once heartbeats have stopped for too long; asks the scheduler now and then."""
        now = time.monotonic()
        if now - self.looked < self.timeouts.look:
            return None
        beats = self._ask()
        self.looked = time.monotonic()
        if beats is not None and any(self.beats.get(worker) != beat for worker, beat in beats.items()):
            self.alive = self.looked
        self.beats = self.beats if beats is None else beats
        if self.looked - self.alive < self.timeouts.silence:
            return None
        if beats is None:
            return f"the Dask scheduler has not answered for {self.timeouts.silence:.0f} s; {_GO_ON}"
        silent = f"all {len(beats)} workers are silent" if beats else "no worker is left"
        return f"{silent}, for {self.timeouts.silence:.0f} s now; {_GO_ON}"

    def _ask(self) -> dict[str, float] | None:
        """Last heartbeat of each worker, by the scheduler's clock; None without an answer."""
        try:
            identity = self.client.sync(
                self.client.scheduler.identity, n_workers=-1, callback_timeout=self.timeouts.look
            )
        except Exception:  # no answer in time, or no connection
            return None
        return {address: worker["last_seen"] for address, worker in identity["workers"].items()}


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
    """Hold Ctrl-C until the end; threads and processes started in the block never receive it."""
    # It is for the driver, which stops the workers: the signal is blocked, which they inherit. Threads that were there
    # before can still be handed it, so that the handler only remembers it.
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
