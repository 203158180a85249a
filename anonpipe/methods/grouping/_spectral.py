"""Recursive splits at medians: in all columns at once, along principal axes, or in the column of largest variance."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from anonpipe.errors import InfeasibleError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import covariance, kth_smallest, put_first, split_rows, turn_rows
from anonpipe.methods.grouping._classes import jensen_shannon
from anonpipe.methods.options import UnblockedClassOptions, UnblockedOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


@kernel
def split_at_all_medians(features: FloatArray, k: int, labels: IntArray) -> None:
    """Write the cell of every record to `labels`: cells of more than 2k, not all equal, are split by all medians."""
    order = np.arange(features.shape[0])
    label = 0
    stack = [(0, features.shape[0])]
    while len(stack) > 0:
        low, high = stack.pop()
        if high - low > 2 * k:
            borders = _split_cell(features, order[low:high])
            if borders.shape[0] > 2:
                for cell in range(borders.shape[0] - 2, -1, -1):
                    stack.append((low + borders[cell], low + borders[cell + 1]))
                continue
        labels[order[low:high]] = label
        label += 1


@kernel
def _split_cell(features: FloatArray, rows: IntArray) -> IntArray:
    """Sort `rows` by the halves of all columns they lie in; where the cells begin, and the number of rows."""
    count, width = rows.shape[0], features.shape[1]
    medians = np.empty(width)
    for j in range(width):
        medians[j] = _highest_of_lower_half(features[rows, j])
    borders = np.array([0, count])
    for j in range(width):
        cut = np.empty(2 * borders.shape[0] - 1, dtype=np.int64)
        used = 0
        for cell in range(borders.shape[0] - 1):
            low, high = borders[cell], borders[cell + 1]
            cut[used] = low
            used += 1
            below = put_first(rows[low:high], features[rows[low:high], j] <= medians[j])
            if 0 < below < high - low:
                cut[used] = low + below
                used += 1
        cut[used] = count
        borders = cut[: used + 1]
    return borders


@kernel
def _highest_of_lower_half(values: FloatArray) -> float:
    """The (lower) median; where it is the largest value, the largest value below it, if there is one."""
    median = kth_smallest(values, (values.shape[0] - 1) // 2)
    highest = -np.inf
    above = False
    for value in values:
        above |= value > median
        if value < median:
            highest = max(highest, value)
    return median if above or highest == -np.inf else highest


def rhs(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records into the cells of a recursive histogram, or refuse.

    A cell of more than 2k records is split at the median of every column at once, and so are the cells that come of it.
    Nothing keeps a cell from having fewer than k records, and with many columns most have one: then there is an error,
    and no grouping. One column without many ties passes; with two of a continuous table there are small cells already.

    Splits are by value: a value up to the median, of an even number the lower one, goes left. Where that would be all
    of a column that is not constant, its highest value goes right alone, so that each split makes progress; a constant
    column splits nothing. So groups have k to 2k records, and more only where all records of the group are equal.
    """
    labels = np.empty(len(features), dtype=np.int64)
    split_at_all_medians(features, k, labels)
    sizes = np.bincount(labels)
    small = int((sizes < k).sum())
    if small:
        raise InfeasibleError(
            f"rhs splits {features.shape[1]} columns at once, which leaves {small} of {len(sizes)} cells "
            f"under k={k} records; use spectral_rhs, which splits one column at a time, or fewer columns"
        )
    return labels


