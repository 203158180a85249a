"""From the receipts of the stages to the evidence that the gates judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from anonpipe.encoding.tally import Tally, expected_tallies
from anonpipe.job.model import Job
from anonpipe.methods.masking import Columns, RecordsAndDraws
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, PairwiseMoments, merge_all, noise_scopes
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.grouping import groupings, guarantee_of, identical_groups, merged_disclosures, size_counts
from anonpipe.pipeline.loss_bound import loss_bound
from anonpipe.pipeline.mask_stages import StepTask, groups_file, load_record, scopes
from anonpipe.pipeline.masker import first_columns, job_promise, masker_of
from anonpipe.pipeline.original_values import compared_names, handed_on
from anonpipe.pipeline.stages import count_combinations, needs_spread, read_combinations, unchanged_names
from anonpipe.types import FloatArray
from anonpipe.verify.arrived import Arrived
from anonpipe.verify.gates import ClassConditions, Evidence, GroupEvidence, MaskEvidence
from anonpipe.verify.kept_groups import KeptGroups
from anonpipe.verify.promises import Target


def by_stratum(ctx: Context, stage: str, read: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """Merge what the partitions of each stratum reported, in the order of the partitions."""
    receipts = ctx.staging.receipts(stage).read_all(len(ctx.plan.partitions))
    strata = range(len(ctx.strata.rows))
    return [merge_all([read(r) for r in receipts if r["stratum"] == at]) for at in strata]


def grouped_by_stratum(ctx: Context) -> list[GroupedMoments]:
    """Moments of the original records in their groups, one entry a stratum."""
    return by_stratum(ctx, "group", lambda receipt: GroupedMoments.from_dict(receipt["grouped"]))


def middle_stages(job: Job) -> tuple[str, str]:
    """The stages whose receipts tell of the original and of the synthetic records of each partition."""
    return ("group", "synthesize") if job.mask is None else ("encode", "decode")


def original_moments(ctx: Context) -> list[PairwiseMoments]:
    """Moments of the verified variables in the original records, one entry a stratum."""
    return by_stratum(ctx, middle_stages(ctx.job)[0], lambda r: PairwiseMoments.from_dict(r["original"]))


def released_moments(ctx: Context) -> list[PairwiseMoments]:
    """The same of the rows that were written."""
    written = [receipt["released"] for receipt in ctx.staging.receipts("write").read_all(ctx.plan.files)]
    return [
        merge_all([PairwiseMoments.from_dict(told[str(at)]) for told in written if str(at) in told])
        for at in range(len(ctx.strata.rows))
    ]


def evidence(ctx: Context) -> Evidence:
    """All that the gates look at."""
    staging, job = ctx.staging, ctx.job
    _, after = middle_stages(job)
    scanned = staging.receipts("scan").read_all(len(ctx.source.units))
    written = staging.receipts("write").read_all(ctx.plan.files)
    made = staging.receipts(after).read_all(len(ctx.plan.partitions))
    return Evidence(
        rows_in=sum(receipt["rows"] for receipt in scanned),
        rows_held_out=sum(receipt["held_out"] for receipt in scanned),
        rows_dropped=ctx.strata.dropped,
        rows_out=sum(receipt["rows"] for receipt in written),
        rows_under_k=_rows_under_k(ctx),
        rows_as_they_were=sum(receipt["as_they_were"] for receipt in made),
        suppressed=(ctx.suppression.largest_share, ctx.suppression.largest_in),
        handed_on=handed_on(ctx, staging.receipts("values").read_all(len(compared_names(job)))),
        unchanged=tuple(unchanged_names(ctx)),
        released_names=tuple(ctx.schema.names),
        forbidden_names=tuple(name for name, column in job.columns.items() if not column.role.released),
        beyond_limits=sum(receipt["beyond_limits"] for receipt in written),
        files=len(written),
        view=ctx.view,
        point_columns=_point_columns(ctx),
        original=original_moments(ctx),
        released=released_moments(ctx),
        synthesized=by_stratum(ctx, after, lambda r: Moments.from_dict(r["synthesized"])),
        by=_of_groups(ctx, made) if job.mask is None else _of_mask(ctx, made),
        arrived=_arrived(ctx),
    )


def _arrived(ctx: Context) -> Arrived:
    """What the scan says of the rows in the staging, and what the stages that read them found."""
    table, strata, before_drop = expected_tallies(ctx.scan, ctx.cells, ctx.strata, ctx.job.strata.by)
    stages = middle_stages(ctx.job)
    read = tuple(tuple(by_stratum(ctx, stage, lambda r: Tally.from_dict(r["tally"]))) for stage in stages)
    filled = tuple(at for at, name in enumerate(ctx.cells.names) if ctx.scan.columns[name].nulls == 0)
    return Arrived(table, tuple(strata), read, before_drop, filled)


def _of_groups(ctx: Context, made: list[dict[str, Any]]) -> GroupEvidence:
    job, grouped = ctx.job, grouped_by_stratum(ctx)
    return GroupEvidence(
        guarantee=guarantee_of(job),
        identical=identical_groups(job),
        asked=ClassConditions(**job.by_groups.classes.model_dump(exclude={"several"})),
        smallest_group=min(receipt["smallest_group"] for receipt in made),
        grouped=grouped,
        spread=by_stratum(ctx, "group", lambda r: GroupSpread.from_dict(r["spread"])) if needs_spread(job) else None,
        bound=None if groupings(job) > 1 else loss_bound(ctx, float(np.trace(merge_all(grouped).total.scatter))),
        classes=merged_disclosures(ctx),
        scopes=scopes_of_noise(job, grouped),
    )


def scopes_of_noise(job: Job, grouped: list[GroupedMoments]) -> list[int]:
    """Of each stratum, which scope it belongs to: strata of a scope share what is promised of means and covariances.

    One scope where the promise is for the table alone.
    """
    if guarantee_of(job).scope == "table":
        return [0] * len(grouped)
    shared = SYNTHESIZERS[job.by_groups.synthesize.method].noise is not None
    return noise_scopes(grouped) if shared else list(range(len(grouped)))


def _point_columns(ctx: Context) -> tuple[int | None, ...]:
    """Of each variable of the view the column of points that it is released from; None where there is none.

    Categories of an ordinal column are cut from its number.
    """
    columns: dict[tuple[int, int | None], int] = {}
    numbers = {block.position: block.start for block in ctx.points.numbers}
    for block in ctx.points.categories:
        dummies = block.stop - block.start  # one may stand for two categories
        columns |= {
            (block.position, int(code)): block.start + at % dummies for at, code in enumerate(block.codes) if dummies
        }
    return tuple(columns.get((each.position, each.category), numbers.get(each.position)) for each in ctx.view.variables)


def _of_mask(ctx: Context, made: list[dict[str, Any]]) -> MaskEvidence:
    masker = masker_of(ctx.job)
    encoded = ctx.staging.receipts("encode").read_all(len(ctx.plan.partitions))
    scoped = _scoped_moments(ctx, encoded)
    scored = {column for block in ctx.points.category_columns for column in block} if masker.leaves_scores else set()
    promised, found = _promised_sums(ctx), _column_sums(made)
    changed = [promised[column] != found[column] for column in promised if column not in scored]
    return MaskEvidence(
        method=masker.name,
        masked=[_masked_target(ctx, scope, points, len(scoped)) for scope, points in enumerate(scoped)],
        columns_changed=sum(changed) if masker.exact_columns else None,
        fewest_alike=min(receipt["fewest_alike"] for receipt in made) if masker.identical_rows else None,
        groups=_kept_groups(ctx) if masker.grouped else None,
    )


def _masked_target(ctx: Context, scope: int, points: Moments, tables: int) -> Target:
    """What is promised of one of the tables that are masked by themselves."""
    promised = job_promise(ctx.job, ctx.points, ctx.beside.width, points, _largest_permuted(ctx, scope))
    return Target(first_columns(points, ctx.points.width), promised, tables)


def _largest_permuted(ctx: Context, scope: int) -> FloatArray | None:
    """Largest size of what a masker permuted along each axis; None where it permutes none."""
    if not masker_of(ctx.job).permutes:
        return None
    number = next(at for at, step in enumerate(ctx.steps) if isinstance(step, Columns))
    task = StepTask.read(ctx, f"mask-{number}")
    receipts = ctx.staging.receipts(f"mask-{number}").read_all(task.channels * len(scopes(ctx)))
    return np.array([each["largest"] for each in receipts[scope * task.channels : (scope + 1) * task.channels]])


def _kept_groups(ctx: Context) -> KeptGroups:
    """What became of groups that span the partitions of a stratum."""
    strata: dict[int, list[RecordsAndDraws]] = {}
    for index, partition in enumerate(ctx.plan.partitions):
        strata.setdefault(partition.stratum, []).append(load_record(ctx, groups_file(index)))
    return KeptGroups.of(list(strata.values()))


def group_sizes(ctx: Context) -> Counter[int] | None:
    """How many groups of each size there are; None where there are none."""
    if ctx.job.mask is None:
        return size_counts(ctx)
    return Counter(_kept_groups(ctx).sizes) if masker_of(ctx.job).grouped else None


def _scoped_moments(ctx: Context, encoded: list[dict[str, Any]]) -> list[Moments]:
    """Moments of the points of what is masked as one table: of each stratum, or of all records."""
    if ctx.job.masks_strata:
        return by_stratum(ctx, "encode", lambda receipt: Moments.from_dict(receipt["points"]))
    return [merge_all([Moments.from_dict(receipt["points"]) for receipt in encoded])]


def _promised_sums(ctx: Context) -> dict[int, int]:
    """Of each masked column of points, the sum of the hashes of what it is promised to hold in all scopes."""
    sums: dict[int, int] = {}
    for number, step in enumerate(ctx.steps):
        if not isinstance(step, Columns) or step.holds is None:
            continue
        pieces = (ctx.points.width + ctx.beside.width) * len(scopes(ctx))
        for receipt in ctx.staging.receipts(f"mask-{number}").read_all(pieces):
            if receipt["place"] < ctx.points.width:
                [told] = receipt["column_sums"]
                sums[receipt["place"]] = (sums.get(receipt["place"], 0) + told) % 2**64
    return sums


def _column_sums(receipts: list[dict[str, Any]]) -> list[int]:
    """Of each column of points, the sum of the hashes of its values in all partitions."""
    return [sum(sums) % 2**64 for sums in zip(*(receipt["column_sums"] for receipt in receipts), strict=True)]


MOST_TOLD = 10
"""Columns whose released values beyond the original ones are told one by one."""

REPEATED = 0.5
"""Share of rows in groups of repeated rows from which on the steward is warned."""


def release_warnings(ctx: Context) -> list[str]:
    """What the steward should know of the values that were made; the shares tell of extremes, and are not released."""
    return _beyond_original(ctx) + _repeated_rows(ctx)


def _beyond_original(ctx: Context) -> list[str]:
    """Of each column without bounds the share of released values that no original one reaches."""
    receipts = [receipt["beyond_original"] for receipt in ctx.staging.receipts("write").read_all(ctx.plan.files)]
    shares: dict[str, float] = {}
    for name in receipts[0] if receipts else ():
        beyond, values = (sum(receipt[name][at] for receipt in receipts) for at in (0, 1))
        if beyond:
            shares[name] = beyond / values
    worst = sorted(shares, key=lambda name: -shares[name])
    found = [
        f"{name}: {_percent(shares[name])} of the released values lie below or above all original ones; "
        "declare bounds from the code book"
        for name in worst[:MOST_TOLD]
    ]
    if len(worst) > MOST_TOLD:
        found.append(f"of {len(worst) - MOST_TOLD} more columns without bounds fewer values do; declare them, too")
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else "fewer than 0.1 %"


def _repeated_rows(ctx: Context) -> list[str]:
    """Whether most rows lie in groups without any spread, of which nothing is masked."""
    if ctx.job.mask is not None:
        return []
    repeated = sum(r["without_spread"] for r in ctx.staging.receipts("group").read_all(len(ctx.plan.partitions)))
    share = repeated / max(1, ctx.plan.rows)
    if share <= REPEATED:
        return []
    noise = SYNTHESIZERS[ctx.job.by_groups.synthesize.method].noise is not None and repeated < ctx.plan.rows
    how = "with no more than the noise that the other groups ask for" if noise else "nearly as they are"
    return [
        f"{100 * share:.0f} % of the rows lie in groups without any spread, as the same row occurs again and again: "
        f"they are released {how}; where one person has several rows, make one row a person first"
    ]


def _rows_under_k(ctx: Context) -> int:
    names = unchanged_names(ctx)
    frames = [read_combinations(ctx, at) for at in range(ctx.plan.files)]
    rows = count_combinations(frames, names)["rows"]
    return int(rows[rows < ctx.job.k].sum()) if names else 0
