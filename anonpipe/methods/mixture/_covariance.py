"""Covariances of the components from their scatters, in six shapes."""

from __future__ import annotations

import numpy as np

from anonpipe.kernels.mixture import common_shape
from anonpipe.types import FloatArray

_ITERATIONS = 200
_TOLERANCE = 1e-12


def covariances(scatters: FloatArray, counts: FloatArray, shape: str) -> FloatArray:
    """The most likely covariances Σ_g = λ_g D_g A_g D_g' of a shape.

    "spherical"  λ I: balls of one size
    "diagonal"   axes along the columns, all else free
    "tied"       one ellipsoid Σ for all
    "eev"        one volume λ and shape A, each its own orientation D_g
    "vev"        one shape A, each its own volume λ_g and orientation D_g
    "full"       no constraint

    Shapes: scatters (n_groups, width, width); counts (n_groups,).

    Notes
    -----
    For "vev", in λ_g and A by turns: with the logarithms of both as unknowns
    the likelihood is concave, so that the turns end in its only maximum.

    Where a scatter has equal eigenvalues, as those of few distinct records do,
    its orientation in "eev" and "vev" is any of many equally likely ones, and
    rounding decides; the lengths of the axes do not depend on it.

    The clusters "with equal shape but different orientation and volume" that
    the authors found in their larger table are "vev".

    References
    ----------
    Celeux and Govaert 1995, Pattern Recognition 28:781-793,
    doi:10.1016/0031-3203(94)00125-6, section 3; the names in small letters are
    their initials for equal and variable volume, shape and orientation.

    Examples
    --------
    >>> scatters = np.array([[[8.0, 0.0], [0.0, 2.0]], [[2.0, 0.0], [0.0, 8.0]]])
    >>> covariances(scatters, np.array([1.0, 4.0]), "vev").tolist()
    [[[8.0, 0.0], [0.0, 2.0]], [[0.5, 0.0], [0.0, 2.0]]]
    >>> covariances(scatters, np.array([1.0, 4.0]), "tied")[0].tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    groups, width = len(counts), scatters.shape[2]
    if shape == "spherical":
        variance = scatters.sum() / (width * counts.sum())
        return np.broadcast_to(np.eye(width) * variance, (groups, width, width)).copy()
    if shape == "diagonal":
        return np.asarray(np.einsum("gj,jh->gjh", scatters[:, 0] / counts[:, None], np.eye(width)))
    if shape == "tied":
        return np.broadcast_to(scatters.sum(axis=0) / counts.sum(), (groups, width, width)).copy()
    if shape == "full":
        return scatters / counts[:, None, None]
    # Ascending eigenvalues: the same place in every component is the same axis of the common shape.
    values, vectors = np.linalg.eigh(scatters)
    values = np.maximum(values, np.finfo(np.float64).tiny)
    sizes = _equal_volume(values, counts) if shape == "eev" else _own_volumes(values, counts)
    rotated: FloatArray = np.einsum("gjm,gm,ghm->gjh", vectors, sizes, vectors)
    return (rotated + rotated.transpose(0, 2, 1)) / 2


def _equal_volume(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Eigenvalues λ a_j, the same for all."""
    return np.broadcast_to(values.sum(axis=0) / counts.sum(), values.shape)


def _own_volumes(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Eigenvalues λ_g a_j with Π a_j = 1, by turns."""
    volumes, shape = common_shape(values, counts, _ITERATIONS, _TOLERANCE)
    return np.asarray(volumes[:, None] * shape)
