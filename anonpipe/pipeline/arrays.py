"""The staged arrays of a run: routed rows, channels of the passes, released rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.encoding import shares
from anonpipe.encoding.row_hash import canonical_order, column_keys
from anonpipe.errors import DamagedError
from anonpipe.methods import masking
from anonpipe.methods.executor import Place
from anonpipe.moments import PairwiseMoments, merge_all
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut, PartitionScope
from anonpipe.pipeline.procedure import group_steps
from anonpipe.rng import generator, keyed
from anonpipe.source import Source
from anonpipe.storage.staging import StagedArray, Staging, create_staged_array
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify.expectations import ReleaseView

FILES = "files"  # The folder of the output files; not sealed, as their task results hold their SHA-256

UNFOLDED = f"{FILES}/units"  # The folder of published files, where records are units and these have several rows

VALUES = "values"  # The folder of temporary files of one task; not sealed

MEASURE_ROWS = 65_536

CHUNK_ROWS = 262_144  # Input rows that are sorted by leaf at once


def chunk_rows(source: Source) -> list[list[int]]:
    """Rows of each chunk of each input split; chunks bound the memory of routing."""
    return [[min(CHUNK_ROWS, unit.rows - at) for at in range(0, unit.rows, CHUNK_ROWS)] for unit in source.units]


def routed_array(work: Work, fitted: Fitted) -> StagedArray:
    """The routed rows; a region a chunk."""
    rows = [count for chunks in chunk_rows(work.source) for count in chunks]
    width = len(fitted.cells.names) + (fitted.unit is not None)
    return create_staged_array(work.staging, "routed", rows, width, "float64", fitted.leaves)


def partition_cells(work: Work, fitted: Fitted, cut: Cut, index: int) -> FloatArray:
    """The routed rows of a partition, in an order that follows from their values and the run's key alone."""
    return partition_rows(work, fitted, cut, index)[0]


def partition_units(work: Work, fitted: Fitted, cut: Cut, index: int) -> IntArray | None:
    """The unit of each row, as a keyed number; None where each row is a unit."""
    return None if fitted.unit is None else partition_rows(work, fitted, cut, index)[1]


