"""The spectral basis: the axes along which the records spread, and the way there and back.

A masker that works on one column at a time keeps no correlation of the
columns. Principal components have none: the same masker, applied to them and
turned back, keeps the covariance on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.methods.masking._turn_kernel import turn_rows
from anonpipe.moments import Moments
from anonpipe.types import FloatArray

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
