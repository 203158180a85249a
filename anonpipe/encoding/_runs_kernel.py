"""Sorted values cut into runs of at least so many records, each with a mean that gives nobody away."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import BoolArray, FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def cut_runs(counts: IntArray, values: FloatArray, atom: BoolArray, least: int) -> tuple[IntArray, BoolArray]:
    """The piece that each value belongs to.

    Shapes: counts, values (n_values,).
    """
    n = counts.shape[0]
    piece, is_atom = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    pieces, at = 0, 0
    while at < n:
        if atom[at]:
            is_atom[pieces] = True
            piece[at] = pieces
            pieces += 1
            at += 1
            continue
        end, there = at, 0
        while end < n and not atom[end]:
            there += counts[end]
            end += 1
        if there < least and (at > 0 or end < n):
            for each in range(at, end):
                below = end == n or (at > 0 and values[each] - values[at - 1] <= values[end] - values[each])
                piece[each] = pieces - 1 if below else pieces
            at = end
            continue
        held = 0
        while at < end:
            piece[at] = pieces
            held += counts[at]
            there -= counts[at]
            at += 1
            if held >= least and there >= least:
                pieces += 1
                held = 0
        pieces += 1
    return piece, is_atom[:pieces]


@nb.njit(cache=True, nogil=True)
def _apart(counts: IntArray, excess: FloatArray, width: float, fewer: int, share: float) -> int:
    """How many of the first values are of records, fewer than `fewer`, that stand apart and make up the total.

    Those after them have together less than `share` of what they have, which
    would tell their sum; and all are so far out that the next, and the length
    of the run beside, are less than `share` of it. Any run's largest records
    have most of its excess, where its smallest is by chance at the border:
    without the second half k - 1 of 5 exponential values would count in one table of ten.
    """
    total = (counts * excess).sum()
    held, records, found = 0.0, 0, 0
    for at in range(counts.shape[0] - 1):
        held += counts[at] * excess[at]
        records += counts[at]
        rest = total - held
        far = share * excess[at] > max(width, excess[at + 1])
        if records < fewer and far and excess[at + 1] > 0.0 and rest < share * held:
            found = at + 1
    return found


@nb.njit(cache=True, nogil=True)
def _capped(counts: IntArray, excess: FloatArray, width: float, fewer: int, share: float) -> float:
    """The largest excess that a run may count, by the p % rule and `_apart`; `excess` descends, none is below 0.

    Setting the j largest to the j-th (j = 1 changes nothing) is safe where
    those after the (j+1)-th have together at least `share` of what the j
    count for: the holder of the (j+1)-th, who takes his own away, is still
    that far from the j-th. Where no j is safe, all count as less than the
    smallest; where that is 0, and somebody's value, as the second. Those apart count as one that is not.
    """
    apart = _apart(counts, excess, width, fewer, share)
    total, records = (counts * excess).sum(), counts.sum()
    before, number = 0.0, 0
    for at in range(counts.shape[0]):
        for one in range(min(counts[at], 3)):  # what three share is as safe as it will be
            j = number + one + 1
            after = excess[at] if one + 1 < counts[at] else excess[at + 1] if at + 1 < counts.shape[0] else 0.0
            rest = total - before - (one + 1) * excess[at] - after
            if at >= apart and j <= records - 2 and rest >= share * j * excess[at]:
                return float(excess[at])
        before += counts[at] * excess[at]
        number += counts[at]
    if excess[-1] > 0.0:
        return float(excess[-1] / 2.0)
    return float(excess[max(apart, 0 if counts[0] > 1 else 1)])


@nb.njit(cache=True, nogil=True)
def run_means(
    counts: IntArray, values: FloatArray, starts: IntArray, atom: BoolArray, fewer: int, share: float
) -> FloatArray:
    """The mean of each run, extremes that dominate it drawn in, and the mean distance of its records from it.

    Shapes: starts (n_pieces + 1,).
    """
    out = np.zeros((atom.shape[0], 2))
    for piece in range(atom.shape[0]):
        if atom[piece]:
            continue
        begin, end = starts[piece], starts[piece + 1]
        c, v = counts[begin:end], values[begin:end]
        first, last = begin == 0, end == values.shape[0]  # who knows no neighbour cannot tell how far an end is
        drawn = v - v[0]
        if first and last:  # and nothing beside it tells how wide a run is: who are more than others are not apart
            few = min(fewer, (c.sum() + 1) // 2)
            drawn = np.minimum(drawn, _capped(c[::-1], drawn[::-1], 0.0, few, share))
            drawn = np.maximum(drawn, drawn[-1] - _capped(c, drawn[-1] - drawn, 0.0, few, share))
        if not first:
            below, width = v[0] - values[begin - 1], values[begin - 1] - values[starts[piece - 1]]
            drawn = np.minimum(drawn, _capped(c[::-1], drawn[::-1] + below, width, fewer, share) - below)
        if not last:
            above, width = values[end] - v[0], values[starts[piece + 2] - 1] - values[end]
            drawn = np.maximum(drawn, above - _capped(c, above - drawn, width, fewer, share))
        records = c.sum()
        mean = (c * drawn).sum() / records
        out[piece, 0] = v[0] + mean
        out[piece, 1] = (c * np.abs(drawn - mean)).sum() / records
    return out
