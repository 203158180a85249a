"""Attack that needs no neighbours: who is in the table lies nearer to its own mean, in its own covariance.

A covariance of p columns that n records have made is narrower along each of these than along others, and a release
that keeps it hands that on, whatever its records are. What is gained by it follows from n, p and categories' shares.
"""

from __future__ import annotations

import math

import numpy as np

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.risk._width import Width
from anonpipe.evaluate.utility import Measurement

_GRID = 2_000  # Quantiles of the members' distances over which their chance is averaged: exact to 0.0002


def told_by_moments(rows: int, width: Width) -> float:
    """Chance that a member is nearer to the mean of the table, in its covariance, than a person who is not in it.

    Parameters
    ----------
    rows
        Records that the moments are of, 2 or more.
    width
        Of their columns, 1 or more.

    Returns
    -------
    float
        Area under the curve, 0.5 to 1; 1 where so few records determine the columns.

    Notes
    -----
    *Numbers.* Of normal data a squared Mahalanobis distance of one of n records to the mean and covariance of all of
    them is (n - 1)² / n times a Beta(p / 2, (n - p - 1) / 2), that of another record p (n - 1) (n + 1) / (n (n - p))
    times an F(p, n - p). For large n the area is about Φ(p^1.5 / (2 n)).

    *Categories.* Who is not in the table is further away by d² / n, d being the squared distance, so that the area is
    0.5 + ∫ f(d)² d² / n to the first order: little where few records, those of rare categories, have
    most of the distance, and much where all are equally far, as with halves. f is taken for a gamma law of mean p and
    of the variance of `width`, to which 2 p² / n comes as the covariance is not known exactly; the normal law's
    argument of Φ is multiplied by the ratio of this integral to its own.

    References
    ----------
    Hotelling (1931), doi:10.1214/aoms/1177732979; Tracy, Young & Mason (1992), Journal of Quality Technology 24:88-95.

    Examples
    --------
    >>> from anonpipe.evaluate.risk import width_of
    >>> [round(told_by_moments(rows, width_of(64, [])), 2) for rows in (66, 200, 1_000, 10_000)]
    [1.0, 0.93, 0.61, 0.51]
    >>> rare = [np.array([0.9, 0.08, 0.02])] * 32
    >>> round(told_by_moments(1_000, width_of(0, rare)), 2)
    0.53
    """
    columns = width.columns
    if rows < 2 or columns < 1:
        raise InputError(f"moments of {rows} records in {columns} columns; give 2 or more, in 1 or more")
    if rows <= columns + 1:
        return 1.0
    from scipy.stats import beta, f, norm

    at = (np.arange(_GRID) + 0.5) / _GRID
    inside = (rows - 1) ** 2 / rows * beta.ppf(at, columns / 2, (rows - columns - 1) / 2)
    scale = columns * (rows - 1) * (rows + 1) / (rows * (rows - columns))
    normal = float(np.clip(f.sf(inside / scale, columns, rows - columns).mean(), 0.5, 1.0 - 1e-12))
    unsure = 2.0 * columns**2 / rows
    ratio = math.exp(_overlap(columns, width.spread + unsure) - _overlap(columns, 2.0 * columns + unsure))
    return float(norm.cdf(ratio * norm.ppf(normal)))


def _overlap(mean: float, variance: float) -> float:
    """Logarithm of ∫ f(d)² d² of a gamma law."""
    shape, scale = mean**2 / variance, variance / mean
    return math.log(scale) + math.lgamma(2 * shape + 1) - (2 * shape + 1) * math.log(2) - 2 * math.lgamma(shape)


def rows_that_tell_no_more(width: Width, most: float) -> int:
    """The fewest records whose moments tell members from others by no more than `most`, above 0.5.

    Examples
    --------
    >>> from anonpipe.evaluate.risk import width_of
    >>> rows_that_tell_no_more(width_of(64, []), 0.6)
    1054
    """
    low, high = width.columns + 1, width.columns + 2
    while told_by_moments(high, width) > most:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if told_by_moments(middle, width) > most else (low, middle)
    return high


def _of_release(known: Known) -> Measured | Reason:
    if isinstance(known.moments, Reason):
        return known.moments
    rows, width = known.moments
    if width.columns < 1:
        return Reason.ONE_COLUMN
    return (
        Measurement(
            name="membership.expected",
            title="Chance that a person of the table is nearer to its mean, in its covariance, than one who is not",
            value=told_by_moments(max(2, rows), width),
            unit="probability",
            better="near baseline",
            source="Hotelling 1931; Tracy, Young & Mason 1992",
            records=known.rows,
            of=known.rows,
            audience=Audience.ENOUGH,
            baseline=0.5,
            baseline_is="guessing",
            note=(
                f"Expected, not attacked: of {width.columns} independent columns and {rows} records, whose means and "
                "covariances are kept. Of several strata that are masked by themselves, the smallest."
            ),
        ),
    )


MEASURE = Measure(
    key="moments",
    title="membership told by means and covariances that are kept",
    figures=("membership.expected",),
    function=_of_release,
)
