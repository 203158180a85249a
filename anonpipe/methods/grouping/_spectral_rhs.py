"""Spectral recursive histogram sanitization (Spectral-RHS)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.kernels.principal import covariance
from anonpipe.methods.grouping._histogram_kernel import rotated_columns, split_widest
from anonpipe.methods.grouping._options import GroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class SpectralRhsOptions(GroupingOptions):
    """Spectral recursive histogram sanitization (Spectral-RHS)."""

    method: Literal["spectral_rhs"]
    block_rows: int | None = Field(default=None, ge=10)


def spectral_rhs(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by halving them along principal axes.

    With U D Vᵀ the singular value decomposition of the centred points, the
    columns of T = U D are the records along the principal axes. A set of more
    than 2k records is split at the median of the column of T in which it has
    the largest range, and both halves again. Groups have k to 2k records.

    The split is by rank: split by value, ties at the median could leave fewer
    than k on one side. Equal values are ranked by row number, and of an odd
    number the upper half gets one more.

    V is taken from the eigenvectors of the scatter of the columns, so that
    memory is linear in the rows. The sign of an axis is free; it is settled by
    making the first of its largest entries positive. Where singular values
    are equal, their axes can be turned in the plane they span and the
    decomposition does not say how: the groups are then those of the axes that
    the linear algebra library of the machine gives.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; nothing is drawn from it.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    References
    ----------
    Lasko and Vinterbo 2010, doi:10.1109/TKDE.2009.88, section III-B2 and
    figure 1.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> spectral_rhs(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    labels = np.empty(len(features), dtype=np.int64)
    split_widest(rotated_columns(features, features.mean(axis=0), principal_axes(features)), k, labels)
    return labels


def principal_axes(features: FloatArray) -> FloatArray:
    """Unit vectors in columns, in descending order of the singular values of the centred points.

    Examples
    --------
    >>> principal_axes(np.array([[0.0, 0.0], [2.0, -1.0], [0.0, 0.0], [-2.0, 1.0]])).round(3).tolist()
    [[0.894, 0.447], [-0.447, 0.894]]
    """
    largest = np.abs(features).max()
    scaled = features / largest if largest > 0 else features
    axes: FloatArray = np.linalg.eigh(covariance(scaled, np.arange(len(features)), 1))[1][:, ::-1]
    # Entries can be equal but for rounding, which must not choose among them.
    sizes = np.abs(axes)
    first = (sizes > (1.0 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    return np.ascontiguousarray(axes * np.sign(axes[first, np.arange(len(axes))]))


METHOD = Grouping(
    function=spectral_rhs,
    options=SpectralRhsOptions,
    published="Spectral recursive histogram sanitization (Spectral-RHS)",
    reference="Lasko and Vinterbo 2010, doi:10.1109/TKDE.2009.88, section III-B2 and figure 1",
    cost="time O(n·w² + n·w·log(n/k)), memory O(n·w)",
    sizes="k to 2k",
    largest=lambda k: 2 * k,
)
