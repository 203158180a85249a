"""Automations of the Prefect server: lost runs end as crashed, and runs that failed or are late are reported.

`python -m anonpipe_flows.watch --notify URL`, once; again, it replaces what
it made before. A message holds the run's name, its state and where to look,
and nothing of what went wrong, which may hold counts of few records.
"""

import argparse
import sys
from datetime import timedelta
from uuid import UUID

from prefect.automations import Automation
from prefect.blocks.webhook import Webhook
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.settings import get_current_settings

from anonpipe.errors import AnonpipeError, JobError

from .access import refuse_open_api

LOST, FAILED, LATE = "anonpipe: lost runs", "anonpipe: failed runs", "anonpipe: late runs"
BLOCK = "anonpipe-failed-runs"
BEATS = 4
"""Heartbeats that stay away until a run counts as lost."""

_ENDS = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
_BEAT = "prefect.flow-run.heartbeat"
_RUNS = ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]})
_BEGUN = {f"prefect.flow-run.{state}" for state in ("Pending", "Running")}
_MESSAGE = '{"text": "anonpipe: run {{ flow_run.name }} ended as {{ flow_run.state.name }}; see {{ flow_run|ui_url }}"}'
_NOT_STARTED = (
    '{"text": "anonpipe: run {{ flow_run.name }} was not started in time: no worker? see {{ flow_run|ui_url }}"}'
)


def crash_lost(silence: timedelta) -> Automation:
    """A run whose heartbeats stop before it ends has crashed: a lost machine sends nothing."""
    return Automation(
        name=LOST,
        description="Made by anonpipe_flows.watch.",
        trigger=EventTrigger(
            match=_RUNS,
            after={_BEAT},
            expect={_BEAT, *_ENDS},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=silence,
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=f"no sign of life for {silence.seconds} s")],
    )


def notify_late(webhook: UUID, patience: timedelta) -> Automation:
    """A request to `webhook` for every late run that does not begin; a run that waits for another is not late."""
    return Automation(
        name=LATE,
        description="Made by anonpipe_flows.watch.",
        trigger=EventTrigger(
            match=_RUNS,
            after={"prefect.flow-run.Late"},
            expect=_BEGUN | _ENDS,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=patience,
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=_NOT_STARTED)],
    )


def notify_failed(webhook: UUID) -> Automation:
    """A request to `webhook` for every run that failed or crashed."""
    return Automation(
        name=FAILED,
        description="Made by anonpipe_flows.watch.",
        trigger=EventTrigger(
            match=_RUNS,
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=_MESSAGE)],
    )


def put(wanted: Automation) -> None:
    """Create an automation, or replace the one of its name."""
    try:
        wanted.id = Automation.read(name=wanted.name).id
    except ValueError:
        wanted.create()
    else:
        wanted.update()


def main(arguments: list[str] | None = None) -> int:
    """Make the automations; 0, or 2 where the server cannot be trusted or reached."""
    parser = argparse.ArgumentParser(prog="python -m anonpipe_flows.watch", description=__doc__)
    parser.add_argument("--notify", metavar="URL", help="a POST with JSON goes there for each run that failed")
    parser.add_argument("--late", type=int, default=300, metavar="SECONDS", help="that a late run has (%(default)s)")
    parser.add_argument("--silence", type=int, metavar="SECONDS", help="without a heartbeat; default: four of them")
    given = parser.parse_args(arguments)
    settings = get_current_settings()
    try:
        if settings.api.url is None:
            raise JobError("PREFECT_API_URL names no server, and automations live in one; load the environment")
        refuse_open_api()
        beat = settings.flows.heartbeat_frequency
        silence = given.silence or (BEATS * beat if beat else None)
        if silence is None or min(silence, given.late) < 10:
            raise JobError(
                "heartbeats are off, or --silence or --late is under 10: set PREFECT_FLOWS_HEARTBEAT_FREQUENCY=30"
            )
        put(crash_lost(timedelta(seconds=silence)))
        print(f"runs without a heartbeat for {silence} s end as Crashed")
        if given.notify:
            webhook = Webhook(url=given.notify).save(BLOCK, overwrite=True)
            put(notify_failed(webhook))
            put(notify_late(webhook, timedelta(seconds=given.late)))
            print(f"runs that failed or crashed, or are late by {given.late} s, are reported to the URL given")
    except AnonpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
