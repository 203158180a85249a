"""Distances between the distributions of one column in two tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.utility._measurement import LOST, NO_NUMBERS, Measure, Measurement, Term, mean_of_terms
from anonpipe.evaluate.utility._tables import BothColumns, Tables
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


COLUMN_DISTANCES = Measure(
    figures=(
        "distance.ks",
        "distance.wasserstein",
        "distance.variation",
    ),
    function=distances,
)


# --- Hellinger distance between the distributions of a column ---------------------------------------------------------

BINS = 20  # Bins of a number, of equally many original values where no values tie


def hellinger_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Hellinger distance of two categorical columns: √(1 - Σ √(p q)) of the shares p and q, 0 to 1.

    Parameters
    ----------
    original, released
        Codes of the categories, finite, one or more each; equal codes mean the
        same category.

    Raises
    ------
    InputError
        They are not as described.

    Notes
    -----
    It lies between the square of the total variation distance and itself, to
    a factor: H² <= TV <= √2 H. Unlike that it weighs what becomes of rare
    categories: one of share p that is lost makes it √p, and TV p.

    References
    ----------
    Gomatam, Karr & Sanil (2005), Data swapping as a decision problem, Journal
    of Official Statistics 21:635-655 (distortion by Hellinger distance).

    Examples
    --------
    >>> round(hellinger_distance([0, 0, 1, 1], [0, 0, 0, 0]) ** 2, 6)
    0.292893
    """
    old, new = (np.asarray(side, dtype=np.float64) for side in (original, released))
    if any(side.ndim != 1 or not len(side) or not np.isfinite(side).all() for side in (old, new)):
        raise InputError("the categories of a column are to be finite codes in one dimension, one or more each")
    levels, places = np.unique(np.concatenate([old, new]), return_inverse=True)
    p, q = (np.bincount(part, minlength=len(levels)) / len(part) for part in (places[: len(old)], places[len(old) :]))
    return float(np.sqrt(np.square(np.sqrt(p) - np.sqrt(q)).sum() / 2))


def hellinger(tables: Tables) -> list[Measurement]:
    """Its mean over all columns, numbers in bins of equally many original values."""
    return [
        mean_of_terms(
            "distance.hellinger",
            "Hellinger distance of the distribution of a column",
            [_term(column) for column in tables.columns],
            unit="",
            source="Gomatam, Karr & Sanil (2005), J. Off. Stat. 21:635-655",
            records=tables.rows,
            audience=Audience.STEWARD,
            nothing="there are no columns",
            note=f"Numbers in {BINS} bins of equally many original values; nulls left out.",
        )
    ]


def _term(column: BothColumns) -> Term:
    """The distance, or the largest there is for a release without values."""
    old, new = column.known
    if not len(old):
        return column.name, float("nan")
    if not len(new):
        return column.name, 1.0
    if column.kind.coded:
        return column.name, hellinger_distance(old, new)
    edges = np.unique(np.quantile(old, np.arange(1, BINS) / BINS))
    return column.name, hellinger_distance(*(_binned(side, edges) for side in (old, new)))


def _binned(values: FloatArray, edges: FloatArray) -> npt.NDArray[np.int64]:
    return np.searchsorted(edges, values).astype(np.int64)


HELLINGER = Measure(figures=("distance.hellinger",), function=hellinger)


# --- Nulls: their shares by column, and which columns are null together -----------------------------------------------


def missingness(tables: Tables) -> list[Measurement]:
    """Changes of the null shares by column, and of the patterns of nulls by pair of columns."""
    shares = [
        (column.name, float(abs(np.isnan(column.new).mean() - np.isnan(column.old).mean())))
        for column in tables.columns
    ]
    with_nulls = [column for column in tables.columns if np.isnan(column.old).any() or np.isnan(column.new).any()]
    pairs = [
        (f"{left.name} x {right.name}", _pattern_distance(left, right)) for left, right in combinations(with_nulls, 2)
    ]
    one = mean_of_terms(
        "missing.shares",
        "Change of the null shares",
        shares,
        unit="share",
        source="difference of the shares, by column",
        records=tables.rows,
        audience=Audience.STEWARD,
        nothing="there are no columns",
        note="" if with_nulls else "Neither table has nulls.",
    )
    two = mean_of_terms(
        "missing.pairs",
        "Change of which columns are null together (total variation)",
        pairs,
        unit="share",
        source="half the sum of the differences of the shares of null and not null, by pair of columns",
        records=tables.rows,
        audience=Audience.STEWARD,
        nothing="there are not two columns with nulls",
    )
    return [one, two]


def _pattern_distance(left: BothColumns, right: BothColumns) -> float:
    old, new = (
        2 * np.isnan(one).astype(np.int64) + np.isnan(two)
        for one, two in ((left.old, right.old), (left.new, right.new))
    )
    return total_variation(old, new)


MISSING = Measure(
    figures=(
        "missing.shares",
        "missing.pairs",
    ),
    function=missingness,
)
