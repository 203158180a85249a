"""The classes of records: codes of the columns with role sensitive, apart or as one compound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.scan import Scan
from anonpipe.errors import InputError
from anonpipe.types import FloatArray, IntArray

MOST_CLASSES = 10_000  # Most combinations that a compound of several class columns may have


@dataclass(frozen=True, eq=False)
class ClassColumn:
    """One column with role sensitive."""

    # name, position: the column, and where it stands among the cells
    name: str
    position: int
    # Share of each of its codes in the whole table (nulls are a class of their own, the last), shape (n_classes,)
    shares: FloatArray

    def codes(self, cells: FloatArray) -> IntArray:
        """Class of each record, shape (n_rows,)."""
        return cells[:, self.position].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Compound:
    """Several class columns as one: each combination that occurs is a class."""

    columns: tuple[ClassColumn, ...]  # The columns
    combinations: IntArray  # Mixed radix numbers of the combinations that occur, ascending
    shares: FloatArray  # Share of each in the whole table

    def codes(self, cells: FloatArray) -> IntArray:
        """Class of each record, shape (n_rows,)."""
        index = np.zeros(len(cells), dtype=np.int64)
        for column in self.columns:
            index = index * len(column.shares) + column.codes(cells)
        return np.searchsorted(self.combinations, index).astype(np.int64)


def class_columns(encoder: ColumnEncoder, scan: Scan, names: Sequence[str]) -> tuple[ClassColumn, ...]:
    """The named columns with the shares of their classes."""
    found = []
    for name in names:
        counts = np.zeros(encoder.code_count(name))
        counted = scan.code_counts(name)
        counts[: len(counted)] = counted
        found.append(ClassColumn(name, encoder.names.index(name), counts / max(1.0, counts.sum())))
    return tuple(found)


def compound_of(encoder: ColumnEncoder, scan: Scan, columns: tuple[ClassColumn, ...]) -> Compound:
    """The compound of the columns, whose combinations the scan has counted."""
    names = [column.name for column in columns]
    possible = math.prod(len(column.shares) for column in columns)
    if possible > MOST_CLASSES:
        raise InputError(
            f"columns {', '.join(map(repr, names))} make {possible:,} possible compound classes, more than "
            f"{MOST_CLASSES:,}; coarsen them, or give some of them another role"
        )
    counts = scan.combination_counts(encoder, names)
    occurring = np.flatnonzero(counts)
    return Compound(columns, occurring, counts[occurring] / counts.sum())
