"""The API that a flow uses asks for a password, or the flow does not start; and schedules start runs."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

import pytest

from tests.flows.listening import answering
from tests.flows.poison import Poison

PLAIN = Poison("canary-open-door", 13579.2468)

ASK = """
import json, os, sys
from flows.access import refuse_open_api
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from anonpipe.errors import AnonpipeError
found = []
for url, password in json.loads(sys.argv[1]):
    with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: password}):
        try:
            found.append(refuse_open_api())
        except AnonpipeError as error:
            found.append([error.exit_code, str(error)])
from flows.anonymize import main
found.append(main([sys.argv[2]]))
print("found", json.dumps(found))
"""


class Anybody(BaseHTTPRequestHandler):
    """Answers whoever asks."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'"3.8.8"')

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def open_api():
    """The URL of an API that asks nobody for a password."""
    Anybody.asked.clear()
    with answering(Anybody) as url:
        yield f"{url}/api"


def test_an_open_api_and_passwords_of_examples_are_refused(tmp_path, server, open_api):
    job = PLAIN.table(tmp_path)
    cases = [
        (server.url, server.password),
        (open_api, server.password),
        (open_api, None),
        (server.url, "steward:change-me"),
        (server.url, "steward:short"),
        ("http://127.0.0.1:9/api", server.password),
        (server.url, "steward:a-password-of-another-server"),
        (server.url, None),
    ]
    settings = {"PREFECT_API_URL": open_api, "PREFECT_CLIENT_MAX_RETRIES": "0"}
    done = PLAIN.program(tmp_path, server, ASK, json.dumps(cases), job, **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    closed, opened, nameless, example, short, away, wrong, none, code = json.loads(done.stdout.rsplit("found ", 1)[1])
    assert closed is None
    for answer in (opened, nameless):
        assert answer[0] == 2 and "answers without a password" in answer[1] and open_api in answer[1]
    for answer in (example, short):
        assert answer[0] == 2 and "that of an example" in answer[1] and "random password" in answer[1]
    assert away[0] == 2 and "does not answer" in away[1]
    assert wrong[0] == 2 and f"{server.url} refuses the password; give the server" in wrong[1]
    assert none[0] == 2 and "asks for a password, and none was given" in none[1]
    assert "another-server" not in done.stdout + done.stderr
    assert code == 2 and "answers without a password" in done.stderr
    assert set(Anybody.asked) == {"/api/admin/version"}, "the job was sent to an open API"
    assert not (tmp_path / "out").exists()


def test_a_resumed_schedule_starts_runs(server):
    """Prefect's scheduler cannot write runs with SQLAlchemy 2.1: schedules then never start."""
    flow = server.send("POST", "flows/", {"name": "scheduled"})
    schedule = {"schedule": {"interval": 3600.0}, "active": False}
    made = server.send("POST", "deployments/", {"name": "hourly", "flow_id": flow["id"], "schedules": [schedule]})
    (paused,) = server.send("GET", f"deployments/{made['id']}", {})["schedules"]
    mine = {"deployments": {"id": {"any_": [made["id"]]}}}
    assert server.ask("flow_runs", **mine) == []
    server.send("PATCH", f"deployments/{made['id']}/schedules/{paused['id']}", {"active": True})
    scheduled = []
    for _ in range(150):
        if scheduled := server.ask("flow_runs", **mine):
            break
        time.sleep(0.2)
    server.send("DELETE", f"deployments/{made['id']}", {})
    assert scheduled and {run["state_type"] for run in scheduled} == {"SCHEDULED"}
