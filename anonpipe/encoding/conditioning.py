"""Columns that are released unchanged, as numbers next to the features, on which masks condition."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Kind
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.scan import MOST_DUMMIES, Scan
from anonpipe.encoding.values import numbers, plain
from anonpipe.errors import InputError
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ConditioningEncoder:
    """How unchanged columns become numbers; there is no way back, as they are released as they are.

    A number, date or ordinal is one z-score; nulls stand at the mean, with one more column of -1 and +1. A category
    has dummies of -1 and +1, one fewer than categories (nulls are one).
    """

    positions: tuple[int, ...]  # Where the columns stand among the cells
    tables: tuple[FloatArray, ...]  # Of each column, the numbers of each of its codes, shape (n_codes, its width)

    @classmethod
    def fit(cls, cells: ColumnEncoder, scan: Scan, names: Sequence[str]) -> ConditioningEncoder:
        """The encoder of some unchanged columns."""
        positions = tuple(cells.names.index(name) for name in names)
        tables = tuple(_table(cells, scan, at) for at in positions)
        width = sum(table.shape[1] for table in tables)
        if width > MOST_DUMMIES:
            raise InputError(
                f"the conditioning variables {', '.join(map(repr, names))} make {width} columns of numbers, more than "
                f"{MOST_DUMMIES}; coarsen or drop those with most categories"
            )
        return cls(positions, tables)

    @property
    def width(self) -> int:
        """Columns of numbers."""
        return sum(table.shape[1] for table in self.tables)

    def encode(self, cells: FloatArray) -> FloatArray:
        """The numbers of cells of shape (n_rows, n_cells), shape (n_rows, width)."""
        parts = [table[cells[:, at].astype(np.int64)] for at, table in zip(self.positions, self.tables, strict=True)]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(cells), 0))


def _table(cells: ColumnEncoder, scan: Scan, position: int) -> FloatArray:
    """The numbers of each code of a column, nulls last if there are any."""
    name, kind = cells.names[position], cells.columns[position].kind
    counts = _counts(cells, scan, name)
    if kind.coded and kind is not Kind.ORDINAL:
        occupied = np.flatnonzero(counts)
        table = np.full((len(counts), max(0, len(occupied) - 1)), -1.0)
        table[occupied[1:], np.arange(len(occupied) - 1)] = 1.0
        return table
    categories = cells.categories[name]
    known = len(categories)
    values = np.arange(known, dtype=np.float64) if kind is Kind.ORDINAL else numbers(categories)
    weights = counts[:known] / max(1.0, counts[:known].sum())
    mean = float(weights @ values)
    spread = float(np.sqrt(weights @ (values - mean) ** 2))
    table = np.zeros((len(counts), 1 + (len(counts) > known)))
    table[:known, 0] = (values - mean) / (spread or 1.0)
    table[:, 1:] = np.where(np.arange(len(counts)) < known, -1.0, 1.0)[:, None]
    return table


def _counts(cells: ColumnEncoder, scan: Scan, name: str) -> FloatArray:
    """Records of each code of a column, nulls last if there are any; zeros where codes are left out."""
    counts = np.zeros(cells.code_count(name))
    counted = scan.code_counts(name)
    counts[: len(counted)] = counted
    return counts


# --- The classes of records: codes of the columns with role sensitive, apart or as one compound -----------------------

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
        counts = _counts(encoder, scan, name)
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


# --- Whether rows repeat in most columns: a sign of several rows a person where no identifier says so -----------------
# Of n sampled rows (`MOST_ROWS` at most), the columns with two or more values are taken, of those that have the same
# order the first alone: w of them; and of each the share p of pairs of rows that agree in it. Two rows are a *pair*
# where they agree in more than w/2 columns that are not null, and the sum of -log2(p) over these is 2·log2(n) + 2 or
# more: were the columns independent, n rows would have such a pair by chance once in eight tables. Not all pairs are
# looked at, only neighbours in `ORDERS` sorted orders, by columns in a keyed random order each.
#
# What several rows of a person share is always the same: the columns that do not change. So pairs count only where more
# than w/2 columns agree in `ALWAYS` of all pairs. Then `REPEATED` of the rows must have one, less in a sample of a
# larger table, where fewer of a person's rows meet, but never fewer than `FEWEST` rows.

MOST_ROWS = 20_000
ORDERS = 12
ALWAYS = 0.9
REPEATED = 0.05
FEWEST = 20
SPARE_BITS = 2


def repeated_rows(codes: IntArray, rng: np.random.Generator) -> int:
    """How many rows are repeated in the sense of this module; codes (n_rows, n_columns)."""
    codes = codes[:, _without_copies(codes)]
    bits = np.array([_bits(column) for column in codes.T])
    rows, width = codes.shape
    if rows < 2 or width < 2:
        return 0
    found, needed = np.zeros(rows, dtype=bool), 2 * np.log2(rows) + SPARE_BITS
    agreed, pairs = np.zeros(width, dtype=np.int64), 0
    for _ in range(ORDERS):
        order = np.lexsort(codes[:, rng.permutation(width)].T)
        ordered = codes[order]
        alike = (ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)
        pair = (2 * np.count_nonzero(alike, axis=1) > width) & (alike @ bits >= needed)
        found[order[1:][pair]] = found[order[:-1][pair]] = True
        agreed += np.count_nonzero(alike[pair], axis=0)
        pairs += int(np.count_nonzero(pair))
    always = np.count_nonzero(agreed >= ALWAYS * pairs)
    return int(np.count_nonzero(found)) if 2 * always > width else 0


def _without_copies(codes: IntArray) -> list[int]:
    """The columns of two or more values, without those that have the order of an earlier one, up or down."""
    left: dict[bytes, int] = {}
    for place, column in enumerate(codes.T):
        values, which = np.unique(column, return_inverse=True)
        up, down = (hashlib.sha256(order.tobytes()).digest() for order in (which, len(values) - 1 - which))
        if len(values) > 1 and down not in left:
            left.setdefault(up, place)
    return list(left.values())


def _bits(column: IntArray) -> float:
    """-log2 of the share of pairs that agree; 0 for a column of one value."""
    counts = np.unique(column, return_counts=True)[1].astype(np.float64)
    total = counts.sum()
    pairs = total * (total - 1)
    agreeing = max(float((counts * (counts - 1)).sum()), 1.0)  # of unique values: less than one pair
    return float(np.log2(pairs / agreeing)) if pairs > agreeing else 0.0


def warn_of_repeats(sample: Sequence[pa.RecordBatch], rows: int, key: bytes) -> list[str]:
    """A warning where rows of a sample repeat in most columns."""
    table = pa.Table.from_batches(sample)
    rng = np.random.default_rng(np.frombuffer(key[:16], dtype=np.uint64))
    if table.num_rows < FEWEST:
        return []
    chosen = np.sort(rng.permutation(table.num_rows)[:MOST_ROWS])
    codes = np.stack([_codes(column.take(chosen)) for column in table.columns], axis=1)
    repeated = repeated_rows(codes, rng)
    limit = max(FEWEST, REPEATED * min(1.0, len(codes) / max(1, rows)) * len(codes))
    if repeated < limit:
        return []
    return [
        f"{repeated:,} of {len(codes):,} sampled rows agree with another one in more than half of the columns, far "
        "beyond chance, and no column has role unit or identifier: where one person has several rows, k counts rows "
        "and protects no person; declare the number of the person with role unit, or make one row of each person "
        "(columns that follow from each other, as year and month from a date, look alike: drop them)"
    ]


def _codes(column: pa.ChunkedArray) -> IntArray:
    values = pa.concat_arrays([plain(chunk) for chunk in column.chunks])
    if values.null_count == len(values):
        return np.full(len(values), -1)
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), ranks.to_numpy().astype(np.int64), -1)
