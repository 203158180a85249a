"""What no grouping could lose less than, for a run whose rows lie in partitions.

A sample of records, drawn by the run's key, is set aside in the staging while
groups are formed, and held against every partition while records are replaced.
A small table is measured whole, and its bound is then exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.methods.grouping import LossBound, bound_from_distances, smallest_distances
from anonpipe.pipeline.context import Context
from anonpipe.types import FloatArray

PAIRS = 20_000_000
"""Pairs of records that may be measured, some tenths of a second: all up to 4,472 rows, 200 against all of 100,000."""

FEWEST = 128
"""Records measured of the largest tables."""


def set_aside(ctx: Context, index: int, points: FloatArray) -> None:
    """Keep the points of the partition's sampled records."""
    begin = sum(partition.rows for partition in ctx.plan.partitions[:index])
    ctx.staging.write_array(_file("records", index), points[_sampled_rows(ctx, begin, len(points))])


def _sampled_rows(ctx: Context, begin: int, rows: int) -> npt.NDArray[np.int64]:
    sampled = max(FEWEST, PAIRS // max(1, ctx.plan.rows))
    if sampled >= ctx.plan.rows:
        return np.arange(rows)
    chosen = ctx.rng("certificate", 0).choice(ctx.plan.rows, sampled, replace=False)
    return np.sort(chosen[(chosen >= begin) & (chosen < begin + rows)]) - begin


def measure(ctx: Context, index: int, points: FloatArray) -> None:
    """Keep the smallest distances of all sampled records to those of one partition."""
    partitions = range(len(ctx.plan.partitions))
    queries = np.concatenate([ctx.staging.read_array(_file("records", at)) for at in partitions])
    ctx.staging.write_array(_file("distances", index), smallest_distances(points, queries, ctx.job.k))


def loss_bound(ctx: Context, total_scatter: float) -> LossBound:
    """The bound of the whole table, from what the partitions measured."""
    partitions = range(len(ctx.plan.partitions))
    distances = np.concatenate([ctx.staging.read_array(_file("distances", at)) for at in partitions], axis=1)
    smallest = np.sort(distances, axis=1)[:, : ctx.job.k]
    return bound_from_distances(smallest, ctx.job.k, ctx.plan.rows, total_scatter)


def _file(what: str, index: int) -> str:
    return f"certificate/{what}-{index}.npy"
