"""Seconds of compiling in a demonstration that finds no compiled code, one row a kernel and a function of numba.

    python -m tests.benchmarks.compile_seconds [ROWS] [SHOWN]

What one function compiles inside of another counts for the inner one, so that the column `own` adds up. `with inner` is
what would be saved without the function. A compilation for one more signature is one more of `times`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from threading import local

from numba.core.event import Event, Listener, register


@dataclass
class Spent:
    """What the compilations of one function took."""

    times: int = 0
    own: float = 0.0
    inclusive: float = 0.0


@dataclass
class Compilations(Listener):
    """Compilations by function: processor seconds, as two threads may compile in turn."""

    by_function: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    _open: local = field(default_factory=local)

    def on_start(self, event: Event) -> None:
        self._stack().append([time.thread_time(), 0.0])

    def on_end(self, event: Event) -> None:
        began, inner = self._stack().pop()
        took = time.thread_time() - began
        function = event.data["dispatcher"].py_func
        spent = self.by_function[f"{function.__module__}.{function.__qualname__}"]
        spent.times += 1
        spent.own += took - inner
        spent.inclusive += took
        if self._stack():
            self._stack()[-1][1] += took

    def _stack(self) -> list[list[float]]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        return self._open.stack


def main(rows: int = 50_000, shown: int = 40) -> None:
    """Run the demonstration in empty folders, and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"NUMBA_CACHE_DIR": folder, "ANONPIPE_HOME": folder, "ANONPIPE_STAGING": f"{folder}/staging"}
        began, compilations = time.process_time(), Compilations()
        register("numba:compile", compilations)
        from anonpipe.cli import demo

        demo(Path(folder) / "demo", rows=rows)
        whole = time.process_time() - began
    spent = sorted(compilations.by_function.items(), key=lambda each: -each[1].inclusive)
    print(f"\n{'with inner':>10} {'own':>6} {'times':>5}")
    for name, each in spent[:shown]:
        print(f"{each.inclusive:10.2f} {each.own:6.2f} {each.times:5d}  {name}")
    total, times = sum(each.own for _, each in spent), sum(each.times for _, each in spent)
    print(
        f"{total:.1f} s for {times} compilations of {len(spent)} functions, of {whole:.1f} s of processor time in all"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
