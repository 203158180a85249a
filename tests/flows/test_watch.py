"""Automations for runs that are lost or failed, on a real server."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from urllib.error import HTTPError

from tests.flows.listening import Told
from tests.flows.poison import Poison

POISON = Poison("canary-watched", 24680.1357)


def watch(tmp_path, server, *arguments):
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "flows.watch", *arguments],
        env=POISON.environment(tmp_path, server),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def send(server, path, content, method="POST"):
    """A request to the server, which asks for another try where its database is busy, as Prefect's clients have it."""
    for _ in range(20):
        try:
            return server.send(method, path, content)
        except HTTPError as error:
            if error.code != 503:
                raise
        time.sleep(1)
    raise AssertionError("the server's database stays busy")


def beat(server, run):
    """A heartbeat of a run, as its process sends them."""
    event = {
        "id": str(uuid.uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": "prefect.flow-run.heartbeat",
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.name": "x"},
    }
    send(server, "events", [event])


def begun(server, flow, name, state):
    """A run in a state."""
    state |= {"message": POISON.text}
    return send(server, "flow_runs/", {"flow_id": flow["id"], "name": name, "state": state})["id"]


def test_lost_runs_crash_and_failed_or_late_ones_are_told(tmp_path, server, listening, forgotten):
    for _ in range(2):  # a second time it replaces what it made
        done = watch(tmp_path, server, "--silence", "12", "--late", "12", "--notify", listening)
        assert done.returncode == 0, done.stderr[-3000:]
    made = [each["name"] for each in server.ask("automations")]
    assert sorted(made) == ["anonpipe: failed runs", "anonpipe: late runs", "anonpipe: lost runs"]
    flow = send(server, "flows/", {"name": "watched"})
    lost, alive, failed = (
        begun(server, flow, name, {"type": "RUNNING", "name": "Running"})
        for name in ("lost-one", "living-one", "failed-one")
    )
    late, started = (
        begun(server, flow, name, {"type": "SCHEDULED", "name": "Late"}) for name in ("late-one", "started-one")
    )
    beat(server, lost)
    state = {"type": "FAILED", "name": "Failed", "message": POISON.text}
    send(server, f"flow_runs/{failed}/set_state", {"state": state, "force": True})
    time.sleep(1)  # events of the same moment may be seen in another order
    send(server, f"flow_runs/{started}/set_state", {"state": {"type": "PENDING", "name": "Pending"}, "force": True})
    until = time.monotonic() + 90
    while time.monotonic() < until:
        beat(server, alive)
        states = {
            one["id"]: one["state_type"] for one in server.ask("flow_runs", flows={"name": {"any_": ["watched"]}})
        }
        if states[lost] == "CRASHED" and len(Told.messages) >= 3:
            break
        time.sleep(2)
    wanted = {lost: "CRASHED", alive: "RUNNING", failed: "FAILED", late: "SCHEDULED", started: "PENDING"}
    assert states == wanted
    told = sorted(Told.messages)
    assert len(told) == 3 and "failed-one ended as Failed" in told[0] and "lost-one ended as Crashed" in told[2]
    assert "late-one was not started in time" in told[1]
    assert POISON.text not in "".join(told)


def test_silence_that_no_server_can_count_is_refused(tmp_path, server):
    done = watch(tmp_path, server, "--silence", "3")
    assert done.returncode == 2 and "under 10" in done.stderr
