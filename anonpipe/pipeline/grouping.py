"""The groups of one partition, as the job asks: method, local search, classes."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np

from anonpipe.job.model import Job
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.grouping import ClassDisclosure, class_disclosure, cluster, constrain_classes, refine
from anonpipe.methods.record import Guarantee
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.masker import masker_of
from anonpipe.types import FloatArray, IntArray


def groupings(job: Job) -> int:
    """How many groupings a partition gets: one, or one a class column whose results are averaged."""
    return len(job.class_columns) if job.by_groups.classes.several == "average" else 1


def form_groups(ctx: Context, index: int, cells: FloatArray) -> IntArray:
    """Group the records of a partition, shape (n_rows, n_groupings).

    Raises
    ------
    InputError
        The method, or a condition on classes, cannot be had in this partition.
    """
    points = ctx.points.encode(cells) * np.sqrt(ctx.weights)
    return np.stack([_one(ctx, index, points, cells, given) for given in _classes(ctx, cells)], axis=1)


def _classes(ctx: Context, cells: FloatArray) -> list[dict[str, Any]]:
    """What each grouping is told of classes."""
    methods = ctx.job.by_groups
    if not GROUPINGS[methods.cluster.method].classes:
        return [{}]
    each = ctx.classes if methods.classes.several == "average" else (ctx.compound,)
    return [{"classes": classes.codes(cells), "class_shares": classes.shares} for classes in each]


def _one(ctx: Context, index: int, points: FloatArray, cells: FloatArray, given: dict[str, Any]) -> IntArray:
    job, options = ctx.job, ctx.job.by_groups.cluster
    rng = ctx.rng("cluster", index)
    labels = cluster(points, job.k, options.method, rng=rng, block_rows=options.block_rows, **given, **options.own)
    if options.effort is not None:
        labels = refine(points, labels, job.k, options.effort, rng=ctx.rng("refine", index))
    return _constrained(ctx, points, cells, labels)


def _constrained(ctx: Context, points: FloatArray, cells: FloatArray, labels: IntArray) -> IntArray:
    """Merge groups until every class column meets the job's conditions; one column's merging can undo another's."""
    conditions = ctx.job.by_groups.classes.conditions
    groups = -1
    while conditions and groups != int(labels.max()):
        groups = int(labels.max())
        for column in ctx.classes:
            codes, shares = column.codes(cells), column.shares
            labels = constrain_classes(points, labels, codes, class_shares=shares, **conditions)
    return labels


def merged_disclosures(ctx: Context) -> dict[str, ClassDisclosure]:
    """What the groups of all partitions tell of each class column."""
    receipts = ctx.staging.receipts("group").read_all(len(ctx.plan.partitions))
    told = {name: [ClassDisclosure(**r["classes"][name]) for r in receipts] for name in ctx.job.class_columns}
    return {name: reduce(ClassDisclosure.merge, parts) for name, parts in told.items()}


def size_counts(ctx: Context) -> Counter[int]:
    """How many groups of each size all partitions have."""
    counts: Counter[int] = Counter()
    for receipt in ctx.staging.receipts("group").read_all(len(ctx.plan.partitions)):
        counts.update({int(size): count for size, count in receipt["group_sizes"].items()})
    return counts


def tallied_sizes(ctx: Context) -> IntArray:
    """Records of each group of all partitions, ascending, shape (n_groups,)."""
    counts = size_counts(ctx)
    sizes = sorted(counts)
    return np.repeat(np.array(sizes, dtype=np.int64), [counts[size] for size in sizes])


def keeps_group_moments(job: Job) -> bool:
    """Whether mean and scatter of every group are kept exactly."""
    if job.mask is not None:
        return masker_of(job).grouped
    return guarantee_of(job).scope == "group"


def guarantee_of(job: Job) -> Guarantee:
    """What the job's synthesizer guarantees of means and covariances.

    Raises
    ------
    JobError
        The job masks the whole table.
    """
    options = job.by_groups.synthesize
    guarantee = SYNTHESIZERS[options.method].guarantee
    assert guarantee is not None  # of all that a job can ask for
    return guarantee(options)


def identical_groups(job: Job) -> bool:
    """Whether the records of a group are released as one and the same."""
    if job.mask is not None:
        return masker_of(job).identical_rows
    return SYNTHESIZERS[job.by_groups.synthesize.method].identical_groups and job.decode.categories != "histogram"


def disclosures(ctx: Context, cells: FloatArray, labels: IntArray) -> dict[str, ClassDisclosure]:
    """What the groups tell of each class column; of several groupings, that of the column's own."""
    own = range(labels.shape[1]) if labels.shape[1] > 1 else [0] * len(ctx.classes)
    return {
        column.name: class_disclosure(labels[:, at], column.codes(cells), column.shares)
        for column, at in zip(ctx.classes, own, strict=True)
    }
