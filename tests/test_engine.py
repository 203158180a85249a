from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from importlib.metadata import version
from multiprocessing import forkserver
from pathlib import Path

import dask
import psutil
import pytest
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from anonpipe import engine, interrupts
from anonpipe.errors import AnonpipeError, EngineError, InputError, JobError
from anonpipe.job.model import load_job
from anonpipe.pipeline import run as pipeline
from tests import engine_tasks, runs


def tasks(folder: Path, count: int, stage: str = "stage") -> list[engine.Task]:
    """Pieces of a stage."""
    return [engine.Task(str(folder), "token", stage, at) for at in range(count)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """An own cluster of two workers; yields its executor and its folder."""
    scratch = tmp_path_factory.mktemp("engine") / "dask"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANONPIPE_SECRET", "5e1b07c93ad264f8" * 4)
        with engine.local_cluster(2, "1GiB", scratch, retries=1) as executor:
            yield executor, scratch


@pytest.fixture(params=["in process", "threads", "cluster"])
def executor(request, cluster):
    """All kinds of executor."""
    if request.param == "cluster":
        yield cluster[0]
    else:
        with engine.in_process(2 if request.param == "threads" else 1, retries=1) as here:
            yield here


def test_every_piece_is_done_once_and_told(executor, tmp_path):
    told: list[int] = []
    executor(engine_tasks.count, tasks(tmp_path, 7), lambda result: told.append(result["index"]))
    assert sorted(told) == list(range(7))
    executor(engine_tasks.count, [], told.append)


def test_unforeseen_errors_lose_their_text_and_keep_their_place(executor, tmp_path, capfd):
    with pytest.raises(EngineError) as caught:
        executor(engine_tasks.unforeseen, tasks(tmp_path, 3, "group"), lambda _: None)
    whole = "".join(traceback.format_exception(caught.value)) + "".join(capfd.readouterr())
    assert engine_tasks.CANARY not in whole
    assert "stage group" in str(caught.value) and "ValueError at engine_tasks.py" in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_refusals_reach_the_user_and_are_not_retried(executor, tmp_path):
    with pytest.raises(InputError, match="3 infinite values"):
        executor(engine_tasks.refused, tasks(tmp_path, 1), lambda _: None)
    assert (tmp_path / "tries").read_text() == "x"


def test_a_passing_fault_is_retried(executor, tmp_path):
    told: list[int] = []
    executor(engine_tasks.flaky, tasks(tmp_path, 4), lambda result: told.append(result["index"]))
    assert sorted(told) == list(range(4))


def test_threads_take_turns_and_leave_some_stages_alone(tmp_path):
    told: list[engine.TaskResult] = []
    with threadpool_limits(2), engine.in_process(2, alone=["alone"]) as executor:
        for stage in ("beside", "alone"):
            executor(engine_tasks.in_thread, tasks(tmp_path, 4, stage), told.append)
    beside, alone = ([one["thread"] == "MainThread" for one in told if one["stage"] == s] for s in ("beside", "alone"))
    assert beside == [False] * 4 and alone == [True] * 4
    assert {one["umask"] for one in told} == {0o077} and {one["cores"] for one in told} == {1}


def test_threads_stop_at_ctrl_c_and_finish_what_runs(tmp_path):
    was = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.stoppable(), engine.in_process(2) as executor:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            executor(engine_tasks.slow, tasks(tmp_path, 40), lambda _: None)
    finally:
        signal.signal(signal.SIGINT, was)
    assert time.monotonic() - begun < 5, "20 rounds of 0.3 s would take 6 s"


def test_a_piece_that_kills_its_workers_is_one_clear_error(cluster, tmp_path):
    with pytest.raises(EngineError, match=r"partition 1: its worker died .* --resume"):
        cluster[0](engine_tasks.deadly, tasks(tmp_path, 2), lambda _: None)
    told: list[int] = []
    cluster[0](engine_tasks.count, tasks(tmp_path, 3, "after"), lambda result: told.append(result["index"]))
    assert sorted(told) == [0, 1, 2]  # the cluster is still of use


def test_workers_are_private(cluster, tmp_path):
    told: list[engine.TaskResult] = []
    cluster[0](engine_tasks.crowded, tasks(tmp_path, 2), told.append)
    assert {(result["rows"], result["threads"], result["deaf"]) for result in told} == {(0o077, "1", True)}
    assert not any(result["secret"] for result in told), "a worker has the steward's secret in its environment"
    assert {result["core"] for result in told} <= {0, 1}
    folders = [cluster[1], *(path for path in cluster[1].rglob("*"))]
    assert all(path.stat().st_mode & 0o077 == 0 for path in folders if path.exists())


class StandIn:
    """A cluster that is interrupted while it starts."""

    def __init__(self, interrupt, closed):
        self.interrupt, self.closed = interrupt, closed

    def __call__(self, **_):
        self.interrupt()
        self.whole = True
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed.append(self.whole)


@pytest.mark.parametrize("way", ["to the process", "to another thread"])
def test_interrupt_during_start_is_kept_and_closes_cluster(way, tmp_path, monkeypatch):
    was = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    before, closed, ready, over = signal.getsignal(signal.SIGINT), [], threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: (ready.set(), over.wait(10)))
    other.start()
    ready.wait(10)

    def interrupt():
        if way == "to the process":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            signal.pthread_kill(other.ident, signal.SIGINT)
        time.sleep(0.05)

    monkeypatch.setattr("distributed.LocalCluster", StandIn(interrupt, closed))
    try:
        with pytest.raises(KeyboardInterrupt), engine.local_cluster(1, "1GiB", tmp_path / "dask"):
            raise AssertionError("the run went on")
    finally:
        over.set()
        other.join()
    assert closed == [True]
    assert signal.signal(signal.SIGINT, was) is before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_interrupt_is_heard_between_pieces_and_cluster_usable(cluster, tmp_path):
    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    told: list[int] = []
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.stoppable():
            cluster[0](engine_tasks.slow, tasks(tmp_path, 200), lambda result: told.append(result["index"]))
    finally:
        signal.signal(signal.SIGINT, was)
    assert len(told) < 200 and time.monotonic() - began < 20
    cluster[0](engine_tasks.count, tasks(tmp_path, 3, "after"), lambda result: told.append(result["index"]))
    assert told[-3:] != [] and sorted(told[-3:]) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_in_a_garbage_collection_is_not_lost(tmp_path):
    """Python prints and forgets what is raised in there; Dask has such a callback."""
    was, told = signal.signal(signal.SIGINT, signal.default_int_handler), []

    def interrupted(phase, _):
        if phase == "start":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    def collects(task):
        gc.callbacks.append(interrupted)
        gc.collect()
        gc.callbacks.remove(interrupted)
        return {"index": task.index, "rows": 1}

    try:
        with pytest.raises(KeyboardInterrupt), interrupts.stoppable(), engine.in_process() as executor:
            executor(collects, tasks(tmp_path, 2), lambda result: told.append(result["index"]))
    finally:
        signal.signal(signal.SIGINT, was)
    assert told == [0]


