"""Counting group sizes, whatever a method promises."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from anonpipe.errors import AnonpipeError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.groups import centre_groups
from anonpipe.kernels.points import by_first_row, checked_features, sort_groups
from anonpipe.kernels.remaining import FEW, nearest_records, remaining_records
from anonpipe.types import FloatArray, IntArray


def count_groups(labels: IntArray, n_rows: int, k: int, source: str) -> IntArray:
    """Size of every group, shape (n_groups,), if the grouping keeps its promise."""
    if labels.shape != (n_rows,) or labels.dtype != np.int64:
        raise AnonpipeError(
            f"{source} gave labels of shape {labels.shape} and type {labels.dtype} for {n_rows} records; "
            f"a label int64 for each is needed. Nothing is used of it"
        )
    if n_rows and labels.min() < 0:
        raise AnonpipeError(f"{source} left {int((labels < 0).sum())} records without a group. Nothing is used of it")
    if n_rows and labels.max() >= n_rows:
        raise AnonpipeError(f"{source} gave labels beyond the number of records. Nothing is used of it")
    sizes = np.bincount(labels)
    small = int((sizes < k).sum())
    if small:
        raise AnonpipeError(f"{source} left {small} of {len(sizes)} groups under k={k} records. Nothing is used of it")
    return sizes


def information_loss(features: FloatArray, labels: IntArray) -> float:
    """Share of the total scatter that lies inside groups, in percent: 100 · SSE / SST.

    SSE adds the squared distances of records to their group's mean, SST those to the mean of all. The figure depends on
    the scale of the columns: say which one it was measured on (usually z-scores).

    Shapes: features (n_rows, width); labels (n_rows,).

    Domingo-Ferrer and Mateo-Sanz 2002, IEEE TKDE 14(1), doi:10.1109/69.979982, section 2.
    """
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(
            f"features has shape {features.shape} and labels {labels.shape}; give (n_rows, width) and (n_rows,)"
        )
    if len(labels) == 0:
        return 0.0
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels have type {labels.dtype}; give whole numbers, 0 to n_groups - 1")
    if labels.min() < 0 or labels.max() >= len(labels):
        raise ValueError("labels go from 0 to n_groups - 1; one is negative, or as large as the number of records")
    features = checked_features(features)
    centred = features - features.mean(axis=0)
    total = float(np.square(centred).sum())
    if total <= 0.0:
        return 0.0
    means = np.empty_like(centred)
    centre_groups(centred, *sort_groups(by_first_row(labels)), means)  # numbers without gaps: no group is empty
    return 100.0 * float(np.square(centred - means).sum()) / total


def information_loss_bound(features: FloatArray, k: int) -> float:
    """Percentage below which no grouping with k or more records in each group can go.

    100 / SST · Σ_i s_i / (2k), where s_i is the sum of the k - 1 smallest squared distances from record i to other
    records of the whole table. No grouping need reach it.

    In a group of m >= k records SSE = Σ_i Σ_j |x_i - x_j|² / (2m), and for each i the m - 1 terms with j other than i
    sum to s_i (m - 1)/(k - 1) or more, since the mean of the smallest k - 1 of any distances is not above the mean of
    more of them. Since (m - 1)/(m (k - 1)) >= 1/k, the group loses Σ_i s_i / (2k) or more.

    The bound depends on the scale of the columns as `information_loss` does: compare figures of the same points,
    usually z-scores. The result is rounded down by more than all rounding errors of the computation, about 1e-14 of it.

    Shapes: features (n_rows, width).

    Neighbours are exact. Memory is k numbers a row; time grows by less than the square of the rows.
    """
    features = checked_features(features)
    if not 1 <= k <= len(features):
        raise ValueError(f"k is {k} for {len(features)} records; give 1 to as many as there are records")
    largest = float(np.abs(features).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    # By a power of two, which rounds nothing: squares then stay in range.
    features = np.ldexp(features, -int(np.frexp(largest)[1]))
    total = float(np.square(features - features.mean(axis=0)).sum())
    if total <= 0.0:
        return 0.0
    # The distance of a record to itself, zero, is one of its k smallest, whatever duplicates there are.
    inside = float(smallest_distances(features, features, k).sum())
    # Every term is rounded about 3 + width times, and then added in two sums of at most 64 + log2(n) and
    # k + 64 + log2(n) levels. A mean that is rounded makes `total` larger and so the bound lower.
    roundings = 2 * (features.shape[1] + 3) + k + 2 * (64 + len(features).bit_length())
    bound: float = 100.0 * inside / (2 * k) / total * (1.0 - roundings * float(np.finfo(np.float64).eps))
    return bound


CONFIDENCE = 0.99


def smallest_distances(features: FloatArray, queries: FloatArray, count: int) -> FloatArray:
    """The smallest squared distances of each query to a part of the records, ascending.

    Parts are put together by joining their results and keeping the smallest.

    Shapes: features (n_rows, width); queries (n_queries, width).
    """
    found = np.full((len(queries), count), np.inf)
    if len(features):
        _write_smallest(np.ascontiguousarray(features), np.ascontiguousarray(queries), found)
    return found


@kernel
def _write_smallest(features: FloatArray, queries: FloatArray, out: FloatArray) -> None:
    """Write the smallest squared distances of each query to all points, ascending."""
    n = features.shape[0]
    tree = remaining_records(features, np.arange(n), int(FEW))
    rows = np.empty(min(n, out.shape[1]), dtype=np.int64)
    for q in range(queries.shape[0]):
        nearest_records(tree, queries[q], rows, out[q, : rows.shape[0]])


@dataclass(frozen=True)
class LossBound:
    """What no grouping can lose less than."""

    percent: float  # The bound of all records, or of a sample the lower end of an interval of `CONFIDENCE`
    sampled: int | None  # Records measured against all others; None for all of them


def bound_from_distances(distances: FloatArray, k: int, n_rows: int, total_scatter: float) -> LossBound:
    """The lower bound from the k smallest squared distances of records to all records, themselves included.

    That of `information_loss_bound`, whose sum over all records is estimated from a random sample of them; missing a
    rare outlier makes the bound smaller, not wrong.
    """
    if total_scatter <= 0.0 or k < 2:
        return LossBound(0.0, None)
    own = distances[:, 1:k].sum(axis=1) / (2.0 * k)
    mean, measured = float(own.mean()), len(own)
    if measured < n_rows:
        error = float(own.std(ddof=1)) / measured**0.5 if measured > 1 else mean
        mean = max(0.0, mean - NormalDist().inv_cdf(CONFIDENCE) * error)
    return LossBound(100.0 * mean * n_rows / total_scatter, measured if measured < n_rows else None)
