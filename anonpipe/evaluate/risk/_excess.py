"""How much smaller the values of a release are than those of a reference: a one-sided test with a margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.evaluate.utility import Curve
from anonpipe.types import FloatArray

_POINTS = 101  # Points of a curve


@dataclass(frozen=True)
class Excess:
    """How much smaller a measure is in a release than in the reference."""

    # Largest excess of the cumulative share of the release over that of the reference, 0 to 1: the one-sided
    # Kolmogorov-Smirnov statistic
    value: float
    # Probability of so large a statistic, or of a smaller one, where the true excess is no more than the margin. Large
    # is good.
    p: float
    # low, high: ends of an interval of 95 % or more of the true excess
    low: float
    high: float
    # median, reference_median: of the measure
    median: float
    reference_median: float
    curve: Curve  # Cumulative shares


def excess(values: FloatArray, reference: FloatArray, margin: float, title: str = "", axis: str = "") -> Excess:
    """One-sided test that a measure is no smaller than its reference, but for a margin.

    Shapes: values, reference (n,).

    Notes
    -----
    Under an excess of `margin` or less, a statistic of d is no more probable
    than one of d - margin under equality, which gives p = exp(-2 (d -
    margin)² n m / (n + m)) (Smirnov). The interval holds for samples that
    depend on each other, as with leave-one-out: it adds and takes off the band
    of either curve (Dvoretzky, Kiefer & Wolfowitz, with Massart's constant).

    References
    ----------
    Conover (1999), Practical Nonparametric Statistics, 3rd ed., section 6.3;
    Massart (1990), Annals of Probability 18:1269-1283,
    doi:10.1214/aop/1176990746.

    Examples
    --------
    >>> found = excess(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]), 0.05)
    >>> found.value, found.p > 0.5
    (0.25, True)
    """
    from scipy.stats import ecdf, ks_2samp

    # Its own p-value knows no margin.
    value = float(ks_2samp(values, reference, alternative="greater", method="asymp").statistic)
    n, m = len(values), len(reference)
    p = float(np.exp(-2.0 * max(0.0, value - margin) ** 2 * n * m / (n + m)))
    # Two one-sided bands for each end, 5 % over all four.
    band = float(sum((np.log(4.0 / 0.05) / (2.0 * size)) ** 0.5 for size in (n, m)))
    end = max(float(np.quantile(values, 0.99)), float(np.quantile(reference, 0.99)))
    x = np.linspace(0.0, end, _POINTS)
    curve = Curve(
        title=title,
        x_title=axis,
        y_title="cumulative share of records",
        x=tuple(x.tolist()),
        y=tuple(ecdf(values).cdf.evaluate(x).tolist()),
        baseline=tuple(ecdf(reference).cdf.evaluate(x).tolist()),
    )
    middle, their_middle = float(np.median(values)), float(np.median(reference))
    return Excess(value, p, max(0.0, value - band), min(1.0, value + band), middle, their_middle, curve)
