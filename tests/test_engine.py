from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from anonpipe import engine, pipeline
from anonpipe.errors import AnonpipeError, EngineError, InputError
from anonpipe.job import load_job
from tests import engine_tasks, runs


def tasks(folder: Path, count: int, stage: str = "stage") -> list[engine.Task]:
    """Pieces of a stage."""
    return [engine.Task(str(folder), "token", stage, at) for at in range(count)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """An own cluster of two workers; yields its mapper and its folder."""
    scratch = tmp_path_factory.mktemp("engine") / "dask"
    with engine.local_cluster(2, "1GiB", scratch, retries=1) as mapper:
        yield mapper, scratch


@pytest.fixture(params=["in process", "cluster"])
def mapper(request, cluster):
    """Both kinds of mapper."""
    if request.param == "cluster":
        yield cluster[0]
    else:
        with engine.in_process() as here:
            yield here


def test_every_piece_is_done_once_and_told(mapper, tmp_path):
    told: list[int] = []
    mapper(engine_tasks.count, tasks(tmp_path, 7), lambda receipt: told.append(receipt["index"]))
    assert sorted(told) == list(range(7))
    mapper(engine_tasks.count, [], told.append)


def test_unforeseen_errors_lose_their_text_and_keep_their_place(mapper, tmp_path, capfd):
    with pytest.raises(EngineError) as caught:
        mapper(engine_tasks.unforeseen, tasks(tmp_path, 3, "group"), lambda _: None)
    whole = "".join(traceback.format_exception(caught.value)) + "".join(capfd.readouterr())
    assert engine_tasks.CANARY not in whole
    assert "stage group" in str(caught.value) and "ValueError at engine_tasks.py" in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_refusals_reach_the_user_and_are_not_retried(mapper, tmp_path):
    with pytest.raises(InputError, match="3 infinite values"):
        mapper(engine_tasks.refused, tasks(tmp_path, 1), lambda _: None)
    assert (tmp_path / "tries").read_text() == "x"


def test_a_passing_fault_is_retried(cluster, tmp_path):
    told: list[int] = []
    cluster[0](engine_tasks.flaky, tasks(tmp_path, 4), lambda receipt: told.append(receipt["index"]))
    assert sorted(told) == list(range(4))


def test_a_piece_that_kills_its_workers_is_one_clear_error(cluster, tmp_path):
    with pytest.raises(EngineError, match=r"partition 1: its worker died .* --resume"):
        cluster[0](engine_tasks.deadly, tasks(tmp_path, 2), lambda _: None)
    told: list[int] = []
    cluster[0](engine_tasks.count, tasks(tmp_path, 3, "after"), lambda receipt: told.append(receipt["index"]))
    assert sorted(told) == [0, 1, 2]  # the cluster is still of use


def test_workers_are_private(cluster, tmp_path):
    told: list[engine.Receipt] = []
    cluster[0](engine_tasks.crowded, tasks(tmp_path, 2), told.append)
    assert {(receipt["rows"], receipt["threads"], receipt["deaf"]) for receipt in told} == {(0o077, "1", True)}
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
def test_an_interrupt_during_the_start_is_kept_and_closes_the_cluster(way, tmp_path, monkeypatch):
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


def test_no_scheduler_is_one_clear_error():
    with pytest.raises(AnonpipeError, match="no Dask scheduler answers"), engine.remote_cluster("nonsense"):
        pass


def test_a_given_scheduler_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "5e" * 32)
    job = load_job(runs.registry_job(tmp_path, rows=4000, files=2))
    plain = dask.config.set({"distributed.comm.require-encryption": None})
    with plain, LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as given:
        remote = job.model_copy(update={"run": job.run.model_copy(update={"scheduler": given.scheduler_address})})
        assert pipeline.execute(remote).version is not None
    first = runs.released_hashes(tmp_path / "out")
    assert pipeline.execute(job, cluster=False).version is not None
    assert runs.released_hashes(tmp_path / "out") == first
