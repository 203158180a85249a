"""How many units (persons, say) differ between two tables, from small keyed sums of both.

Every unit has one of few buckets, and adds a keyed number of what a column
says of it to the bucket's sum. Where two sums of a bucket differ, at least one
of its units joined, left or changed; so the buckets that differ are at most as
many as the units that do, whatever else the tables hold. There is a row of
buckets for each column among the records of each combination of the columns that
are released unchanged: the distributions of such records are what recipients
can subtract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.types import IntArray

MarkArray = npt.NDArray[np.uint64]
SumArray = npt.NDArray[np.uint32]

MOST = 2**22  # Sums that are kept: buckets, times columns, times combinations of those released unchanged


def buckets_for(units: int) -> int:
    """Buckets in which so many changed units fall together by chance once in thirty, a power of two.

    Examples
    --------
    >>> buckets_for(5), buckets_for(20)
    (128, 512)
    """
    return 1 << max(6, (16 * units - 1).bit_length())


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums of a table."""

    marks: MarkArray  # A keyed number of each column in each combination, ascending, shape (n,)
    columns: IntArray  # Which column it is of, by its place among those that were counted, shape (n,)
    sums: SumArray  # Modulo 2^32, shape (n, buckets)

    @classmethod
    def empty(cls, buckets: int) -> UnitSums:
        """Of no record."""
        none = np.empty(0, dtype=np.uint64)
        return cls(none, np.empty(0, dtype=np.int64), np.empty((0, buckets), dtype=np.uint32))

    @classmethod
    def of(
        cls, marks: MarkArray, which: IntArray, column: int, places: MarkArray, numbers: MarkArray, buckets: int
    ) -> UnitSums:
        """The sums of one column.

        Shapes: marks (n,); which (n_rows,).

        Examples
        --------
        >>> row, mark = np.array([1, 2, 1], dtype=np.uint64), np.array([9], dtype=np.uint64)
        >>> UnitSums.of(mark, np.zeros(3, dtype=np.int64), 0, row, 5 * row, 4).sums.tolist()
        [[0, 10, 10, 0]]
        """
        sums = np.zeros(len(marks) * buckets, dtype=np.uint64)
        at = which * buckets + (places & np.uint64(buckets - 1)).astype(np.int64)
        np.add.at(sums, at, numbers & np.uint64(0xFFFFFFFF))
        order = np.argsort(marks)
        shaped = sums.reshape(len(marks), buckets).astype(np.uint32)[order]
        return cls(marks[order], np.full(len(marks), column, dtype=np.int64), shaped)

    def changed(self, other: UnitSums) -> tuple[IntArray, IntArray]:
        """At least how many units differ in each count that either has, and the column of each; -1 for one of `other`.

        Examples
        --------
        >>> row, mark, which = np.arange(8, dtype=np.uint64), np.zeros(1, dtype=np.uint64), np.zeros(8, dtype=np.int64)
        >>> one = UnitSums.of(mark, which, 0, row, row, 64)
        >>> changed = UnitSums.of(mark, which, 0, row, np.where(row < 3, row + 9, row), 32)
        >>> one.changed(changed)[0].tolist(), one.changed(one)[0].tolist()
        ([3], [0])
        """
        buckets = min(self.sums.shape[1], other.sums.shape[1])
        marks = np.union1d(self.marks, other.marks)
        ours, theirs = (np.zeros((len(marks), buckets), dtype=np.uint32) for _ in range(2))
        for table, each in ((ours, self), (theirs, other)):
            table[np.searchsorted(marks, each.marks)] = _folded(each.sums, buckets)
        columns = np.full(len(marks), -1, dtype=np.int64)
        columns[np.searchsorted(marks, self.marks)] = self.columns
        return np.count_nonzero(ours != theirs, axis=1), columns


def _folded(sums: SumArray, buckets: int) -> SumArray:
    """The same in fewer buckets: a bucket is the last binary digits of a number."""
    return np.asarray(sums.reshape(len(sums), -1, buckets).sum(axis=1, dtype=np.uint32))


def merge_sums(parts: Sequence[UnitSums]) -> UnitSums:
    """The sums of all parts together, one or more."""
    every = np.concatenate([part.marks for part in parts])
    marks, first, which = np.unique(every, return_index=True, return_inverse=True)
    sums = np.zeros((len(marks), parts[0].sums.shape[1]), dtype=np.uint32)
    np.add.at(sums, which.reshape(-1), np.concatenate([part.sums for part in parts]))
    return UnitSums(marks, np.concatenate([part.columns for part in parts])[first], sums)
