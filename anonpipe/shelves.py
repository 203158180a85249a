"""Where rows lie between the stages, and what stages of groups and of masks do alike with a partition."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.context import Context
from anonpipe.moments import PairwiseMoments, merge_all
from anonpipe.store import Shelf, create_shelf

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MEASURE_ROWS = 65_536

SLAB_ROWS = 262_144
"""Input rows that are sorted by leaf at once."""


def slab_rows(ctx: Context) -> list[list[int]]:
    """Rows of each slab of each input unit: a unit is routed slab by slab, so that memory does not grow with it."""
    return [[min(SLAB_ROWS, unit.rows - at) for at in range(0, unit.rows, SLAB_ROWS)] for unit in ctx.source.units]


def first_slab(ctx: Context, index: int) -> int:
    """The region of a unit's first slab."""
    return sum(len(slabs) for slabs in slab_rows(ctx)[:index])


def routed_shelf(ctx: Context) -> Shelf:
    """The routed rows; a region a slab."""
    rows = [count for slabs in slab_rows(ctx) for count in slabs]
    pieces = sum(tree.leaves for tree in ctx.trees)
    return create_shelf(ctx.staging.file("routed"), rows, len(ctx.cells.names), "float64", pieces)


def synthetic_shelf(ctx: Context) -> Shelf:
    """The synthetic rows on their way to the output files; a region a partition."""
    rows = [p.rows for p in ctx.plan.partitions]
    return create_shelf(ctx.staging.file("synthetic"), rows, len(ctx.cells.names), "float64", ctx.plan.files)


def hand_out(ctx: Context, index: int, released: FloatArray) -> list[int]:
    """Send each released row of a partition to a random output file; returns the rows of each file."""
    rng = ctx.rng("shuffle", index)
    arrival = rng.permutation(len(released))
    file = rng.integers(0, ctx.plan.files, len(released))
    order = arrival[np.argsort(file[arrival], kind="stable")]
    synthetic_shelf(ctx).write(index, released[order])
    counts: list[int] = np.bincount(file, minlength=ctx.plan.files).tolist()
    return counts


def verified_moments(ctx: Context, cells: FloatArray) -> PairwiseMoments:
    """Moments of the verified variables."""
    parts = [
        PairwiseMoments.of(ctx.view.measure(cells[at : at + MEASURE_ROWS])) for at in range(0, len(cells), MEASURE_ROWS)
    ]
    return merge_all(parts)
