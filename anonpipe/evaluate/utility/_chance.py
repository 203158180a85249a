"""What chance makes of differences of two tables: the same differences between random halves of the original.

Derivation. Let D be a difference of two samples of a and b records of one
population: the largest difference of two distribution functions, half the sum
of the differences of two shares, the difference of two correlations or of two
survival curves. Each is a norm of the difference of two empirical measures (or
of a smooth function of them), so that D / sqrt(1/a + 1/b) has the same limiting
distribution whatever a and b are (van der Vaart & Wellner 1996, section 3.7;
for the distribution functions Smirnov 1948). Two halves of n records, drawn
without replacement, are F1 and F2 = 2F - F1, so that F1 - F2 = 2 (F1 - F), and
the variance of a share in F1 is p(1 - p) / (n / 2) · (n / 2) / (n - 1): that of
F1 - F2 is p(1 - p) · 4 / (n - 1), which is that of independent samples of n / 2
and n / 2 but for n / (n - 1). A difference between halves of h1 and h2 records
is therefore inflated (here: deflated, as both tables are larger than the halves) by

    sqrt((1/a + 1/b) / (1/h1 + 1/h2))

to the tables compared. The law is one for large counts: categories that
fewer than a handful of records hold are counted as one (`pooled`).

A release that is another sample of the population is as far from the original
as that. One that is made from the original itself has its own draws only, half of
that variance, and one that keeps distributions exactly has none.

One figure for many differences. Each is divided by its own root mean square over the
splits; the largest quotient T is what is judged. Over the splits (each divided by the root
mean square of the others, as the release is) its square has a mean and a standard deviation.
All these differences have tails like exp(-x²) or lighter ones (normal variables, suprema of
Gaussian processes: Borell's inequality), so that squares have exponential tails, and the
largest of several is near Gumbel's law. The limit of T² is

    mean + sd · sqrt(6) / pi · (-ln(-ln(1 - CHANCE)) - 0.5772)

and the figure is T over the root of it. Another sample of the population is above 1 once in
1,600 (three correlations) to 5,000 times (twenty distribution functions), with the upper end
of its interval once in 400 to 900; of a single difference, whose square has one degree of
freedom, once in 550 and 220. Of releases with half that variance none in 30,000 is, of a single
difference one. (Counted with the laws of each, 30,000 times; the tests repeat a part.) In tables
these laws are mixed, those of two categories having the longest tails: of 300 second samples of
2,000 records the upper end was above 1 of four (columns), one (pairs) and four (survival curves). Of 360
releases with normal scores (150 to 3,000 records) it was at most 0.50 of columns and 0.40 of curves
(`python -m tests.benchmarks.beside_chance`).

With S splits the limit of T² has the variance sd² / S · (1 + 1.14 c + c²·(5.4 - 1) / 4), c
being the factor of sd, 1.14 and 5.4 Gumbel's skewness and kurtosis (delta method for mean and
standard deviation), which gives the figure its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.types import BoolArray, FloatArray, IntArray

SPLITS = 99  # Random halvings of the original

MOST_ROWS = 20_000  # Records of either table that differences and splits are counted on

CHANCE = 1e-4  # Nominal probability that another sample of the same population is beyond the limit

LEAST_CELL = 5  # Records that a cell of a table of shares has, or is joined with others

_FACTOR = math.sqrt(6) / math.pi * (-math.log(-math.log1p(-CHANCE)) - float(np.euler_gamma))
_SKEWNESS, _KURTOSIS = 1.1395, 5.4
_Z = 1.959964

LEAST_ROWS = 4  # Records of the original that can be halved


@dataclass(frozen=True, eq=False)
class Splits:
    """Random halves of the original."""

    # Whether a record is in the first half, shape (SPLITS, n_rows), or (0, n_rows) of fewer than `LEAST_ROWS`
    first: BoolArray
    scale: float  # From a difference between halves to one between the tables compared

    @classmethod
    def draw(cls, rows: int, released: int, rng: np.random.Generator) -> Splits:
        """Halves of so many original records, for a comparison with so many released ones."""
        if rows < LEAST_ROWS:
            return cls(np.empty((0, rows), dtype=np.bool_), 1.0)
        half = rows // 2
        first = np.zeros((SPLITS, rows), dtype=np.bool_)
        for split in first:
            split[rng.permutation(rows)[:half]] = True
        return cls(first, math.sqrt((1 / rows + 1 / released) / (1 / half + 1 / (rows - half))))


@dataclass(frozen=True, eq=False)
class Places:
    """A column, or a pair of columns, of both tables as places in one list of values or cells."""

    name: str  # Of the column or pair
    # old, new: place of each record; -1 for what is left out
    old: IntArray
    new: IntArray
    cells: int  # How many there are
    ordered: bool  # Whether the places have an order: distribution functions are compared, and else shares

    def distance(self) -> float:
        """Kolmogorov-Smirnov distance or total variation; 1 for a release without values, NaN for such an original."""
        old, new = self.counts(self.old), self.counts(self.new)
        if not old.any():
            return math.nan
        return self._apart(old, new) if new.any() else 1.0

    def between_halves(self, first: BoolArray) -> FloatArray:
        """The same between the halves of each split, shape (n_splits,); NaN where one has no value."""
        whole = self.counts(self.old)
        found = np.full(len(first), np.nan)
        for at, half in enumerate(first):
            one = self.counts(self.old[half])
            other = whole - one
            if one.any() and other.any():
                found[at] = self._apart(one, other)
        return found

    def counts(self, places: IntArray) -> IntArray:
        """Records at each place, shape (cells,); those that are left out count nowhere."""
        return np.bincount(places + 1, minlength=self.cells + 1)[1:]

    def _apart(self, old: IntArray, new: IntArray) -> float:
        difference = old / old.sum() - new / new.sum()
        return float(np.abs(difference.cumsum()).max() if self.ordered else np.abs(difference).sum() / 2)

    def pooled(self, least: int) -> Places:
        """Cells of fewer original records than that as one.

        Examples
        --------
        >>> made = Places("x", np.array([0, 0, 1, 2]), np.array([3, 0]), 4, False).pooled(2)
        >>> made.old.tolist(), made.new.tolist(), made.cells
        ([0, 0, 1, 1], [1, 0], 2)
        """
        kept = self.counts(self.old) >= least
        places = np.append(np.where(kept, kept.cumsum() - 1, kept.sum()), -1)  # the last for what is left out
        old, new = places[self.old], places[self.new]
        return Places(self.name, old, new, int(kept.sum()) + 1, self.ordered)


@dataclass(frozen=True, eq=False)
class Beyond:
    """Differences of a release beside those between halves of its original."""

    # value, low, high: the largest quotient as a multiple of its limit, and the 95 % interval that the number of splits
    # leaves; NaN and None where there are no differences
    value: float
    low: float | None
    high: float | None
    usual: float  # Its median over the splits
    worst: int  # Which difference is the largest; -1 for none
    each: FloatArray  # Of every difference its multiple, NaN where it is not defined
    chance: FloatArray  # Root mean square of every difference over the splits, inflated to the tables compared


def beyond_chance(found: FloatArray, splits: FloatArray, scale: float) -> Beyond:
    """Hold differences against those between halves.

    Shapes: found (n,); splits (n_splits, n).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> splits = np.abs(rng.normal(size=(99, 3)))
    >>> made = beyond_chance(np.array([0.1, 9.0, 0.2]), splits, 1.0)
    >>> made.worst, made.value > 1, bool(made.each[0] < 0.1)
    (1, True, True)
    """
    known = np.isfinite(splits)
    count = known.sum(axis=0)
    squares = np.where(known, (scale * np.nan_to_num(splits)) ** 2, 0.0)
    total = squares.sum(axis=0)
    chance = np.sqrt(total / np.maximum(count, 1))
    used = ~np.isnan(found) & (count > 0) & (2 * count >= len(splits))
    each = np.full(len(found), np.nan)
    if not used.any():
        return Beyond(math.nan, None, None, math.nan, -1, each, chance)
    others = np.sqrt(np.maximum(total - squares, 0.0) / np.maximum(count - 1, 1))
    largest = _quotients(np.sqrt(squares), np.where(others > 0, others, chance))[:, used].max(axis=1)
    middle, spread = float((largest**2).mean()), float((largest**2).std(ddof=1))
    limit = middle + _FACTOR * spread or 1.0  # where no two halves differ in anything, a release may not either
    each[used] = _quotients(found, chance)[used] / math.sqrt(limit)
    worst = int(np.nanargmax(each))
    value = float(each[worst])
    error = spread * math.sqrt((1 + _FACTOR * _SKEWNESS + _FACTOR**2 * (_KURTOSIS - 1) / 4) / len(splits))
    reach = _Z * error / limit
    low, high = value / math.sqrt(1 + reach), value / math.sqrt(1 - reach) if reach < 1 else math.inf
    usual = float(np.median(largest)) / math.sqrt(limit)
    if not math.isfinite(high):
        return Beyond(value, None, None, usual, worst, each, chance)
    return Beyond(value, low, high, usual, worst, each, chance)


def similarity_measured(
    name: str,
    title: str,
    apart: FloatArray,
    chance: FloatArray,
    splits: Splits,
    *,
    source: str,
    records: int,
    columns: int,
    nothing: str,
    note: str,
) -> Measurement:
    """One less the mean of differences, as sdmetrics has it, beside that of another sample of the population."""
    known = np.isfinite(apart)
    defined = bool(known.any())
    beside = defined and len(splits.first) > 0
    return Measurement(
        name=name,
        title=title,
        value=float(1 - apart[known].mean()) if defined else math.nan,
        unit="share",
        better="higher",
        source=source,
        records=records,
        of=records,
        audience=Audience.SEVERAL,
        columns=columns,
        baseline=float(1 - chance[known].mean()) if beside else None,
        baseline_is="another sample of the population, from halves of the original" if beside else "",
        note=note if defined else f"Not defined: {nothing}.",
    )


def beyond_measured(
    name: str,
    title: str,
    found: Beyond,
    *,
    names: Sequence[tuple[str, ...]],
    records: int,
    nothing: str,
    note: str = "",
) -> Measurement:
    """The largest quotient as a figure, of which up to 1 is what chance makes."""
    defined = int(np.isfinite(found.each).sum() + np.isinf(found.each).sum())
    said = f"Not defined: {nothing}."
    if defined:
        said = (
            "Another sample of the same population is above 1 about once in a hundred times; from "
            f"{SPLITS} random halvings of the original, inflated to the sizes compared; largest of {defined}."
        )
    if math.isinf(found.value):
        said = f"Not defined: no two halves of the original differ there, and the release does. {said}"
    return Measurement(
        name=name,
        title=title,
        value=found.value,
        unit="",
        better="lower",
        source="van der Vaart & Wellner (1996), Weak Convergence and Empirical Processes, section 3.7",
        records=records,
        of=records,
        low=found.low,
        high=found.high,
        baseline=found.usual if defined else None,
        baseline_is="two random halves of the original, the median of all halvings" if defined else "",
        note=f"{said} {note}".strip(),
        audience=Audience.SEVERAL,
        columns=len(set().union(*names)) if names else 0,
        worst=names[found.worst] if found.worst >= 0 and found.value > 0 else (),
    )


def _quotients(differences: FloatArray, chance: FloatArray) -> FloatArray:
    """Differences in units of chance: 0 for none, infinite where chance makes none."""
    made = np.where(differences > 0, np.inf, 0.0)
    np.divide(differences, chance, out=made, where=np.broadcast_to(chance > 0, made.shape))
    return made
