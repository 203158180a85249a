"""How far a random moment lies from its expectation at most, but for a given small chance."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from anonpipe.types import FloatArray


def mean_limit(error: FloatArray, chance: float) -> FloatArray:
    """How far a normal variable of this standard error lies from its mean, but for `chance`.

    Examples
    --------
    >>> mean_limit(np.array([2.0]), 0.0455).round(2).tolist()
    [4.0]
    """
    return np.asarray(error * -ndtri(chance / 2.0))


def covariance_limit(error: FloatArray, scale: FloatArray, chance: float) -> FloatArray:
    """How far a covariance lies from its expectation at most, but for `chance`.

    Notes
    -----
    Let Q = Σ λ_i (Z_i² - 1) + Σ μ_i Z_i with independent standard normal Z_i,
    of variance v = Σ (2λ_i² + μ_i²), and λ the largest |λ_i|. Each term has
    log E exp(sQ_i) = -log(1 - 2λ_i s)/2 - λ_i s + μ_i² s²/(2(1 - 2λ_i s)), at
    most s² v_i/(2(1 - 2λs)). So Q is sub-gamma with variance v and scale 2λ,
    and P(|Q| > √(2vt) + 2λt) is at most 2 exp(-t). Nothing is assumed of the
    λ_i: one outlier's group may make up nearly all of Q.

    References
    ----------
    Boucheron, Lugosi & Massart (2013), Concentration Inequalities, section
    2.4; Laurent & Massart (2000), doi:10.1214/aos/1015957395, lemma 1.

    Examples
    --------
    >>> covariance_limit(np.array([1.0]), np.array([0.0]), 2e-9).round(2).tolist()  # many records
    [6.44]
    >>> covariance_limit(np.array([1.0]), np.array([0.8]), 2e-9).round(2).tolist()  # a group of three is all
    [23.02]
    """
    t = np.log(2.0 / chance)
    return np.asarray(np.sqrt(2.0 * t) * error + t * scale)


def form_eigenvalue(covariance: FloatArray) -> FloatArray:
    """Largest eigenvalue, in size, of the product of two normals of this covariance as a quadratic form.

    (√(V_jj V_hh) ± V_jh)/2 are its two eigenvalues.

    Examples
    --------
    >>> form_eigenvalue(np.array([[4.0, 1.0], [1.0, 9.0]])).tolist()
    [[4.0, 3.5], [3.5, 9.0]]
    """
    spread = np.sqrt(np.diag(covariance))
    return np.asarray((np.outer(spread, spread) + np.abs(covariance)) / 2.0)


def centred_eigenvalue(largest: FloatArray, average: FloatArray) -> FloatArray:
    """The same of products of records of several covariances, summed about the mean of the table.

    Shapes: largest (width, width); average (width, width).

    Notes
    -----
    The sum about the mean is the sum Σ e_j e_h of the records less
    (Σ e_j)(Σ e_h)/N, whose eigenvalues are those of one record with the
    average covariance: by Weyl's inequality they add at most. For squares,
    both forms being positive, the first is an upper limit itself.

    Examples
    --------
    >>> centred_eigenvalue(np.array([[4.0, 3.5], [3.5, 9.0]]), np.eye(2)).tolist()
    [[4.0, 4.0], [4.0, 9.0]]
    """
    added = form_eigenvalue(average)
    np.fill_diagonal(added, 0.0)
    return np.asarray(largest + added)


def product_variance(covariance: FloatArray) -> FloatArray:
    """V_jj V_hh + V_jh²: the variance of a product of two normals of this covariance."""
    spread = np.diag(covariance)
    return np.asarray(np.outer(spread, spread) + covariance**2)
