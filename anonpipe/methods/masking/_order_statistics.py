"""Averages of neighbouring order statistics: what a column may hand on without handing on values of single persons."""

from __future__ import annotations

import numpy as np

from anonpipe.types import FloatArray, IntArray


def averaged_by_rank(column: FloatArray, k: int) -> FloatArray:
    """The values of a column in ascending order, none of which fewer than k records hold.

    A value that k or more records hold stays. Between two such values (and
    above the last, below the first) the others are averaged over blocks of k
    to 2k - 1 neighbours, which keeps their mean. Where they are fewer than k
    together they become the nearer of the two: an average with copies of a
    known value would give them away, as (0, 0, 0, 0, x)/5 gives x.

    Shapes: column (n,); returns (n,).

    Examples
    --------
    >>> averaged_by_rank(np.array([9.0, 1, 2, 6, 40, 3, 5, 5, 5]), 3).tolist()
    [2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 18.333333333333332, 18.333333333333332, 18.333333333333332]
    >>> averaged_by_rank(np.array([0.0, 0, 0, 0, 98765.43]), 3).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    ordered = np.sort(column)
    if k <= 1 or not len(ordered):
        return ordered
    ties = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    common = np.diff(np.append(ties, len(ordered))) >= k
    # runs of distinct values that are all common, each alone, or all rare, together
    begins = np.flatnonzero(np.append(True, common[1:] | common[:-1]))
    starts, rare = ties[begins], ~common[begins]
    sizes = np.diff(np.append(starts, len(ordered)))
    if len(starts) == 1 and sizes[0] < k:
        return np.full(len(ordered), ordered.mean())
    starts, sizes = _blocks(starts, np.where(rare, np.maximum(1, sizes // k), 1), sizes)
    # of a value that many hold exactly itself: a mean of equal numbers is rounded
    value = np.where(ordered[starts] == ordered[starts + sizes - 1], ordered[starts], _means(ordered, starts, sizes))
    few = np.flatnonzero(sizes < k)
    value[few] = _nearer(value, few)
    return np.repeat(value, sizes)


def _blocks(starts: IntArray, parts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Runs cut into parts whose sizes differ by one at most: where each begins, and its size."""
    whole = np.repeat(np.arange(len(starts)), parts)
    place = np.arange(len(whole)) - np.repeat(np.cumsum(parts) - parts, parts)
    begins = starts[whole] + place * sizes[whole] // parts[whole]
    return begins, np.diff(np.append(begins, starts[-1] + sizes[-1]))


def _means(ordered: FloatArray, starts: IntArray, sizes: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(ordered, starts) / sizes)


def _nearer(value: FloatArray, few: IntArray) -> FloatArray:
    """Of each of some blocks the value of the nearer neighbour: small blocks stand between common values."""
    below = np.where(few > 0, value[np.maximum(few - 1, 0)], -np.inf)
    above = np.where(few + 1 < len(value), value[np.minimum(few + 1, len(value) - 1)], np.inf)
    return np.where(value[few] - below <= above - value[few], below, above)
