"""Sections of a job as `anonpipe plan` shows them."""

from __future__ import annotations

from typing import Any

from anonpipe.job.model import Job


def options_text(options: Any) -> str:
    """The options of a section that have a value, but its method and scenarios, which have lines of their own."""
    content = options.model_dump(mode="json", exclude={"method", "scenarios"})
    if content.get("units") == "split":  # of units of a row each there is nothing to say
        del content["units"]
    return ", ".join(f"{key}={value}" for key, value in content.items() if value is not None)


def gates_text(job: Job) -> str:
    """All limits, and of which risks they are the usual ones."""
    held = job.gates.of_every_run | {name: limit for name, limit in job.limits.items() if limit is not None}
    usual = job.gates.left_to_usual
    return ", ".join(f"{name}={limit:g}{' (usual)' if name in usual else ''}" for name, limit in held.items())
