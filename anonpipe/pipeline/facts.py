"""The facts of a finished run, from its staging and its manifest."""

from __future__ import annotations

from typing import Any

from anonpipe.encoding.values import numbers
from anonpipe.evaluate.utility import correlation_changes, distributions, survival_pictures
from anonpipe.job.analyses import endpoints_of
from anonpipe.moments import merge_all
from anonpipe.pipeline.collect import original_moments, released_moments
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.evaluation.measures import load_assessment, sampled_tables
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.partitioning import Cut
from anonpipe.report.build import Facts
from anonpipe.report.compared import Measured, compared
from anonpipe.report.content import Compared
from anonpipe.verify.output_control import bins_for_recipients, bins_for_steward
from anonpipe.verify.verdict import Verdict


def gather(
    work: Work,
    fitted: Fitted,
    cut: Cut,
    verdict: Verdict,
    manifest: dict[str, Any],
    warnings: tuple[str, ...],
    overlaps: bool,
) -> Facts:
    """All that the reports of a run are made of.

    Parameters
    ----------
    work, fitted, cut
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
    job, tables = fitted.job, sampled_tables(work, fitted, cut)
    pictures: dict[str, Any] = {"distributions": {}, "survival": {}, "correlations": None, "pictured": 0}
    if tables is not None and len(tables.original):
        kinds = {name: tables.kinds[name] for name in fitted.input.names if name in tables.kinds}
        given = (tables.original, tables.released, kinds)
        bins = {"internal": bins_for_steward(fitted.least), "external": bins_for_recipients(fitted.least)}
        endpoints = endpoints_of(job)
        pictures = {
            "distributions": {audience: distributions(*given, each) for audience, each in bins.items()},
            "survival": {audience: survival_pictures(*given, endpoints, each) for audience, each in bins.items()},
            "correlations": correlation_changes(*given),
            "pictured": len(tables.original),
        }
    return Facts(
        job=job,
        least=fitted.least,
        units=fitted.unit is not None,
        verdict=verdict,
        assessment=load_assessment(work),
        warnings=warnings,
        columns=manifest["columns"],
        overlaps=overlaps,
        created=manifest["created"],
        anonpipe=manifest["anonpipe"],
        rows=manifest["rows"],
        partitions=len(cut.partitions),
        identical=fitted.procedure.one_row_a_group,
        group_sizes=manifest["group_sizes"],
        files=manifest["files"],
        compared=_compared(work, fitted, cut),
        **pictures,
    )


def _compared(work: Work, fitted: Fitted, cut: Cut) -> Compared:
    """Figures of all records of both tables, in its order; columns that became probabilities are left out."""
    released, left_out = fitted.job.released, fitted.job.as_probabilities
    columns = {name: released[name] for name in fitted.input.names if name in released and name not in left_out}
    staged = {name: fitted.cells.categories[name] for name in columns if name in fitted.cells.categories}
    levels = {name: each.to_pylist() if columns[name].kind.coded else numbers(each) for name, each in staged.items()}
    both = Measured(
        fitted.view, merge_all(original_moments(work, fitted, cut)), merge_all(released_moments(work, fitted, cut))
    )
    return compared(both, columns, levels, fitted.suppression.before, fitted.least)
