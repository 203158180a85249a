"""Which records a table shares with another one, from small keyed sketches of both.

A sketch holds the distinct contents whose keyed number begins with so many
zero bits, and how many records have each (adaptive sampling: Flajolet 1990,
"On adaptive sampling", Computing 43). Sketches of parts merge into that of
the whole, and those of two tables hold the same contents, where both have
them. There is one of the records as a whole, one without each column in turn
(a column that is updated for everybody does not hide that the rest is equal),
and one of each identifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.types import FloatArray, IntArray

HashArray = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Sketch:
    """Distinct contents of a table, by keyed numbers."""

    level: int  # How many zero bits the numbers begin with at least
    # numbers, counts: the contents, ascending, and the records of each; shapes (n,)
    numbers: HashArray
    counts: IntArray
    most: int  # Contents above which the level rises

    @classmethod
    def empty(cls, most: int) -> Sketch:
        """Of no record."""
        return cls(0, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64), most)

    def add(self, numbers: HashArray, counts: IntArray | None = None, level: int = 0) -> Sketch:
        """The sketch with further records, or with another sketch's contents.

        Examples
        --------
        >>> numbers = np.array([1 << 63, 1 << 62, 1 << 62, 1 << 61], dtype=np.uint64)
        >>> found = Sketch.empty(2).add(numbers)
        >>> found.level, found.numbers.tolist() == [1 << 61, 1 << 62], found.counts.tolist()
        (1, True, [1, 2])
        """
        level = max(level, self.level)
        weights = np.ones(len(numbers), dtype=np.int64) if counts is None else counts
        inside = numbers <= _border(level)
        every = np.concatenate([self.numbers[self.numbers <= _border(level)], numbers[inside]])
        distinct, which = np.unique(every, return_inverse=True)
        sums = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(sums, which, np.concatenate([self.counts[self.numbers <= _border(level)], weights[inside]]))
        while len(distinct) > self.most:
            level += 1
            kept = distinct <= _border(level)
            distinct, sums = distinct[kept], sums[kept]
        return Sketch(level, distinct, sums, self.most)

    def merge(self, other: Sketch) -> Sketch:
        """The sketch of two parts together."""
        return self.add(other.numbers, other.counts, other.level)


def _border(level: int) -> np.uint64:
    """The largest number that begins with so many zero bits."""
    return np.uint64((1 << (64 - level)) - 1)


def merge_sketches(parts: Iterable[Mapping[str, Sketch]]) -> dict[str, Sketch]:
    """The sketches of all parts together."""
    merged: dict[str, Sketch] = {}
    for part in parts:
        for subject, sketch in part.items():
            merged[subject] = merged[subject].merge(sketch) if subject in merged else sketch
    return merged


def chance_of(one: IntArray, other: IntArray, share: float) -> float:
    """At most how likely two disjoint samples of one population have counts that agree so well.

    Given how many of both tables together have a content, those of the first
    are then binomial. Of tables of like size (neither has more than twice the
    other's rows) the sum of squared standardised deviations is held against
    that: for records of one table only it says nothing, and each content that
    both have once halves the chance. Of others, where one record in each is a
    large deviation, the number of contents that both have is: each of two
    records multiplies the chance by 2 p (1 - p). Which of both is used depends
    on the sizes alone. By Chernoff's bound, from the exact distribution of
    each count; so the chance is overstated.

    Shapes: one, other (n,).

    Examples
    --------
    >>> once = np.ones(20, dtype=np.int64)
    >>> round(chance_of(once, once, 0.5) * 2**20, 3)
    1.0
    >>> chance_of(once, 0 * once, 0.5)
    1.0
    >>> chance_of(once, once, 0.1) < 1e-14
    True
    """
    together = one + other
    several = together >= 2
    if not several.any():
        return 1.0
    totals, times = np.unique(together[several], return_counts=True)
    if min(share, 1.0 - share) < 1.0 / 3.0:
        return _chance_of_common(totals, times, int(np.count_nonzero((one > 0) & (other > 0))), share)
    deviations = (one - together * share)[several]
    found = float((np.square(deviations) / (together[several] * share * (1.0 - share))).sum())
    powers = np.logspace(-3, 7, 61)
    exponents = powers * found
    for total, many in zip(totals.tolist(), times.tolist(), strict=True):
        exponents += many * _log_laplace(total, share, powers)
    return float(np.exp(min(0.0, exponents.min())))


def _chance_of_common(totals: IntArray, times: IntArray, common: int, share: float) -> float:
    """At most how likely so many contents are in both tables, by Chernoff's bound."""
    apart = np.power(share, totals) + np.power(1.0 - share, totals)
    expected = float(times @ (1.0 - apart))
    if common <= expected:
        return 1.0
    powers = np.logspace(-3, 3, 61)[:, None]
    logarithms = np.logaddexp(np.log(apart), np.log1p(-apart) + powers) @ times
    return float(np.exp(min(0.0, (logarithms - powers[:, 0] * common).min())))


def shared_records(one: IntArray, other: IntArray, level: int, rows: tuple[int, int]) -> float:
    """About how many records two tables share, from their counts in a sketch.

    Counts of what they do not share differ as independent Poisson numbers do,
    whose squared differences add up to their sums; so what is missing of that
    is shared. Where every record is another one, this counts what both have.
    What a sample of contents tells is a share of its records, and is taken for
    that of all: how many records a sample happens to have does not matter. Of
    the shares of both tables that counts which has more: none is missing of a
    table to which records were added, or from which some were taken.
    Records without the identifier that a sketch is of count as the others.

    Shapes: one, other (n,).

    Examples
    --------
    >>> shared_records(np.array([1, 1, 0, 1]), np.array([1, 0, 1, 1]), 1, (6, 6))
    4.0
    >>> shared_records(np.array([1, 1, 1, 0]), np.array([1, 1, 1, 1]), 1, (7, 8))  # all of the first are in both
    7.0
    """
    together, all_rows = one + other, sum(rows)
    alike = (together * (together - 1)).sum() / max(1, all_rows * (all_rows - 1))
    lacking = (together - np.square(one - other)).sum() + (rows[0] - rows[1]) ** 2 * alike
    of_all = max(rows[0] / max(1, one.sum()), rows[1] / max(1, other.sum())) if level else 1.0
    return float(min(max(0.0, lacking * of_all / 2.0), *rows))


def _log_laplace(total: int, share: float, powers: FloatArray) -> FloatArray:
    """Logarithm of E exp(-p z^2) of a standardised binomial count, for each p; of large ones that of the normal law."""
    if total > _NORMAL_FROM:
        return np.asarray(-0.5 * np.log1p(2.0 * powers))
    from scipy.stats import binom

    counts = np.arange(total + 1)
    squares = np.square(counts - total * share) / (total * share * (1.0 - share))
    terms = np.log(binom.pmf(counts, total, share) + 1e-300)[:, None] - powers * squares[:, None]
    top = terms.max(axis=0)
    return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))


_NORMAL_FROM = 400
