"""The cut of a run into leaves, partitions and output files; it does not depend on the number of workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from anonpipe.encoding.shares import Rounding
from anonpipe.job.model import Job
from anonpipe.partition.strata import UnitSets

_PARTITION_BYTES = 96 * 2**20  # Most bytes of features that one partition may hold; wide tables get fewer rows


def partition_rows(job: Job, width: int) -> int:
    """Target rows of a partition: the job's, or fewer where features would exceed `_PARTITION_BYTES`."""
    return max(3 * job.k, 1_000, min(job.partition.rows, _PARTITION_BYTES // (8 * max(1, width))))


def leaf_counts(strata_rows: Sequence[int], rows: int) -> list[int]:
    """Leaves of each stratum's tree, for at most about `rows` records a leaf."""
    return [max(1, -(-count // rows)) for count in strata_rows]


@dataclass(frozen=True)
class RowPartition:
    """Neighbouring leaves of one stratum, their records, and how many synthetic records are withheld."""

    stratum: int
    leaves: tuple[int, ...]
    rows: int
    withheld: int = 0


@dataclass(frozen=True)
class PartitionScope:
    """Consecutive partitions that are masked as one table."""

    number: int  # Of the scope
    # first, stop: the first partition, and the one after the last
    first: int
    stop: int
    stratum: int | None = None  # None for the whole table

    @property
    def inside(self) -> slice:
        """Its partitions."""
        return slice(self.first, self.stop)


@dataclass(frozen=True)
class Cut:
    """The cut of one run; leaves are numbered through all strata."""

    partitions: tuple[RowPartition, ...]  # The partitions, those of a stratum together
    chunk_leaf_rows: tuple[tuple[int, ...], ...]  # Records of each chunk of the input in each leaf
    files: int  # How many output files there are

    @property
    def rows(self) -> int:
        """Records in all partitions."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def released(self) -> int:
        """Records that are written."""
        return self.rows - sum(partition.withheld for partition in self.partitions)

    @property
    def lengths(self) -> list[int]:
        """Rows of each partition."""
        return [partition.rows for partition in self.partitions]

    def rows_before(self, partition: int) -> int:
        """Rows of the partitions before this one."""
        return sum(self.lengths[:partition])

    def scopes(self, by_stratum: bool) -> list[PartitionScope]:
        """The whole table as one scope, or each stratum as its own where there are several."""
        strata = [partition.stratum for partition in self.partitions]
        if not by_stratum or len(set(strata)) == 1:
            return [PartitionScope(0, 0, len(strata))]
        firsts = [at for at, stratum in enumerate(strata) if at == 0 or strata[at - 1] != stratum]
        ends = [*firsts[1:], len(strata)]
        return [
            PartitionScope(at, low, high, strata[low]) for at, (low, high) in enumerate(zip(firsts, ends, strict=True))
        ]

    def pieces(self, partition: int) -> list[tuple[int, int, int]]:
        """The ranges of a partition's rows: (chunk, begin, end), in source order."""
        first, last = self.partitions[partition].leaves[0], self.partitions[partition].leaves[-1]
        ranges = []
        for chunk, counts in enumerate(self.chunk_leaf_rows):
            begin = sum(counts[:first])
            end = begin + sum(counts[first : last + 1])
            if end > begin:
                ranges.append((chunk, begin, end))
        return ranges


def cut_rows(
    job: Job, chunk_leaf_rows: Sequence[Sequence[int]], leaf_stratum: Sequence[int], units: UnitSets | None = None
) -> Cut:
    """Partitions from the counted leaves; a leaf of fewer than k records (or units) joins its neighbour."""

    def few(leaves: tuple[int, ...], rows: int) -> bool:
        held = rows if units is None else units.together(np.isin(np.arange(len(leaf_stratum)), leaves))
        return held < job.k

    leaf_rows = [sum(chunk[leaf] for chunk in chunk_leaf_rows) for leaf in range(len(leaf_stratum))]
    partitions: list[RowPartition] = []
    for leaf, (stratum, rows) in enumerate(zip(leaf_stratum, leaf_rows, strict=True)):
        previous = partitions[-1] if partitions and partitions[-1].stratum == stratum else None
        if previous and (few((leaf,), rows) or few(previous.leaves, previous.rows)):
            partitions[-1] = RowPartition(stratum, (*previous.leaves, leaf), previous.rows + rows)
        else:
            partitions.append(RowPartition(stratum, (leaf,), rows))
    total = sum(leaf_rows)
    files = max(1, round(total / job.release.file_rows))
    return Cut(tuple(partitions), tuple(tuple(chunk) for chunk in chunk_leaf_rows), files)


def withhold(cut: Cut, rounding: Rounding, rng: np.random.Generator) -> Cut:
    """The cut with one to three multiples of the base of records withheld in every stratum, at random."""
    # So neither sizes nor sums or means of released columns are exact.
    strata = np.array([partition.stratum for partition in cut.partitions])
    lengths, partitions = np.array(cut.lengths), list(cut.partitions)
    for stratum in np.unique(strata).tolist():
        inside = np.flatnonzero(strata == stratum)
        rows, base = int(lengths[inside].sum()), rounding.base
        withheld = rows - (rounding.count(rows, "rows of a stratum") - 2 * base)
        for at, number in zip(inside, rng.multivariate_hypergeometric(lengths[inside], withheld), strict=True):
            partitions[at] = replace(partitions[at], withheld=int(number))
    return replace(cut, partitions=tuple(partitions))


_PROCESS_BYTES = 230 * 2**20  # Memory of one process before it holds data: Python and the libraries

_COPIES = 3  # Arrays of the size of a partition's features and cells that are alive at once


_COLUMN_COPIES = 8  # Arrays of the length of the table that a mask's step over columns has alive at once


def predicted_peak_bytes(rows: int, width: int, cells: int, workers: int, job: Job, column_rows: int = 0) -> int:
    """Predicted memory of all processes together (summed PSS) at the peak of a run."""
    partition = 8 * rows * (width * _COPIES + cells * 3)
    file = 8 * job.release.file_rows * cells * 3
    column = 8 * column_rows * _COLUMN_COPIES
    return _PROCESS_BYTES * (workers + 1) + workers * max(partition, file, column)
