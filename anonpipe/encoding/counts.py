"""Groups whose records lie in several partitions: numbers that name the same group everywhere, and counts by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anonpipe.encoding.row_hash import exact_rows
from anonpipe.types import FloatArray, IntArray

_POSITIVE = np.uint64(2**63 - 1)


def row_numbers(cells: FloatArray, groups: IntArray | None = None) -> IntArray:
    """A number of each row, 0 or more: equal where rows are, and their groups if given; shape (n_rows,).

    Rows that differ have the same number with a probability of 1 in 2^63.

    Shapes: groups (n_rows,).

    Examples
    --------
    >>> found = row_numbers(np.array([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan]]))
    >>> bool(found[0] == found[2]), bool(found[0] == found[1])
    (True, False)
    """
    return np.asarray((exact_rows(cells, groups) & _POSITIVE).astype(np.int64))


def counted(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """The numbers that occur, ascending, and how often each does."""
    found, counts = np.unique(numbers, return_counts=True)
    return found, counts


def added(parts: Sequence[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    """What `counted` found of the parts of a table, as of the whole.

    Examples
    --------
    >>> added([counted(np.array([7, 3, 7])), counted(np.array([7]))])
    (array([3, 7]), array([1, 3]))
    """
    numbers, counts = (np.concatenate(side) for side in zip(*parts, strict=True))
    found, which = np.unique(numbers, return_inverse=True)
    return found, np.bincount(which.reshape(-1), weights=counts, minlength=len(found)).astype(np.int64)


def looked_up(numbers: IntArray, counts: IntArray, asked: IntArray) -> IntArray:
    """How often each of the numbers asked occurs; 0 for those that do not.

    Examples
    --------
    >>> looked_up(np.array([3, 7]), np.array([1, 2]), np.array([7, 5])).tolist()
    [2, 0]
    """
    at = np.minimum(np.searchsorted(numbers, asked), len(numbers) - 1)
    return np.where(numbers[at] == asked, counts[at], 0)
