"""The one check of points before they reach compiled loops."""

from __future__ import annotations

import numpy as np

from anonpipe.types import FloatArray

LARGEST = 1e100
"""Squares of larger numbers, summed, could leave the range of float64."""


def checked_points(points: FloatArray) -> FloatArray:
    """Points as a float64 matrix in C order, the same array where it is one already.

    Raises
    ------
    ValueError
        `points` is not 2-dimensional, or holds NaN, infinity or a number
        larger than 1e100 in size.

    Examples
    --------
    >>> checked_points(np.ones((2, 3))).shape
    (2, 3)
    """
    points = np.asarray(points)
    if points.dtype.kind not in "fiub":
        raise ValueError(f"points has type {points.dtype}; give real numbers")
    if points.ndim != 2:
        raise ValueError(f"points has {points.ndim} dimensions; give an array of shape (n_rows, width)")
    points = np.ascontiguousarray(points, dtype=np.float64)
    if points.size and not (points.min() >= -LARGEST and points.max() <= LARGEST):
        raise ValueError("points holds NaN, infinity or numbers above 1e100 in size; encode nulls and scale first")
    return points
