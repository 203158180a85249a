"""The largest difference of two Kaplan-Meier curves of every group, in one pass over both tables."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import BoolArray, FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def curves_apart(
    times: FloatArray,
    events: BoolArray,
    sides: IntArray,
    groups: IntArray,
    last: FloatArray,
) -> FloatArray:
    """Largest difference of both curves up to each group's last time."""
    count, rows = len(last), len(times)
    risk = np.zeros((2, count))
    for row in range(rows):
        risk[sides[row], groups[row]] += 1
    found = np.where((risk[0] == 0) | (risk[1] == 0), np.nan, 0.0)
    alive, deaths, gone = np.ones((2, count)), np.zeros((2, count)), np.zeros((2, count))
    begin = 0
    while begin < rows:
        end = begin
        while end < rows and times[end] == times[begin]:
            gone[sides[end], groups[end]] += 1
            deaths[sides[end], groups[end]] += events[end]
            end += 1
        # All of one time leave together: the curve falls by the deaths among those at risk just before.
        for row in range(begin, end):
            group, side = groups[row], sides[row]
            if gone[side, group] > 0:
                alive[side, group] *= 1.0 - deaths[side, group] / risk[side, group]
                risk[side, group] -= gone[side, group]
                deaths[side, group] = gone[side, group] = 0.0
        # Compared only after both sides have fallen.
        for row in range(begin, end):
            group = groups[row]
            if times[begin] <= last[group]:
                found[group] = max(found[group], abs(alive[0, group] - alive[1, group]))
        begin = end
    return found
