"""A run held against earlier releases: what it shares with them, before it and once more before it is published."""

from __future__ import annotations

from anonpipe.pipeline.fit import trace_of
from anonpipe.pipeline.opening import Run
from anonpipe.rng import steward_secret
from anonpipe.storage import release
from anonpipe.storage import release_log as release_log
from anonpipe.storage.release_log import Found

_FILE = "repeats.npz"


def check_repeats(run: Run) -> None:
    """Hold the scanned input against earlier releases, and leave what is found in the staging."""
    if run.repeats == "ignore":
        return
    where = release.place(run.job.output, run.job.report.internal) if run.repeats == "refuse" else None
    found = release_log.look(trace_of(run.context.work), steward_secret(), where)
    if found.problems and run.repeats == "refuse" and run.job.repeat.allow is None:
        raise release_log.refusal(found)
    run.staging.write_record(_FILE, found)


def found_repeats(run: Run) -> Found:
    """What `check_repeats` found."""
    found: Found = run.staging.read_record(_FILE, Found) if run.staging.has(_FILE) else Found()
    return found


def overlaps(run: Run) -> bool:
    """Whether records are in earlier releases, too: as the steward has allowed, or as the register grows."""
    found = found_repeats(run)
    return bool(found.held) or (bool(found.problems) and run.job.repeat.allow is not None)


def repeat_notes(run: Run) -> tuple[str, ...]:
    """What the verdict says of earlier releases."""
    found, said = found_repeats(run), []
    if found.problems and run.job.repeat.allow is not None:
        said.append(f"{release_log.ALLOWED}{run.job.repeat.allow}")
    elif found.held:
        said.append(release_log.HELD.format(count=found.held, at_least=run.job.fewest_changed))
    return tuple(said)
