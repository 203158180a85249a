"""Missing numbers filled for the moments of a group; which values are missing is carried beside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.missing import fill_column

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def fill_missing(
    cells: FloatArray, numeric_columns: Sequence[int], order: IntArray, starts: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Fill each missing number with a value of its group (hot deck within groups).

    The group's values are donors in turn, from a random one on, so that no
    donor is used twice before all are used once. A group without any value
    takes the mean of the others; a column without any stays missing.

    Parameters
    ----------
    cells
        Shape (n_rows, n_columns); not changed.
    numeric_columns
        Positions of the columns to fill.
    order, starts
        The groups (`anonpipe.kernels.groups.sort_groups`).
    rng
        One number a group is drawn for each column that has missing values.

    Returns
    -------
    numpy.ndarray
        The filled cells, a new array.

    Examples
    --------
    >>> cells = np.array([[1.0], [np.nan], [3.0], [np.nan]])
    >>> order, starts = np.arange(4), np.array([0, 4])
    >>> sorted(fill_missing(cells, [0], order, starts, np.random.default_rng(1))[:, 0].tolist())
    [1.0, 1.0, 3.0, 3.0]
    """
    filled = cells.copy()
    for column in numeric_columns:
        values = np.ascontiguousarray(cells[:, column])
        missing = np.isnan(values)
        if missing.any() and not missing.all():
            values = values.copy()
            fill_column(values, order, starts, rng.random(len(starts) - 1), float(values[~missing].mean()))
            filled[:, column] = values
    return filled
