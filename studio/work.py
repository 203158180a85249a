"""What runs for a job: one process at a time for each, its progress, and its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anonpipe.errors import BusyError

# By its path and with -P: a folder of data may hold files that have the names of modules
_CHILD = [sys.executable, "-P", str(Path(__file__).with_name("child.py"))]
TITLES = {"plan": "Plan", "trial": "Trial", "run": "Run", "resume": "Resumed run", "compare": "Comparison"}


@dataclass
class Work:
    """One plan, trial, run or comparison."""

    kind: str
    process: subprocess.Popen[str]
    begun: float = field(default_factory=time.monotonic)
    ended: float | None = None
    stages: dict[str, tuple[int, int]] = field(default_factory=dict)  # Finished and all pieces
    result: dict[str, Any] = field(default_factory=dict)  # `outcome`, or `error` with `exit_code`
    cancelled: bool = False

    @property
    def title(self) -> str:
        """What is done."""
        return TITLES[self.kind]

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.ended is None

    @property
    def seconds(self) -> float:
        """How long it took, or takes so far."""
        return (self.ended or time.monotonic()) - self.begun

    def cancel(self) -> None:
        """Stop at the next safe point, or at once where that was asked for before."""
        self.cancelled = True
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def listen(self) -> None:
        """Read what the process tells until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                news = json.loads(line)
            except ValueError:  # a library printed something
                continue
            if "stage" in news:
                self.stages = self.stages | {news["stage"]: (news["done"], news["total"])}  # pages read the old one
            else:
                self.result = news
        code = self.process.wait()
        if not self.result:
            stopped = (
                "stopped" if self.cancelled else f"it ended by itself ({code}); the memory was too small, it may be"
            )
            self.result = {"error": stopped, "exit_code": 130 if self.cancelled else 5}
        self.ended = time.monotonic()


class Works:
    """The work of all jobs of this program."""

    def __init__(self) -> None:
        self._by_job: dict[Path, Work] = {}
        self._lock = threading.Lock()

    def of(self, job: Path) -> Work | None:
        """The last work for a job."""
        return self._by_job.get(job)

    def start(self, kind: str, job: Path, folder: Path, *options: str) -> Work:
        """Begin in a folder; an error where something runs for the job already."""
        with self._lock:
            before = self._by_job.get(job)
            if before is not None and before.running:
                raise BusyError(f"a {before.title.lower()} of this job is running; wait for its end, or cancel it")
            # A session of its own: Ctrl-C in the terminal stops the studio, which then stops the process
            process = subprocess.Popen(
                [*_CHILD, kind, str(job), *options], cwd=folder, text=True, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            work = self._by_job[job] = Work(kind, process)
        threading.Thread(target=work.listen, daemon=True).start()
        return work

    def stop(self) -> None:
        """Stop all that runs, and wait for it."""
        running = [work for work in self._by_job.values() if work.running]
        for work in running:
            work.cancel()
        for work in running:
            try:
                work.process.wait(30)
            except subprocess.TimeoutExpired:
                work.process.kill()