def spectral_rhs(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by halving them along principal axes.

    With U D Vᵀ the singular value decomposition of the centred points, the columns of T = U D are the records along the
    principal axes. A set of more than 2k records is split at the median of the column of T in which it has the largest
    range, and both halves again.

    The split is by rank: split by value, ties at the median could leave fewer than k on one side. Equal values are
    ranked by row number, and of an odd number the upper half gets one more.

    V is taken from the eigenvectors of the scatter of the columns, so that memory is linear in the rows. The sign of an
    axis is free; it is settled by making the first of its largest entries positive. Where singular values are equal,
    their axes can be turned in the plane they span and the decomposition does not say how: the groups are then those of
    the axes that the linear algebra library of the machine gives.
    """
    rotated = turn_rows(features, principal_axes(features), before=features.mean(axis=0))
    one_class = np.zeros(len(features), dtype=np.int64)
    return np.asarray(halved(rotated, 2 * k, True, one_class, np.ones(1), 1.0))


def principal_axes(features: FloatArray) -> FloatArray:
    """Unit vectors in columns, in descending order of the singular values of the centred points."""
    largest = np.abs(features).max()
    scaled = features / largest if largest > 0 else features
    axes: FloatArray = np.linalg.eigh(covariance(scaled, np.arange(len(features)), 1))[1][:, ::-1]
    sizes = np.abs(axes)  # Entries can be equal but for rounding, which must not choose among them
    first = (sizes > (1.0 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    return np.ascontiguousarray(axes * np.sign(axes[first, np.arange(len(axes))]))


# --- Halving at medians of one column: of largest range, of largest variance, or of least cost ------------------------


@kernel
def halved(
    features: FloatArray, most: int, by_range: bool, classes: IntArray, shares: FloatArray, alpha: float
) -> IntArray:
    """Part of each record (n,) when parts of more than `most` are halved by rank, ties by row, from low to high.

    Along the first column of largest range, or the one that `_split_column` chooses.
    """
    n = features.shape[0]
    order = np.arange(n)
    labels = np.empty(n, dtype=np.int64)
    label = 0
    stack = [(0, n)]
    while len(stack) > 0:
        low, high = stack.pop()
        rows = order[low:high]
        if high - low <= most:
            labels[rows] = label
            label += 1
            continue
        if by_range:
            column = int(np.argmax(ranges(features, rows)))
        else:
            column = _split_column(features, rows, classes, shares, alpha)
        half = (high - low) // 2
        split_rows(rows, features[rows, column], half)
        stack.append((low + half, high))
        stack.append((low, low + half))
    return labels


@kernel
def ranges(features: FloatArray, rows: IntArray) -> FloatArray:
    """Largest less smallest value of `rows` in each column."""
    low, high = features[rows[0]].copy(), features[rows[0]].copy()
    for row in rows:
        for j in range(features.shape[1]):
            low[j] = min(low[j], features[row, j])
            high[j] = max(high[j], features[row, j])
    found: FloatArray = high - low
    return found


@kernel
def _split_column(features: FloatArray, rows: IntArray, classes: IntArray, shares: FloatArray, alpha: float) -> int:
    """Column of least alpha·(1 - spread / widest spread) + (1 - alpha)·(divergence of its halves), first of equals."""
    width = features.shape[1]
    spreads = np.empty(width)
    for j in range(width):
        spreads[j] = features[rows, j].std()
    widest = np.argmax(spreads)
    if alpha >= 1.0:
        return int(widest)
    unit = spreads[widest] if spreads[widest] > 0.0 else 1.0
    best = 0
    least = np.inf
    for j in range(width):
        cost = alpha * (1.0 - spreads[j] / unit)
        cost += (1.0 - alpha) * _halves_divergence(features[rows, j], classes[rows], shares)
        if cost < least:
            best = j
            least = cost
    return best


@kernel
def _halves_divergence(values: FloatArray, classes: IntArray, shares: FloatArray) -> float:
    """Weighted divergence (Li and Sarkar, eq. 7) of the halves by rank of `values`."""
    n = values.shape[0]
    half = n // 2
    border, ties = kth_smallest(values, half), half
    for value in values:
        ties -= value < border
    lower = np.zeros(shares.shape[0])
    upper = np.zeros(shares.shape[0])
    for i in range(n):
        c = classes[i]
        if values[i] < border:
            lower[c] += 1.0
        elif values[i] == border and ties > 0:
            lower[c] += 1.0
            ties -= 1
        else:
            upper[c] += 1.0
    below, above = float(half), float(n - half)
    return float((below * jensen_shannon(lower, below, shares) + above * jensen_shannon(upper, above, shares)) / n)


def kd_tree(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by halving them at medians until a group has fewer than 2k.

    Each part of 2k or more records is split by rank on the column of largest variance among them, floor(n/2) records to
    the lower half. Records that tie at the median are divided in row order; of tied columns the first is taken. So
    groups have k to 2k - 1 records whatever the ties.

    The authors scale the columns first; here the variance is that of the points as given.
    """
    one_class = np.zeros(len(features), dtype=np.int64)
    return np.asarray(halved(features, 2 * k - 1, False, one_class, np.ones(1), 1.0))


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

    Only the choice of the column can keep classes mixed, as the median fixes the halves of each. So classes are mixed
    much less than by `crest` or `class_mdav`, and less information is lost.

    With `alpha` 1 this is `kd_tree`. Li and Sarkar propose to regard classes in it; the rule here is this project's.
    """
    return np.asarray(halved(features, 2 * k - 1, False, classes, class_shares, float(alpha)))


METHODS = (
    Grouping(
        function=rhs,
        base=UnblockedOptions,
        summary="Recursive histogram sanitization (RHS).",
        reference="Chawla et al. 2005, doi:10.1007/978-3-540-30576-7_20, as Lasko and Vinterbo 2010, section III-B2",
        cost="time O(n·w·log(n/k)), memory O(n·w)",
        sizes="k to 2k, more only of equal records; refuses where a cell is under k, as with many columns",
        largest=None,
    ),
    Grouping(
        function=spectral_rhs,
        base=UnblockedOptions,
        summary="Spectral recursive histogram sanitization (Spectral-RHS).",
        reference="Lasko and Vinterbo 2010, doi:10.1109/TKDE.2009.88, section III-B2 and figure 1",
        cost="time O(n·w² + n·w·log(n/k)), memory O(n·w)",
        sizes="k to 2k",
        largest=lambda k: 2 * k,
    ),
    Grouping(
        function=kd_tree,
        base=UnblockedOptions,
        summary="Recursive splits at the median of the widest column.",
        published="kd-tree partitioning",
        reference="Li and Sarkar 2006, doi:10.1109/TKDE.2006.136",
        cost="time O(n·w·log n), memory O(n·w)",
    ),
    Grouping(
        function=class_kd_tree,
        base=UnblockedClassOptions,
        summary="Median splits that weigh spread and class divergence by `alpha`.",
        published="kd-tree partitioning with regard to classes",
        reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
        cost="time O(n·w·log n), memory O(n·w)",
        about={"alpha": "weight of the spread against the divergence of the classes, 0.5 by default; 1 is kd_tree"},
        classes=True,
    ),
)
