"""Which records a table shares with another one, and how many units differ, from small keyed digests of both.

A sketch holds the distinct contents whose keyed number begins with so many zero bits, and how many records have each
(adaptive sampling: Flajolet 1990, "On adaptive sampling", Computing 43). Sketches of parts merge into that of the
whole, and those of two tables hold the same contents, where both have them. There is one of the records as a whole, one
without each column in turn (a column that is updated for everybody does not hide that the rest is equal), and one of
each identifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, gammaln, xlog1py, xlogy

from anonpipe.types import FloatArray, IntArray

HashArray = npt.NDArray[np.uint64]
_NORMAL_FROM = 400
_POWERS = np.logspace(-3, 7, 61)
MAX_UNIT_SUMS = 2**22  # Sums that are kept: buckets, times columns, times combinations of those released unchanged


@dataclass(frozen=True, eq=False)
class Sketch:
    """Distinct contents of a table, by keyed numbers."""

    level: int  # Leading zero bits of all numbers, at least
    numbers: HashArray  # The contents, ascending, shape (n,)
    counts: IntArray  # The records of each, shape (n,)
    most: int  # Largest number of contents; above it the level rises

    @classmethod
    def empty(cls, most: int) -> Sketch:
        """The sketch of no record."""
        return cls(0, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64), most)

    @classmethod
    def nothing(cls, most: int) -> Sketch:
        """A sketch that stays empty, and with it what it is merged with."""
        return cls(64, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64), most)

    def add(self, numbers: HashArray, counts: IntArray | None = None, level: int = 0) -> Sketch:
        """The sketch with further records, or with another sketch's contents."""
        level = max(level, self.level)
        if counts is None:
            numbers, counts = np.unique(numbers[numbers <= border_of(level)], return_counts=True)
        if len(self.numbers):
            weights = np.concatenate([self.counts, counts])
            numbers, which = np.unique(np.concatenate([self.numbers, numbers]), return_inverse=True)
            counts = np.zeros(len(numbers), dtype=np.int64)
            np.add.at(counts, which, weights)
        inside = numbers <= border_of(level)
        while np.count_nonzero(inside) > self.most:
            level += 1
            inside = numbers <= border_of(level)
        return Sketch(level, numbers[inside], counts[inside], self.most)

    def merge(self, other: Sketch) -> Sketch:
        """The sketch of two parts together."""
        return self.add(other.numbers, other.counts, other.level)


def border_of(level: int) -> np.uint64:
    """The largest number that begins with so many zero bits."""
    return np.uint64((1 << (64 - level)) - 1)


def common_contents(one: Sketch, other: Sketch) -> int:
    """The number of contents that both have."""
    return len(np.intersect1d(one.numbers, other.numbers, assume_unique=True))


def merge_sketches(parts: Iterable[Mapping[str, Sketch]]) -> dict[str, Sketch]:
    """The sketches of all parts together."""
    merged: dict[str, Sketch] = {}
    for part in parts:
        for subject, sketch in part.items():
            merged[subject] = merged[subject].merge(sketch) if subject in merged else sketch
    return merged


def chance_of(ours: IntArray, theirs: IntArray, share: float) -> float:
    """Upper bound of the probability that disjoint samples of one population agree so well.

    Chernoff's bound, given how many records of both tables have a content: then those of the first are binomial. For
    tables of similar size the statistic is the sum of squared standardised deviations; for others, in which one record
    is a large deviation, it is the number of common contents. The choice depends on the sizes alone.

    Shapes: ours, theirs (n,).
    """
    together = ours + theirs
    several = together >= 2
    if not several.any():
        return 1.0
    totals, times = np.unique(together[several], return_counts=True)
    if min(share, 1.0 - share) < 1.0 / 3.0:
        return _chance_of_common(totals, times, int(np.count_nonzero((ours > 0) & (theirs > 0))), share)
    deviations = (ours - together * share)[several]
    statistic = float((np.square(deviations) / (together[several] * share * (1.0 - share))).sum())
    exponents = _POWERS * statistic
    for total, many in zip(totals.tolist(), times.tolist(), strict=True):
        exponents += many * _log_laplace(total, share)
    return float(np.exp(min(0.0, exponents.min())))


def _chance_of_common(totals: IntArray, times: IntArray, common: int, share: float) -> float:
    """Chernoff bound of the probability of so many common contents."""
    apart = np.power(share, totals) + np.power(1.0 - share, totals)
    expected = float(times @ (1.0 - apart))
    if common <= expected:
        return 1.0
    powers = np.logspace(-3, 3, 61)[:, None]
    logarithms = np.logaddexp(np.log(apart), np.log1p(-apart) + powers) @ times
    return float(np.exp(min(0.0, (logarithms - powers[:, 0] * common).min())))


def chance_of_shifted(agreeing: int, shifted: int) -> float:
    """Probability that so many contents agree, where so many do after a number is added to each identifier."""
    return float(bdtrc(agreeing - 1, agreeing + shifted, 0.5)) if agreeing else 1.0


