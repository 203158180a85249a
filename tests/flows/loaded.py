"""A process that has loaded the flows, and forks one for each program: loading them takes three seconds."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[2]


NEEDED = (
    "flows.anonymize flows.compare flows.watch distributed fastapi.encoders matplotlib.backends.backend_agg "
    "matplotlib.figure pandas patsy sklearn.ensemble"
)
"""What the programs load, some of it when they need it."""


class Loaded:
    """That process, and what runs programs in its children."""

    def __init__(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tests.flows.loaded"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True, **pipes)
        self.running: psutil.Process | None = None  # A program whose end was not asked for

    def run(self, code: str, *arguments: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[bytes]:
        """What `subprocess.run` gives for `python -c` with this code; variables are added to those of the process."""
        with tempfile.TemporaryDirectory() as folder:
            printed = [Path(folder) / name for name in ("out", "err")]
            self.start(code, *arguments, env=env, cwd=cwd, printed=printed)
            return subprocess.CompletedProcess(arguments, self.ended(), *(path.read_bytes() for path in printed))

    def start(self, code: str, *arguments: str, env: dict[str, str], cwd: Path, printed: list[Path]) -> psutil.Process:
        """The same, left running; what it prints goes to two files. The next one waits for its end."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if self.running is not None:  # of a test that failed: its exit code is not that of the next program
            with contextlib.suppress(psutil.NoSuchProcess):
                self.running.kill()
            self.ended()
        request = {"code": code, "argv": arguments, "env": env, "cwd": cwd, "printed": printed}
        print(json.dumps(request, default=str), file=self.process.stdin, flush=True)
        self.running = psutil.Process(int(self.process.stdout.readline()))
        return self.running

    def ended(self) -> int:
        """The exit code of the program, when it has ended."""
        assert self.process.stdout is not None
        self.running = None
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """End it with whatever it has begun."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def main() -> None:
    """Fork for each request; a child ends as any program does, and the parent tells its exit code."""
    for name in NEEDED.split():
        importlib.import_module(name)
    from anonpipe.kernels.points import sort_groups

    sort_groups(np.zeros(1, dtype=np.int64))  # numba loads what it needs for its first kernel

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            return _become(**json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(code: str, argv: list[str], env: dict[str, str], cwd: str, printed: list[str]) -> None:
    from prefect.context import refresh_global_settings_context

    os.environ.update(env)
    os.chdir(cwd)
    for number, path in enumerate(printed, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    tempfile.tempdir = None
    refresh_global_settings_context()
    sys.argv = ["-c", *argv]
    exec(code, {"__name__": "__main__"})


if __name__ == "__main__":
    main()
