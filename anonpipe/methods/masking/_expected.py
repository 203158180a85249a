"""What a masker promises of means and covariances, and how far its draws may lead from it."""

from __future__ import annotations

import numpy as np

from anonpipe.methods.masking._basis import Basis, axes_of
from anonpipe.moments import Expected, Moments, form_eigenvalue, product_variance
from anonpipe.types import FloatArray


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

    Shapes: largest (width,).

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
