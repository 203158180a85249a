"""Records times a matrix, in the same bits in whatever part of a table a record arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numba as nb
import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.moments import Expected, Moments, form_eigenvalue, product_variance
from anonpipe.types import FloatArray


@nb.njit(cache=True, nogil=True)
def turn_rows(features: FloatArray, before: FloatArray, matrix: FloatArray, after: FloatArray) -> FloatArray:
    """(features - before) · matrix + after, one record at a time.

    No BLAS: the order in which it sums follows the number of records it is
    given, and of its threads.

    Shapes: before (width,); after (channels,).

    Examples
    --------
    >>> turn_rows(np.array([[3.0, 1.0]]), np.ones(2), np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([0.5, 0.0])).tolist()
    [[0.5, 4.0]]
    """
    n, width = features.shape
    channels = matrix.shape[1]
    out = np.zeros((n, channels))
    for i in range(n):
        for h in range(width):
            value = features[i, h] - before[h]
            for j in range(channels):
                out[i, j] += value * matrix[h, j]
        for j in range(channels):
            out[i, j] += after[j]
    return out


# --- The spectral basis: the axes along which the records spread, and the way there and back --------------------------
# A masker that works on one column at a time keeps no correlation of the
# columns. Principal components have none: the same masker, applied to them and
# turned back, keeps the covariance on average.

Basis = Literal["spectral", "columns"]

DEPENDENT = 1e-12  # Eigenvalues of a correlation matrix up to this are rounding: the columns depend on each other


@dataclass(frozen=True, eq=False)
class Axes:
    """A basis to work in."""

    n: int  # Number of records of the table
    centre: FloatArray  # Mean of the features, shape (width,)
    vectors: FloatArray  # Orthonormal axes, one a column, shape (width, width)
    variances: FloatArray  # Variance (over n - 1) of the records along each, shape (width,)


# What the option is for
BASIS = "'spectral' (default): along the principal components; 'columns': along the columns as they are"


def axes_of(moments: Moments, basis: Basis) -> Axes:
    """The axes of a table.

    Notes
    -----
    Where variances are equal, or differ by rounding only, the eigenvectors are
    any of their span, and the parts in which the moments were counted may
    decide which. Eigenvalues that are no more than the rounding of their
    decomposition (width · eps of the largest) are 0: draws along such an axis
    would have the root of it, 1e-8, as their standard deviation, and move
    columns that are constant.

    References
    ----------
    Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section III.A: V of the
    singular value decomposition of the centred features.

    Examples
    --------
    >>> axes = axes_of(Moments.of(np.array([[-1.0, -1.0], [1.0, 1.0]])), "spectral")
    >>> axes.variances.round(12).tolist(), axes.vectors[:, 0].round(3).tolist()
    ([4.0, 0.0], [0.707, 0.707])
    """
    checked_basis(basis)
    covariance = moments.scatter / max(moments.n - 1, 1)
    if not np.isfinite(covariance).all():
        raise InputError("the covariance of the features is not finite; scale the columns first")
    width = len(covariance)
    if basis == "columns":
        return Axes(moments.n, moments.mean, np.eye(width), np.diag(covariance).copy())
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.where(vectors[largest, np.arange(width)] < 0, -1.0, 1.0)
    rounding = width * np.finfo(np.float64).eps * values.max(initial=0.0)
    variances = np.where(values > rounding, values, 0.0)
    return Axes(moments.n, moments.mean, np.ascontiguousarray(vectors * signs), variances)


def checked_basis(basis: str) -> None:
    """Refuse an unknown basis."""
    if basis not in ("spectral", "columns"):
        raise JobError(f"basis is {basis!r}; known are 'spectral' and 'columns'")


def count_moments(part: FloatArray, *, params: object) -> Moments:
    """Moments of a part, whatever is known already."""
    return Moments.of(part)


def find_axes(moments: Moments, *, params: object, rng: np.random.Generator, basis: Basis) -> Axes:
    """`axes_of` as the end of a pass."""
    return axes_of(moments, basis)


def to_axes(part: FloatArray, *, params: Axes, rng: np.random.Generator) -> FloatArray:
    """Centred records along the axes (T = UD of the paper)."""
    zero = np.zeros(len(params.centre))
    return np.asarray(turn_rows(part, params.centre, params.vectors, zero))


def from_axes(part: FloatArray, *, params: Axes, rng: np.random.Generator) -> FloatArray:
    """The inverse of `to_axes`."""
    zero = np.zeros(len(params.centre))
    return np.asarray(turn_rows(part, zero, np.ascontiguousarray(params.vectors.T), params.centre))


def spectral_inverse(scatter: FloatArray) -> tuple[FloatArray, int]:
    """Inverse of a scatter on the directions in which there is any, and how many there are.

    Judged on the correlation matrix, so that the units of the columns do not
    matter.

    Examples
    --------
    >>> inverse, rank = spectral_inverse(np.array([[4.0, 0.0], [0.0, 0.0]]))
    >>> inverse.tolist(), rank
    ([[0.25, 0.0], [0.0, 0.0]], 1)
    """
    spread = np.sqrt(np.clip(np.diag(scatter), 0.0, None))
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    values, vectors = np.linalg.eigh(scatter * np.outer(unit, unit))
    real = values > DEPENDENT * max(1.0, float(values[-1]))
    inverse = (vectors[:, real] / values[real]) @ vectors[:, real].T
    return inverse * np.outer(unit, unit), int(real.sum())


# --- What a masker promises of means and covariances, and how far its draws may lead from it --------------------------


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
