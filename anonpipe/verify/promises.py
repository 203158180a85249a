"""What a method promises of means and covariances, before decoding; and how much of it the written rows may take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.mask import Expected
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, expected_covariance, merge_all, sampling_limit
from anonpipe.verify.verdict import Check, Outcome, at_most

FloatArray = npt.NDArray[np.float64]

EXACT = 1e-9
"""Relative tolerance of what a method promises exactly, before decoding."""

DEVIATIONS = 6.0
"""Width of sampling limits in standard errors: a correct run fails one of 10,000 entries about once in 50,000 runs."""

ON = "synthetic points before decoding"


@dataclass(frozen=True)
class Promise:
    """What the chosen synthesizer promises.

    Attributes
    ----------
    method, form
        Its name and the form of its noise (None where it has none).
    strata
        Whether it promises the same in every stratum.
    exact_groups
        Whether every group's mean and scatter are kept exactly.
    identical
        Whether the records of a group are released as one and the same.
    """

    method: str
    form: str | None
    strata: bool
    exact_groups: bool = False
    identical: bool = False


@dataclass(frozen=True)
class Target:
    """The original points, and what is promised of the synthetic ones.

    Attributes
    ----------
    original
        Moments of the original points.
    expected
        The promise; None for none.
    """

    original: Moments
    expected: Expected | None

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the original points, 1 for a constant, shape (width,)."""
        spread = np.sqrt(np.diag(self.original.covariance))
        return np.where(spread > 0, spread, 1.0)

    @property
    def allowance(self) -> tuple[float, float]:
        """What the method itself may change: its known bias plus six standard errors, in standard deviations."""
        if self.expected is None:
            return 0.0, 0.0
        bias = np.abs(self.expected.covariance - self.original.covariance)
        covariance = (bias + DEVIATIONS * self.expected.covariance_error) / np.outer(self.scale, self.scale)
        return float(np.max(DEVIATIONS * self.expected.mean_error / self.scale)), float(np.max(covariance))


def of_groups(grouped: list[GroupedMoments], spread: list[GroupSpread] | None, promise: Promise) -> Target:
    """The promise of a synthesizer, of one or several strata together."""
    whole, spreads = merge_all(grouped), merge_all(spread) if spread else None
    limit = sampling_limit(whole, promise.method, promise.form, spread=spreads)
    covariance = expected_covariance(whole, promise.method, promise.form)
    return Target(whole.total, Expected(limit.mean, covariance, limit.covariance))


def against_promise(where: str, target: Target, made: Moments) -> list[Check]:
    """Hold the synthetic points against what the method promises; nothing where it promises nothing."""
    expected, scale = target.expected, target.scale
    if expected is None:
        return []
    mean_off = np.abs(made.mean - target.original.mean)
    covariance_off = np.abs(made.covariance - expected.covariance)
    return [
        _held(f"mean{where}: as promised", mean_off, expected.mean_error, scale),
        _held(f"covariance{where}: as promised", covariance_off, expected.covariance_error, np.outer(scale, scale)),
    ]


def _held(name: str, off: FloatArray, error: FloatArray, scale: FloatArray) -> Check:
    """Exact promises in parts of the standard deviation, random ones in standard errors."""
    if not error.any():
        return at_most(name, float(np.max(off / scale)), EXACT, ON, unit="sd", mandatory=True)
    rounding = EXACT * scale
    return at_most(
        name, float(np.max(off / (error + rounding))), DEVIATIONS, ON, unit="standard errors", mandatory=True
    )


def worst(each: list[list[Check]]) -> list[Check]:
    """Of the same checks in several strata, the worst of each."""
    return [max(same, key=_severity) for same in zip(*each, strict=True)]


def _severity(check: Check) -> tuple[bool, float]:
    return check.outcome is Outcome.FAILED, float(check.measured.split()[0])
