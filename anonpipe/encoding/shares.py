"""Counts of categories and nulls, shared out among the parts of a table, rounded, and drawn where they are small.

Synthetic records of a part need not have the categories of its persons. The table's count of each category is shared
out among the parts by their masked features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from anonpipe.columns import Kind
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import CategoryBlock, ConditioningEncoder, FeatureEncoder, Groups, NumberBlock
from anonpipe.encoding.matching import ScoreMap, TimeRegression, ValueScores
from anonpipe.encoding.quantiles import Radix
from anonpipe.errors import InputError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import sort_groups
from anonpipe.moments import Expected, Moments
from anonpipe.rng import generator, keyed, number_keys
from anonpipe.types import BoolArray, FloatArray, IntArray

_SHARING_ROUNDS = 100
_SMALLEST = 1e-6


def share_out(mass: FloatArray, totals: IntArray, sizes: IntArray) -> IntArray:
    """Whole counts near a mass (n_partitions, q), with given totals of categories (q,) and sizes of partitions."""
    # The mass is fitted to both margins by iterative proportions, which keep its odds ratios. It is rounded one
    # partition after the other, and rounding errors are carried to the next.
    if totals.sum() != sizes.sum() or (totals < 0).any():
        raise ValueError("counts of categories and sizes of partitions do not add up to the same")
    above_zero = np.maximum(mass, _SMALLEST * np.maximum(sizes, 1)[:, None]) * (totals > 0)
    fitted = fit_margins(above_zero, sizes, totals, rounds=_SHARING_ROUNDS, close=None)
    return np.asarray(_rounded(fitted, totals.astype(np.int64), sizes.astype(np.int64)))


@kernel
def _rounded(fitted: FloatArray, left: IntArray, sizes: IntArray) -> IntArray:
    """Whole numbers near `fitted`, of both margins; in a row the largest remainders are rounded up first."""
    counts, carried = np.zeros(fitted.shape, dtype=np.int64), np.zeros(fitted.shape[1])
    for row in range(len(sizes)):
        missing = sizes[row]
        for at in range(len(left)):
            carried[at] += fitted[row, at]
            counts[row, at] = min(int(max(carried[at], 0.0)), left[at])
            missing -= counts[row, at]
        while missing != 0:
            step, best, least = (1 if missing > 0 else -1), -1, np.inf
            for at in range(len(left)):
                able = counts[row, at] < left[at] if step > 0 else counts[row, at] > 0
                if able and step * (counts[row, at] - carried[at]) < least:
                    best, least = at, step * (counts[row, at] - carried[at])
            counts[row, best] += step
            missing -= step
        for at in range(len(left)):
            left[at] -= counts[row, at]
            carried[at] -= counts[row, at]
    return counts


# --- Demand of the parts, and what each part gets


@dataclass(frozen=True, eq=False)
class Demand:
    """Records of each code in parts of the table, and counts by their masked features; lists have an entry a column."""

    # codes, mass: records of each code before (nulls last) and by the masked features, shapes (n_parts, n_codes)
    codes: tuple[IntArray, ...]
    mass: tuple[FloatArray, ...]
    rows: IntArray  # Records of each part, shape (n_parts,)
    original: Moments  # Of the features
    masked: Moments  # Of the masked ones
    of_values: Moments | None = None  # Of the masked ones, mean scores of values in place of scores; None without

    def merge(self, other: Demand) -> Demand:
        """The parts of both below each other."""
        codes = tuple(np.concatenate(pair) for pair in zip(self.codes, other.codes, strict=True))
        mass = tuple(np.concatenate(pair) for pair in zip(self.mass, other.mass, strict=True))
        rows = np.concatenate([self.rows, other.rows])
        moments = self.original.merge(other.original), self.masked.merge(other.masked)
        one, two = self.of_values, other.of_values
        return Demand(codes, mass, rows, *moments, None if one is None or two is None else one.merge(two))


@dataclass(frozen=True, eq=False)
class Shares:
    """The counts that each part gets, and the covariance that decoding aims at."""

    counts: tuple[IntArray, ...]  # Of each column the records of each code, nulls last, shape (n_parts, n_codes)
    # The covariance to release less that of the masked features: the original's where none is promised, with small
    # cells as they were drawn; None where the covariance is released as it comes out
    residual: FloatArray | None
    drawn: FloatArray | None = None  # Records that small cells add to each two dummies; None where none were drawn
    values: ScoreMap | None = None  # The map of the scores; None without scores


@dataclass(frozen=True, eq=False)
class PartShares:
    """The columns whose decoding looks at counts: categories, ordinals, and numbers with nulls."""

    blocks: tuple[NumberBlock | CategoryBlock, ...]  # The columns
    categories: tuple[int, ...]  # How many categories each has; 1 for numbers
    channels: int  # How many channels the features, and what they are drawn given, have
    rounded: RoundedColumns | None = None  # How the table's counts are rounded; None where they are kept
    small_cells: SmallCells | None = None  # The two-way tables whose small cells are drawn; None for none
    values: ValueScores | None = None  # Mean scores of values, which covariances are matched to; None for no matching
    k: int = 0  # Nulls or values of a number in a stratum, of which fewer are rounded at random; 0 for none

    @classmethod
    def fit(
        cls,
        cells: ColumnEncoder,
        features: FeatureEncoder,
        channels: int,
        rounded: RoundedColumns | None = None,
        small_cells: SmallCells | None = None,
        values: ValueScores | None = None,
        k: int = 0,
    ) -> PartShares:
        """Those of a table."""
        blocks = counted_blocks(features)
        sizes = (len(cells.categories[block.name]) if block.name in cells.categories else 1 for block in blocks)
        return cls(blocks, tuple(sizes), channels, rounded, small_cells, values, k)

    def count(self, part: FloatArray, *, params: Any, original: FloatArray, stratum: int = 0) -> Demand:
        """Count a part: a dummy x of -1 and +1 asks for (1 + x) / 2 records, an ordinal for the nearest level."""
        pairs = list(zip(self.blocks, self.categories, strict=True))
        masked = np.ascontiguousarray(part[:, : self.channels])
        values, groups = self.values, Groups.one(len(part))
        return Demand(
            tuple(_counts(block, size, original)[None] for block, size in pairs),
            tuple(_mass(block, size, part, groups) for block, size in pairs),
            np.array([len(part)]),
            Moments.of(original),
            Moments.of(masked),
            None
            if values is None
            else Moments.of(values.with_mean_scores(values.mapped(masked, params), params, stratum, copy=False)),
        )

    def share(
        self, demand: Demand, *, params: Any, rng: np.random.Generator, guaranteed: Callable[[Moments], Expected | None]
    ) -> Shares:
        """Share the table's counts out among its parts."""
        totals = [codes.sum(axis=0) for codes in demand.codes]
        if self.rounded is not None:
            totals = [self.rounded.counts(at, each) for at, each in enumerate(totals)]
        else:  # a stratum may have few nulls of a number, or few values; categories of few are suppressed before
            least = [self.k if isinstance(block, NumberBlock) and not block.ordinal else 0 for block in self.blocks]
            totals = [without_few(each, few, rng) for each, few in zip(totals, least, strict=True)]
        counts = tuple(share_out(mass, each, demand.rows) for mass, each in zip(demand.mass, totals, strict=True))
        values = None if self.values is None else params
        if demand.original.n < 2:
            return Shares(counts, None, values=values)
        promise = guaranteed(demand.original)
        wanted = demand.original if promise is None else demand.masked
        found = demand.masked if demand.of_values is None else demand.of_values
        residual = None if wanted is found else self._aim(wanted.covariance, found.covariance) - found.covariance
        if self.small_cells is None:
            # of a covariance that is promised on average small cells come out at random
            return Shares(counts, residual, values=values)
        drawn = self.small_cells.changes(demand.original, rng)
        change = 4.0 * drawn / (demand.original.n - 1)
        return Shares(counts, change if residual is None else residual + change, drawn, values)

    def _aim(self, wanted: FloatArray, found: FloatArray) -> FloatArray:
        """The wanted covariance with the variances that values of scores have whatever is drawn: correlations stay."""
        if self.values is None:
            return wanted
        ratio, at = np.ones(len(wanted)), list(self.values.channels)
        before, after = np.diag(wanted)[at], np.diag(found)[at]
        ratio[at] = np.sqrt(np.divide(after, before, out=np.ones(len(at)), where=before > 0.0))
        return wanted * np.outer(ratio, ratio)

    @property
    def least(self) -> int:
        """Records below which counts of a group are drawn, as a table's small cells are."""
        return 0 if self.small_cells is None else self.small_cells.k

    def put(
        self,
        cells: FloatArray,
        masked: FloatArray,
        groups: Groups,
        shares: Shares,
        part: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """A copy of the cells with the part's categories and nulls, shared out among its groups."""
        given, pairs = cells.copy(), list(zip(self.blocks, self.categories, strict=True))
        masses = [_mass(block, size, masked, groups) for block, size in pairs]
        if self.small_cells is not None and len(groups.sizes) > 1 and masses:
            tables = [np.rint(np.maximum(mass, 0.0)).astype(np.int64) for mass in masses]
            counted, means = (np.concatenate(each, axis=1) for each in (tables, likely_means(tables, self.least)))
            # Categories of as many records in every group are mostly of the same ones: one draw, so that they stay so
            _, first, same = np.unique(counted, axis=1, return_index=True, return_inverse=True)
            drawn = rng.poisson(np.maximum(means, 0.0))[:, first][:, same.reshape(-1)]
            together = np.where(counted < self.least, drawn, np.concatenate(masses, axis=1))
            masses = np.split(together, np.cumsum([size + 1 for size in self.categories])[:-1], axis=1)
        for (block, size), counts, mass in zip(pairs, shares.counts, masses, strict=True):
            if int(counts[part].sum()) != len(cells):
                raise InputError(f"partition {part} of a table changed while it was masked; run again")
            of_groups = share_out(mass, counts[part], groups.sizes)
            codes = np.repeat(np.tile(np.arange(size + 1), len(of_groups)), of_groups.ravel()).astype(np.float64)
            if isinstance(block, NumberBlock):
                codes[codes == size] = np.nan
            given[groups.order, block.position] = codes
        return given


def without_few(counts: IntArray, least: int, rng: np.random.Generator) -> IntArray:
    """Two counts; one below `least` is rounded at random to 0 or `least`, as often as keeps its expectation."""
    few = int(counts.argmin())
    if not 0 < counts[few] < least <= counts.sum():
        return counts
    found = np.full_like(counts, least if rng.random() < counts[few] / least else 0)
    found[1 - few] = counts.sum() - found[few]
    return found


def _counts(block: NumberBlock | CategoryBlock, categories: int, features: FloatArray) -> IntArray:
    """Records of each code of a column, nulls last; of a number those with and without a value."""
    if isinstance(block, CategoryBlock) or not block.ordinal:
        mass = _mass(block, categories, features, Groups.one(len(features)))[0]
        return np.asarray(np.rint(mass).astype(np.int64))
    missing = (features[:, block.start + 1 : block.stop] > 0).any(axis=1)
    codes = np.rint(block.mean + block.sd * features[:, block.start]).astype(np.int64)
    return np.bincount(np.where(missing, categories, codes), minlength=categories + 1)


def _mass(block: NumberBlock | CategoryBlock, categories: int, masked: FloatArray, groups: Groups) -> FloatArray:
    """How many of each code the masked features of each group ask for, in the order of `_counts`."""
    rows, many = groups.sizes, len(groups.sizes)
    labels, dummies = groups.spread(np.arange(many)), masked[:, block.start : block.stop]

    def asked(columns: FloatArray) -> FloatArray:
        sums = [np.bincount(labels, column, many) for column in columns.T]
        return (np.stack(sums, axis=1) + rows[:, None]) / 2 if sums else np.empty((many, 0))

    mass = np.zeros((many, categories + 1))
    if isinstance(block, CategoryBlock):
        above = asked(dummies) if block.width else rows[:, None]  # the only category
        mass[:, block.codes] = np.concatenate([rows[:, None] - above, above], axis=1) if block.width == 1 else above
        return mass
    nulls = asked(dummies[:, 1:]).sum(axis=1)
    if block.ordinal:
        nearest = np.clip(np.rint(block.mean + block.sd * dummies[:, 0]), 0, categories - 1).astype(np.int64)
        mass[:, :-1] = groups.count(nearest, categories) * (1.0 - nulls / np.maximum(rows, 1))[:, None]
    else:
        mass[:, 0] = rows - nulls
    mass[:, -1] = nulls
    return mass


RECORDS: tuple[type, ...] = (Demand, Shares, Moments, ScoreMap, TimeRegression)  # On disk between counting and decoding


# --- Counts rounded at random to multiples of a base, always the same way ---------------------------------------------
# Random rounding to a base (Fellegi 1975, "Controlled random rounding", Survey Methodology 1) is unbiased; drawn
# again at every release it is averaged away. So the draw follows from a key, as in the cell-key method of the
# Australian Bureau of Statistics (Fraser & Wooton 2005; Thompson, Broadfoot & Elazar 2013): here from the secret, the
# category and the multiple that the count has passed. A rounded count then never falls when the count rises, one
# person more changes it with a chance of one over the base, and in all releases a count has one answer.


@dataclass(frozen=True)
class Rounding:
    """How counts are rounded."""

    base: int  # To multiples of which
    key: bytes  # Of the secret and the job, whatever the records
    fresh: bytes = b""  # Of the records, too: for what is drawn again where these are others

    def count(self, count: int, *cell: str) -> int:
        """A count rounded, by the cell's own thresholds: r of c = q base + rest is up with chance rest / base."""
        passed, rest = divmod(count, self.base)
        drawn = number_keys(keyed(self.key, *cell), np.array([passed], dtype=np.int64))[0]
        return self.base * (passed + (rest > int(drawn % np.uint64(self.base))))

    def of_two(self, means: FloatArray, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        """Counts of two columns rounded like `count`, and means of empty cells: a count of one is up if such a mean is.

        Shapes: means (n_levels, n_levels); one, other: the name of the column, then those of its levels.
        """
        rows, columns = (
            np.frombuffer(b"".join(keyed(self.key, name, level)[:8] for level in levels), dtype=np.uint64)
            for name, *levels in (one, other)
        )
        passed, rest = np.divmod(means, self.base)
        key = keyed(self.key, "two columns", one[0], other[0])
        cells = number_keys(
            key, number_keys(key, np.add.outer(rows, number_keys(key, columns))) + passed.astype(np.uint64)
        )
        return np.asarray(self.base * (passed + (rest > cells / 2.0**64 * self.base)))

    def thinned(self, found: Radix, name: str, at: int) -> Radix:
        """Some values of a column and class without a twentieth at random, at least two multiples of the base."""
        # Exact means would show who joined. Without one record of twenty a mean moves by 0.23 of its sampling error.
        without = min(max(2 * self.base, found.total // 20), max(0, found.total - self.base))
        return found.thinned(without, generator(self.fresh, f"thinned {name}", at))

    def counts(self, counts: IntArray, name: str, cells: Sequence[str]) -> IntArray:
        """Counts of a column rounded, the commonest taking the rest; all others go down where records are few."""
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
        """A copy of cells in which a few random records change category or null, so that counts are rounded."""
        given = cells.copy()
        for at, block in enumerate(self.blocks):
            column, size = given[:, block.position], len(self.cells[at])
            missing, of_number = np.isnan(column), isinstance(block, NumberBlock)
            known = 0 if isinstance(block, NumberBlock) and not block.ordinal else np.nan_to_num(column)
            codes = np.where(missing, size - 1, known).astype(np.int64)
            counts = np.bincount(codes, minlength=size)
            lacking = self.counts(at, counts) - counts
            moved = _moved(codes, lacking, rng)
            new = np.repeat(np.arange(size), np.maximum(lacking, 0))
            given[moved, block.position] = np.where(of_number & (new == size - 1), np.nan, new)
        return given


def counted_blocks(features: FeatureEncoder) -> tuple[NumberBlock | CategoryBlock, ...]:
    """The columns whose decoding looks at counts: categories, ordinals, and numbers with nulls."""
    numbers = [block for block in features.numbers if block.ordinal or block.nullable]
    return (*numbers, *features.categories)


def _moved(codes: IntArray, lacking: IntArray, rng: np.random.Generator) -> IntArray:
    """Records at random of the categories that have too many, in random order."""
    shuffled = rng.permutation(len(codes))
    order, starts = sort_groups(codes[shuffled])
    place = np.arange(len(codes)) - np.repeat(starts[:-1], np.diff(starts))
    most = np.repeat(np.maximum(-lacking, 0)[: len(starts) - 1], np.diff(starts))
    return rng.permutation(shuffled[order[place < most]])


# --- Two-way tables of masked categories, whose small cells are drawn -------------------------------------------------
# Covariances of indicators are the cells of two-way tables: where masked records have the original's, a cell of one
# person comes out as one. So cells of fewer than k records are drawn as another sample would have them (Poisson, of the
# means that `likely_means` estimates), or rounded at random (as above) where a register grows, and
# the table is fitted to its margins again. Empty cells are drawn or rounded, too, by their means, where cells like them
# have single records: if all stayed empty, each released pair of rare categories would tell that somebody has it.

_ROUNDS = 2_000  # Most rounds of iterative proportional fitting
_FITTED = 1e-6  # Records that a margin may be off at its end
_FEW = 3.0  # So many cells, or records, are half enough to estimate means of
_LEAST = 2.0**-20  # Records that margins lead to expect of a cell, at least
_HELD = 1e-3  # Mass of a cell that is drawn empty: where all cells of a row are, these hold its records


@dataclass(frozen=True)
class Factor:
    """A column, or its nulls, as levels with dummies of -1 and +1."""

    name: str  # Of the column
    start: int  # Its first dummy among the channels
    levels: tuple[str, ...]  # Those with a dummy, in order
    complete: bool  # Whether these are all; else one more has no dummy
    masked: bool  # Whether the column is masked; else released unchanged

    @property
    def stop(self) -> int:
        """The channel after its dummies."""
        return self.start + len(self.levels)

    def counts(self, channels: int) -> tuple[FloatArray, FloatArray]:
        """Levels as a linear map of channels, matrix and constant: shapes (n_levels, channels) and (n_levels,)."""
        size = len(self.levels)
        of_dummies = np.zeros((size, channels))
        of_dummies[np.arange(size), self.start + np.arange(size)] = 0.5
        if self.complete:
            return of_dummies, np.full(size, 0.5)
        return np.vstack([of_dummies, -of_dummies.sum(axis=0)]), np.append(np.full(size, 0.5), 1.0 - size / 2)


def factors_of(cells: ColumnEncoder, features: FeatureEncoder, conditioning: ConditioningEncoder) -> tuple[Factor, ...]:
    """The masked categorical columns, nulls of numbers, and unchanged columns of categories."""
    found = [
        Factor(block.name, block.start + 1, ("null",), False, True) for block in features.numbers if block.nullable
    ]
    for block in features.categories:
        names, several = _names(cells, block.name), block.width > 1
        codes = block.codes if several else block.codes[1:]
        found.append(Factor(block.name, block.start, tuple(names[code] for code in codes), several, True))
    start = features.width
    for position, table in zip(conditioning.positions, conditioning.tables, strict=True):
        name, kind = cells.names[position], cells.columns[position].kind
        if kind.coded and kind is not Kind.ORDINAL:
            names = _names(cells, name)
            levels = tuple(names[int(code)] for code in table.argmax(axis=0))
            found.append(Factor(name, start, levels, False, False))
        elif table.shape[1] == 2:
            found.append(Factor(name, start + 1, ("null",), False, False))
        start += table.shape[1]
    return tuple(factor for factor in found if factor.levels)


def _names(cells: ColumnEncoder, name: str) -> list[str]:
    """Names of a column's codes, nulls last."""
    return [*map(str, cells.categories[name].to_pylist()), "null, of no category"]


@dataclass(frozen=True)
class SmallCells:
    """Which two-way tables of a run have their small cells drawn, and how."""

    factors: tuple[Factor, ...]  # The columns
    k: int  # Cells of fewer records are small
    rounding: Rounding | None = None  # How they are rounded in a register that grows; None where they are drawn

    def changes(self, moments: Moments, rng: np.random.Generator) -> FloatArray:
        """How many records more each two dummies have together, shape (channels, channels)."""
        channels = len(moments.mean)
        changes = np.zeros((channels, channels))
        found = list(self._tables(moments))
        all_means = likely_means([table for *_, table in found], self.k) if found else []
        for (one, other, table), means in zip(found, all_means, strict=True):
            if (means != table).any() or ((table > 0) & (table < self.k)).any():
                drawn = self._drawn(one, other, table, means, rng)
                change = fit_margins(drawn, table.sum(axis=1), table.sum(axis=0)) - table
                change = change[: len(one.levels), : len(other.levels)]
                changes[one.start : one.stop, other.start : other.stop] = change
                changes[other.start : other.stop, one.start : one.stop] = change.T
        return changes

    def _tables(self, moments: Moments) -> Iterator[tuple[Factor, Factor, IntArray]]:
        """Counts of every two columns of which one is masked."""
        maps = [factor.counts(len(moments.mean)) for factor in self.factors]
        for (one, (left, own)), (other, (right, its)) in combinations(zip(self.factors, maps, strict=True), 2):
            if one.name != other.name and (one.masked or other.masked):
                means = np.outer(left @ moments.mean + own, right @ moments.mean + its)
                yield one, other, np.rint(left @ moments.scatter @ right.T + moments.n * means).astype(np.int64)

    def _drawn(
        self, one: Factor, other: Factor, table: IntArray, means: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """The table with its small cells drawn, margins not heeded."""
        drawn, few = table.astype(np.float64), table < self.k
        small = few & (table > 0)
        if self.rounding is None:
            drawn[few] = rng.poisson(means[few])
        else:  # a count has one answer in all releases; means of empty cells move little
            named = ((each.name, *each.levels, *([] if each.complete else ["others"])) for each in (one, other))
            drawn[few] = self.rounding.of_two(np.where(small, table, means), *named)[few]
        drawn[small] = np.maximum(drawn[small], _HELD)
        return drawn


def likely_means(tables: Sequence[IntArray], k: int) -> list[FloatArray]:
    """Estimated means of cells of fewer than k records over samples like this one, others as they are; table by table.

    Of cells of c records the means sum to (c + 1) times the number of cells of c + 1, on average (Robbins 1956). So
    much is shared by empty cells in proportion to what the margins lead to expect, among cells where this is alike:
    pairs that cannot occur stay empty where much is expected. Means of other small cells are a weighted sum of count
    and expectation, whose weights the same identity gives. Where a table has few such cells all tables count.

    Examples
    --------
    >>> likely_means([np.array([[40, 0], [1, 60]])], 5)[0].round(2)
    array([[40.  ,  0.47],
           [ 0.56, 60.  ]])
    """
    counts = np.concatenate([table.ravel() for table in tables]).astype(np.float64)
    margins = ((table.sum(axis=1), table.sum(axis=0), max(1, int(table.sum()))) for table in tables)
    expected = np.concatenate([np.outer(rows, columns).ravel() / total for rows, columns, total in margins])
    owner, means = np.repeat(np.arange(len(tables)), [table.size for table in tables]), counts.copy()

    def sums(chosen: BoolArray, values: FloatArray, by: IntArray, size: int) -> FloatArray:
        found = np.bincount(by[chosen], weights=values[chosen], minlength=len(tables) * size)
        return found.astype(np.float64).reshape(-1, size)

    alike = np.floor(np.log2(np.maximum(expected, _LEAST))).astype(np.int64) - int(np.log2(_LEAST))
    size = int(alike.max(initial=0)) + 1
    place, empty = owner * size + alike, (counts == 0) & (expected > 0)
    singles, missed = sums(counts == 1, counts, place, size), sums(empty, expected, place, size)
    known = singles.sum(axis=0)
    usual = known / np.maximum(missed.sum(axis=0), _LEAST) * known / (known + _FEW)
    seen = singles + missed * usual  # Single records, and those that there would be as in all tables together
    shares = usual + seen / (seen + _FEW) * (singles / np.maximum(missed, _LEAST) - usual)
    means[empty] = np.minimum(shares.ravel()[place] * expected, np.maximum(expected, 1.0))[empty]

    small, later = (counts > 0) & (counts < k), (counts > 1) & (counts <= k)
    both = [sums(small, one, owner, 1) for one in (expected**2, expected * counts, counts**2)]
    products = np.concatenate([both[0], both[1], both[1], both[2]], axis=1).reshape(-1, 2, 2)
    targets = np.concatenate([sums(later, one * counts, owner, 1) for one in (expected, counts - 1.0)], axis=1)
    cells, together = max(1, int(small.sum())), products.sum(axis=0)
    sure = cells / (cells + _FEW)
    weights = sure * np.clip(np.linalg.pinv(together) @ targets.sum(axis=0), 0.0, 1.0) + [0.0, 1.0 - sure]
    products, targets = products + _FEW / cells * together, targets + _FEW / cells * together @ weights
    own = np.clip((np.linalg.pinv(products) @ targets[:, :, None])[:, :, 0], 0.0, 1.0)[owner]
    means[small] = (own[:, 0] * expected + own[:, 1] * counts)[small]
    ends = np.cumsum([table.size for table in tables])[:-1]
    return [part.reshape(table.shape) for part, table in zip(np.split(means, ends), tables, strict=True)]


def fit_margins(
    mass: FloatArray, rows: IntArray, columns: IntArray, rounds: int = _ROUNDS, close: float | None = _FITTED
) -> FloatArray:
    """The mass with these sums of rows and columns, by iterative proportional fitting (Deming & Stephan 1940).

    It ends once rows are `close` to their sums, if that is given, or after all rounds. Shapes: (n_rows, n_columns).
    """
    fitted = mass.copy()
    for _ in range(rounds):
        sums = fitted.sum(axis=0)
        fitted *= np.divide(columns, sums, out=np.zeros(len(sums)), where=sums > 0)
        sums = fitted.sum(axis=1)
        if close is not None and np.abs(sums - rows).max() <= close:
            break
        fitted *= np.divide(rows, sums, out=np.zeros(len(sums)), where=sums > 0)[:, None]
    return fitted
