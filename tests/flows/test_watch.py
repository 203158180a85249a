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


def watched(server, suffix):
    """States of five runs when a lost one has crashed and all is told (or after 90 s), those wanted, and messages."""
    flow = server.send("POST", "flows/", {"name": f"watched{suffix}"})
    lost, alive, failed = (
        begun(server, flow, f"{name}{suffix}", {"type": "RUNNING", "name": "Running"})
        for name in ("lost", "living", "failed")
    )
    late, started = (
        begun(server, flow, f"{name}{suffix}", {"type": "SCHEDULED", "name": "Late"}) for name in ("late", "started")
    )
    beat(server, lost)
    state = {"type": "FAILED", "name": "Failed", "message": POISON.text}
    server.send("POST", f"flow_runs/{failed}/set_state", {"state": state, "force": True})
    time.sleep(1)  # events of the same moment may be seen in another order
    state = {"type": "PENDING", "name": "Pending"}
    server.send("POST", f"flow_runs/{started}/set_state", {"state": state, "force": True})
    until = time.monotonic() + 90
    while time.monotonic() < until:
        beat(server, alive)
        runs = server.ask("flow_runs", flows={"name": {"any_": [flow["name"]]}})
        states = {run["id"]: run["state_type"] for run in runs}
        messages = sorted({text for text in Told.messages if f"{suffix} " in text})  # a server may send one twice
        if states[lost] == "CRASHED" and len(messages) >= 3:
            break
        time.sleep(0.5)
    return (
        states,
        {lost: "CRASHED", alive: "RUNNING", failed: "FAILED", late: "SCHEDULED", started: "PENDING"},
        messages,
    )


def test_lost_runs_crash_and_failed_or_late_ones_are_told(tmp_path, server, listening, forgotten):
    told = ["--silence", "10", "--late", "10", "--notify", listening]
    done = watch(tmp_path, server, ["--silence", "3"], told, told)  # a second time it replaces what it made
    assert done.stdout.endswith("codes [2, 0, 0]\n") and done.stderr.count("error:") == 1, done.stderr[-3000:]
    assert "under 10" in done.stderr  # which no server can count
    made = [each["name"] for each in server.ask("automations")]
    assert sorted(made) == ["anonpipe: failed runs", "anonpipe: late runs", "anonpipe: lost runs"]
    suffix = "-first"
    states, wanted, messages = watched(server, suffix)
    if states != wanted:  # a machine that stands still for ten seconds sends no beats either: once more, with more time
        suffix = "-second"
        watch(tmp_path, server, ["--silence", "40", *told[2:]])
        states, wanted, messages = watched(server, suffix)
    assert states == wanted
    assert len(messages) == 3 and f"failed{suffix} ended as Failed" in messages[0]
    assert f"late{suffix} was not started in time" in messages[1] and f"lost{suffix} ended as Crashed" in messages[2]
    assert POISON.text not in "".join(Told.messages)
