"""Samples of a run's records, original and released beside each other, kept privately for what measures them.

Which records are drawn follows from the run's key and the number of records
alone. Each partition leaves the part of every sample that lies in it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.evaluate.risk import fewest_alike as count_alike
from anonpipe.job.model import Job
from anonpipe.methods.grouping import ClassDisclosure, class_disclosure
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.evaluation._counts import added, counted, looked_up, row_numbers
from anonpipe.pipeline.evaluation._held import FEWEST_HELD, held_cells
from anonpipe.pipeline.evaluation._points import known_points, known_unchanged
from anonpipe.pipeline.masker import masker_of
from anonpipe.pipeline.staged import partition_cells, released_cells
from anonpipe.rng import keyed, number_keys
from anonpipe.types import FloatArray, IntArray

Receipt = dict[str, Any]

MODEL_ROWS = 1_000_000
"""Most records that the recipient's models are fitted to; of larger tables a sample."""

RANKED_ROWS = 20_000
"""Records that ranks are taken from."""

FOLDER = "assessed"
"""Of all that is kept for the measures, inside the staging."""

_QUERIES, _GUESSED = f"{FOLDER}/queries.npz", f"{FOLDER}/guessed.npz"


@dataclass(frozen=True, eq=False)
class Sample:
    """Some records of all partitions, in the order of the table as it was routed.

    Attributes
    ----------
    original, released
        Their cells before and after, row for row; shapes (n_rows, n_columns).
    labels
        The group of each in the whole table (of the first grouping), shape
        (n_rows,); -1 where there are no groups.
    """

    original: FloatArray
    released: FloatArray
    labels: IntArray


@dataclass(frozen=True, eq=False)
class Queries:
    """Records that are looked for in the whole release.

    Attributes
    ----------
    points
        What an intruder knows of them, shape (n_queries, width).
    own_row, own_original
        Number of each in the release (partition by partition, in the order of
        the shelf), and in the original.
    own_group, own_size
        Its group and how many records that has; -1 and 0 for no groups.
    own_alike
        A number of its group and its unchanged columns; see `alike_numbers`.
    ranked_original, ranked_released
        Some records of both tables, to take ranks from.
    """

    points: FloatArray
    own_row: IntArray
    own_original: IntArray
    own_group: IntArray
    own_size: IntArray
    own_alike: IntArray
    ranked_original: FloatArray
    ranked_released: FloatArray


def wanted_rows(ctx: Context) -> int:
    """Records of the paired sample; 0 where nothing is measured on it."""
    asked = ctx.job.measure
    return min(asked.rows, ctx.plan.rows) if asked.utility or asked.risk else 0


def wanted_queries(ctx: Context) -> int:
    """Records that are looked for; 0 for none."""
    return min(ctx.job.measure.queries, ctx.plan.rows) if ctx.job.measure.risk else 0


def model_columns(ctx: Context) -> tuple[str, ...]:
    """Columns that the recipient's models need, in the table's order."""
    used = {name for each in ctx.job.analyses for name in ctx.job.columns_of(each)}
    return tuple(name for name in ctx.cells.names if name in used)


def has_groups(ctx: Context) -> bool:
    """Whether each record is in one group, or in one set of equal rows.

    Not of most masks, nor where several groupings are averaged.
    """
    job = ctx.job
    return spans_partitions(job) if job.mask is not None else job.by_groups.classes.several != "average"


def spans_partitions(job: Job) -> bool:
    """Whether there are groups, or sets of equal rows, whose records lie in several partitions."""
    return job.mask is not None and (masker_of(job).grouped or masker_of(job).identical_rows)


def rows_before(ctx: Context, index: int) -> int:
    """Rows of the partitions before this one: the number of its first row in the whole table."""
    return sum(partition.rows for partition in ctx.plan.partitions[:index])


