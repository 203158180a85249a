"""What a method is expected to make of means and covariances, and how far its draws may lead from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.moments._merge import merge_all
from anonpipe.moments._moments import Moments
from anonpipe.types import FloatArray


@dataclass(frozen=True, eq=False)
class Expected:
    """Moments of masked features, given the originals; the mean is always expected to stay."""

    mean_error: FloatArray  # Standard errors of the means, shape (width,); zeros where they are exact
    covariance: FloatArray  # Expected covariance (over n - 1), shape (width, width)
    covariance_error: FloatArray  # Standard errors of its entries, shape (width, width)
    covariance_scale: FloatArray  # Scale of their tails, shape (width, width); see `anonpipe.moments.covariance_limit`

    @classmethod
    def exactly(cls, covariance: FloatArray) -> Expected:
        """Means that stay, and this covariance, without any error."""
        nothing = np.zeros_like(covariance)
        return cls(np.zeros(len(covariance)), covariance, nothing, nothing)


def expect_together(parts: Sequence[tuple[Moments, Expected]]) -> Expected:
    """What is promised of tables below each other that are masked one by one.

    Examples
    --------
    >>> one = Moments(2, np.zeros(1), np.array([[2.0]])), Expected.exactly(np.array([[2.0]]))
    >>> two = Moments(2, np.ones(1) * 4, np.array([[2.0]])), one[1]
    >>> expect_together([one, two]).covariance.round(6).tolist()
    [[6.666667]]
    """
    if len(parts) == 1:
        return parts[0][1]
    whole = merge_all([moments for moments, _ in parts])
    degrees = max(whole.n - 1, 1)
    scatter, variance, drift = np.zeros_like(whole.scatter), np.zeros_like(whole.scatter), np.zeros_like(whole.scatter)
    mean_variance, scale = np.zeros_like(whole.mean), np.zeros_like(whole.scatter)
    for moments, expected in parts:
        own, apart = max(moments.n - 1, 0), moments.mean - whole.mean
        scatter += own * expected.covariance + moments.n * np.outer(apart, apart)
        shift = moments.n * np.outer(np.abs(apart), expected.mean_error)
        variance += (own * expected.covariance_error) ** 2 + (shift + shift.T) ** 2
        moved = moments.n * np.outer(expected.mean_error, expected.mean_error)
        drift += moved
        scale = np.maximum(scale, np.maximum(own * expected.covariance_scale, 2.0 * moved))
        mean_variance += (moments.n * expected.mean_error) ** 2
    error = (np.sqrt(variance) + drift) / degrees
    return Expected(np.sqrt(mean_variance) / whole.n, scatter / degrees, error, scale / degrees)
