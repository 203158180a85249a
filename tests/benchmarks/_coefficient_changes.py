"""Changes of linear regressions: every column on all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.evaluate.utility._moments import LEAST
from anonpipe.evaluate.utility._tables import spreads
from anonpipe.types import FloatArray
from tests.benchmarks._changes import ChangeSummary, relative_changes
from tests.benchmarks._correlations import check_least
from tests.benchmarks._tables import checked_tables

_RANK = 1e-9
"""Singular values of the z-scores below this, times the largest, count as 0."""


@dataclass(frozen=True)
class CoefficientChanges:
    """Changes over all regressions, in per cent: of the coefficients, and of their standard errors."""

    coefficients: ChangeSummary
    standard_errors: ChangeSummary


def coefficient_changes(
    original: npt.ArrayLike, released: npt.ArrayLike, *, least: float = LEAST
) -> CoefficientChanges:
    """Regress every column on all others in both tables, and compare slopes and standard errors.

    Parameters
    ----------
    original, released
        Finite numbers of the same columns, shapes (n_rows, width) and
        (n_released, width); two columns and more rows than columns are needed
        for anything to compare.
    least
        Slopes that are smaller than this in standard deviations, of the
        dependent column for one of the other, are left out with their
        standard errors; 0 leaves out slopes of exactly 0.

    Returns
    -------
    CoefficientChanges
        In per cent. Slopes that the original does not determine, because
        columns depend on each other, are left out; those that only the
        release does not determine are lost. So are standard errors of a
        regression without residuals or degrees of freedom.

    Notes
    -----
    A release with exactly the original's means and covariances has exactly
    its slopes, and its standard errors if it has as many records.

    Ordinary least squares with a constant, which is not compared: it depends
    on where zero lies.

    Raises
    ------
    InputError, JobError
        The tables or `least` are not as described.

    References
    ----------
    Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10:61-81, section 5, Table 2.

    Examples
    --------
    >>> old = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0], [3.0, 4.0]])
    >>> found = coefficient_changes(old, old * [1.0, 2.0])  # one slope doubles, the other halves
    >>> found.coefficients.mean, found.standard_errors.terms
    (75.0, 2)
    """
    check_least(least)
    old, new = checked_tables(original, released)
    slopes, errors = regressions(old)
    others, other_errors = regressions(new)
    deviations = spreads(old)
    scale = np.where(deviations > 0, deviations, 1.0)
    rest = np.tile(deviations, (len(scale), 1))[~np.eye(len(scale), dtype=np.bool_)].reshape(slopes.shape)
    sizes = np.nan_to_num(np.abs(slopes) * rest / scale[:, None])
    return CoefficientChanges(
        relative_changes(slopes, others, sizes, least), relative_changes(errors, other_errors, sizes, least)
    )


def regressions(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slopes of every column on every other, and their standard errors.

    Returns
    -------
    slopes, errors : float64, shape (width, width - 1)
        Row j holds the regression of column j on the others in their order;
        NaN where the others do not determine it.
    """
    n, width = table.shape
    deviations = spreads(table)
    scale = np.where(deviations > 0, deviations, 1.0)
    # The triangle has the scalar products of the columns, and is as small as the width.
    triangle = np.asarray(np.linalg.qr((table - table.mean(axis=0)) / scale, mode="r"))
    triangle[:, deviations == 0] = 0.0
    slopes, errors = np.empty((width, width - 1)), np.empty((width, width - 1))
    for place in range(width):
        rest = np.delete(np.arange(width), place)
        slope, error = _regression(triangle[:, rest], triangle[:, place], n)
        units = scale[place] / scale[rest]
        slopes[place], errors[place] = slope * units, error * units
    return slopes, errors


def _regression(predictors: FloatArray, outcome: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Slopes and standard errors of one regression, NaN where not determined."""
    left, values, right = np.linalg.svd(predictors, full_matrices=False)
    rank = int((values > _RANK * values.max(initial=0.0)).sum())
    left, values, right = left[:, :rank], values[:rank], right[:rank]
    # A coefficient is determined if no combination of columns that vanishes involves it.
    determined = (right**2).sum(axis=0) > 1 - _RANK
    projected = left.T @ outcome
    slopes = right.T @ (projected / values)
    free = n - 1 - rank
    residual = float(((outcome - left @ projected) ** 2).sum())
    exact = residual <= _RANK**2 * float((outcome**2).sum())
    error = np.nan if free < 1 or exact else np.sqrt(residual / free)
    errors = error * np.sqrt(((right.T / values) ** 2).sum(axis=1))
    return np.where(determined, slopes, np.nan), np.where(determined, errors, np.nan)
