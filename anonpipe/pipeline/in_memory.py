"""A run in this process that publishes nothing, and hands back what it made: for notebooks."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.job.model import Job
from anonpipe.pipeline.facts import gather
from anonpipe.pipeline.manifest import manifest
from anonpipe.pipeline.opening import Run
from anonpipe.pipeline.publish import warnings_of
from anonpipe.pipeline.repeats import overlaps
from anonpipe.pipeline.run import unpublished, verify
from anonpipe.pipeline.staged import FILES
from anonpipe.progress import OnProgress
from anonpipe.report import Report, external, internal
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import remedies


@dataclass(frozen=True)
class InMemory:
    """What a run made that publishes nothing."""

    verdict: Verdict  # All checks
    table: pa.Table | None  # What a release would hold; None where a gate failed
    warnings: tuple[str, ...]  # What the steward should look at
    # report, for_recipients: the steward's report, and the one that may go with the table, where there is one
    report: Report
    for_recipients: Report | None
    remedies: tuple[str, ...] = ()  # What helps where a gate failed


def in_memory(job: Job, on_progress: OnProgress = lambda _: None) -> InMemory:
    """Run a job in this process and hand the released table back, read from the very bytes that were checked.

    Nothing is published, nothing is entered in the logs of releases, which
    are asked all the same, and the staging is deleted.
    """
    return unpublished(job, False, on_progress, "warn", _ended)


def _ended(run: Run) -> InMemory:
    verdict, warnings, records = verify(run), tuple(warnings_of(run)), run.context
    facts = records.call(gather, verdict, records.call(manifest, verdict), warnings, overlaps(run))
    table, for_recipients = (_written(run), external(facts)) if verdict.passed else (None, None)
    helps = () if verdict.passed else remedies(verdict.checks, run.job.in_force)
    return InMemory(verdict, table, warnings, internal(facts, None), for_recipients, helps)


def _written(run: Run) -> pa.Table:
    """All files of the staging, in their order."""
    paths = [run.staging.file(FILES) / f"part-{at:05d}.parquet" for at in range(run.context.cut.files)]
    return pa.concat_tables([pq.read_table(path) for path in paths])
