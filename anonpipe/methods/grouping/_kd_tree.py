"""Splitting records at medians until no part can be split."""

from __future__ import annotations

from typing import Annotated

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.kernels.points import kth_smallest
from anonpipe.kernels.principal import split_rows
from anonpipe.methods.grouping._classes import jensen_shannon
from anonpipe.methods.options import UNBLOCKED, ClassGroupingOptions, grouping_options
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def _median_groups(features: FloatArray, k: int, classes: IntArray, shares: FloatArray, alpha: float) -> IntArray:
    """Part of each record when parts of 2k or more are split by rank, ties by row; from low to high, shape (n,)."""
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
            labels[rows] = label
            label += 1
            continue
        column = _split_column(features, rows, classes, shares, alpha, values[low:high])
        for i in range(low, high):
            values[i] = features[order[i], column]
        half = (high - low) // 2
        split_rows(rows, values[low:high], half)
        stack.append((low + half, high))
        stack.append((low, low + half))
    return labels


@nb.njit(cache=True, nogil=True)
def _split_column(
    features: FloatArray, rows: IntArray, classes: IntArray, shares: FloatArray, alpha: float, values: FloatArray
) -> int:
    """Column of least alpha·(1 - spread / widest spread) + (1 - alpha)·(divergence of its halves), first of equals."""
    width = features.shape[1]
    spreads = np.empty(width)
    for j in range(width):
        spreads[j] = _spread(features, rows, j)
    widest = np.argmax(spreads)
    if alpha >= 1.0:
        return int(widest)
    unit = spreads[widest] if spreads[widest] > 0.0 else 1.0
    best = 0
    least = np.inf
    for j in range(width):
        cost = alpha * (1.0 - spreads[j] / unit)
        cost += (1.0 - alpha) * _halves_divergence(features, rows, j, classes, shares, values)
        if cost < least:
            best = j
            least = cost
    return best


@nb.njit(cache=True, nogil=True)
def _spread(features: FloatArray, rows: IntArray, j: int) -> float:
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
def _halves_divergence(
    features: FloatArray, rows: IntArray, j: int, classes: IntArray, shares: FloatArray, values: FloatArray
) -> float:
    """Weighted divergence (Li and Sarkar, eq. 7) of the halves by rank of column j."""
    n = rows.shape[0]
    half = n // 2
    for i in range(n):
        values[i] = features[rows[i], j]
    border = kth_smallest(values, half)
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


def kd_tree(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by halving them at medians until a group has fewer than 2k.

    Each part of 2k or more records is split by rank on the column of largest variance among them, floor(n/2) records to
    the lower half. Records that tie at the median are divided in row order, of columns that tie the first is taken. So
    groups have k to 2k - 1 records whatever the ties.

    The authors scale the columns first; here the variance is that of the points as given.
    """
    return np.asarray(_median_groups(features, k, np.zeros(len(features), dtype=np.int64), np.ones(1), 1.0))


def class_kd_tree(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> IntArray:
    """Group records like `kd_tree`, on columns that leave the classes mixed.

    Each part is split on the column of least alpha·(1 - s) + (1 - alpha)·D, with s its standard deviation as a share of
    the largest, and D the weighted Jensen-Shannon divergence (base 2) of `class_shares` from its halves.

    The median fixes the halves of a column, so that the classes can be minded only as far as there are columns to
    choose from: the effect is much less than that of `crest` or `class_mdav`, and so is the price.

    With `alpha` 1 this is `kd_tree`. Li and Sarkar propose to mind classes in it; the rule here is this project's.
    """
    return np.asarray(_median_groups(features, k, classes, class_shares, float(alpha)))


METHODS = (
    Grouping(
        function=kd_tree,
        options=grouping_options(kd_tree, "Recursive splits at the median of the widest column.", **UNBLOCKED),
        published="kd-tree partitioning",
        reference="Li and Sarkar 2006, doi:10.1109/TKDE.2006.136",
        cost="time O(n·w·log n), memory O(n·w)",
    ),
    Grouping(
        function=class_kd_tree,
        options=grouping_options(
            class_kd_tree,
            "Median splits that weigh spread and class divergence by `alpha`.",
            base=ClassGroupingOptions,
            **UNBLOCKED,
        ),
        published="kd-tree partitioning with regard to classes",
        reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
        cost="time O(n·w·log n), memory O(n·w)",
        about={"alpha": "weight of the spread against the divergence of the classes, 0.5 by default; 1 is kd_tree"},
        classes=True,
    ),
)
