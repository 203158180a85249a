"""Counts of categories rounded at random to multiples of a base, always the same way.

Random rounding to a base (Fellegi 1975, "Controlled random rounding", Survey
Methodology 1) is unbiased; drawn anew at every release it is averaged away,
and two equal counts would differ. So the draw follows from a key, as in the
cell-key method of the Australian Bureau of Statistics (Fraser & Wooton 2005;
Thompson, Broadfoot & Elazar 2013): here from the secret, the category and the
multiple that the count has passed. A rounded count then never falls when
the count rises, one person more changes it with a chance of one over the base,
and however many releases there are, a count has one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import CategoryBlock, FeatureEncoder, NumberBlock
from anonpipe.encoding.quantiles import Radix
from anonpipe.errors import InputError
from anonpipe.kernels.points import sort_groups
from anonpipe.moments import Moments
from anonpipe.rng import generator, keyed, number_keys
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True)
class Rounding:
    """How counts are rounded."""

    base: int  # To multiples of which
    key: bytes  # Of the secret and the job, whatever the records
    fresh: bytes = b""  # Of the records, too: for what is drawn anew where these are others

    def count(self, count: int, *cell: str) -> int:
        """A count rounded, by the cell's own thresholds: r of c = q base + rest is up with chance rest / base.

        Examples
        --------
        >>> rounding = Rounding(5, b"k" * 16)
        >>> [rounding.count(each, "stage", "II") for each in (0, 3, 4, 5, 6, 7, 8, 9, 10)]
        [0, 5, 5, 5, 5, 5, 10, 10, 10]
        """
        passed, rest = divmod(count, self.base)
        drawn = number_keys(keyed(self.key, *cell), np.array([passed], dtype=np.int64))[0]
        return self.base * (passed + (rest > int(drawn % np.uint64(self.base))))

    def thinned(self, found: Radix, name: str, at: int) -> Radix:
        """Some values of a column and class without a twentieth at random, at least two multiples of the base.

        Released numbers are those of a quantile function, whose means of k
        values would be exact: who joined would show as a step of all that follow.
        So the function is of a sample. Without one record of twenty the mean of a class
        moves by 0.23 of its own sampling error.
        """
        without = min(max(2 * self.base, found.total // 20), max(0, found.total - self.base))
        return found.thinned(without, generator(self.fresh, f"thinned {name}", at))

    def counts(self, counts: IntArray, name: str, cells: Sequence[str]) -> IntArray:
        """Counts of all categories of a column, rounded; the commonest takes the rest, so that their sum stays.

        Where there are too few records for that, all others are rounded down.

        Examples
        --------
        >>> Rounding(5, b"k" * 16).counts(np.array([41, 7, 0, 12]), "stage", ["I", "II", "III", ""]).tolist()
        [45, 5, 0, 10]
        """
        rest = int(counts.argmax())
        made = np.array([self.count(int(each), name, cell) for each, cell in zip(counts, cells, strict=True)])
        if made.sum() - made[rest] > counts.sum():
            made = counts - counts % self.base
        made[rest] = counts.sum() - (made.sum() - made[rest])
        return made


@dataclass(frozen=True, eq=False)
class RoundedColumns:
    """The columns whose decoding looks at counts, and how these are rounded."""

    rounding: Rounding  # Of all of them
    blocks: tuple[NumberBlock | CategoryBlock, ...]  # Categories, ordinals, and numbers with nulls
    cells: tuple[tuple[str, ...], ...]  # The categories of each, null last; of a number that it is there, and null

    @classmethod
    def fit(cls, rounding: Rounding, cells: ColumnEncoder, features: FeatureEncoder) -> RoundedColumns:
        """Those of a table."""
        blocks = counted_blocks(features)
        known = (
            cells.categories[each.name].to_pylist() if each.name in cells.categories else ["there"] for each in blocks
        )
        return cls(rounding, blocks, tuple((*map(str, each), "null, of no category") for each in known))

    def counts(self, at: int, counts: IntArray) -> IntArray:
        """Counts of one of the columns, rounded."""
        return self.rounding.counts(counts, self.blocks[at].name, self.cells[at])

    def put(self, cells: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A copy of cells in which a few records, drawn at random, have other categories or nulls: counts are rounded.

        Where a number is no longer null, its value means nothing: decoding gives it one.
        """
        given = cells.copy()
        for at, block in enumerate(self.blocks):
            size = len(self.cells[at])
            codes = _codes(block, given[:, block.position], size)
            counts = np.bincount(codes, minlength=size)
            lacking = self.counts(at, counts) - counts
            moved = _moved(codes, lacking, rng)
            given[moved, block.position] = _values(block, np.repeat(np.arange(size), np.maximum(lacking, 0)), size)
        return given


def counted_blocks(features: FeatureEncoder) -> tuple[NumberBlock | CategoryBlock, ...]:
    """The columns whose decoding looks at counts: categories, ordinals, and numbers with nulls."""
    numbers = [block for block in features.numbers if block.ordinal or block.stop - block.start == 2]
    return (*numbers, *features.categories)


