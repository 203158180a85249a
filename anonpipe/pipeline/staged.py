"""Where rows lie between the stages: the staged arrays of a run, and how rows get to the output files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from anonpipe.encoding.contents import canonical_order, column_keys
from anonpipe.moments import PairwiseMoments, merge_all
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.partitioning import Cut
from anonpipe.rng import keyed
from anonpipe.source import Source
from anonpipe.storage.staging import StagedArray, create_staged_array
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify.view import View

FILES = "files"  # The folder of the output files, which are not sealed: their task results tell their SHA-256

VALUES = "values"  # The folder of what one task writes and deletes again, not sealed either

MEASURE_ROWS = 65_536

CHUNK_ROWS = 262_144  # Input rows that are sorted by leaf at once


def chunk_rows(source: Source) -> list[list[int]]:
    """Rows of each chunk of each input unit: a unit is routed chunk by chunk, so that memory does not grow with it."""
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
    """The unit of each of these rows: keyed numbers, the same in all partitions; None where each row is one."""
    return None if fitted.unit is None else partition_rows(work, fitted, cut, index)[1]


def partition_rows(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[FloatArray, IntArray | None]:
    """Both: they lie beside each other, and their order is found once."""
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
    """Make the staged arrays that `assign_to_files` fills; done by the driver, before any worker asks for them."""
    released_array(work, cut, SYNTHETIC, len(fitted.cells.names))
    if fitted.added:
        released_array(work, cut, ADDED, len(fitted.added))
    if fitted.procedure.members is not None:
        released_array(work, cut, LABELS, 1)


def shuffled(work: Work, cut: Cut, index: int) -> tuple[IntArray, IntArray]:
    """The order in which the rows of a partition go to the output files, and how many each file gets.

    Those that are withheld come last, and no file gets them.
    """
    partition, rng = cut.partitions[index], work.rng("shuffle", index)
    arrival = rng.permutation(partition.rows)
    file = rng.integers(0, cut.files, partition.rows)
    file[arrival[: partition.withheld]] = cut.files
    return arrival[np.argsort(file[arrival], kind="stable")], np.bincount(file, minlength=cut.files)[: cut.files]


def assign_to_files(
    work: Work, cut: Cut, index: int, order: IntArray, arrays: Mapping[str, npt.NDArray[np.generic]]
) -> None:
    """Leave the released rows of a partition in the order of the files; `arrays` by the name of the staged array."""
    for name, values in arrays.items():
        released_array(work, cut, name, values.shape[1]).write(index, values[order])


def released_rows(work: Work, fitted: Fitted, cut: Cut, index: int) -> FloatArray:
    """The released rows of a partition in the order of the files.

    Where categories are released as probabilities, these follow the cells,
    which hold the most probable category.
    """
    rows = cut.partitions[index].rows
    cells: FloatArray = released_array(work, cut, SYNTHETIC, len(fitted.cells.names)).read(index, 0, rows)
    if fitted.probabilities is None:
        return cells
    shares = released_array(work, cut, ADDED, len(fitted.added)).read(index, 0, rows)
    return np.concatenate([cells, shares], axis=1)


def released_labels(work: Work, fitted: Fitted, cut: Cut, index: int) -> IntArray | None:
    """The groups of the same rows, by numbers that no other groups of the table have; None for no groups."""
    if fitted.procedure.members is None:
        return None
    labels: IntArray = released_array(work, cut, LABELS, 1).read(index, 0, cut.partitions[index].rows)[:, 0]
    return labels


def verified_moments(view: View, cells: FloatArray) -> PairwiseMoments:
    """Moments of the verified variables."""
    parts = [
        PairwiseMoments.of(view.measure(cells[at : at + MEASURE_ROWS])) for at in range(0, len(cells), MEASURE_ROWS)
    ]
    return merge_all(parts)