def test_no_worker_is_one_clear_error_after_the_limit(tmp_path):
    settings = {"distributed.comm.require-encryption": None, "anonpipe.worker-wait": 0.5}
    timeouts = engine.Timeouts(look=0.1)
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as given,
        engine.remote_cluster(given.scheduler_address, timeouts=timeouts) as executor,
        pytest.raises(EngineError, match=r"no worker is left, for 0 s now; .* --resume"),
    ):
        executor(engine_tasks.count, tasks(tmp_path, 2), lambda _: None)


def test_workers_all_stopped_for_good_are_one_clear_error(tmp_path, monkeypatch):
    """Where only one is stopped its piece runs again elsewhere: that takes half a minute, in tests.campaign."""
    others = _workers()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with engine.local_cluster(1, "1GiB", tmp_path / "dask", timeouts=engine.Timeouts(silence=2, look=0.2)) as executor:
        mine, told = _workers() - others, []

        def stop(result):
            for worker in mine:
                worker.suspend()
            told.append(result)

        with pytest.raises(EngineError, match=r"all 1 workers are silent, for 2 s now; .* --resume"):
            executor(engine_tasks.slow, tasks(tmp_path, 12), stop)
    assert 0 < len(told) < 12
    assert os.listdir(tmp_path / "tmp") == []  # all of a cluster is in its own folder


def _workers():
    children = psutil.Process().children(recursive=True)
    return {child for child in children if "spawn_main" in " ".join(child.cmdline())}


