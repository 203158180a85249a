from __future__ import annotations

import gc
import hashlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from anonpipe.storage import release
from anonpipe.storage.versions import OutputPlace

LONG = ("tests/flows/", "tests/test_campaign.py", "tests/attacks/", "tests/test_robustness.py", "tests/test_engine.py")
"""Begun in this order by one process, so that one server and each thing that several tests share is made once."""

DRAWS = os.environ.get("ANONPIPE_TEST_DRAWS", "")
"""Without it each test draws the same at every run; another text gives other secrets and examples."""


@pytest.fixture(autouse=True)
def private_folders(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Secret, ledger and staging of a test live in its own folder; the user's are never touched.

    With the mark `secret` the draws of a test are those of that secret, whatever `DRAWS`.
    """
    made = itertools.count()

    def token_hex(size: int) -> str:
        return hashlib.shake_256(f"{DRAWS} {request.node.nodeid} {next(made)}".encode()).hexdigest(size)

    monkeypatch.setattr("anonpipe.rng.secrets", SimpleNamespace(token_hex=token_hex))
    monkeypatch.setenv("ANONPIPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANONPIPE_STAGING", str(tmp_path / "staging"))
    for name in ("ANONPIPE_SECRET", "ANONPIPE_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)
    if mark := request.node.get_closest_marker("secret"):
        monkeypatch.setenv("ANONPIPE_SECRET", *mark.args)
    monkeypatch.setattr("anonpipe.rng.FEWEST_BYTES", 1)  # the limits of many tests are for the draws of plain secrets
    return tmp_path


@pytest.fixture(params=["local", "memory"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, OutputPlace]:
    """An output folder, on disk and on an object store: its URL, and as it is opened."""
    url = str(tmp_path / "out") if request.param == "local" else f"memory://{tmp_path.name}/out"
    found = release.place(url)
    release.check_writable(found)
    return url, found


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server of its own, reached through a socket."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    if not programs or user not in {one.pw_name for one in pwd.getpwall()}:
        pytest.skip("Postgres is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    shutil.chown(folder, user)
    as_user = {"user": user, "cwd": folder, "check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([programs[-1] / "initdb", "-D", folder / "data", "-U", "steward", "-E", "UTF8", "-N"], **as_user)
    control = [programs[-1] / "pg_ctl", "-D", folder / "data", "-w"]
    subprocess.run([*control, "-o", f"-k {folder} -c listen_addresses=", "start"], **as_user)
    try:
        yield f"postgresql://steward@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **as_user)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command in this process."""
    from tests import small

    return small.commands(capsys, monkeypatch)


class Examples:
    """Looks for examples in modules whose text has one, here and in the package; files of tests have none."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[Any], list[Any]]:
        """Leave out the modules without."""
        found = yield
        return [each for each in found if not isinstance(each, DoctestModule) or self._are_in(file_path)]

    def _are_in(self, path: Path) -> bool:
        return not path.name.startswith("test_") and ">>>" in path.read_text(encoding="utf-8")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes seconds a test first: the other process takes tests from the end, and what it waits for is short."""
    items.sort(key=lambda item: next((at for at, name in enumerate(LONG) if name in item.nodeid), len(LONG)))


def pytest_collection_finish() -> None:
    """Garbage is not looked for while tests are loaded, nor among what was, and seldom afterwards."""
    gc.freeze()
    gc.set_threshold(20_000, 20)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Examples())  # hooks of this file see the files of this folder only
    # An example's first call may compile a kernel
    settings.register_profile("compiled", deadline=None, max_examples=40, derandomize=not DRAWS)
    settings.load_profile("compiled")
    gc.disable()
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    os.fsync = _not_synced  # type: ignore[assignment]


def _not_synced(handle: int) -> None:
    """What tests write need not outlive a power cut; who tests the order of syncs puts a function of its own here."""
