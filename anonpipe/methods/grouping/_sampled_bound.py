"""The lower bound of the information loss where the rows lie in parts: a few records against all others."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from anonpipe.methods.grouping._sampled_bound_kernel import keep_smallest
from anonpipe.types import FloatArray

CONFIDENCE = 0.99


def smallest_distances(features: FloatArray, queries: FloatArray, count: int) -> FloatArray:
    """The smallest squared distances of each query to a part of the records, ascending.

    Parts are put together by joining their results and keeping the smallest.

    Shapes: features (n_rows, width); queries (n_queries, width).

    Examples
    --------
    >>> smallest_distances(np.array([[0.0], [3.0], [5.0]]), np.array([[3.0], [6.0]]), 2).tolist()
    [[0.0, 4.0], [1.0, 9.0]]
    """
    found = np.full((len(queries), count), np.inf)
    keep_smallest(np.ascontiguousarray(features), np.ascontiguousarray(queries), found)
    return found


@dataclass(frozen=True)
class LossBound:
    """What no grouping can lose less than."""

    # The bound: of all records exactly, or the lower end of a one-sided interval of `CONFIDENCE` where a sample was
    # measured
    percent: float
    sampled: int | None  # Records measured against all others; None for all of them


def bound_from_distances(distances: FloatArray, k: int, n_rows: int, total_scatter: float) -> LossBound:
    """The lower bound from the k smallest squared distances of records to all records, themselves included.

    A group of m >= k records has the scatter (1/2m) Σ_ij |x_i - x_j|², and
    each record at least (m-1)/(k-1) times its k - 1 smallest squared
    distances in it, hence Σ_i (1/2k) Σ (k - 1 smallest of record i) bounds the
    scatter within any groups of k or more. The sum over all records is
    estimated from a random sample of them; missing a rare outlier makes the
    bound smaller, not wrong.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [10.0], [12.0]])
    >>> bound_from_distances(smallest_distances(features, features, 2), 2, 4, 113.75)
    LossBound(percent=2.197802197802198, sampled=None)
    """
    if total_scatter <= 0.0 or k < 2:
        return LossBound(0.0, None)
    own = distances[:, 1:k].sum(axis=1) / (2.0 * k)
    mean, measured = float(own.mean()), len(own)
    if measured < n_rows:
        error = float(own.std(ddof=1)) / measured**0.5 if measured > 1 else mean
        mean = max(0.0, mean - NormalDist().inv_cdf(CONFIDENCE) * error)
    return LossBound(100.0 * mean * n_rows / total_scatter, measured if measured < n_rows else None)