@pytest.fixture
def forked(tmp_path):
    """An own cluster whose workers are forked from one process; yields its executor and that process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANONPIPE_SECRET", "5e1b07c93ad264f8" * 4)
        patch.setenv("OPENBLAS_NUM_THREADS", "3")
        with engine.local_cluster(1, "1GiB", tmp_path / "dask", preload=["tests.engine_tasks"]) as executor:
            [server] = runs.fork_servers(os.getpid())
            yield executor, server


@pytest.mark.skipif(sys.platform != "linux", reason="workers are spawned")
def test_workers_fork_from_process_without_secret_that_ends(forked, tmp_path):
    executor, server = forked
    told = []
    executor(engine_tasks.parent, tasks(tmp_path, 6), told.append)
    assert {result["parent"] for result in told} == {server.pid}
    assert all(result["loaded"] and result["umask"] == 0o077 for result in told)
    variables = server.environ()
    assert "ANONPIPE_SECRET" not in variables
    assert (variables["OPENBLAS_NUM_THREADS"], variables["OMP_NUM_THREADS"]) == ("3", "1")
    with engine.local_cluster(1, "1GiB", tmp_path / "two", preload=["tests.engine_tasks"]) as second:
        second(engine_tasks.parent, tasks(tmp_path, 1, "second"), told.append)
    assert told[-1]["parent"] == os.getpid()  # the server is of the first, which knows its environment
    assert server.is_running()


def test_workers_are_spawned_where_a_socket_has_too_long_a_path(tmp_path, monkeypatch):
    long = tmp_path / ("d" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.delitem(multiprocessing.process.current_process()._config, "tempdir", raising=False)
    told = []
    with engine.local_cluster(1, "1GiB", tmp_path / "dask", preload=["tests.engine_tasks"]) as executor:
        executor(engine_tasks.parent, tasks(tmp_path, 1), told.append)
    assert told[0]["parent"] == os.getpid()
    monkeypatch.delitem(multiprocessing.process.current_process()._config, "tempdir", raising=False)


@pytest.mark.skipif(sys.platform != "linux", reason="workers are spawned")
def test_no_fork_server_is_left(tmp_path):
    with engine.local_cluster(1, "1GiB", tmp_path / "dask", preload=["tests.engine_tasks"]) as executor:
        [server] = runs.fork_servers(os.getpid())
        server.kill()  # another one is started for the worker that comes after
        executor(engine_tasks.deadly_once, tasks(tmp_path, 3), lambda _: None)
    assert runs.fork_servers(os.getpid()) == [] and not server.is_running()
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=engine_tasks.count, args=(tasks(tmp_path, 1)[0],))
    process.start()
    process.join(30)
    assert process.exitcode == 0  # who forks after us finds the machinery as it was
    forkserver._forkserver._stop()


class Scheduler:
    """A client whose scheduler tells these heartbeats, one after the other; None is no answer."""

    def __init__(self, *told):
        self.told, self.scheduler = list(told), self

    def identity(self):
        """What the engine asks for."""

    def sync(self, *_, **__):
        told = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        if told is None:
            raise TimeoutError
        return {"workers": {address: {"last_seen": beat} for address, beat in told.items()}}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}], None),
        ([{"a": 9.0}, {"a": 9.0}, {"a": 5.0}], None),  # a clock that was set back is a sign of life too
        ([{"a": 1.0}, None, {"a": 1.0}], "all 1 workers are silent"),
        ([{"a": 1.0}, {}, {}], "no worker is left"),
        ([{"a": 1.0}, None, None], "scheduler has not answered"),
    ],
)
def test_signs_of_life(told, words, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(engine.time, "monotonic", lambda: now[0])
    watch = engine._Heartbeats(Scheduler(*told), engine.Timeouts(silence=20, look=10))
    problems = []
    for now[0] in (10.0, 20.0, 30.0):
        problems.append(watch.look())
    assert problems[:2] == [None, None]
    assert problems[2] is None if words is None else words in problems[2]


@pytest.mark.parametrize("memory", ["1B", "1MiB", "399MiB"])
def test_too_little_memory_for_any_worker_is_refused_at_once(tmp_path, memory):
    with pytest.raises(JobError, match="needs 400 MiB"), engine.local_cluster(1, memory, tmp_path / "dask"):
        pass
    assert not (tmp_path / "dask").exists()


def test_a_cluster_that_cannot_start_is_one_clear_error(tmp_path, monkeypatch):
    def fails(**_):
        raise RuntimeError("tls://10.0.0.1 /home/steward")

    monkeypatch.setattr("distributed.LocalCluster", fails)
    told = pytest.raises(EngineError, match=r"the 3 own workers could not be started \(RuntimeError\)")
    with told, engine.local_cluster(3, None, tmp_path / "dask"):
        pass


def test_crashes_leave_no_core_dumps():
    code = "from anonpipe.engine import no_core_dumps; import resource; no_core_dumps(); print(resource.getrlimit(4))"
    done = subprocess.run(
        ["sh", "-c", f'ulimit -c unlimited; exec "$0" -c "{code}"', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("(1, ") or "cannot modify limit" in done.stderr, done.stderr


def test_no_scheduler_is_one_clear_error():
    with pytest.raises(AnonpipeError, match="no Dask scheduler answers"), engine.remote_cluster("nonsense"):
        pass


@pytest.mark.secret("5e1b07c93ad264f8" * 4)
def test_a_given_scheduler_gives_the_same_bytes(tmp_path):
    """Of a mask and a rule; workers that are killed while they group are in `test_robustness.py`."""
    gates = {
        "mean": 0.5,
        "covariance": 1,
        "covariance_with_keys": 1,
        "category_share": 0.05,
        "unchanged_record_rate": 1,
    }
    masked = {"mask": {"method": "data_shuffle", "conditioning": ["vital_status"]}, "rules": ["pairs(site, sex)"]}
    few = {f"columns.{name}.role": "dropped" for name in ("stage", "tumour_size_mm", "diagnosis_date")}
    job = load_job(runs.registry_job(tmp_path, 1_200, 2, cluster=None, gates=gates, **masked), few)
    plain = dask.config.set({"distributed.comm.require-encryption": None})
    with plain, LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as given:
        trusted = {"scheduler": given.scheduler_address, "trust_network": True}
        remote = job.model_copy(update={"run": job.run.model_copy(update=trusted)})
        assert pipeline.execute(remote).version is not None
    first = runs.released_hashes(tmp_path / "out")
    assert pipeline.execute(job, cluster=False).version is not None
    assert runs.released_hashes(tmp_path / "out") == first


def test_few_files_for_many_workers_are_refused_before_start(monkeypatch, tmp_path):
    """Dask hung with 52 and printed its own tracebacks with 44."""
    given = []
    monkeypatch.setattr(engine.resource, "setrlimit", lambda _, timeouts: given.append(timeouts))
    for timeouts, wanted in [((44, 44), None), ((44, 4096), [(64, 4096)]), ((44, -1), [(64, -1)]), ((1024, 1024), [])]:
        monkeypatch.setattr(engine.resource, "getrlimit", lambda _, timeouts=timeouts: timeouts)
        given.clear()
        if wanted is None:
            with pytest.raises(JobError, match="ulimit -n 64"), engine.local_cluster(2, "1GiB", tmp_path / "dask"):
                pass
        else:
            engine.allow_files(64)
            assert given == wanted
    assert not (tmp_path / "dask").exists()


@contextlib.contextmanager
def joined(address, tmp_path, code):
    """A worker process of its own, in which `code` runs before anything else."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(code)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
    command += ["--no-dashboard", "--local-directory", str(tmp_path / "scratch"), "--death-timeout", "60"]
    paths = os.pathsep.join([str(tmp_path / "site"), str(Path(__file__).resolve().parent.parent)])
    with open(tmp_path / "log", "w") as log:
        worker = subprocess.Popen(command, stderr=log, stdout=log, env=os.environ | {"PYTHONPATH": paths})
        try:
            yield
        finally:
            worker.kill()
            worker.wait()