def sample_partition(ctx: Context, index: int, labels: IntArray | None) -> Receipt:
    """Keep the sampled records of a partition.

    Parameters
    ----------
    labels
        The group of each record, by a number of its own in the whole table;
        None for no groups.
    """
    cells = partition_cells(ctx, index)
    released, places = released_cells(ctx, index)
    begin = rows_before(ctx, index)
    whole = np.full(len(cells), -1) if labels is None else labels
    kept: dict[str, npt.NDArray[Any]] = {}
    rows = _drawn(ctx, "pairs", wanted_rows(ctx), begin, len(cells))
    kept |= {"original": cells[rows], "released": released[rows], "labels": whole[rows]}
    if (columns := _positions(ctx)).size:
        rows = _drawn(ctx, "models", min(MODEL_ROWS, ctx.plan.rows), begin, len(cells))
        kept |= {"model_original": cells[rows][:, columns], "model_released": released[rows][:, columns]}
    if wanted_queries(ctx):
        rows = _drawn(ctx, "queries", wanted_queries(ctx), begin, len(cells))
        kept |= {"points": known_points(ctx, cells[rows]), "own_group": whole[rows]}
        kept |= {"own_size": looked_up(*counted(whole), whole[rows])}
        kept |= {"own_alike": alike_numbers(ctx, cells[rows], whole[rows])}
        kept |= {"own_row": begin + places[rows], "own_original": begin + rows}
        if spans_partitions(ctx.job):
            kept |= _spanning(ctx, cells, whole)
        rows = _rows_of_groups(ctx, index, labels)
        kept |= {"group_original": cells[rows], "group_released": released[rows], "group_labels": whole[rows]}
    ctx.staging.write_arrays(sample_file(index), kept)
    own = own_positions(ctx)
    counts = ctx.job.measure.risk and not spans_partitions(ctx.job)
    alike = count_alike(labels, cells[:, own]) if own and labels is not None and counts else None
    return {"rows": len(cells), "fewest_alike": alike}


def alike_numbers(ctx: Context, cells: FloatArray, labels: IntArray) -> IntArray:
    """A number of each record: equal where groups are, and the unchanged columns that an intruder knows.

    Among such records nothing that is released tells who is who.
    """
    return row_numbers(cells[:, [ctx.cells.names.index(name) for name in known_unchanged(ctx)]], labels)


def _spanning(ctx: Context, cells: FloatArray, labels: IntArray) -> dict[str, npt.NDArray[Any]]:
    """Counts of a partition, by number of the group: records, records alike, and records of each class."""
    kept = dict(zip(("groups", "group_sizes"), counted(labels), strict=True))
    if own := own_positions(ctx):
        kept |= dict(zip(("alike", "alike_sizes"), counted(row_numbers(cells[:, own], labels)), strict=True))
    # Sets of equal rows are told apart by unchanged columns too, which any reader sees.
    told = alike_numbers(ctx, cells, labels) if masker_of(ctx.job).identical_rows else labels
    for at, column in enumerate(ctx.classes):
        both, counts = np.unique(np.stack([told, column.codes(cells)]), axis=1, return_counts=True)
        kept |= {f"class_{at}": np.concatenate([both, counts[None]]).T}
    return kept


def own_positions(ctx: Context) -> list[int]:
    """Columns of which every released record keeps one person's value, restored survival times among them."""
    job = ctx.job
    restored = job.time_column if job.decode.restore_survival_times else None
    columns = zip(ctx.cells.names, ctx.cells.columns, strict=True)
    return [at for at, (name, column) in enumerate(columns) if column.role.unchanged or name == restored]


def fewest_alike(ctx: Context) -> int | None:
    """Fewest records of a group that are alike in those columns; None where nobody counted."""
    if spans_partitions(ctx.job):
        return int(_added(ctx, "alike", "alike_sizes")[1].min()) if own_positions(ctx) else None
    receipts = ctx.staging.receipts("sample").read_all(len(ctx.plan.partitions))
    counted = [receipt["fewest_alike"] for receipt in receipts if receipt["fewest_alike"] is not None]
    return min(counted) if counted else None


def _drawn(ctx: Context, what: str, count: int, begin: int, rows: int) -> IntArray:
    """Rows of a partition that are in a sample of `count` of the whole table, ascending."""
    if count >= ctx.plan.rows:
        return np.arange(rows)
    chosen = ctx.rng(f"assess {what}", 0).choice(ctx.plan.rows, count, replace=False)
    return np.sort(chosen[(chosen >= begin) & (chosen < begin + rows)]) - begin


def _rows_of_groups(ctx: Context, index: int, labels: IntArray | None) -> IntArray:
    """Rows of a keyed choice of whole groups, whose expected records in all partitions are those of `queries`."""
    if labels is None:
        return np.empty(0, dtype=np.int64)
    share, groups = wanted_queries(ctx) / ctx.plan.rows, np.unique(labels)
    if spans_partitions(ctx.job):  # every partition must draw the same groups
        border = np.uint64(min(2**64 - 1, int(share * 2**64)))
        drawn = number_keys(keyed(ctx.staging.key, "assess groups"), groups) <= border
    else:
        drawn = ctx.rng("assess groups", index).random(len(groups)) < share
    return np.flatnonzero(np.isin(labels, groups[drawn]))


