"""Moments of fixed group means with normal noise: what to expect of them, and their standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.moments._expected import Expected
from anonpipe.moments._merge import merge_all
from anonpipe.moments._moments import GroupedMoments
from anonpipe.moments._spread import GroupSpread
from anonpipe.moments._tails import centred_eigenvalue, form_eigenvalue, product_variance
from anonpipe.types import FloatArray


@dataclass(frozen=True, eq=False)
class SamplingLimit:
    """Standard errors of the moments of synthetic records about what is expected of them."""

    mean: FloatArray  # Of the means, shape (width,)
    covariance: FloatArray  # Of the covariances (n - 1 in the denominator), shape (width, width)
    # How heavy the tails of the covariances are, in their unit, shape (width, width): see `covariance_limit`
    scale: FloatArray

    def about(self, covariance: FloatArray) -> Expected:
        """The same about an expected covariance."""
        return Expected(self.mean, covariance, self.covariance, self.scale)


# Parts of a table below each other, each with the covariance of the noise of its records
Scopes = Sequence[tuple[GroupedMoments, FloatArray]]


def expected_of_scopes(scopes: Scopes, form: str) -> FloatArray:
    """Covariance of a table whose parts get noise of a covariance each, shape (width, width).

    Examples
    --------
    >>> from anonpipe.moments import s_delta
    >>> features = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> grouped = GroupedMoments.of(features, np.arange(4), np.array([0, 2, 4]))
    >>> expected_of_scopes([(grouped, s_delta(grouped, "independent"))], "independent").round(9).tolist()
    [[6.666666667]]
    """
    n = sum(grouped.total.n for grouped, _ in scopes)
    if form == "centred":
        added = np.sum([(grouped.total.n - grouped.groups) * noise for grouped, noise in scopes], axis=0)
    else:
        added = (1.0 - 1.0 / max(n, 1)) * np.sum([grouped.total.n * noise for grouped, noise in scopes], axis=0)
    return np.asarray((np.sum(_between(scopes), axis=0) + added) / max(n - 1, 1))


def limit_of_scopes(scopes: Scopes, form: str) -> SamplingLimit:
    """How far such noise may move the means and covariances of the table: exact standard errors.

    Notes
    -----
    The N synthetic records are fixed group means plus normal noise. Write B
    for the between-group scatter and V for the covariance of the noise, first
    of a single part.

    Independent noise moves the mean by an average of N draws, V_jj/N. The
    synthetic scatter is B, plus products of means and noise, plus the scatter
    of the noise; the second is odd in the noise and the third even, so they do
    not correlate. The second has variance B_jj V_hh + B_hh V_jj + 2 B_jh V_jh;
    the third is Wishart with N-1 degrees of freedom, of variance
    (N-1)(V_jj V_hh + V_jh²). Their sum over (N-1)² is the squared error.

    Noise centred in every group leaves the mean and has no products with the
    group means; its scatter is Wishart with N-G degrees of freedom.

    Of several parts, with n_s records of noise V_s in each part, and B_s the scatter of their
    group means about the mean of the table, the products of means and noise
    add Σ_s (B_jj V_hh + B_hh V_jj + 2 B_jh V_jh) to the variance of a
    scatter, and the noise, a quadratic form in I - 11'/N,
    (1 - 2/N) Σ_s n_s (V_jj V_hh + V_jh²) and 1/N² times the same of Σ_s n_s V_s.
    Centred noise has Σ_s (n_s - G_s)(V_jj V_hh + V_jh²), and nothing else.

    Each covariance is a quadratic form in normals plus a linear one: its
    standard error says all of its tails where no eigenvalue of the form
    stands out, as with noise of one covariance and many records. `scale` is
    twice the largest eigenvalue.
    """
    n, width = sum(grouped.total.n for grouped, _ in scopes), len(scopes[0][1])
    degrees = max(n - 1, 1)
    largest = np.max([form_eigenvalue(noise) for _, noise in scopes], axis=0)
    if form == "centred":
        parts = [(grouped.total.n - grouped.groups) * product_variance(noise) for grouped, noise in scopes]
        return SamplingLimit(np.zeros(width), _root(np.sum(parts, axis=0)) / degrees, 2.0 * largest / degrees)
    variance, whole = np.zeros((width, width)), np.zeros((width, width))
    for (grouped, noise), between in zip(scopes, _between(scopes), strict=True):
        variance += _symmetric(np.outer(np.diag(between), np.diag(noise))) + 2 * between * noise
        variance += (1.0 - 2.0 / max(n, 1)) * grouped.total.n * product_variance(noise)
        whole += grouped.total.n * noise
    variance += product_variance(whole) / max(n, 1) ** 2
    if len(scopes) > 1:
        largest = centred_eigenvalue(largest, whole / max(n, 1))
    return SamplingLimit(_root(np.diag(whole)) / max(n, 1), _root(variance) / degrees, 2.0 * largest / degrees)


def _between(scopes: Scopes) -> list[FloatArray]:
    """Scatter of each part's group means about the mean of the table."""
    centre = merge_all([grouped.total for grouped, _ in scopes]).mean
    apart = [grouped.total.mean - centre for grouped, _ in scopes]
    return [
        grouped.between_scatter + grouped.total.n * np.outer(shift, shift)
        for (grouped, _), shift in zip(scopes, apart, strict=True)
    ]


def limit_by_group(spread: GroupSpread) -> SamplingLimit:
    """The same of records that are drawn with the mean and the covariance of their group.

    Notes
    -----
    With a covariance V_g = c W_g/n_g in each group, c = N/(N-1), the mean has
    variance c W_jj/N². The products with the means have variance
    c Σ_g (u_j² W_hh + u_h² W_jj + 2 u_j u_h W_jh), u being the group's mean
    less that of all; the scatter of the noise, a quadratic form in
    I - 11'/N, has (1 - 2/N) c² Σ_g (W_jj W_hh + W_jh²)/n_g plus
    c²/N² (W_jj W_hh + W_jh²) of the pooled W. The c of a table is used for a
    stratum too, where it differs from the stratum's own by a relative 1/N.

    One outlier can make up most of the quadratic form, whose tails are then
    those of a chi-square with as many degrees of freedom as its group has
    records; see `limit_of_scopes` for `scale`.
    """
    n = max(spread.n, 1)
    degrees, c = max(n - 1, 1), n / max(n - 1, 1)
    cross = c * (_symmetric(spread.square) + 2 * spread.product)
    scatter = c**2 * ((1 - 2 / n) * spread.noise + product_variance(spread.within) / n**2)
    mean = _root(c * np.diag(spread.within)) / n
    largest = centred_eigenvalue(c * spread.largest, c * spread.within / n)
    return SamplingLimit(mean, _root(cross + scatter) / degrees, 2.0 * largest / degrees)


def _symmetric(a: FloatArray) -> FloatArray:
    return a + a.T


def _root(variance: FloatArray) -> FloatArray:
    """The square root; what rounding left below zero counts as zero."""
    return np.sqrt(np.clip(variance, 0.0, None))
