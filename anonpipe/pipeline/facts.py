"""The facts of a finished run, from its staging and its manifest."""

from __future__ import annotations

from typing import Any

import numpy as np

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
from anonpipe.report.compared import Measured, category_pictures, compared
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
    """All that the reports of a run are made of."""
    job, tables = fitted.job, sampled_tables(work, fitted, cut)
    pictures: dict[str, Any] = {"distributions": {}, "survival": {}, "correlations": None, "pictured": 0}
    if tables is not None and len(tables.original):
        kinds = {name: tables.kinds[name] for name in fitted.input.names if name in tables.kinds}
        given = (tables.original, tables.released, kinds)
        bins = {"internal": bins_for_steward(fitted.least), "external": bins_for_recipients(job.k, fitted.least_told)}
        endpoints = endpoints_of(job)
        pictures = {
            "distributions": {audience: distributions(*given, each) for audience, each in bins.items()},
            "survival": {audience: survival_pictures(*given, endpoints, each) for audience, each in bins.items()},
            "correlations": correlation_changes(*given),
            "pictured": len(tables.original),
        }
    return Facts(
        job=job,
        least=fitted.least_told,
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
        **_of_all_records(work, fitted, cut),
        **pictures,
    )


def _of_all_records(work: Work, fitted: Fitted, cut: Cut) -> dict[str, Any]:
    """Figures of all records of both tables, in its order; columns that became probabilities are left out."""
    released, left_out = fitted.job.released, fitted.job.as_probabilities
    columns = {name: released[name] for name in fitted.input.names if name in released and name not in left_out}
    staged = {name: fitted.cells.categories[name] for name in columns if name in fitted.cells.categories}
    levels = {name: each.to_pylist() if columns[name].kind.coded else numbers(each) for name, each in staged.items()}
    both = Measured(
        fitted.view, merge_all(original_moments(work, fitted, cut)), merge_all(released_moments(work, fitted, cut))
    )
    given = both, columns, levels, _before(fitted)
    return {
        "compared": compared(*given, fitted.least),
        "categories": category_pictures(*given, bins_for_steward(fitted.least)),
    }


def _before(fitted: Fitted) -> dict[str, list[int]]:
    """Of columns of which rare categories were suppressed, or small strata merged, the records of each code before."""
    strata, names, scan = fitted.strata, fitted.job.strata.by, fitted.scan
    if not names or strata.recoded == tuple(range(len(strata.recoded))):
        return fitted.suppression.before
    kept = np.where(np.asarray(strata.stratum) >= 0, scan.combination_counts(fitted.cells, names), 0)
    counts = kept.reshape([len(scan.code_counts(name)) for name in names])
    found = dict(fitted.suppression.before)
    for at, name in enumerate(names):
        own = counts.sum(axis=tuple(other for other in range(len(names)) if other != at))
        codes = len(fitted.cells.categories[name])
        found[name] = [*own[:codes].tolist(), int(own[codes:].sum())]
    return found
