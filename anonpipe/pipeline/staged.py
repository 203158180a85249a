"""Where rows lie between the stages, and what stages of groups and of masks do alike with a partition."""

from __future__ import annotations

import numpy as np

from anonpipe.encoding.contents import canonical_order, column_keys
from anonpipe.encoding.points import Groups
from anonpipe.moments import PairwiseMoments, merge_all
from anonpipe.pipeline.context import Context
from anonpipe.storage.staging import Shelf, create_shelf
from anonpipe.types import FloatArray, IntArray

FILES = "files"
"""The folder of the output files, which are not sealed: their receipts tell their SHA-256."""

VALUES = "values"
"""The folder of what one task writes and deletes again, not sealed either."""

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
    return create_shelf(ctx.staging, "routed", rows, len(ctx.cells.names), "float64", pieces)


def partition_cells(ctx: Context, index: int) -> FloatArray:
    """The routed rows of a partition, in an order that follows from their values and the run's key alone."""
    cells = routed_shelf(ctx).gather(ctx.plan.pieces(index))
    return np.ascontiguousarray(cells[canonical_order(cells, column_keys(ctx.staging.key, ctx.cells.names))])


def synthetic_shelf(ctx: Context) -> Shelf:
    """The synthetic rows on their way to the output files; a region a partition."""
    rows = [p.rows for p in ctx.plan.partitions]
    return create_shelf(ctx.staging, "synthetic", rows, len(ctx.cells.names), "float64", ctx.plan.files)


def ends_shelf(ctx: Context, columns: int) -> Shelf:
    """The ends of intervals, or probabilities, of the same rows in the same order; a region a partition."""
    rows = [p.rows for p in ctx.plan.partitions]
    return create_shelf(ctx.staging, "ends", rows, columns, "float64", ctx.plan.files)


def hand_out(ctx: Context, index: int, released: FloatArray, ends: FloatArray | None = None) -> list[int]:
    """Send each released row of a partition to a random output file; returns the rows of each file."""
    order, file = _shuffled(ctx, index, len(released))
    synthetic_shelf(ctx).write(index, released[order])
    if ends is not None:
        ends_shelf(ctx, ends.shape[1]).write(index, ends[order])
    counts: list[int] = np.bincount(file, minlength=ctx.plan.files).tolist()
    return counts


def _shuffled(ctx: Context, index: int, rows: int) -> tuple[IntArray, IntArray]:
    """Which row of a partition lies where on its shelf, and the output file of each row; redrawn when asked again."""
    rng = ctx.rng("shuffle", index)
    arrival = rng.permutation(rows)
    file = rng.integers(0, ctx.plan.files, rows)
    return arrival[np.argsort(file[arrival], kind="stable")], file


def released_cells(ctx: Context, index: int) -> tuple[FloatArray, IntArray]:
    """The released rows of a partition in the order of its original rows, and where each lies on the shelf.

    For what measures the release; a recipient has only the shuffled files.
    Where categories are released as probabilities, these follow the cells,
    which hold the most probable category.
    """
    rows = ctx.plan.partitions[index].rows
    order, _ = _shuffled(ctx, index, rows)
    probabilities = 0 if ctx.probabilities is None else len(ctx.probabilities.fields)
    cells, places = np.empty((rows, len(ctx.cells.names) + probabilities)), np.empty(rows, dtype=np.int64)
    cells[order, : len(ctx.cells.names)] = synthetic_shelf(ctx).read(index, 0, rows)
    if probabilities:
        cells[order, len(ctx.cells.names) :] = ends_shelf(ctx, probabilities).read(index, 0, rows)
    places[order] = np.arange(rows)
    return cells, places


def with_probabilities(
    ctx: Context, index: int, points: FloatArray, given: FloatArray, groups: Groups, released: FloatArray
) -> tuple[FloatArray, FloatArray | None]:
    """The released cells of a partition where categories may be released as probabilities.

    Parameters
    ----------
    points
        Synthetic points, shape (n_rows, width).
    given
        Cells that hold the categories whose shares are kept.
    groups
        Groups of the records.
    released
        Decoded cells.

    Returns
    -------
    tuple
        The cells, with the most probable categories, which are not released
        but what a reader would guess; and the probabilities, None for none.
    """
    if ctx.probabilities is None:
        return released, None
    shares = ctx.probabilities.decode(points, given, groups, rng=ctx.rng("probabilities", index))
    return ctx.probabilities.put_most_probable(released, shares), shares


def verified_moments(ctx: Context, cells: FloatArray) -> PairwiseMoments:
    """Moments of the verified variables."""
    parts = [
        PairwiseMoments.of(ctx.view.measure(cells[at : at + MEASURE_ROWS])) for at in range(0, len(cells), MEASURE_ROWS)
    ]
    return merge_all(parts)