OTHER_NUMBA = """
import importlib.metadata
told = importlib.metadata.version
importlib.metadata.version = lambda name: "0.1.2" if name == "numba" else told(name)
"""
NO_ANONPIPE = """
import sys
sys.modules["anonpipe"] = None
"""


@contextlib.contextmanager
def empty_cluster():
    with (
        dask.config.set({"distributed.comm.require-encryption": None}),
        LocalCluster(n_workers=0, processes=True, dashboard_address=None) as given,
    ):
        yield given.scheduler_address


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (OTHER_NUMBA, rf"other versions on 1 of 1 worker than .*numba 0\.1\.2 \(here {version('numba')}\)"),
        (NO_ANONPIPE, r"anonpipe as it is here cannot be loaded on 1 of 1 worker;"),
    ],
)
def test_workers_of_other_installation_refused_before_start(code, words, tmp_path):
    with empty_cluster() as address, joined(address, tmp_path, code):
        with Client(address) as client:
            client.wait_for_workers(1, timeout=60)
        with pytest.raises(EngineError, match=words), engine.remote_cluster(address):
            pass


def test_worker_of_other_versions_joining_later_does_nothing(tmp_path):
    told: list[engine.TaskResult] = []
    with (
        empty_cluster() as address,
        engine.remote_cluster(address) as executor,
        joined(address, tmp_path, OTHER_NUMBA),
        pytest.raises(EngineError, match=r"other versions on a worker than .*numba 0\.1\.2"),
    ):
        executor(engine_tasks.count, tasks(tmp_path, 2), told.append)
    assert told == []
