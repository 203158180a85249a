"""From the receipts of the stages to the evidence that the gates judge."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from anonpipe.certificate import loss_bound
from anonpipe.cluster import ClassDisclosure
from anonpipe.context import Context
from anonpipe.grouping import groupings
from anonpipe.job import Job
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, PairwiseMoments, merge_all
from anonpipe.options import MicroPerturbation
from anonpipe.stages import count_combinations, needs_spread, unchanged_names
from anonpipe.synthesize import METHODS as SYNTHESIZERS
from anonpipe.verify.gates import Evidence, Promise


def by_stratum(ctx: Context, stage: str, read: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """Merge what the partitions of each stratum reported, in the order of the partitions."""
    receipts = ctx.staging.receipts(stage).read_all(len(ctx.plan.partitions))
    strata = range(len(ctx.strata.rows))
    return [merge_all([read(r) for r in receipts if r["stratum"] == at]) for at in strata]


def grouped_by_stratum(ctx: Context) -> list[GroupedMoments]:
    """Moments of the original records in their groups, one entry a stratum."""
    return by_stratum(ctx, "group", lambda receipt: GroupedMoments.from_dict(receipt["grouped"]))


def promise_of(job: Job) -> Promise:
    """What the job's synthesizer promises of means and covariances."""
    options = job.synthesize
    exact_groups = SYNTHESIZERS[options.method].exact_group_moments and getattr(options, "moments", "exact") == "exact"
    form = options.form if isinstance(options, MicroPerturbation) else getattr(options, "moments", None)
    strata = exact_groups or options.method == "centroid"
    if isinstance(options, MicroPerturbation):
        strata = options.noise_scope == "stratum"
    return Promise(options.method, form, strata, exact_groups)


def evidence(ctx: Context) -> Evidence:
    """All that the gates look at."""
    staging, job = ctx.staging, ctx.job
    grouped = grouped_by_stratum(ctx)
    written = staging.receipts("write").read_all(ctx.plan.files)
    made = staging.receipts("synthesize").read_all(len(ctx.plan.partitions))
    released = [
        merge_all([PairwiseMoments.from_dict(r["released"][str(at)]) for r in written if str(at) in r["released"]])
        for at in range(len(ctx.strata.rows))
    ]
    return Evidence(
        rows_in=ctx.scan.rows,
        rows_dropped=ctx.strata.dropped,
        rows_out=sum(receipt["rows"] for receipt in written),
        smallest_group=min(receipt["smallest_group"] for receipt in made),
        rows_under_k=_rows_under_k(ctx),
        rows_as_they_were=sum(receipt["as_they_were"] for receipt in made),
        suppressed_share=ctx.suppression.largest_share,
        unchanged=tuple(unchanged_names(ctx)),
        released_names=tuple(ctx.cells.names),
        forbidden_names=tuple(name for name, column in job.columns.items() if not column.role.released),
        beyond_limits=sum(receipt["beyond_limits"] for receipt in written),
        files=len(written),
        view=ctx.view,
        original=by_stratum(ctx, "group", lambda r: PairwiseMoments.from_dict(r["original"])),
        released=released,
        grouped=grouped,
        bound=None if groupings(job) > 1 else loss_bound(ctx, float(np.trace(merge_all(grouped).total.scatter))),
        synthesized=by_stratum(ctx, "synthesize", lambda r: Moments.from_dict(r["synthesized"])),
        classes=_disclosures(ctx),
        spread=by_stratum(ctx, "group", lambda r: GroupSpread.from_dict(r["spread"])) if needs_spread(job) else None,
    )


def _disclosures(ctx: Context) -> dict[str, ClassDisclosure]:
    """What the groups of all partitions tell of each class column."""
    receipts = ctx.staging.receipts("group").read_all(len(ctx.plan.partitions))
    told = {name: [ClassDisclosure(**r["classes"][name]) for r in receipts] for name in ctx.job.class_columns}
    return {name: reduce(ClassDisclosure.merge, parts) for name, parts in told.items()}


def _rows_under_k(ctx: Context) -> int:
    names = unchanged_names(ctx)
    folder = ctx.staging.file("combinations")
    frames = [pd.read_parquet(folder / f"part-{at:05d}.parquet") for at in range(ctx.plan.files)]
    rows = count_combinations(frames, names)["rows"]
    return int(rows[rows < ctx.job.k].sum()) if names else 0
