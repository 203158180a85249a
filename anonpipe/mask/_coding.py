"""Logarithms of positive columns before masking, and back.

Dummies of -1 and +1, and the way from masked dummies to probabilities and
categories (section III of the paper), are in `anonpipe.codec.categories`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError

FloatArray = npt.NDArray[np.float64]


def to_logarithms(points: FloatArray, columns: Sequence[int]) -> FloatArray:
    """Natural logarithms of some columns; the others as they are.

    Parameters
    ----------
    points
        Shape (n_rows, width). Not changed.
    columns
        Numbers of columns whose values are all above 0.

    Returns
    -------
    float64, shape (n_rows, width)

    Raises
    ------
    JobError
        Columns that do not exist.
    InputError
        A value of the columns is not above 0.

    Notes
    -----
    A masker that keeps the mean of the logarithms keeps the geometric mean of
    the values, not their mean; and a masked value is above 0 whatever noise it
    got.

    References
    ----------
    Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section IV.A.

    Examples
    --------
    >>> coded = to_logarithms(np.array([[1.0, -3.0], [100.0, 5.0]]), [0])
    >>> coded.round(4).tolist(), from_logarithms(coded, [0]).round(12).tolist()
    ([[0.0, -3.0], [4.6052, 5.0]], [[1.0, -3.0], [100.0, 5.0]])
    """
    out = _copied(points, columns)
    bad = int((~(out[:, columns] > 0)).any(axis=1).sum())
    if bad:
        raise InputError(
            f"{bad} of {len(out)} records have no logarithm in a column; leave out columns with values up to 0"
        )
    out[:, columns] = np.log(out[:, columns])
    return out


def from_logarithms(points: FloatArray, columns: Sequence[int]) -> FloatArray:
    """The inverse of `to_logarithms`."""
    out = _copied(points, columns)
    out[:, columns] = np.exp(out[:, columns])
    return out


def _copied(points: FloatArray, columns: Sequence[int]) -> FloatArray:
    width = points.shape[1]
    if any(not 0 <= column < width for column in columns):
        raise JobError(f"columns to take logarithms of are 0 to {width - 1}; name those that exist")
    return np.array(points, dtype=np.float64)
