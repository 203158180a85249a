"""Splitting records at medians until no part can be split."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.principal import split_rows
from anonpipe.methods.grouping._divergence_kernel import jensen_shannon
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def median_groups(features: FloatArray, k: int, classes: IntArray, shares: FloatArray, alpha: float) -> IntArray:
    """Part of each record when parts of 2k or more are split by rank, shape (n,), from low to high.

    `split_column` chooses the column; records that tie at the median go to
    the lower half in row order. Time O(n·width·log n).
    """
    n = features.shape[0]
    order = np.arange(n)
    values = np.empty(n)
    labels = np.empty(n, dtype=np.int64)
    label = 0
    stack = [(0, n)]
    while len(stack) > 0:
        low, high = stack.pop()
        rows = order[low:high]
        if high - low < 2 * k:
            for i in rows:
                labels[i] = label
            label += 1
            continue
        column = split_column(features, rows, classes, shares, alpha, values[low:high])
        for i in range(low, high):
            values[i] = features[order[i], column]
        half = (high - low) // 2
        split_rows(rows, values[low:high], half)
        stack.append((low + half, high))
        stack.append((low, low + half))
    return labels


@nb.njit(cache=True, nogil=True)
def split_column(
    features: FloatArray, rows: IntArray, classes: IntArray, shares: FloatArray, alpha: float, values: FloatArray
) -> int:
    """Column of least alpha·(1 - spread / widest spread) + (1 - alpha)·(divergence of its halves).

    Spread is the standard deviation among `rows`; of equals the lowest column
    is taken. `values` (n_rows,) is room to work in.
    """
    width = features.shape[1]
    spreads = np.empty(width)
    for j in range(width):
        spreads[j] = spread(features, rows, j)
    widest = np.argmax(spreads)
    if alpha >= 1.0:
        return int(widest)
    unit = spreads[widest] if spreads[widest] > 0.0 else 1.0
    best = 0
    least = np.inf
    for j in range(width):
        cost = alpha * (1.0 - spreads[j] / unit)
        cost += (1.0 - alpha) * halves_divergence(features, rows, j, classes, shares, values)
        if cost < least:
            best = j
            least = cost
    return best


@nb.njit(cache=True, nogil=True)
def spread(features: FloatArray, rows: IntArray, j: int) -> float:
    """Standard deviation of column j among `rows`."""
    mean = 0.0
    for i in rows:
        mean += features[i, j]
    mean /= rows.shape[0]
    squares = 0.0
    for i in rows:
        squares += (features[i, j] - mean) ** 2
    return float(np.sqrt(squares / rows.shape[0]))


@nb.njit(cache=True, nogil=True)
def halves_divergence(
    features: FloatArray, rows: IntArray, j: int, classes: IntArray, shares: FloatArray, values: FloatArray
) -> float:
    """Weighted divergence (Li and Sarkar, eq. 7) of the halves by rank of column j."""
    n = rows.shape[0]
    half = n // 2
    for i in range(n):
        values[i] = features[rows[i], j]
    border = np.partition(values, half)[half]
    ties = half
    for i in range(n):
        if values[i] < border:
            ties -= 1
    lower = np.zeros(shares.shape[0])
    upper = np.zeros(shares.shape[0])
    for i in range(n):
        c = classes[rows[i]]
        if values[i] < border:
            lower[c] += 1.0
        elif values[i] == border and ties > 0:
            lower[c] += 1.0
            ties -= 1
        else:
            upper[c] += 1.0
    rest = n - half
    return float((half * jensen_shannon(lower, half, shares) + rest * jensen_shannon(upper, rest, shares)) / n)
