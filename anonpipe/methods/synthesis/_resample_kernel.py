"""Codes drawn again within their groups."""

from __future__ import annotations

import numba as nb

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def shuffle_in_groups(
    codes: IntArray, column: int, order: IntArray, starts: IntArray, uniform: FloatArray, out: IntArray
) -> None:
    """Write a random permutation of each group's codes of one column into `out` (Fisher and Yates)."""
    for g in range(starts.shape[0] - 1):
        begin = starts[g]
        for at in range(begin, starts[g + 1]):
            out[order[at], column] = codes[order[at], column]
        for i in range(starts[g + 1] - begin - 1, 0, -1):
            here, there = order[begin + i], order[begin + min(int(uniform[begin + i] * (i + 1)), i)]
            held = out[here, column]
            out[here, column] = out[there, column]
            out[there, column] = held


@nb.njit(cache=True, nogil=True)
def draw_in_groups(
    codes: IntArray, column: int, order: IntArray, starts: IntArray, uniform: FloatArray, out: IntArray
) -> None:
    """Write for each record the code of a random member of its group into `out`, with replacement.

    The parameters are those of `shuffle_in_groups`.
    """
    for g in range(starts.shape[0] - 1):
        begin, size = starts[g], starts[g + 1] - starts[g]
        for at in range(begin, starts[g + 1]):
            chosen = begin + min(int(uniform[at] * size), size - 1)
            out[order[at], column] = codes[order[chosen], column]
