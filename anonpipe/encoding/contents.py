"""What identifies a record by its content alone: keys and an order that no place in a file decides.

Everything random or order-dependent in a run follows from these, so that the
same records give the same release in whatever order, file layout or numeric
width they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.encoding.row_hash import HashArray, keyed_cells, keyed_rows
from anonpipe.rng import keyed, number_keys
from anonpipe.types import FloatArray, IntArray

LUMP = 64  # Equal rows of a unit that are sampled and routed together

_APART = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Contents:
    """The content of consecutive rows of a unit, as keyed numbers."""

    rows: HashArray  # A keyed number of each row's content, shape (n,)
    # How many rows of the unit with the same content are counted before it, shape (n,): equal rows are exchangeable, so
    # that it does not matter which of them is counted first
    copies: npt.NDArray[np.uint32]

    def __getitem__(self, part: slice) -> Contents:
        return Contents(self.rows[part], self.copies[part])

    def keys(self, key: bytes, lump: int = 1) -> HashArray:
        """A number for each row, drawn by `key`, shape (n,); up to `lump` equal rows have one number.

        Examples
        --------
        >>> found = Contents(np.array([7, 7, 9], dtype=np.uint64), np.array([0, 1, 0], dtype=np.uint32))
        >>> len(set(found.keys(b"k" * 16).tolist())), len(set(found.keys(b"k" * 16, 64).tolist()))
        (3, 2)
        """
        lumps = (self.copies // np.uint32(lump)).astype(np.uint64)
        return number_keys(key, self.rows + lumps * _APART)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """To be kept in a file."""
        return {"rows": self.rows, "copies": self.copies}


def contents_of(lanes: Iterable[HashArray], key: bytes) -> Contents:
    """The contents of a unit.

    Examples
    --------
    >>> found = contents_of([np.array([[3, 5], [3, 6], [3, 5]], dtype=np.uint64)], b"k" * 16)
    >>> bool(found.rows[0] == found.rows[2]), found.copies.tolist()
    (True, [0, 0, 1])
    """
    first, second = keyed(key, "content"), keyed(key, "content, second lane")
    parts = [keyed_rows(each, first, second) for each in lanes]
    rows = np.concatenate([np.empty(0, dtype=np.uint64), *parts])
    return Contents(rows, copy_numbers(rows))


def copy_numbers(numbers: HashArray) -> npt.NDArray[np.uint32]:
    """How many equal numbers stand before each, shape (n,).

    Examples
    --------
    >>> copy_numbers(np.array([5, 8, 5, 5], dtype=np.uint64)).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: len(ordered)]
    lengths = np.diff(np.append(begins, len(ordered)))
    copies = np.empty(len(numbers), dtype=np.uint32)
    copies[order] = np.arange(len(ordered)) - np.repeat(begins, lengths)
    return copies


def column_keys(key: bytes, names: Sequence[str]) -> list[bytes]:
    """A key for each column, by its name."""
    return [keyed(key, "order of rows", name) for name in names]


def canonical_order(cells: FloatArray, keys: Sequence[bytes]) -> IntArray:
    """An order of rows that follows from their values alone, shape (n_rows,).

    By a keyed number of the row's content, so that the order tells nothing of
    the values; rows that agree in it (numbers count to seven digits) by the
    cells themselves. Equal rows are exchangeable.

    Examples
    --------
    >>> cells, keys = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 5.0]]), column_keys(b"k" * 16, ["a", "b"])
    >>> one, other = cells[canonical_order(cells, keys)], cells[::-1][canonical_order(cells[::-1], keys)]
    >>> np.array_equal(one, other, equal_nan=True)
    True
    """
    numbers = keyed_cells(cells, keys)
    order = np.argsort(numbers, kind="stable")
    alike = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    one, other = cells[order[alike]], cells[order[alike + 1]]
    if ((one == other) | (np.isnan(one) & np.isnan(other))).all():
        return order
    return np.lexsort((*cells.T[::-1], numbers))
