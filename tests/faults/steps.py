"""Something happens at the n-th change of the file system: the process dies, is refused, is delayed, or is interrupted.

A step is a call that is about to change something on a disk (the interpreter's
audit events), whoever makes it. An audit hook cannot be taken out again, so
everything here happens in a process of its own, forked from a server that has
imported already what it needs.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DIED = 99
"""Exit code of a process that died at its step."""
INTERRUPTED = 130
_CHANGES = {
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.chmod", "os.truncate",
}  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

Act = Callable[[int], None]
"""What happens before step n."""
Scenario = Callable[..., Any]
"""An importable function: what the process does."""


def die_at(step: int) -> Act:
    """Die as by SIGKILL: nothing is cleaned up."""
    return lambda now: os._exit(DIED) if now == step else None


def refuse_at(step: int, number: int, last: int | None = None) -> Act:
    """The file system refuses a step, or all up to `last`, with this error number."""

    def act(now: int) -> None:
        if step <= now <= (last or step):
            raise OSError(number, os.strerror(number))

    return act


def interrupt_at(step: int) -> Act:
    """Ctrl-C."""
    return lambda now: os.kill(os.getpid(), signal.SIGINT) if now == step else None


def dawdle(seed: int, longest: float = 0.004) -> Act:
    """Every step takes its time, drawn from a seed."""
    draw = random.Random(seed)
    return lambda _: time.sleep(draw.random() * longest)


def wait_at(step: int, here: str, go: str) -> Act:
    """Stand still at a step: make the file `here`, and go on when there is a file `go`."""

    def act(now: int) -> None:
        if now == step:
            Path(here).touch()
            while not os.path.exists(go):
                time.sleep(0.002)

    return act


def _is_change(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        return isinstance(arguments[2], int) and bool(arguments[2] & _WRITING)
    return event in _CHANGES


def arm(act: Act) -> None:
    """Let `act` happen before every step of this process, from now on."""
    count = itertools.count(1)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if _is_change(event, arguments):
            act(next(count))

    sys.addaudithook(hook)


def _child(make: Callable[..., Act], given: tuple[Any, ...], scenario: Scenario, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sys.stderr = open(os.devnull, "w")  # tracebacks of what is meant to fail
    os.fsync = lambda _: None  # the dear part, and no power is cut here
    arm(make(*given))
    try:
        scenario(*arguments)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def start(make: Callable[..., Act], given: tuple[Any, ...], scenario: Scenario, *arguments: Any) -> Any:
    """A process that runs `scenario(*arguments)` with `make(*given)` at its steps."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["anonpipe.storage.release", "tests.faults.publishing"])
    process = context.Process(target=_child, args=(make, given, scenario, arguments))
    process.start()
    return process


def run(
    make: Callable[..., Act], given: tuple[Any, ...], scenario: Scenario, *arguments: Any, limit: float = 60
) -> int:
    """The exit code of such a process; one that takes longer than `limit` seconds is killed."""
    process = start(make, given, scenario, *arguments)
    process.join(limit)
    if process.is_alive():
        process.kill()
    process.join()
    return int(process.exitcode)


def every_step(prepare: Callable[[int], tuple[Any, ...]], scenario: Scenario, most: int = 500) -> Iterator[int]:
    """Kill `scenario(*prepare(n))` at step n = 1, 2, ... until it gets through; yields n after each death."""
    for step in range(1, most):
        if run(die_at, (step,), scenario, *prepare(step)) != DIED:
            return
        yield step
    raise AssertionError(f"the scenario has more than {most} steps")
