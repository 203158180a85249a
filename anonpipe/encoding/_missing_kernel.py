"""Filling of missing numbers from the same group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit


@njit(cache=True, nogil=True)
def fill_column(
    values: npt.NDArray[np.float64],
    order: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    draws: npt.NDArray[np.float64],
    fallback: float,
) -> None:
    """Give each missing value a value of its group, in place.

    Parameters
    ----------
    values
        One column, NaN where missing, shape (n,).
    order, starts
        The groups (`anonpipe.kernels.groups.sort_groups`).
    draws
        A number in [0, 1) for each group: which donor the group's first
        missing value gets; the next ones take the following donors in turn.
    fallback
        For groups without any value.
    """
    donors = np.empty(np.max(np.diff(starts)), dtype=np.float64)
    for group in range(len(starts) - 1):
        count = 0
        for at in range(starts[group], starts[group + 1]):
            value = values[order[at]]
            if not np.isnan(value):
                donors[count] = value
                count += 1
        if count == starts[group + 1] - starts[group]:
            continue
        turn = int(draws[group] * count)
        for at in range(starts[group], starts[group + 1]):
            row = order[at]
            if np.isnan(values[row]):
                values[row] = donors[turn % count] if count > 0 else fallback
                turn += 1
