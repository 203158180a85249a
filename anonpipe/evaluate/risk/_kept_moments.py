"""Attack that needs no neighbours: who is in the table lies nearer to its own mean, in its own covariance.

A covariance of p columns that n records have made is narrower along each of these than along others, and a release
that keeps it hands that on, whatever its records are. What who looks by it gains follows from n and p alone.
"""

from __future__ import annotations

import numpy as np

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.utility import Measurement

_GRID = 2_000
"""Quantiles of the members' distances over which their chance is averaged: exact to 0.0002."""


def told_by_moments(rows: int, width: int) -> float:
    """Chance that a member is nearer to the mean of the table, in its covariance, than a person who is not in it.

    Parameters
    ----------
    rows
        Records that the moments are of, 2 or more.
    width
        Columns that are linearly independent, 1 or more.

    Returns
    -------
    float
        Area under the curve, 0.5 to 1; 1 where so few records determine the columns.

    Notes
    -----
    Of normal data. A squared Mahalanobis distance of one of n records to the mean and covariance of all of them is
    (n - 1)² / n times a Beta(p / 2, (n - p - 1) / 2), that of another record p (n - 1) (n + 1) / (n (n - p)) times an
    F(p, n - p). For large n it is about Φ(p^1.5 / (2 n)). Of columns that are mostly 0 it is an upper bound.

    References
    ----------
    Hotelling (1931), doi:10.1214/aoms/1177732979; Tracy, Young & Mason (1992), Journal of Quality Technology 24:88-95.

    Examples
    --------
    >>> [round(told_by_moments(rows, 64), 2) for rows in (66, 200, 1_000, 10_000)]
    [1.0, 0.93, 0.61, 0.51]
    """
    if rows < 2 or width < 1:
        raise InputError(f"moments of {rows} records in {width} columns; give 2 or more, in 1 or more")
    if rows <= width + 1:
        return 1.0
    from scipy.stats import beta, f

    at = (np.arange(_GRID) + 0.5) / _GRID
    inside = (rows - 1) ** 2 / rows * beta.ppf(at, width / 2, (rows - width - 1) / 2)
    scale = width * (rows - 1) * (rows + 1) / (rows * (rows - width))
    return float(np.clip(f.sf(inside / scale, width, rows - width).mean(), 0.5, 1.0))


def rows_that_tell_no_more(width: int, most: float) -> int:
    """The fewest records whose moments tell members from others by no more than `most`, above 0.5.

    Examples
    --------
    >>> rows_that_tell_no_more(64, 0.6), told_by_moments(1_053, 64) > 0.6 >= told_by_moments(1_054, 64)
    (1054, True)
    """
    low, high = width + 1, width + 2
    while told_by_moments(high, width) > most:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if told_by_moments(middle, width) > most else (low, middle)
    return high


def _of_release(known: Known) -> Measured:
    rows, width = known.moments
    return (
        Measurement(
            name="membership.foretold",
            title="Chance that a person of the table is nearer to its mean, in its covariance, than one who is not",
            value=told_by_moments(max(2, rows), max(1, width)),
            unit="probability",
            better="near baseline",
            source="Hotelling 1931; Tracy, Young & Mason 1992",
            records=known.rows,
            of=known.rows,
            audience=Audience.ENOUGH,
            baseline=0.5,
            baseline_is="guessing",
            note=(
                f"Foretold, not attacked: of normal data with {width} independent columns and {rows} records, whose "
                "means and covariances are kept. Of several strata that are masked by themselves, the smallest."
            ),
        ),
    )


MEASURE = Measure(
    key="moments",
    title="membership told by means and covariances that are kept",
    figures=("membership.foretold",),
    function=_of_release,
)
