"""The facts of a finished run, from its staging and its manifest."""

from __future__ import annotations

from typing import Any

from anonpipe.evaluate.utility import correlation_changes, distributions
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.evaluation import load_assessment, sampled_tables
from anonpipe.pipeline.grouping import identical_groups
from anonpipe.report.build import Facts
from anonpipe.verify.output_control import bins_for_recipients, bins_for_steward
from anonpipe.verify.verdict import Verdict


def gather(
    ctx: Context, verdict: Verdict, manifest: dict[str, Any], warnings: tuple[str, ...], overlaps: bool
) -> Facts:
    """All that the reports of a run are made of.

    Parameters
    ----------
    ctx
        The run; everything up to its verdict is done.
    verdict
        As judged: the steward's.
    manifest
        Of the release, or of what would have been released.
    warnings
        For the steward.
    overlaps
        Whether the steward allowed that records are in earlier releases, too.
    """
    job, tables = ctx.job, sampled_tables(ctx)
    pictures: dict[str, Any] = {"distributions": {}, "correlations": None, "pictured": 0}
    if tables is not None and len(tables.original):
        given = (tables.original, tables.released, tables.kinds)
        pictures = {
            "distributions": {
                "internal": distributions(*given, bins_for_steward(job.k)),
                "releasable": distributions(*given, bins_for_recipients(job.k)),
            },
            "correlations": correlation_changes(*given),
            "pictured": len(tables.original),
        }
    return Facts(
        job=job,
        verdict=verdict,
        assessment=load_assessment(ctx),
        warnings=warnings,
        columns=manifest["columns"],
        overlaps=overlaps,
        created=manifest["created"],
        anonpipe=manifest["anonpipe"],
        rows=manifest["rows"],
        partitions=len(ctx.plan.partitions),
        identical=identical_groups(job),
        group_sizes=manifest["group_sizes"],
        files=manifest["files"],
        **pictures,
    )