def _moved(codes: IntArray, lacking: IntArray, rng: np.random.Generator) -> IntArray:
    """Records at random of the categories that have too many, in random order."""
    shuffled = rng.permutation(len(codes))
    order, starts = sort_groups(codes[shuffled])
    place = np.arange(len(codes)) - np.repeat(starts[:-1], np.diff(starts))
    most = np.repeat(np.maximum(-lacking, 0)[: len(starts) - 1], np.diff(starts))
    return rng.permutation(shuffled[order[place < most]])


def _codes(block: NumberBlock | CategoryBlock, column: FloatArray, size: int) -> IntArray:
    """Codes of a column as cells hold them, nulls last; of a number whether it is there."""
    missing = np.isnan(column)
    if isinstance(block, NumberBlock) and not block.ordinal:
        return missing.astype(np.int64)
    return np.where(missing, size - 1, np.nan_to_num(column)).astype(np.int64)


def _values(block: NumberBlock | CategoryBlock, codes: IntArray, size: int) -> FloatArray:
    """Such codes as cells hold them; null is a code like any other but of numbers and ordinals."""
    found = codes.astype(np.float64)
    if isinstance(block, NumberBlock):
        found[codes == size - 1] = np.nan
    return found


# --- The table's counts of categories shared out among partitions -----------------------------------------------------

_ROUNDS = 100
_SMALLEST = 1e-6


def share_out(mass: FloatArray, totals: IntArray, sizes: IntArray) -> IntArray:
    """Whole counts near a mass, with given totals of categories and given sizes of partitions.

    The mass is fitted to both margins by iterative proportions, which keep
    its odds ratios, and rounded one partition after the other: what one gets
    too much of, the next gets less.

    Shapes: mass (n_partitions, q); totals (q,); sizes (n_partitions,); returns (n_partitions, q).

    Examples
    --------
    >>> share_out(np.array([[3.0, 1.0], [1.0, 3.0]]), np.array([6, 2]), np.array([4, 4])).tolist()
    [[4, 0], [2, 2]]
    """
    if totals.sum() != sizes.sum() or (totals < 0).any():
        raise ValueError("counts of categories and sizes of partitions do not add up to the same")
    fitted = _fitted(mass, totals, sizes)
    counts, left, carried = np.zeros(mass.shape, dtype=np.int64), totals.astype(np.int64), np.zeros(len(totals))
    for partition, size in enumerate(sizes):
        wanted = fitted[partition] + carried
        counts[partition] = _rounded(wanted, left, int(size))
        left = left - counts[partition]
        carried = wanted - counts[partition]
    return counts


def _fitted(mass: FloatArray, totals: IntArray, sizes: IntArray) -> FloatArray:
    """The mass scaled by rows and columns until both sums are right, or nearly."""
    fitted = np.maximum(mass, _SMALLEST * np.maximum(sizes, 1)[:, None]) * (totals > 0)
    for _ in range(_ROUNDS):
        fitted = fitted * np.divide(totals, fitted.sum(axis=0), out=np.zeros(len(totals)), where=totals > 0)
        rows = fitted.sum(axis=1)
        fitted = fitted * np.divide(sizes, rows, out=np.zeros(len(sizes)), where=rows > 0)[:, None]
    return np.asarray(fitted)


def _rounded(wanted: FloatArray, left: IntArray, size: int) -> IntArray:
    """Whole numbers near `wanted`, none above what is left, of sum `size`; the largest remainders are rounded up."""
    counts = np.minimum(np.floor(np.maximum(wanted, 0.0)).astype(np.int64), left)
    while (missing := size - int(counts.sum())) != 0:
        if missing > 0:
            able = counts < left
            first = np.argsort(np.where(able, counts - wanted, np.inf), kind="stable")[: min(missing, int(able.sum()))]
            counts[first] += 1
        else:
            able = counts > 0
            first = np.argsort(np.where(able, wanted - counts, np.inf), kind="stable")[: min(-missing, int(able.sum()))]
            counts[first] -= 1
    return counts


# --- Categories and nulls of records that are of no one person: how many of each fall to which part of the table ------
# Where a masked record is made of no one person, the persons of its part say
# nothing of it, and their categories must not be forced upon it. What the
# table has of each category is shared out among the parts as their masked
# features call for it.


@dataclass(frozen=True, eq=False)
class Called:
    """What parts of the table hold, and what their masked features call for; lists have an entry a column."""

    # codes, mass: records of each code before (nulls last), and how many the masked features call for; shapes (n_parts,
    # n_codes)
    codes: tuple[IntArray, ...]
    mass: tuple[FloatArray, ...]
    rows: IntArray  # Records of each part, shape (n_parts,)
    # original, masked: moments of the features, and of the masked ones
    original: Moments
    masked: Moments

    def merge(self, other: Called) -> Called:
        """The parts of both below each other."""
        codes = tuple(np.concatenate(pair) for pair in zip(self.codes, other.codes, strict=True))
        mass = tuple(np.concatenate(pair) for pair in zip(self.mass, other.mass, strict=True))
        rows = np.concatenate([self.rows, other.rows])
        return Called(codes, mass, rows, self.original.merge(other.original), self.masked.merge(other.masked))


