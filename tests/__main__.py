"""Everything that must hold before a change is taken: style, types, layering, tests.

python -m tests            all of it
python -m tests tests/x.py the checks, and only these tests

Tests draw the same at every run; other draws: ANONPIPE_TEST_DRAWS=any-text python -m tests
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

CHECKS = (
    [str(BIN / "ruff"), "check", "."],
    [str(BIN / "ruff"), "format", "--check", "."],
    [str(BIN / "mypy")],
    [str(BIN / "lint-imports")],
)


ENOUGH = 8 << 30
"""Bytes; the tests write less than one GiB."""

SIDE_BY_SIDE = ["-n", "3", "--dist", "worksteal"]
"""Three processes for two cores, as tests of servers wait; who has nothing left takes tests of the others."""


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Threads of OpenBLAS that wait keep a core busy, which the other process needs."""


def main(arguments: list[str]) -> int:
    """Run all checks, then the tests; the first failure's exit code."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would translate all sources each
    # On the core that the checks leave idle: for as long as they take, and until what most tests need is there
    with subprocess.Popen([sys.executable, "-m", "tests.warm"], cwd=ROOT, stdout=subprocess.PIPE) as warm:
        try:
            for command in CHECKS:
                print("$", " ".join([Path(command[0]).name, *command[1:]]), flush=True)
                if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
                    return code
            if warm.stdout is not None:
                warm.stdout.readline()
        finally:
            warm.terminate()
    with in_memory() as settings:
        command = [sys.executable, "-m", "pytest", *SIDE_BY_SIDE, *arguments]
        return subprocess.run(command, cwd=ROOT, env=os.environ | ONE_THREAD | settings, check=False).returncode


@contextlib.contextmanager
def in_memory() -> Iterator[dict[str, str]]:
    """Where there is room, what tests write goes to memory: thousands of small files, deleted soon after."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < ENOUGH:
        yield {}
        return
    with tempfile.TemporaryDirectory(dir=shared, ignore_cleanup_errors=True) as folder:
        yield {"PYTEST_DEBUG_TEMPROOT": folder}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