def _positions(ctx: Context) -> IntArray:
    return np.array([ctx.cells.names.index(name) for name in model_columns(ctx)], dtype=np.int64)


def sample_file(index: int) -> str:
    """Where the sampled records of a partition lie."""
    return f"{FOLDER}/sample-{index}.npz"


def read_samples(ctx: Context, *names: str) -> list[npt.NDArray[Any]]:
    """Arrays of all partitions, each below each other in the order of the partitions."""
    parts: list[list[npt.NDArray[Any]]] = []
    for index in range(len(ctx.plan.partitions)):
        file = ctx.staging.read_arrays(sample_file(index))
        parts.append([file[name] for name in names])
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def read_pairs(ctx: Context) -> Sample:
    """The paired sample."""
    original, released, labels = read_samples(ctx, "original", "released", "labels")
    return Sample(original, released, labels)


def read_groups(ctx: Context) -> Sample:
    """Whole groups; no rows where there are no groups."""
    original, released, labels = read_samples(ctx, "group_original", "group_released", "group_labels")
    return Sample(original, released, labels)


def samples(job: Job) -> bool:
    """Whether anything is measured that needs samples."""
    return job.measure.utility or job.measure.risk or bool(job.analyses)


def group_sizes(ctx: Context) -> tuple[IntArray, IntArray]:
    """Numbers of the groups that span partitions, and how many records each has."""
    return _added(ctx, "groups", "group_sizes")


def spanning_disclosures(ctx: Context) -> dict[str, tuple[ClassDisclosure, IntArray]]:
    """Of each class column what groups that span partitions tell of it, and their sizes."""
    found = {}
    for at, column in enumerate(ctx.classes):
        (told,) = read_samples(ctx, f"class_{at}")
        labels, codes = (np.repeat(told[:, place], told[:, 2]) for place in (0, 1))
        found[column.name] = class_disclosure(labels, codes, column.shares), counted(labels)[1]
    return found


def _added(ctx: Context, *names: str) -> tuple[IntArray, IntArray]:
    """What all partitions counted under two names."""
    parts = []
    for index in range(len(ctx.plan.partitions)):
        file = ctx.staging.read_arrays(sample_file(index))
        parts.append((file[names[0]], file[names[1]]))
    return added(parts)


def gather_queries(ctx: Context) -> None:
    """Put the partitions' queries into one file, and rows that ranks are taken from; done once, by the driver.

    Records whose columns are to be guessed go into a file of their own.
    """
    names = ("points", "own_row", "own_original", "own_group", "own_size", "own_alike", "original", "released")
    *queries, original, released = read_samples(ctx, *names)
    if spans_partitions(ctx.job):
        queries[names.index("own_size")] = looked_up(*group_sizes(ctx), queries[names.index("own_group")])
    step = -(-len(original) // RANKED_ROWS)
    if len(held := held_cells(ctx)) >= FEWEST_HELD:
        members = original[:: -(-len(original) // wanted_queries(ctx))]
        guessed = {"told": released[::step, : len(ctx.cells.names)], "members": members, "controls": held}
        ctx.staging.write_arrays(_GUESSED, guessed)
    ranked = {"ranked_original": known_points(ctx, original[::step])}
    ranked |= {"ranked_released": known_points(ctx, released[::step])}
    ctx.staging.write_arrays(_QUERIES, dict(zip(names, queries, strict=False)) | ranked)


def read_queries(ctx: Context) -> Queries:
    """The records that are looked for."""
    file = ctx.staging.read_arrays(_QUERIES)
    return Queries(*(file[field.name] for field in fields(Queries)))


@dataclass(frozen=True, eq=False)
class GuessedCells:
    """Records whose columns are guessed from the release.

    Attributes
    ----------
    told
        Cells of some released records, which the scale is taken of.
    members, controls
        Cells of original records that are looked for, and of held-out ones.
    """

    told: FloatArray
    members: FloatArray
    controls: FloatArray

    @property
    def asked(self) -> FloatArray:
        """Members, then controls."""
        return np.concatenate([self.members, self.controls])


def read_guessed(ctx: Context) -> GuessedCells | None:
    """Whose columns are guessed; None where the hold-out is too small for a control, or there is none."""
    if not ctx.staging.has(_GUESSED):
        return None
    file = ctx.staging.read_arrays(_GUESSED)
    return GuessedCells(*(file[field.name] for field in fields(GuessedCells)))
