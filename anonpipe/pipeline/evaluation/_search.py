"""Looking for sampled records in every partition: of the release, and of the original itself as the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.errors import EngineError
from anonpipe.evaluate.risk import Coding, Found, Guesses, Nearest, Ranks, guess_nearest, merge_nearest, nearest
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.evaluation._counts import counted, looked_up
from anonpipe.pipeline.evaluation._held import held_cells
from anonpipe.pipeline.evaluation._points import known_points
from anonpipe.pipeline.evaluation._sample import (
    FOLDER,
    GuessedCells,
    Queries,
    alike_numbers,
    read_guessed,
    read_queries,
    rows_before,
)
from anonpipe.pipeline.staged import partition_cells, released_cells
from anonpipe.types import FloatArray, IntArray

Receipt = dict[str, Any]

NEIGHBOURS = 5
"""Records that are found for each query: what Lasko & Vinterbo's ambiguity and uncertainty look at."""


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
    alike = groups if labels is None else alike_numbers(ctx, cells[order], groups)
    own_alike = looked_up(*counted(alike), queries.own_alike)
    guesses = _guesses(ctx, cells[order])
    found = {"release": nearest(released, queries.points, NEIGHBOURS, offset=begin, values=True)}
    found["ranks"] = _by_ranks(released, queries, begin)
    if len(held := held_cells(ctx)):
        found["held_release"] = nearest(released, known_points(ctx, held), 2, offset=begin)
    del cells, released
    original = known_points(ctx, partition_cells(ctx, index))
    found["original"] = nearest(
        original, queries.points, NEIGHBOURS, offset=begin, without=queries.own_original, values=True
    )
    _save(ctx, index, found, {"groups": groups, "alike": alike}, begin, {"own_alike": own_alike, **guesses})
    return {"rows": len(original)}


def _guesses(ctx: Context, released: FloatArray) -> dict[str, FloatArray]:
    """What the closest released records of a partition say of each column of those that are guessed."""
    if (given := read_guessed(ctx)) is None:
        return {}
    table = released[:, : len(ctx.cells.names)]  # with the most probable category where probabilities are released
    found = guess_nearest(table, given.asked, coding_of(ctx, given))
    return {"guesses.values": found.values, "guesses.squared": found.squared}


def coding_of(ctx: Context, given: GuessedCells) -> Coding:
    """The scale on which closest records are looked for when columns are guessed."""
    return Coding.of(given.told, given.asked, coded_positions(ctx))


def coded_positions(ctx: Context) -> list[int]:
    """Columns whose cells are codes."""
    return [at for at, name in enumerate(ctx.cells.names) if name in ctx.cells.categories]


def _by_ranks(released: FloatArray, queries: Queries, begin: int) -> Nearest:
    """By ranks, each table's own: what stays right where a method shifts or stretches a column."""
    before, after = Ranks.of(queries.ranked_original), Ranks.of(queries.ranked_released)
    return nearest(after.apply(released), before.apply(queries.points), 2, offset=begin)


def _save(
    ctx: Context,
    index: int,
    found: dict[str, Nearest],
    told: dict[str, IntArray],
    begin: int,
    arrays: dict[str, npt.NDArray[Any]],
) -> None:
    """Keep what was found, with what is told of each of the partition's rows, and other arrays."""
    for name, one in found.items():
        arrays |= {f"{name}.squared": one.squared, f"{name}.rows": one.rows}
        if one.values is not None:
            arrays[f"{name}.values"] = one.values
        for what in told if name in ("release", "ranks") else ():
            of_rows = told[what][np.maximum(one.rows - begin, 0)]
            arrays[f"{name}.{what}"] = np.where(one.rows >= 0, of_rows, -1)
    ctx.staging.write_arrays(_file(index), arrays)


def _file(index: int) -> str:
    return f"{FOLDER}/found-{index}.npz"


def found_in(ctx: Context, name: str, told: str | None = None) -> Found:
    """Merge what a search found in the partitions, one after the other.

    Parameters
    ----------
    name
        `release`, `original` (the sampled records in the release, and among
        the other originals), `ranks`, or `held_release` (the held-out ones in
        the release).
    told
        `groups`, or `alike` for numbers as of `alike_numbers`; None for neither.
    """
    whole: Nearest | None = None
    own: IntArray = np.empty((0, 0), dtype=np.int64)
    for index in range(len(ctx.plan.partitions)):
        file = ctx.staging.read_arrays(_file(index))
        part = Nearest(file[f"{name}.squared"], file[f"{name}.rows"], file.get(f"{name}.values"))
        of_part = file[f"{name}.{told}"] if told else np.full(part.rows.shape, -1)
        merged = part if whole is None else merge_nearest([whole, part], part.rows.shape[1])
        if whole is None:
            own = of_part
        elif told:
            own = _groups_of(merged.rows, [(whole.rows, own), (part.rows, of_part)])
        whole = merged
    if whole is None:
        raise EngineError("nothing was searched; go on with --resume")
    return Found(whole, own if told else None)


def own_alike(ctx: Context) -> IntArray:
    """Released records of each query's group that share its unchanged columns, shape (n_queries,)."""
    total: IntArray = np.zeros(1, dtype=np.int64)
    for index in range(len(ctx.plan.partitions)):
        file = ctx.staging.read_arrays(_file(index))
        total = total + file["own_alike"]
    return total


def found_guesses(ctx: Context) -> Guesses:
    """What the closest of all released records say of each column of those that are guessed."""
    parts = []
    for index in range(len(ctx.plan.partitions)):
        file = ctx.staging.read_arrays(_file(index))
        parts.append(Guesses(file["guesses.values"], file["guesses.squared"]))
    return reduce(Guesses.merge, parts)


def _groups_of(rows: IntArray, known: Sequence[tuple[IntArray, IntArray]]) -> IntArray:
    """The group of each row, among rows whose groups are known; -1 for none."""
    groups = np.full(rows.shape, -1)
    for those, own in known:
        for at in range(those.shape[1]):
            place = those[:, at : at + 1]
            groups = np.where((rows == place) & (place >= 0), own[:, at : at + 1], groups)
    return groups
