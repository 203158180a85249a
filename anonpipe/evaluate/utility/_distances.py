"""Distances between the distributions of one column in two tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._terms_measured import LOST, NO_NUMBERS, Term, mean_of_terms
from anonpipe.evaluate.utility._typed import Tables
from anonpipe.types import FloatArray

_NO_CATEGORIES = "there is no categorical column"


def ks_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Kolmogorov-Smirnov distance: the largest difference of the two distribution functions, 0 to 1.

    Parameters
    ----------
    original, released
        Finite numbers, one or more each.

    Raises
    ------
    InputError
        They are not as described.

    References
    ----------
    Two-sample statistic of Smirnov (1948), Annals of Mathematical Statistics 19:279-281.

    Examples
    --------
    >>> ks_distance([1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0])
    0.5
    """
    from scipy import stats

    old, new = _checked(original), _checked(released)
    # A two-sided test takes twice as long as both one-sided ones, for a p-value that is not wanted.
    sides = (stats.ks_2samp(old, new, alternative=side, method="asymp") for side in ("less", "greater"))
    return max(float(side.statistic) for side in sides)


def wasserstein_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Wasserstein distance of order 1 in standard deviations of the original: the area between the two functions.

    It is how far values must move on average to make one distribution the other.

    Parameters
    ----------
    original, released
        Finite numbers, one or more each.

    Returns
    -------
    float
        0 or more; NaN where the original is constant.

    Raises
    ------
    InputError
        They are not as described.

    References
    ----------
    Vallender (1974), Theory of Probability and its Applications 18:784-786.

    Examples
    --------
    >>> wasserstein_distance([0.0, 2.0], [1.0, 3.0])
    1.0
    """
    from scipy import stats

    old, new = _checked(original), _checked(released)
    if (old == old[0]).all():
        return float("nan")
    # Scaled first, so that no square overflows.
    unit = np.abs(old).max()
    return float(stats.wasserstein_distance(old / unit, new / unit) / (old / unit).std())


def total_variation(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Total variation distance of two categorical columns: half the sum of the differences of the shares, 0 to 1.

    Parameters
    ----------
    original, released
        Codes of the categories, one or more each; equal codes mean the same
        category.

    Raises
    ------
    InputError
        They are not as described.

    Examples
    --------
    >>> total_variation([0, 0, 1, 1], [0, 1, 1, 2])
    0.25
    """
    old, new = _checked(original), _checked(released)
    levels, places = np.unique(np.concatenate([old, new]), return_inverse=True)
    shares = [np.bincount(part, minlength=len(levels)) / len(part) for part in (places[: len(old)], places[len(old) :])]
    return min(1.0, float(np.abs(shares[0] - shares[1]).sum() / 2))  # sums of shares round


def _checked(values: npt.ArrayLike) -> FloatArray:
    made = np.asarray(values, dtype=np.float64)
    if made.ndim != 1 or len(made) == 0:
        raise InputError(f"a column of shape {made.shape} was given; give one value or more in one dimension")
    if not np.isfinite(made).all():
        raise InputError("a column has values that are not finite; leave out nulls first")
    return made


def distances(tables: Tables) -> list[Measurement]:
    """Kolmogorov-Smirnov, Wasserstein and total variation distance of every column."""

    def made(name: str, title: str, terms: list[Term], unit: str, source: str, why: str) -> Measurement:
        return mean_of_terms(
            name, title, terms, unit=unit, source=source, records=tables.rows, audience=Audience.STEWARD, nothing=why
        )

    sides = [(column.name, *column.known) for column in tables.numbers]
    codes = [(column.name, *column.known) for column in tables.categories]
    return [
        made(
            "distance.ks",
            "Largest difference of the distribution functions (Kolmogorov-Smirnov)",
            [_distance(name, old, new, worst=1.0, by=ks_distance) for name, old, new in sides],
            "share",
            "Smirnov (1948), Ann. Math. Stat. 19:279-281",
            NO_NUMBERS,
        ),
        made(
            "distance.wasserstein",
            "How far values must move to give the same distribution (Wasserstein)",
            [_distance(name, old, new, worst=LOST, by=wasserstein_distance) for name, old, new in sides],
            "sd",
            "Vallender (1974), Theory Probab. Appl. 18:784-786",
            NO_NUMBERS,
        ),
        made(
            "distance.variation",
            "Records in another category (total variation)",
            [_distance(name, old, new, worst=1.0, by=total_variation) for name, old, new in codes],
            "share",
            "half the sum of the differences of the shares",
            _NO_CATEGORIES,
        ),
    ]


def _distance(
    name: str, old: FloatArray, new: FloatArray, *, worst: float, by: Callable[[FloatArray, FloatArray], float]
) -> Term:
    """The distance, or the worst there is for a release without values."""
    if len(old) == 0:
        return name, float("nan")
    return name, by(old, new) if len(new) else worst


MEASURE = Measure(
    figures=(
        "distance.ks",
        "distance.wasserstein",
        "distance.variation",
    ),
    function=distances,
)
