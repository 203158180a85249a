"""A lower bound of the information loss of any grouping."""

from __future__ import annotations

import numpy as np

from anonpipe.kernels.features import checked_features
from anonpipe.methods.grouping._bound_kernel import nearest_sums
from anonpipe.types import FloatArray


def information_loss_bound(features: FloatArray, k: int) -> float:
    """Percentage below which no grouping with k or more records in each group can go.

    100 / SST · Σ_i s_i / (2k), where s_i is the sum of the k - 1 smallest
    squared distances from record i to other records of the whole table. No
    grouping need reach it.

    In a group of m >= k records SSE = Σ_i Σ_j |x_i - x_j|² / (2m), and for each
    i the m - 1 terms with j other than i sum to s_i (m - 1)/(k - 1) or more,
    since the mean of the smallest k - 1 of any distances is not above the mean
    of more of them. Since (m - 1)/(m (k - 1)) >= 1/k, the group loses Σ_i s_i / (2k) or more.

    The bound depends on the scale of the columns as `information_loss` does:
    compare figures of the same points, usually z-scores. The result is rounded
    down by more than all rounding errors of the computation, about 1e-14 of it.

    Shapes: features (n_rows, width).

    Notes
    -----
    Neighbours are exact. Memory is linear in the rows; time grows by less than
    their square, with few columns much less.

    Examples
    --------
    >>> features = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> round(information_loss_bound(features, 2), 3)
    3.846
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
    inside = float(nearest_sums(features, k).sum())
    # Every term is rounded about 3 + width times, and then added in two sums of
    # at most 64 + log2(n) and k + 64 + log2(n) levels. A mean that is rounded
    # makes `total` larger and so the bound lower.
    roundings = 2 * (features.shape[1] + 3) + k + 2 * (64 + len(features).bit_length())
    bound: float = 100.0 * inside / (2 * k) / total * (1.0 - roundings * float(np.finfo(np.float64).eps))
    return bound
