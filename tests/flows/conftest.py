from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.listening import Told, answering
from tests.flows.loaded import Loaded
from tests.flows.poison import Server, noting, without_prefect

QUIET = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
OFTEN = {"PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "3"}


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prefect server of its own on this machine, for all tests of flows."""
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (home / "server.log").touch(mode=0o600)
    password = f"steward:{secrets.token_urlsafe(24)}"
    url = f"http://127.0.0.1:{port}/api"
    found = {"PREFECT_SERVER_API_AUTH_STRING": password, "PREFECT_API_URL": url, **noting(home)}
    with open(home / "server.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)],
            env={**without_prefect(dict(os.environ)), **QUIET, **OFTEN, **found, "PREFECT_HOME": str(home)},
            stdout=log,
            stderr=log,
            umask=0o077,
        )
    known = {"PREFECT_API_AUTH_STRING": password, "PREFECT_API_URL": url, "PREFECT_HOME": str(home)}
    flows = Loaded({**without_prefect(dict(os.environ)), **known, **noting(home)})
    try:
        _wait_for(url, process)
        empty = tmp_path_factory.mktemp("empty") / "prefect.db"
        _copy_database(home / "prefect.db", empty)
        yield Server(home, url, password, flows, empty)
    finally:
        flows.close()
        process.kill()
        process.wait()
    assert not (home / "outgoing.txt").exists()  # nothing left the machine


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the Prefect server has stopped"
        try:
            urllib.request.urlopen(f"{url}/health", timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the Prefect server does not answer")


def _copy_database(path: Path, copy: Path) -> None:
    copy.touch(mode=0o600)
    with contextlib.closing(sqlite3.connect(path)) as old, contextlib.closing(sqlite3.connect(copy)) as new:
        old.backup(new)


@pytest.fixture
def forgotten(server):
    """Automations and deployments are gone afterwards: the server is that of other tests, too."""
    yield
    for what in ("automations", "deployments"):
        for made in server.ask(what):
            server.send("DELETE", f"{what}/{made['id']}", None)


@pytest.fixture
def listening():
    """A URL that keeps what is sent there."""
    Told.messages.clear()
    with answering(Told) as url:
        yield f"{url}/failed"
