"""The one check of points before they reach compiled loops."""

from __future__ import annotations

import numpy as np

from anonpipe.types import FloatArray

LARGEST = 1e100  # Squares of larger numbers, summed, could leave the range of float64


def checked_features(features: FloatArray) -> FloatArray:
    """Points as a float64 matrix in C order, the same array where it is one already.

    Examples
    --------
    >>> checked_features(np.ones((2, 3))).shape
    (2, 3)
    """
    features = np.asarray(features)
    if features.dtype.kind not in "fiub":
        raise ValueError(f"features has type {features.dtype}; give real numbers")
    if features.ndim != 2:
        raise ValueError(f"features has {features.ndim} dimensions; give an array of shape (n_rows, width)")
    features = np.ascontiguousarray(features, dtype=np.float64)
    if features.size and not (features.min() >= -LARGEST and features.max() <= LARGEST):
        raise ValueError("features holds NaN, infinity or numbers above 1e100 in size; encode nulls and scale first")
    return features
