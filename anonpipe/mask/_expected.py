"""What a masker promises of means and covariances, and how far its draws may lead from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.mask._basis import Basis, axes_of
from anonpipe.moments import Moments

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Expected:
    """Moments of masked points, given the originals; the mean is always expected to stay.

    Attributes
    ----------
    mean_error
        Standard errors of the means, shape (width,); zeros where they are exact.
    covariance
        Expected covariance (over n - 1), shape (width, width).
    covariance_error
        Standard errors of its entries, shape (width, width).
    """

    mean_error: FloatArray
    covariance: FloatArray
    covariance_error: FloatArray


def kept_in_basis(moments: Moments, basis: Basis) -> FloatArray:
    """The covariance that is left where components lose their correlation: all of it in the spectral basis."""
    covariance = moments.scatter / max(moments.n - 1, 1)
    return covariance if basis == "spectral" else np.diag(np.diag(covariance))


def normal_draws(moments: Moments, basis: Basis) -> Expected:
    """Of independent normal records, whose scatter is Wishart with n - 1 degrees of freedom.

    Examples
    --------
    >>> normal_draws(Moments(5, np.zeros(1), np.array([[8.0]])), "columns").covariance_error.round(6).tolist()
    [[1.414214]]
    """
    covariance = kept_in_basis(moments, basis)
    n = max(moments.n, 2)
    return Expected(np.sqrt(np.diag(covariance) / n), covariance, np.sqrt(pair(covariance) / (n - 1)))


def permuted_components(moments: Moments, basis: Basis) -> Expected:
    """Of columns that are permuted independently in a basis.

    Notes
    -----
    With variances λ_j along orthonormal axes v_j, components j and h have
    after independent uniform permutations the covariance c_jh of expectation
    0 and variance λ_j λ_h / (n-1), and no two pairs correlate. The entry (a,
    b) of the covariance is Σ_jh v_aj v_bh c_jh with c_jj = λ_j fixed, so that
    its variance is [S_aa S_bb + S_ab² - 2 Σ_j v_aj² v_bj² λ_j²] / (n-1).
    """
    axes = axes_of(moments, basis)
    covariance = kept_in_basis(moments, basis)
    n = max(moments.n, 2)
    own = (axes.vectors**2 * axes.variances) @ (axes.vectors**2 * axes.variances).T
    variance = (pair(covariance) - 2 * own) / (n - 1)
    return Expected(np.zeros(len(covariance)), covariance, np.sqrt(np.clip(variance, 0.0, None)))


def pair(covariance: FloatArray) -> FloatArray:
    """v_jj v_hh + v_jh²: the variance of a product of two correlated normals."""
    spread = np.diag(covariance)
    return np.asarray(np.outer(spread, spread) + covariance**2)
