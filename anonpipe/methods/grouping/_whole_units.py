"""Units as points: a method that groups these keeps all records of a person, household or enterprise together."""

from __future__ import annotations

import numpy as np

from anonpipe.kernels.features import checked_features
from anonpipe.methods.grouping._units import unit_codes
from anonpipe.types import FloatArray, IntArray


def unit_points(features: FloatArray, units: IntArray) -> tuple[FloatArray, IntArray]:
    """One point a unit, to be grouped in place of its records, and which one stands for each record.

    The point is the mean of the unit's features, and the logarithm of how many records it has, in
    standard deviations over the units, where these differ: so units
    of like sizes share groups, and one of many records is less often most of its group.

    Time O(n_rows · (width + log n_rows)); memory O(n_rows · width).

    Shapes: features (n_rows, width); units (n_rows,); returns (n_units, width or width + 1); returns (n_rows,).

    References
    ----------
    Hundepool et al. 2012, section 3.2 (households), doi:10.1002/9781118348239.

    Examples
    --------
    >>> points, own = unit_points(np.array([[0.0], [9.0], [2.0]]), np.array([4, 7, 4]))
    >>> points.tolist(), own.tolist()
    ([[1.0, 1.0], [9.0, -1.0]], [0, 1, 0])
    """
    features = checked_features(features)
    own = unit_codes(units, "units", len(features))
    order = np.argsort(own, kind="stable")
    starts = np.searchsorted(own[order], np.arange(int(own[order[-1]]) + 1))
    rows = np.diff(np.append(starts, len(own)))
    means = np.add.reduceat(features[order], starts) / rows[:, None]
    if (rows == rows[0]).all():
        return np.ascontiguousarray(means), own
    size = np.log(rows)
    return np.column_stack([means, (size - size.mean()) / size.std()]), own
