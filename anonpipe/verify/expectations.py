"""What a method promises of means and covariances, before decoding; and how much of it the written rows may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.methods.record import Guarantee
from anonpipe.moments import Expected, GroupedMoments, GroupSpread, Moments, covariance_limit, mean_limit, merge_all
from anonpipe.types import FloatArray
from anonpipe.verify.catalogue import Scope, scoped
from anonpipe.verify.check import Check, worst_entry, worst_of

EXACT = 1e-9  # Relative tolerance of what a method promises exactly, before decoding

# Probability that chance alone leads one of the means, or one of the covariances, of a run beyond its limit
CHANCE = 1e-6


@dataclass(frozen=True)
class Target:
    """The original features, and what is promised of the synthetic ones."""

    original: Moments  # Moments of the original features
    expected: Expected | None  # The promise; None for none
    # How many tables (strata, or one) are held against their promises at once: the chance of a false failure is shared
    # out among them
    tables: int = 1

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the original features, 1 for a constant, shape (width,)."""
        spread = np.sqrt(np.diag(self.original.covariance))
        return np.where(spread > 0, spread, 1.0)

    @property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """How far chance may lead each mean, and each covariance, from what is expected; in the features' unit.

        One of all entries of all tables is further off with probability
        `CHANCE` at most, whatever the data; zeros for what is exact.
        """
        width = len(self.original.mean)
        if self.expected is None:
            return np.zeros(width), np.zeros((width, width))
        means, covariances = width * self.tables, width * (width + 1) // 2 * self.tables
        error, scale = self.expected.covariance_error, self.expected.covariance_scale
        return (
            mean_limit(self.expected.mean_error, CHANCE / means),
            covariance_limit(error, scale, CHANCE / covariances),
        )

    @property
    def allowance(self) -> tuple[FloatArray, FloatArray]:
        """What the method may change of each mean and covariance: its bias and chance, in standard deviations."""
        mean, covariance = self.limits
        if self.expected is not None:
            covariance = covariance + np.abs(self.expected.covariance - self.original.covariance)
        return mean / self.scale, covariance / np.outer(self.scale, self.scale)


def of_groups(
    grouped: list[GroupedMoments], spread: list[GroupSpread] | None, guarantee: Guarantee, tables: int = 1
) -> Target:
    """What a synthesizer guarantees of one scope of its noise, or of several together."""
    return Target(merge_all(grouped).total, guarantee.expect(grouped, spread), tables)


def against_expectation(scope: Scope, target: Target, made: Moments, names: Sequence[str]) -> list[Check]:
    """Hold the synthetic features against what the method promises; nothing where it promises nothing."""
    expected, scale = target.expected, target.scale
    if expected is None:
        return []
    mean, covariance = target.limits
    mean_off = np.abs(made.mean - target.original.mean)
    covariance_off = np.abs(made.covariance - expected.covariance)
    square = np.outer(scale, scale)
    about: dict[str, Any] = {"records": int(made.n)}
    mean_key, covariance_key = scoped("expectation.mean", scope), scoped("expectation.covariance", scope)
    return [
        _held(mean_key, mean_off, mean, expected.mean_error, scale, names=(names,), **about),
        _held(
            covariance_key, covariance_off, covariance, expected.covariance_error, square, names=(names, names), **about
        ),
    ]


def _held(key: str, off: FloatArray, limit: FloatArray, error: FloatArray, scale: FloatArray, **given: Any) -> Check:
    """Exact promises in parts of the standard deviation, random ones in standard errors."""
    if not error.any():
        return worst_entry(key, off / scale, EXACT, **given)
    rounding = EXACT * scale
    unit = error + rounding
    return worst_entry(key, off / unit, (limit + rounding) / unit, unit="standard errors", **given)


def worst(each: list[list[Check]]) -> list[Check]:
    """Of the same checks in several strata, the worst of each."""
    return [worst_of(same) for same in zip(*each, strict=True)]
