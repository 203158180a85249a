"""What the attacks share: runs that are not published, whatever their verdict, and a line a setting."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from anonpipe.job.model import Job
from anonpipe.pipeline.evaluation.measures import load_assessment
from anonpipe.pipeline.run import Run, to_the_end
from anonpipe.verify.verdict import Assessment

Ended = TypeVar("Ended")


def looked_into(job: Job, look: Callable[[Run], Ended]) -> Ended:
    """What is seen of a run that has written its files."""
    return to_the_end(job, False, lambda _: None, "ignore", look)


def assessed(job: Job) -> Assessment:
    """What the run measures of its own release."""
    return looked_into(job, lambda run: load_assessment(run.context.work))


def show(settings: dict[str, dict[str, Any]], attack: Callable[..., Any]) -> None:
    """Print what `attack(folder, **changes)` finds, a line a setting."""
    for name, changes in settings.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:46}", attack(Path(folder), **changes), flush=True)
