"""Looking for sampled records in every partition: of the release, and of the original itself as the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.assess._held import held_cells
from anonpipe.assess._points import known_points
from anonpipe.assess._sample import FOLDER, Queries, read_queries, rows_before
from anonpipe.context import Context
from anonpipe.errors import EngineError
from anonpipe.risk import Nearest, Ranks, merge_nearest, nearest
from anonpipe.shelves import released_cells, routed_shelf

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Receipt = dict[str, Any]

NEIGHBOURS = 5
"""Records that are found for each query: what Lasko & Vinterbo's ambiguity and uncertainty look at."""

SEARCHES = ("release", "original", "ranks", "held_release")
"""The sampled records in the release and among the other originals; by ranks; and the held-out ones in the release."""


def search_partition(ctx: Context, index: int, labels: IntArray | None) -> Receipt:
    """Keep, for all that is looked for, the nearest records of one partition.

    Parameters
    ----------
    labels
        The group of each record, by its number in the whole table; None for
        no groups.
    """
    begin, queries = rows_before(ctx, index), read_queries(ctx)
    cells, places = released_cells(ctx, index)
    order = np.argsort(places)  # back to the order of the shelf, in which released rows are numbered
    released = np.ascontiguousarray(known_points(ctx, cells)[order])
    groups = np.full(len(cells), -1) if labels is None else labels[order]
    found = {"release": nearest(released, queries.points, NEIGHBOURS, offset=begin, values=True)}
    found["ranks"] = _by_ranks(released, queries, begin)
    if len(held := held_cells(ctx)):
        found["held_release"] = nearest(released, known_points(ctx, held), 2, offset=begin)
    del cells, released
    original = known_points(ctx, routed_shelf(ctx).gather(ctx.plan.pieces(index)))
    found["original"] = nearest(
        original, queries.points, NEIGHBOURS, offset=begin, without=queries.own_original, values=True
    )
    _save(ctx, index, found, groups, begin)
    return {"rows": len(original)}


def _by_ranks(released: FloatArray, queries: Queries, begin: int) -> Nearest:
    """By ranks, each table's own: what stays right where a method shifts or stretches a column."""
    before, after = Ranks.of(queries.ranked_original), Ranks.of(queries.ranked_released)
    return nearest(after.apply(released), before.apply(queries.points), 2, offset=begin)


def _save(ctx: Context, index: int, found: dict[str, Nearest], groups: IntArray, begin: int) -> None:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, one in found.items():
        arrays |= {f"{name}.squared": one.squared, f"{name}.rows": one.rows}
        if one.values is not None:
            arrays[f"{name}.values"] = one.values
        if name in ("release", "ranks"):
            arrays[f"{name}.groups"] = np.where(one.rows >= 0, groups[np.maximum(one.rows - begin, 0)], -1)
    path = _file(ctx, index)
    draft = path.with_suffix(".draft.npz")
    np.savez(draft, **arrays)  # type: ignore[arg-type]
    draft.replace(path)


def _file(ctx: Context, index: int) -> Path:
    return ctx.staging.folder(FOLDER) / f"found-{index}.npz"


@dataclass(frozen=True, eq=False)
class Found:
    """The nearest records of the whole table.

    Attributes
    ----------
    nearest
        As found in all partitions together.
    groups
        The group of each, of the shape of `nearest.rows`; None where there
        are no groups.
    """

    nearest: Nearest
    groups: IntArray | None


def found_in(ctx: Context, name: str, groups: bool = False) -> Found:
    """Merge what a search found in the partitions, one after the other.

    Parameters
    ----------
    name
        One of `SEARCHES`.
    groups
        Whether to tell the groups too.
    """
    whole: Nearest | None = None
    own: IntArray = np.empty((0, 0), dtype=np.int64)
    for index in range(len(ctx.plan.partitions)):
        with np.load(_file(ctx, index), allow_pickle=False) as file:
            part = Nearest(file[f"{name}.squared"], file[f"{name}.rows"], file.get(f"{name}.values"))
            of_part = file[f"{name}.groups"] if groups else np.full(part.rows.shape, -1)
        merged = part if whole is None else merge_nearest([whole, part], part.rows.shape[1])
        if whole is None:
            own = of_part
        elif groups:
            own = _groups_of(merged.rows, [(whole.rows, own), (part.rows, of_part)])
        whole = merged
    if whole is None:
        raise EngineError("nothing was searched; go on with --resume")
    return Found(whole, own if groups else None)


def _groups_of(rows: IntArray, known: Sequence[tuple[IntArray, IntArray]]) -> IntArray:
    """The group of each row, among rows whose groups are known; -1 for none."""
    groups = np.full(rows.shape, -1)
    for those, own in known:
        for at in range(those.shape[1]):
            place = those[:, at : at + 1]
            groups = np.where((rows == place) & (place >= 0), own[:, at : at + 1], groups)
    return groups
