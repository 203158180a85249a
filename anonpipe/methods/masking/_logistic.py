"""Multinomial logistic regressions by Newton's method, over sums that merge.

Libraries fit a table that they hold; this one adds up what a table in parts
tells of the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import logsumexp

from anonpipe.errors import InputError
from anonpipe.kernels.group_moments import cross_products
from anonpipe.methods.masking._turn_kernel import turn_rows
from anonpipe.types import FloatArray, IntArray

MOST_PASSES = 100
TOLERANCE = 1e-8  # Of the gradient, relative to the number of records


@dataclass(frozen=True, eq=False)
class Logit:
    """A regression of one categorical attribute on other columns, on its way to the maximum."""

    predictors: IntArray  # Numbers of the columns, shape (p,)
    # Intercept, then one for each predictor, for each category but the first; shape (p + 1, categories - 1)
    coefficients: FloatArray
    # Times half the sum of squares of the coefficients, intercepts left out, it is taken from the log-likelihood, so
    # that a maximum exists where predictors tell categories apart
    penalty: float
    precision: FloatArray  # Minus the second derivatives at the coefficients, in the order of `coefficients.T.ravel()`
    # trusted, reached: the best coefficients so far, and their penalised log-likelihood
    trusted: FloatArray
    reached: float = -np.inf
    done: bool = False  # Whether the gradient is small enough

    @classmethod
    def start(cls, predictors: IntArray, counts: IntArray, penalty: float) -> Self:
        """Slopes of 0 and the intercepts that give the categories their counts, all above 0."""
        coefficients = np.zeros((len(predictors) + 1, len(counts) - 1))
        coefficients[0] = np.log(counts[1:] / counts[0])
        return cls(predictors, coefficients, penalty, np.zeros((0, 0)), coefficients)

    def logits(self, scores: FloatArray) -> FloatArray:
        """Unscaled log-probabilities of all categories, that of the first being 0, shape (n_rows, categories)."""
        used = np.ascontiguousarray(scores[:, self.predictors])
        rest = turn_rows(used, np.zeros(used.shape[1]), self.coefficients[1:], self.coefficients[0])
        return np.concatenate([np.zeros((len(scores), 1)), rest], axis=1)

    def chances(self, scores: FloatArray) -> FloatArray:
        """Probabilities of the categories, shape (n_rows, categories)."""
        logits = self.logits(scores)
        return np.asarray(np.exp(logits - logsumexp(logits, axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class Slope:
    """Log-likelihood of some records, its gradient, shape (p + 1, categories - 1), and minus its second derivatives."""

    likelihood: float
    gradient: FloatArray
    precision: FloatArray

    @classmethod
    def of(cls, logit: Logit, scores: FloatArray, codes: IntArray) -> Self:
        """Count records whose predictors are among the `scores`, shape (n_rows, width)."""
        logits = logit.logits(scores)
        logarithms = logits - logsumexp(logits, axis=1, keepdims=True)
        likelihood = float(logarithms[np.arange(len(codes)), codes].sum())
        chances = np.exp(logarithms)[:, 1:]
        design = np.concatenate([np.ones((len(codes), 1)), scores[:, logit.predictors]], axis=1)
        p, m = design.shape[1], chances.shape[1]
        missed = (codes[:, None] == np.arange(1, m + 1)) - chances
        precision = np.empty((m, p, m, p))
        for a in range(m):
            for b in range(a, m):
                weight = chances[:, a] * ((a == b) - chances[:, b])
                precision[a, :, b, :] = cross_products(design * weight[:, None], design)
                precision[b, :, a, :] = precision[a, :, b, :].T
        return cls(likelihood, cross_products(design, missed), precision.reshape(m * p, m * p))

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        return type(self)(
            self.likelihood + other.likelihood, self.gradient + other.gradient, self.precision + other.precision
        )


@dataclass(frozen=True, eq=False)
class Slopes:
    """One `Slope` for each of several regressions, over n records."""

    n: int
    slopes: Sequence[Slope | None]

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        pairs = zip(self.slopes, other.slopes, strict=True)
        return type(self)(self.n + other.n, [a.merge(b) if a and b else None for a, b in pairs])


def improved(logit: Logit, slope: Slope, n: int) -> Logit:
    """One step of Newton's method, or half the way back where the last one went too far.

    Examples
    --------
    >>> scores, codes = np.zeros((4, 0)), np.array([0, 1, 1, 1])
    >>> fit = Logit.start(np.arange(0), np.array([2, 2]), 1e-3)
    >>> for _ in range(9):
    ...     fit = improved(fit, Slope.of(fit, scores, codes), 4)
    >>> fit.done, fit.chances(scores)[0].round(9).tolist()
    (True, [0.25, 0.75])
    """
    free = np.ones_like(logit.coefficients)
    free[0] = 0.0
    held = logit.penalty * free
    reached = slope.likelihood - float((held * logit.coefficients**2).sum()) / 2
    if reached < logit.reached - TOLERANCE * (1 + abs(logit.reached)):
        return replace(logit, coefficients=(logit.coefficients + logit.trusted) / 2)
    gradient = slope.gradient - held * logit.coefficients
    precision = slope.precision + np.diag(held.T.ravel())
    done = bool(np.abs(gradient).max() <= TOLERANCE * n)
    step = np.zeros(gradient.size)
    if not done:
        step = np.asarray(np.linalg.lstsq(precision, gradient.T.ravel(), rcond=None)[0])
    return replace(
        logit,
        coefficients=logit.coefficients + step.reshape(gradient.T.shape).T,
        precision=precision,
        trusted=logit.coefficients,
        reached=reached,
        done=done,
    )


def check_passes(passes: int) -> None:
    """Refuse to go on for ever."""
    if passes >= MOST_PASSES:
        raise InputError(
            f"a logistic regression found no maximum in {MOST_PASSES} passes; raise penalty, "
            "or drop columns that depend on each other"
        )
