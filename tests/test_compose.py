"""Each service of `deploy/compose.yaml` shows its health, by a command that fails where it is not well."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

SERVICES = yaml.safe_load((Path(__file__).parent.parent / "deploy/compose.yaml").read_text())["services"]


def test_every_service_has_a_check_and_waits_for_health():
    for name, service in SERVICES.items():
        check = service["healthcheck"]
        assert check["test"][0] == "CMD" and {"interval", "timeout", "retries"} <= set(check), name
        waits = service.get("depends_on", {})
        assert set(waits) <= set(SERVICES), name
        assert {each["condition"] for each in waits.values()} <= {"service_healthy"}, name
    assert "--with-healthcheck" in SERVICES["worker"]["command"][-1]


@pytest.mark.parametrize("name", ["scheduler", "dask-worker"])
def test_the_health_of_dask_is_that_of_its_connections(name):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        code = SERVICES[name]["healthcheck"]["test"][-1].replace("8797", port)
        assert port in code
        with socket.create_connection(server.getsockname()):
            assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode != 0
