"""Values held inside bounds without moving the sums of their groups."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def _fall(x: FloatArray, low: float, high: float, excess: float) -> float:
    """How far sorted values must fall so that, held inside [low, high], they lose `excess` in sum.

    Walks from one change of slope to the next: a value above `high` starts to
    move when it comes inside, a value at `low` stops. The values inside are
    always x[bottom:top].
    """
    n = x.shape[0]
    bottom, top = np.searchsorted(x, low, "right"), np.searchsorted(x, high, "right")
    fall = 0.0
    while bottom < n:
        until = x[bottom] - low
        if top < n:
            until = min(until, x[top] - high)
        loss = (top - bottom) * (until - fall)
        if loss >= excess:
            return fall + excess / (top - bottom)
        excess -= max(loss, 0.0)
        fall = max(fall, until)
        while top < n and x[top] - high <= fall:
            top += 1
        while bottom < n and x[bottom] - low <= fall:
            bottom += 1
    return fall


@nb.njit(cache=True, nogil=True)
def _excess(x: FloatArray, low: float, high: float) -> float:
    """By how much holding values inside the bounds raises their sum; 0 also where no values inside have that sum."""
    n = x.shape[0]
    total, clipped = 0.0, 0.0
    for value in x:
        total += value
        clipped += min(max(value, low), high)
    if total < n * low or total > n * high or clipped == total:
        return 0.0
    return clipped - total


@nb.njit(cache=True, nogil=True)
def _shift(x: FloatArray, low: float, high: float, excess: float) -> float:
    """The shift of sorted values that takes `excess` off their sum once they are held inside."""
    if excess == 0.0:
        return 0.0
    if excess > 0.0:
        return -_fall(x, low, high, excess)
    return float(_fall(-x[::-1], -high, -low, -excess))


@nb.njit(cache=True, nogil=True)
def variance_inside(x: FloatArray, low: float, high: float) -> float:
    """Variance of sorted values, shape (n_rows,), once `keep_group_sums` has moved them into the bounds as one group.

    Examples
    --------
    >>> variance_inside(np.array([-2.0, 3.0, 5.0]), 0.0, np.inf)
    2.6666666666666665
    """
    n, shift = x.shape[0], _shift(x, low, high, _excess(x, low, high))
    mean, squares = 0.0, 0.0
    for value in x:
        mean += min(max(value + shift, low), high)
    mean /= n
    for value in x:
        squares += (min(max(value + shift, low), high) - mean) ** 2
    return float(squares / n)


@nb.njit(cache=True, nogil=True)
def keep_group_sums(values: FloatArray, order: IntArray, starts: IntArray, low: float, high: float) -> FloatArray:
    """Move values into [low, high] by the least squares that keep the sum of every group.

    Shapes: values (n_rows,).

    Examples
    --------
    >>> keep_group_sums(np.array([-2.0, 3.0, 5.0]), np.arange(3), np.array([0, 3]), 0.0, np.inf).tolist()
    [0.0, 2.0, 4.0]
    """
    out = values.copy()
    largest = 0
    for g in range(starts.shape[0] - 1):
        largest = max(largest, starts[g + 1] - starts[g])
    x = np.empty(largest)
    for g in range(starts.shape[0] - 1):
        n, outside = 0, False
        for row in order[starts[g] : starts[g + 1]]:
            if not np.isnan(values[row]):
                x[n] = values[row]
                n += 1
                outside = outside or values[row] < low or values[row] > high
        if not outside:
            continue
        shift = _shift(np.sort(x[:n]), low, high, _excess(x[:n], low, high))
        for row in order[starts[g] : starts[g + 1]]:
            if not np.isnan(values[row]):
                out[row] = min(max(values[row] + shift, low), high)
    return out
