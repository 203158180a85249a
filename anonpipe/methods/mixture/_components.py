"""Principal components before a mixture of many columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.errors import JobError
from anonpipe.moments import Moments
from anonpipe.types import FloatArray


@dataclass(frozen=True, eq=False)
class Components:
    """The directions along which a table spreads most."""

    mean: FloatArray  # Of the table, shape (width,)
    axes: FloatArray  # Orthonormal columns, by falling variance, shape (width, kept)
    variances: FloatArray  # Of the table along them, shape (kept,)
    kept: float  # Their share of the table's total variance

    def scores(self, features: FloatArray) -> FloatArray:
        """Coordinates of records along the axes, shape (n_rows, number of axes)."""
        return np.ascontiguousarray((features - self.mean) @ self.axes)


def principal_components(moments: Moments, share: float) -> Components:
    """As few principal components as hold this share of the variance.

    A mixture fitted to the scores decides only who is in a group with whom.
    The columns' remaining variance has no say in that, but nothing of it is
    lost: `affine_maps` of the records in all columns keep every group's means
    and covariances whole.

    Examples
    --------
    >>> features = np.array([[0.0, 0.0], [4.0, 0.1], [8.0, 0.0]])
    >>> principal_components(Moments.of(features), 0.9).axes.round(6).tolist()
    [[1.0], [0.0]]
    """
    if not 0 < share <= 1:
        raise JobError(f"the share of variance to keep is {share}; give a number above 0 and at most 1, such as 0.95")
    values, vectors = np.linalg.eigh(moments.scatter)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    total = values.sum()
    if not total > 0:
        return Components(moments.mean, np.ascontiguousarray(vectors[:, :1]), np.zeros(1), 1.0)
    cumulated = np.cumsum(values) / total
    positive = int((values > values[0] * len(values) * np.finfo(np.float64).eps).sum())
    number = min(int(np.searchsorted(cumulated, share * (1 - 1e-12))) + 1, positive)
    axes = vectors[:, :number]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(number)] < 0, -1.0, 1.0)
    return Components(
        moments.mean, np.ascontiguousarray(axes), values[:number] / moments.n, float(cumulated[number - 1])
    )