def shared_records(ours: IntArray, theirs: IntArray, level: int, rows: tuple[int, int]) -> float:
    """Estimated number of records that two tables share, from their counts in a sketch.

    Counts of records that are not shared differ as independent Poisson numbers do: their squared differences add up to
    their sums, and what is missing of that is shared. Of a sample of contents the larger of both tables' shares counts.

    Shapes: ours, theirs (n,).
    """
    together, all_rows = ours + theirs, sum(rows)
    alike = (together * (together - 1)).sum() / max(1, all_rows * (all_rows - 1))
    lacking = (together - np.square(ours - theirs)).sum() + (rows[0] - rows[1]) ** 2 * alike
    of_all = max(rows[0] / max(1, ours.sum()), rows[1] / max(1, theirs.sum())) if level else 1.0
    return float(min(max(0.0, lacking * of_all / 2.0), *rows))


def log_binomial(count: FloatArray | IntArray, size: FloatArray | int, share: FloatArray | float) -> FloatArray:
    """Logarithm of the binomial probability of each count; `scipy.stats` has it, and takes a second to load."""
    ways = gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0)
    return np.asarray(ways + xlogy(count, share) + xlog1py(size - count, -share))


@lru_cache(maxsize=4096)
def _log_laplace(total: int, share: float) -> FloatArray:
    """Logarithm of E exp(-p z^2) of a standardised binomial count, for each p; of large ones that of the normal law."""
    if total > _NORMAL_FROM:
        return np.asarray(-0.5 * np.log1p(2.0 * _POWERS))
    counts = np.arange(total + 1)
    squares = np.square(counts - total * share) / (total * share * (1.0 - share))
    terms = log_binomial(counts, total, share)[:, None] - _POWERS * squares[:, None]
    top = terms.max(axis=0)
    return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))


# --- Keyed sums of units
#
# Every unit has one of few buckets, and adds a keyed number of what a column says of it to the bucket's sum. Where two
# sums of a bucket differ, at least one of its units joined, left or changed; so the buckets that differ are at most as
# many as the units that do, whatever else the tables hold. There is a row of buckets for each column among the records
# of each combination of the columns that are released unchanged: recipients can subtract these distributions.

SumArray = npt.NDArray[np.uint32]


def buckets_for(units: int) -> int:
    """The number of buckets, a power of two, for a collision chance of 1 in 30 of changed units."""
    return 1 << max(6, (16 * units - 1).bit_length())


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums of a table."""

    marks: HashArray  # A keyed number of each column in each combination, ascending, shape (n,)
    columns: IntArray  # Position of its column among those counted, shape (n,)
    sums: SumArray  # Modulo 2^32, shape (n, buckets)

    @classmethod
    def empty(cls, buckets: int) -> UnitSums:
        """The sketch of no record."""
        none = np.empty(0, dtype=np.uint64)
        return cls(none, np.empty(0, dtype=np.int64), np.empty((0, buckets), dtype=np.uint32))

    @classmethod
    def of(
        cls, marks: HashArray, which: IntArray, column: int, places: HashArray, numbers: HashArray, buckets: int
    ) -> UnitSums:
        """The sums of one column; shapes: marks (n,), which, places and numbers (n_rows,)."""
        sums = np.zeros(len(marks) * buckets, dtype=np.uint64)
        at = which * buckets + (places & np.uint64(buckets - 1)).astype(np.int64)
        np.add.at(sums, at, numbers & np.uint64(0xFFFFFFFF))
        order = np.argsort(marks)
        shaped = sums.reshape(len(marks), buckets).astype(np.uint32)[order]
        return cls(marks[order], np.full(len(marks), column, dtype=np.int64), shaped)

    def changed(self, other: UnitSums) -> tuple[IntArray, IntArray]:
        """A lower bound of the units that differ in each count, and its column; -1 for a count of `other`."""
        buckets = min(self.sums.shape[1], other.sums.shape[1])
        marks = np.union1d(self.marks, other.marks)
        ours, theirs = (np.zeros((len(marks), buckets), dtype=np.uint32) for _ in range(2))
        for table, sums in ((ours, self), (theirs, other)):
            folded = sums.sums.reshape(len(sums.sums), -1, buckets)  # a bucket is the last bits of a number
            table[np.searchsorted(marks, sums.marks)] = folded.sum(axis=1, dtype=np.uint32)
        columns = np.full(len(marks), -1, dtype=np.int64)
        columns[np.searchsorted(marks, self.marks)] = self.columns
        return np.count_nonzero(ours != theirs, axis=1), columns


def merge_sums(parts: Sequence[UnitSums]) -> UnitSums:
    """The sums of all parts together, one or more."""
    marks_all = np.concatenate([part.marks for part in parts])
    marks, first, which = np.unique(marks_all, return_index=True, return_inverse=True)
    sums = np.zeros((len(marks), parts[0].sums.shape[1]), dtype=np.uint32)
    np.add.at(sums, which.reshape(-1), np.concatenate([part.sums for part in parts]))
    return UnitSums(marks, np.concatenate([part.columns for part in parts])[first], sums)
