"""Filling of missing numbers from the same group, and from near ones where that has too few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit


@njit(cache=True, nogil=True)
def fill_column(
    values: npt.NDArray[np.float64],
    order: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    line: npt.NDArray[np.int64],
    fewest: int,
    draws: npt.NDArray[np.float64],
) -> None:
    """Give each missing value a value of its group or of near ones, in place.

    Shapes: values (n,); line (n_groups,).
    """
    groups = len(starts) - 1
    known = values.copy()
    donors = np.empty(fewest + np.max(np.diff(starts)), dtype=np.float64)
    for place in range(groups):
        group = line[place]
        count = _collect(known, order, starts, group, donors, 0)
        if count == starts[group + 1] - starts[group]:
            continue
        before, after = place, place
        while count < fewest and (before > 0 or after < groups - 1):
            if after < groups - 1:
                after += 1
                count = _collect(known, order, starts, line[after], donors, count)
            if count < fewest and before > 0:
                before -= 1
                count = _collect(known, order, starts, line[before], donors, count)
        if count < fewest:
            continue
        turn = int(draws[group] * count)
        for at in range(starts[group], starts[group + 1]):
            row = order[at]
            if np.isnan(values[row]):
                values[row] = donors[turn % count]
                turn += 1


@njit(cache=True, nogil=True)
def _collect(
    known: npt.NDArray[np.float64],
    order: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    group: int,
    donors: npt.NDArray[np.float64],
    count: int,
) -> int:
    """Write the values that a group has behind the first `count` donors; the number of donors then."""
    for at in range(starts[group], starts[group + 1]):
        value = known[order[at]]
        if not np.isnan(value):
            donors[count] = value
            count += 1
    return count
