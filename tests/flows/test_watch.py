"""Automations for runs that are lost or failed, on a real server."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC, datetime

from tests.flows.listening import Told
from tests.flows.poison import Poison

POISON = Poison("canary-watched", 24680.1357)

CODES = """
import json, sys
from flows import watch
print("codes", json.dumps([watch.main(arguments) for arguments in json.loads(sys.argv[1])]))
"""


def watch(tmp_path, server, *commands):
    """Run the command with these arguments, one after the other."""
    return POISON.program(tmp_path, server, CODES, json.dumps(commands))


def beat(server, run):
    """A heartbeat of a run, as its process sends them."""
    event = {
        "id": str(uuid.uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": "prefect.flow-run.heartbeat",
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.name": "x"},
    }
    server.send("POST", "events", [event])


def begun(server, flow, name, state):
    """A run in a state."""
    state |= {"message": POISON.text}
    return server.send("POST", "flow_runs/", {"flow_id": flow["id"], "name": name, "state": state})["id"]


def test_lost_runs_crash_and_failed_or_late_ones_are_told(tmp_path, server, listening, forgotten):
    told = ["--silence", "10", "--late", "10", "--notify", listening]
    done = watch(tmp_path, server, ["--silence", "3"], told, told)  # a second time it replaces what it made
    assert done.stdout.endswith("codes [2, 0, 0]\n") and done.stderr.count("error:") == 1, done.stderr[-3000:]
    assert "under 10" in done.stderr  # which no server can count
    made = [each["name"] for each in server.ask("automations")]
    assert sorted(made) == ["anonpipe: failed runs", "anonpipe: late runs", "anonpipe: lost runs"]
    flow = server.send("POST", "flows/", {"name": "watched"})
    lost, alive, failed = (
        begun(server, flow, name, {"type": "RUNNING", "name": "Running"})
        for name in ("lost-one", "living-one", "failed-one")
    )
    late, started = (
        begun(server, flow, name, {"type": "SCHEDULED", "name": "Late"}) for name in ("late-one", "started-one")
    )
    beat(server, lost)
    state = {"type": "FAILED", "name": "Failed", "message": POISON.text}
    server.send("POST", f"flow_runs/{failed}/set_state", {"state": state, "force": True})
    time.sleep(1)  # events of the same moment may be seen in another order
    server.send(
        "POST", f"flow_runs/{started}/set_state", {"state": {"type": "PENDING", "name": "Pending"}, "force": True}
    )
    until = time.monotonic() + 90
    while time.monotonic() < until:
        beat(server, alive)
        states = {
            one["id"]: one["state_type"] for one in server.ask("flow_runs", flows={"name": {"any_": ["watched"]}})
        }
        if states[lost] == "CRASHED" and len(Told.messages) >= 3:
            break
        time.sleep(0.5)
    wanted = {lost: "CRASHED", alive: "RUNNING", failed: "FAILED", late: "SCHEDULED", started: "PENDING"}
    assert states == wanted
    told = sorted(Told.messages)
    assert len(told) == 3 and "failed-one ended as Failed" in told[0] and "lost-one ended as Crashed" in told[2]
    assert "late-one was not started in time" in told[1]
    assert POISON.text not in "".join(told)