def partition_rows(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[FloatArray, IntArray | None]:
    """Cells and units of a partition in the same order."""
    rows: FloatArray = routed_array(work, fitted).gather(cut.pieces(index))
    of_units = [] if fitted.unit is None else [keyed(work.key, "order of units")]
    rows = rows[canonical_order(rows, [*column_keys(work.key, fitted.cells.names), *of_units])]
    cells = np.ascontiguousarray(rows[:, : len(fitted.cells.names)])
    return cells, None if fitted.unit is None else rows[:, -1].astype(np.int64)


# Released rows in the order of the output files; what is released besides; and the groups of the same rows
SYNTHETIC, ADDED, LABELS = "synthetic", "ends", "labels"


def released_array(work: Work, cut: Cut, name: str, columns: int) -> StagedArray:
    """Released rows of all partitions on their way to the output files; a region a partition."""
    return create_staged_array(
        work.staging, name, cut.lengths, columns, "float64" if name != LABELS else "int64", cut.files
    )


def make_released(work: Work, fitted: Fitted, cut: Cut) -> None:
    """Make the staged arrays that `assign_to_files` fills; for the driver, before workers need them."""
    released_array(work, cut, SYNTHETIC, len(fitted.cells.names))
    if fitted.added:
        released_array(work, cut, ADDED, len(fitted.added))
    if fitted.procedure.members is not None:
        released_array(work, cut, LABELS, 1)


def shuffled(work: Work, cut: Cut, index: int) -> tuple[IntArray, IntArray]:
    """The order in which rows of a partition go to the output files, and the rows of each file."""
    # Those that are withheld come last, and no file gets them.
    partition, rng = cut.partitions[index], work.rng("shuffle", index)
    arrival = rng.permutation(partition.rows)
    file = rng.integers(0, cut.files, partition.rows)
    file[arrival[: partition.withheld]] = cut.files
    return arrival[np.argsort(file[arrival], kind="stable")], np.bincount(file, minlength=cut.files)[: cut.files]


def assign_to_files(
    work: Work, cut: Cut, index: int, order: IntArray, arrays: Mapping[str, npt.NDArray[np.generic]]
) -> None:
    """Write the released rows of a partition in the order of the files; `arrays` by name of the staged array."""
    for name, values in arrays.items():
        released_array(work, cut, name, values.shape[1]).write(index, values[order])


def released_rows(work: Work, fitted: Fitted, cut: Cut, index: int) -> FloatArray:
    """The released rows of a partition in the order of the files."""
    # Where categories are released as probabilities, these follow the cells, which hold the most probable category.
    rows = cut.partitions[index].rows
    cells: FloatArray = released_array(work, cut, SYNTHETIC, len(fitted.cells.names)).read(index, 0, rows)
    if fitted.probabilities is None:
        return cells
    shares = released_array(work, cut, ADDED, len(fitted.added)).read(index, 0, rows)
    return np.concatenate([cells, shares], axis=1)


def released_labels(work: Work, fitted: Fitted, cut: Cut, index: int) -> IntArray | None:
    """The groups of these rows, numbered uniquely in the table; None without groups."""
    if fitted.procedure.members is None:
        return None
    labels: IntArray = released_array(work, cut, LABELS, 1).read(index, 0, cut.partitions[index].rows)[:, 0]
    return labels


def verified_moments(view: ReleaseView, cells: FloatArray) -> PairwiseMoments:
    """Moments of the verified variables."""
    parts = [
        PairwiseMoments.of(view.measure(cells[at : at + MEASURE_ROWS])) for at in range(0, len(cells), MEASURE_ROWS)
    ]
    return merge_all(parts)


# --- Channels: what the passes of a method read and write


FEATURES = "features"  # The staged array that the first pass sees

FOLDER = "channels"  # The folder of all results of passes in the staging; later ones replace earlier ones

RECORDS: tuple[type, ...] = (*masking.RECORDS, *shares.RECORDS, *group_steps.RECORDS)


def channel_array(work: Work, fitted: Fitted, cut: Cut, name: str, channels: int) -> StagedArray:
    """The features, or the channels of a pass; a region a partition."""
    # Made by the driver, before any worker asks for it.
    by_column = fitted.procedure.by_column
    return create_staged_array(work.staging, f"{FOLDER}/{name}", cut.lengths, channels, "float64", by_column=by_column)


def read_channels(work: Work, fitted: Fitted, cut: Cut, name: str, channels: int, index: int) -> FloatArray:
    """All channels of one partition, shape (n_rows, channels)."""
    if not work.staging.has(f"{FOLDER}/{name}"):
        raise DamagedError(_GONE)
    return _whole(channel_array(work, fitted, cut, name, channels).read(index, 0, cut.partitions[index].rows))


def of_scope(staged: StagedArray, cut: Cut, scope: PartitionScope) -> tuple[StagedArray, list[int]]:
    """The regions of a staged array that belong to a scope, and their lengths."""
    return replace(staged, starts=staged.starts[scope.inside]), cut.lengths[scope.inside]


def read_column(
    work: Work, fitted: Fitted, cut: Cut, name: str, channels: int, place: int, scope: PartitionScope
) -> FloatArray:
    """One channel of all rows of a scope, shape (n_rows,)."""
    if not work.staging.has(f"{FOLDER}/{name}"):
        raise DamagedError(_GONE)
    staged, lengths = of_scope(channel_array(work, fitted, cut, name, channels), cut, scope)
    return _whole(staged.read_column(place, lengths))


def _whole(values: FloatArray) -> FloatArray:
    """The values; an error if one is missing, as a lost chunk reads as NaN."""
    if np.isnan(values).any():
        raise DamagedError(_GONE)
    return values


_GONE = "masked records are missing from the staging; run again, which starts from the input"


def load_record(work: Work, file: str, kinds: tuple[type, ...] = RECORDS) -> Any:
    """A statistic or learnt parameters; `kinds` are the allowed classes."""
    return work.staging.read_record(file, *kinds)


def params_file(name: str, scope: PartitionScope) -> str:
    """The file of learnt parameters of a scope."""
    return f"{FOLDER}/params-{name}-{scope.number}.record"


def load_params(work: Work, name: str | None, scope: PartitionScope) -> Any:
    """The learnt parameters of a scope; None for none. They are cached, so they must not be changed."""
    return None if name is None else _loaded(work.staging, params_file(name, scope))


@lru_cache(maxsize=2)
def _loaded(staging: Staging, file: str) -> Any:
    """A record, read once by each process, as every task of a pass needs it and it can be large."""
    return staging.read_record(file, *RECORDS)


def statistic_file(stage: str, index: int) -> str:
    """The file of a turn's statistic of one partition."""
    return f"{FOLDER}/{stage}-{index}.record"


def scopes_of(fitted: Fitted, cut: Cut) -> list[PartitionScope]:
    """The scopes of the run's method: the whole table, or each stratum."""
    return cut.scopes(fitted.procedure.by_stratum)


def scope_of(fitted: Fitted, cut: Cut, index: int) -> PartitionScope:
    """The scope of a partition."""
    return next(scope for scope in scopes_of(fitted, cut) if scope.first <= index < scope.stop)


def scope_key(work: Work, scope: PartitionScope) -> bytes:
    """The key of a scope's draws; the copy's where there is one scope."""
    return work.draw_key if scope.stratum is None else keyed(work.draw_key, "stratum", str(scope.stratum))


def place_of(work: Work, fitted: Fitted, cut: Cut, scope: PartitionScope, index: int) -> Place:
    """A partition as a part of its scope."""
    key, number = scope_key(work, scope), index - scope.first
    return Place(
        number,
        lambda stream: generator(key, stream, number),
        lambda: read_channels(work, fitted, cut, FEATURES, fitted.width, index),
        cut.partitions[index].stratum,
    )