@dataclass(frozen=True, eq=False)
class Shares:
    """What falls to each part."""

    counts: tuple[IntArray, ...]  # Of each column the records of each code, nulls last, shape (n_parts, n_codes)
    # What the masked features lack of the original covariance; None where a covariance is promised, and kept as it
    # comes out
    lack: FloatArray | None


@dataclass(frozen=True, eq=False)
class PartShares:
    """The columns whose decoding looks at counts: categories, ordinals, and numbers with nulls."""

    blocks: tuple[NumberBlock | CategoryBlock, ...]  # The columns
    categories: tuple[int, ...]  # How many categories each has; 1 for numbers
    channels: int  # How many channels the features, and what they are drawn given, have
    rounded: RoundedColumns | None = None  # How the table's counts are rounded; None where they are kept

    @classmethod
    def fit(
        cls, cells: ColumnEncoder, features: FeatureEncoder, channels: int, rounded: RoundedColumns | None = None
    ) -> PartShares:
        """Those of a table."""
        blocks = counted_blocks(features)
        sizes = (len(cells.categories[block.name]) if block.name in cells.categories else 1 for block in blocks)
        return cls(blocks, tuple(sizes), channels, rounded)

    def call(self, part: FloatArray, *, params: Any, original: FloatArray) -> Called:
        """Count a part: a dummy x of -1 and +1 calls for (1 + x) / 2 records, an ordinal for the nearest level."""
        pairs = list(zip(self.blocks, self.categories, strict=True))
        masked = np.ascontiguousarray(part[:, : self.channels])
        return Called(
            tuple(_counts(block, size, original)[None] for block, size in pairs),
            tuple(_mass(block, size, part)[None] for block, size in pairs),
            np.array([len(part)]),
            Moments.of(original),
            Moments.of(masked),
        )

    def share(
        self,
        called: Called,
        *,
        params: Any,
        rng: np.random.Generator,
        guaranteed: Callable[[Moments], object | None],
    ) -> Shares:
        """Share the table's counts out among its parts."""
        totals = [codes.sum(axis=0) for codes in called.codes]
        if self.rounded is not None:
            totals = [self.rounded.counts(at, each) for at, each in enumerate(totals)]
        counts = tuple(share_out(mass, each, called.rows) for mass, each in zip(called.mass, totals, strict=True))
        if called.original.n < 2 or guaranteed(called.original) is not None:
            return Shares(counts, None)
        return Shares(counts, called.original.covariance - called.masked.covariance)

    def put(self, cells: FloatArray, shares: Shares, part: int) -> FloatArray:
        """A copy of the cells with what fell to the part; the order of its categories means nothing."""
        given = cells.copy()
        for block, size, counts in zip(self.blocks, self.categories, shares.counts, strict=True):
            if int(counts[part].sum()) != len(cells):
                raise InputError(f"partition {part} of a table changed while it was masked; run again")
            codes = np.repeat(np.arange(counts.shape[1]), counts[part]).astype(np.float64)
            if isinstance(block, NumberBlock):
                codes[codes == size] = np.nan
            given[:, block.position] = codes
        return given


def _counts(block: NumberBlock | CategoryBlock, categories: int, features: FloatArray) -> IntArray:
    """Records of each code of a column, nulls last; of a number those with and without a value."""
    width = block.stop - block.start
    if isinstance(block, CategoryBlock):
        dummies = features[:, block.start : block.stop]
        at = dummies.argmax(axis=1) if width > 1 else (dummies > 0).any(axis=1).astype(np.int64)
        return np.bincount(block.codes[at], minlength=categories + 1)
    missing = (features[:, block.start + 1 : block.stop] > 0).any(axis=1)
    if not block.ordinal:
        return np.bincount(missing.astype(np.int64), minlength=2)
    codes = np.rint(block.mean + block.sd * features[:, block.start]).astype(np.int64)
    return np.bincount(np.where(missing, categories, codes), minlength=categories + 1)


def _mass(block: NumberBlock | CategoryBlock, categories: int, masked: FloatArray) -> FloatArray:
    """How many of each code the masked features call for, in the order of `_counts`."""
    rows = len(masked)
    if isinstance(block, CategoryBlock):
        mass = np.zeros(categories + 1)
        above = (1.0 + masked[:, block.start : block.stop]).sum(axis=0) / 2
        if block.stop == block.start:
            above = np.array([rows])  # the only category
        mass[block.codes] = np.append(rows - above, above) if block.stop - block.start == 1 else above
        return mass
    nulls = (1.0 + masked[:, block.start + 1 : block.stop]).sum() / 2
    if not block.ordinal:
        return np.array([rows - nulls, nulls])
    nearest = np.clip(np.rint(block.mean + block.sd * masked[:, block.start]), 0, categories - 1).astype(np.int64)
    return np.append(np.bincount(nearest, minlength=categories) * (1.0 - nulls / rows), nulls)


RECORDS: tuple[type, ...] = (Called, Shares, Moments)  # What lies on disk between counting and decoding
