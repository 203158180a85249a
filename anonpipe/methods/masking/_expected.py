"""What a masker promises of means and covariances, and how far its draws may lead from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.methods.masking._basis import Basis, axes_of
from anonpipe.moments import Moments, form_eigenvalue, merge_all, product_variance
from anonpipe.types import FloatArray


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
    covariance_scale
        Scale of their tails, shape (width, width); see
        `anonpipe.moments.covariance_limit`.
    """

    mean_error: FloatArray
    covariance: FloatArray
    covariance_error: FloatArray
    covariance_scale: FloatArray

    @classmethod
    def exactly(cls, covariance: FloatArray) -> Expected:
        """Means that stay, and this covariance, without any error."""
        nothing = np.zeros_like(covariance)
        return cls(np.zeros(len(covariance)), covariance, nothing, nothing)


def expect_together(parts: Sequence[tuple[Moments, Expected]]) -> Expected:
    """What is promised of tables below each other that are masked one by one.

    Parameters
    ----------
    parts
        Of each table its moments, and what is promised of it.

    Returns
    -------
    Expected
        Exact where all are. Draws of different tables are independent, so
        that variances of their sums add. Where means are drawn, their
        distances are too: the standard errors of the covariance hold an upper
        limit of what that adds, as correlations between errors are not known.
        The scale of the tails is the largest, of a table's own or of the
        product of its two means.

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
    error = np.sqrt(product_variance(covariance) / (n - 1))
    scale = 2.0 * form_eigenvalue(covariance) / (n - 1)
    return Expected(np.sqrt(np.diag(covariance) / n), covariance, error, scale)


def permuted_components(moments: Moments, basis: Basis, largest: FloatArray | None = None) -> Expected:
    """Of columns that are permuted independently in a basis.

    Parameters
    ----------
    moments, basis
        Of the records, and where they are permuted.
    largest
        Largest size of a record along each axis, shape (width,); None for
        what it cannot be more than, the root of (n-1) times the variance.

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
    variance = (product_variance(covariance) - 2 * own) / (n - 1)
    sizes = np.abs(axes.vectors) * (np.sqrt((n - 1) * axes.variances) if largest is None else largest)
    scale = 2.0 / 3.0 * _largest_products(sizes) / (n - 1)
    return Expected(np.zeros(len(covariance)), covariance, np.sqrt(np.clip(variance, 0.0, None)), scale)


def _largest_products(sizes: FloatArray) -> FloatArray:
    """Of each two rows a and b the largest sizes_aj sizes_bh with j other than h; twice that for a row with itself.

    Examples
    --------
    >>> _largest_products(np.array([[3.0, 2.0], [5.0, 1.0]])).tolist()
    [[12.0, 10.0], [10.0, 10.0]]
    """
    width = len(sizes)
    ordered = np.sort(np.pad(sizes, ((0, 0), (0, 1))), axis=1)[:, ::-1]  # a second one, 0, where there is one axis
    place = sizes.argmax(axis=1)
    products = np.outer(ordered[:, 0], ordered[:, 0])
    crossed = np.outer(ordered[:, 0], ordered[:, 1])
    products = np.where(place[:, None] == place[None, :], np.maximum(crossed, crossed.T), products)
    products[np.arange(width), np.arange(width)] *= 2.0
    return products
