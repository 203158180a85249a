"""Faults of clusters: whole command lines with processes of their own, half a minute a trial."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import yaml

from anonpipe.job.sections import RunSettings
from tests.campaign.faults import Trial
from tests.campaign.world import SECRET, Ending, World
from tests.runs import environment, kill_driver, workers_of

LONGEST_COMMAND = 180.0
"""Seconds; a command that takes longer hangs."""


def command(world: World, *arguments: str) -> subprocess.Popen[str]:
    """`anonpipe` in this world, left running."""
    path = world.root / "job.yaml"
    path.write_text(yaml.safe_dump(world.job().model_dump(mode="json", exclude_none=True), sort_keys=False))
    return subprocess.Popen(
        [sys.executable, "-m", "anonpipe", "run", str(path), "--workers", "2", *arguments],
        env=environment(world.root, secret=SECRET),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str], longest: float = LONGEST_COMMAND) -> Ending:
    """Wait for a command."""
    began = time.monotonic()
    try:
        output, _ = process.communicate(timeout=longest)
    except subprocess.TimeoutExpired:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.communicate()
        return Ending(-1, "", longest)
    return Ending(process.returncode, output, time.monotonic() - began)


def _wait_for_workers(trial: Trial, process: subprocess.Popen[str]) -> list[psutil.Process]:
    while process.poll() is None and len(workers_of(process)) < 2:
        time.sleep(0.02)
    time.sleep(float(trial.rng.uniform(0, 4)))
    return workers_of(process) if process.poll() is None else []


def worker_killed(trial: Trial) -> None:
    """SIGKILL of one worker."""
    process = command(trial.world)
    for worker in _wait_for_workers(trial, process)[:1]:
        with contextlib.suppress(psutil.Error):
            worker.kill()
    trial.endings.append(ended(process))


def worker_stopped(trial: Trial) -> None:
    """SIGSTOP of one worker, for good."""
    process = command(trial.world)
    stopped = _wait_for_workers(trial, process)[:1]
    for worker in stopped:
        with contextlib.suppress(psutil.Error):
            worker.suspend()
    trial.endings.append(ended(process))
    for worker in stopped:
        with contextlib.suppress(psutil.Error):
            worker.kill()


def command_interrupted(trial: Trial) -> None:
    """Ctrl-C, then `--resume`."""
    process = command(trial.world)
    time.sleep(float(trial.rng.uniform(1.5, 9)))
    process.send_signal(signal.SIGINT)
    ending = ended(process)
    trial.detail = f"exit {ending.code}"
    if ending.code == 130 and trial.world.current_version() is not None and "release is out" not in ending.message:
        trial.endings.append(Ending(5, "130, and silent of the release"))
    elif ending.code in (0, 130):
        trial.endings.append(ended(command(trial.world, "--resume")))
    else:
        trial.endings.append(ending)


def driver_killed(trial: Trial) -> None:
    """SIGKILL of the driver of an own cluster, then `--resume`."""
    process = command(trial.world)
    _wait_for_workers(trial, process)
    if process.poll() is None:
        kill_driver(process)
        process.communicate()
        trial.endings.append(ended(command(trial.world, "--resume")))
    else:
        trial.endings.append(ended(process))


@contextlib.contextmanager
def scheduler(trial: Trial, workers: int) -> Iterator[str]:
    """A scheduler and workers in processes of their own, on the loopback interface."""
    port = 20_000 + int(trial.rng.integers(20_000))
    address = f"tcp://127.0.0.1:{port}"
    folder = trial.world.root / "dask"
    folder.mkdir()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment(trial.world.root, SECRET)}
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    started = [subprocess.Popen([*_dask("scheduler"), *arguments], cwd=folder, **quiet)]
    for _ in range(workers):
        given = ["--nthreads", "1", "--nworkers", "1", "--no-dashboard", "--local-directory", str(folder)]
        started.append(subprocess.Popen([*_dask("worker"), address, *given], cwd=folder, **quiet))
    try:
        yield address
    finally:
        for process in started:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()


def _dask(what: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from dask.__main__ import main; sys.exit(main())", what]


def _trusted(address: str) -> list[str]:
    trust = ["--set", "run.trust_network=true"] if "trust_network" in RunSettings.model_fields else []
    return ["--scheduler", address, *trust]


def late_task(trial: Trial) -> None:
    """The driver of a remote cluster is killed, the input replaced, and the job run again while old tasks go on."""
    world = trial.world
    with scheduler(trial, 2) as address:
        process = command(world, *_trusted(address))
        time.sleep(float(trial.rng.uniform(4, 9)))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        if world.current_version() is None:
            for path in world.other.iterdir():
                os.replace(path, world.input / path.name)
        trial.endings.append(ended(command(world, *_trusted(address), "--resume")))


def no_workers(trial: Trial) -> None:
    """A scheduler that has no worker."""
    with scheduler(trial, 0) as address:
        trial.endings.append(ended(command(trial.world, *_trusted(address)), 150))


def tiny_memory(trial: Trial) -> None:
    """Workers that are allowed hardly any memory."""
    memory = ("1B", "1MiB", "30MiB")[trial.rng.integers(3)]
    trial.detail = memory
    trial.endings.append(ended(command(trial.world, "--set", f"run.memory_per_worker={memory}"), 150))


CLUSTER_KINDS: dict[str, Callable[[Trial], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        worker_killed,
        worker_stopped,
        command_interrupted,
        driver_killed,
        late_task,
        no_workers,
        tiny_memory,
    )
}
