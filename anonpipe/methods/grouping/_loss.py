"""Information loss of a grouping."""

from __future__ import annotations

import numpy as np

from anonpipe.kernels.points import checked_features, sort_groups
from anonpipe.methods.grouping._decompose import scatter_in_groups
from anonpipe.types import FloatArray, IntArray


def information_loss(features: FloatArray, labels: IntArray) -> float:
    """Share of the total scatter that lies inside groups, in percent: 100 · SSE / SST.

    SSE adds the squared distances of records to their group's mean, SST those
    to the mean of all. The figure depends on the scale of the columns: say
    which one it was measured on (usually z-scores).

    Shapes: features (n_rows, width); labels (n_rows,).

    References
    ----------
    Domingo-Ferrer and Mateo-Sanz 2002, IEEE TKDE 14(1), doi:10.1109/69.979982, section 2.

    Examples
    --------
    >>> features = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> round(information_loss(features, np.array([0, 0, 1, 1])), 3)
    3.846
    """
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(
            f"features has shape {features.shape} and labels {labels.shape}; give (n_rows, width) and (n_rows,)"
        )
    if len(labels) == 0:
        return 0.0
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels have type {labels.dtype}; give whole numbers, 0 to n_groups - 1")
    if labels.min() < 0 or labels.max() >= len(labels):
        raise ValueError("a label is negative, or not below the number of records; give 0 to n_groups - 1")
    features = checked_features(features)
    centred = features - features.mean(axis=0)
    total = float(np.square(centred).sum())
    if total <= 0.0:
        return 0.0
    return 100.0 * scatter_in_groups(centred, *sort_groups(labels.astype(np.int64))) / total
