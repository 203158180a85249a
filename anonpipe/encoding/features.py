"""Cells to features and back: what clusterers and synthesizers see of the columns whose values are replaced.

A number (or its logarithm, or its normal score) or an ordinal is one z-score; its nulls, if there are any, one more
column of -1 and +1. A category is coded in dummies of -1 and +1 (Lasko & Vinterbo 2010, section III), null being a
category like any other: one column a category, but a single one for two categories, and none for one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from anonpipe.columns import Kind
from anonpipe.encoding.categories import calibrated, calibrated_groups, probabilities, sampled
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.columns import feature_width
from anonpipe.encoding.scan import MOST_DUMMIES, Scan
from anonpipe.encoding.scores import ScoredColumn, Scores
from anonpipe.encoding.values import Grid, numbers
from anonpipe.errors import InputError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import ascending, sort_groups
from anonpipe.methods.synthesis import restore_by_rank, synthesize
from anonpipe.types import FloatArray, IntArray

_LARGEST_LOGARITHM = 300.0  # Larger ones are of numbers that no column holds

Decoding = Literal["calibrated", "most_probable", "sampled", "histogram"]
Scale = Literal["z_score", "range"]


@dataclass(frozen=True)
class Groups:
    """The groups whose records are decoded."""

    order: IntArray  # `order` and `starts` are as from `anonpipe.kernels.points.sort_groups`
    starts: IntArray
    identical: bool = False  # Whether the records of a group have one point, and must get one row

    @classmethod
    def of(cls, labels: IntArray, identical: bool = False) -> Groups:
        """Records of equal labels, shape (n_rows,)."""
        return cls(*sort_groups(labels), identical)

    @classmethod
    def one(cls, rows: int) -> Groups:
        """All records as one group."""
        return cls(np.arange(rows), np.array([0, rows]))

    @property
    def sizes(self) -> IntArray:
        """Records of each group, shape (n_groups,)."""
        return np.diff(self.starts)

    @property
    def first(self) -> IntArray:
        """The first record of each group, shape (n_groups,)."""
        return self.order[self.starts[:-1]]

    def spread(self, values: IntArray) -> IntArray:
        """One value a group laid over the group's records, shape (n_rows,)."""
        out = np.empty(len(self.order), dtype=values.dtype)
        out[self.order] = np.repeat(values, self.sizes)
        return out

    def count(self, codes: IntArray, size: int) -> IntArray:
        """Records of each code in each group, shape (n_groups, size)."""
        groups = len(self.starts) - 1
        index = self.spread(np.arange(groups)) * size + codes
        return np.bincount(index, minlength=groups * size).reshape(groups, size)

    def calibrate(self, features: FloatArray, codes: IntArray) -> IntArray:
        """Categories of the records such that those of the original `codes` keep their counts, shape (n_rows,)."""
        size = max(2, features.shape[1])
        if self.identical:
            totals = np.bincount(codes, minlength=size)
            return self.spread(calibrated_groups(probabilities(features[self.first]), self.sizes, totals))
        return calibrated(probabilities(features), self.order, self.starts, self.count(codes, size))


def _histogram_codes(column: FloatArray, groups: Groups, rng: np.random.Generator) -> FloatArray:
    """The codes of a column (NaN for null) in another order inside each group, all orders being equally likely."""
    codes = np.where(np.isnan(column), -1.0, column).astype(np.int64)
    drawn = synthesize(codes[:, None], groups.order, groups.starts, "histogram", rng=rng)[:, 0]
    return np.where(drawn < 0, np.nan, drawn)


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Where a column stands among cells and features."""

    name: str  # The column
    position: int  # Where it stands among the cells
    start: int  # Its columns among the features are `start` to `stop`
    stop: int

    @property
    def width(self) -> int:
        """How many columns of features it has."""
        return self.stop - self.start


@dataclass(frozen=True)
class NumberBlock(FeatureBlock):
    """A column carried as one z-score, and an indicator of its nulls if it holds any."""

    mean: float  # Of its values that are there
    sd: float  # Of these; 1 for a constant
    null_share: float  # Share of nulls
    weight: float  # The job's weight of the column in distances
    grid: Grid  # The values that may be released
    ordinal: bool = False  # Whether the values are positions in an ordered list of categories
    # Where the column is carried as its logarithm (`mean` and `sd` are then those of the logarithms), what is added to
    # a value before; else None
    offset: float | None = None
    # Where the column is carried by normal scores, how cells become these; else None. `mean` and `sd` are then 0 and 1,
    # and the grid has no limits.
    scored: ScoredColumn | None = None

    @property
    def nullable(self) -> bool:
        """Whether it has an indicator of nulls."""
        return self.width == 2

    @property
    def on_other_scale(self) -> bool:
        """Whether the column is masked on another scale than its own: by logarithms or scores."""
        return self.offset is not None or self.scored is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the scale that is masked."""
        if self.offset is None:
            return self.grid.low, self.grid.high
        return float(np.log(self.grid.low + self.offset)), float(np.log(self.grid.high + self.offset))

    def encode(
        self, cells: FloatArray, filled: FloatArray, out: FloatArray, stratum: IntArray, rng: np.random.Generator | None
    ) -> None:
        """Write the block's features; what is missing in `filled` is the mean; without `rng` ties have one score."""
        values = filled[:, self.position]
        if self.scored is not None:
            scaled = self.scored.scores(values, cells, stratum, rng)
        elif self.offset is not None:  # logarithms; of what is below the bound, the bound's
            scaled = (np.log(np.maximum(values, self.grid.low) + self.offset) - self.mean) / self.sd
        else:
            scaled = (values - self.mean) / self.sd
        out[:, self.start] = np.where(np.isnan(scaled), 0.0, scaled)
        if self.nullable:
            out[:, self.start + 1] = np.where(np.isnan(cells[:, self.position]), 1.0, -1.0)

    def distance_weights(self, scale: Scale) -> FloatArray:
        """Multipliers: by variance, value (nulls at the mean) and indicator together weigh as one number.

        By range, a difference counts in parts of the column's range, a null against a number 1 more.
        """
        there = (1.0 - self.null_share) or 1.0  # all may be null where all categories are rare: nothing differs then
        weights = [1.0, 0.25 / there] if scale == "z_score" else [(self.sd / self._span) ** 2, 0.25]
        return np.array(weights)[: self.width]

    @property
    def _span(self) -> float:
        span = self.bounds[1] - self.bounds[0]
        if not np.isfinite(span):
            raise ValueError(f"column {self.name!r} has no bounds; distances in parts of the range need them declared")
        return max(span, np.finfo(float).tiny)

    def decode(
        self, features: FloatArray, cells: FloatArray, groups: Groups, rng: np.random.Generator, how: Decoding
    ) -> FloatArray:
        """Values of the block's column, NaN for nulls, whose counts are calibrated."""
        # A calibrated ordinal keeps its categories' counts in each group: the group's own values are handed out in the
        # order of the synthetic ones, or by `histogram` at random.
        values = self.mean + self.sd * features[:, self.start]
        if self.nullable:
            was_null = np.isnan(cells[:, self.position]).astype(np.int64)
            values[groups.calibrate(features[:, self.start + 1 : self.stop], was_null) == 1] = np.nan
        if self.ordinal and how == "histogram":
            return _histogram_codes(cells[:, self.position], groups, rng)
        if self.ordinal and how == "calibrated" and not groups.identical:
            return restore_by_rank(values, cells[:, self.position], groups.order, groups.starts)
        if not groups.identical:
            values = keep_group_sums(values, groups.order, groups.starts, *self.bounds)
        return self.grid.round(self.in_unit(values))

    def in_unit(self, values: FloatArray) -> FloatArray:
        """Values on the scale that is masked in the column's unit."""
        if self.offset is None:
            return values
        low, high = self.bounds
        return np.asarray(np.exp(np.clip(values, low, min(high, _LARGEST_LOGARITHM))) - self.offset)


@dataclass(frozen=True, eq=False)
class CategoryBlock(FeatureBlock):
    """A column carried as dummies of its categories."""

    weight: float  # As in `NumberBlock`
    codes: IntArray  # The codes that occur, one a category, shape (q,)
    shares: FloatArray  # Share of each of them

    def encode(self, cells: FloatArray, out: FloatArray) -> None:
        """Write the block's features."""
        at = self._index(cells)
        if self.width == 1:
            out[:, self.start] = np.where(at == 1, 1.0, -1.0)
        elif self.width:
            out[:, self.start : self.stop] = -1.0
            out[np.arange(len(out)), self.start + at] = 1.0

    def count(self, cells: FloatArray) -> IntArray:
        """Records of each category, shape (q,)."""
        return np.bincount(self._index(cells), minlength=len(self.codes))

    def _index(self, cells: FloatArray) -> IntArray:
        codes = cells[:, self.position].astype(np.int64)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        if (self.codes[at] != codes).any():
            raise ValueError(f"the cells of column {self.name!r} hold codes that the encoder was not fitted to")
        return at

    def distance_weights(self, scale: Scale) -> FloatArray:
        """Multipliers: by variance all dummies weigh as one number; by range unequal categories differ by 1."""
        if scale == "range":
            return np.full(self.width, 0.25 if self.width == 1 else 0.125)
        variances = 4.0 * self.shares * (1.0 - self.shares)
        return np.full(self.width, 1.0 / variances[: self.width].sum()) if self.width else np.empty(0)

    def decode(
        self, features: FloatArray, cells: FloatArray, groups: Groups, rng: np.random.Generator, how: Decoding
    ) -> FloatArray:
        """Codes of the block's column."""
        if how == "histogram":
            return _histogram_codes(cells[:, self.position], groups, rng)
        if not self.width:
            return np.full(len(features), float(self.codes[0]))
        dummies = features[:, self.start : self.stop]
        if how == "calibrated":
            chosen = groups.calibrate(dummies, self._index(cells))
        else:
            chances = probabilities(dummies[groups.first] if groups.identical else dummies)
            chosen = chances.argmax(axis=1) if how == "most_probable" else sampled(chances, rng)
            chosen = groups.spread(chosen) if groups.identical else chosen
        return self.codes[chosen].astype(np.float64)


@dataclass(frozen=True, eq=False)
class FeatureEncoder:
    """How the columns whose values are replaced become features and features cells."""

    numbers: tuple[NumberBlock, ...]  # Each column with its place among cells and features
    categories: tuple[CategoryBlock, ...]  # Likewise
    width: int  # Number of feature columns
    scores: Scores | None = None  # The columns that are carried by normal scores; None for none

    @classmethod
    def fit(cls, cells: ColumnEncoder, scan: Scan, scores: Scores | None = None) -> FeatureEncoder:
        """The encoder of a scanned input, some columns of which may be carried by normal scores."""
        numbers: list[NumberBlock] = []
        categories: list[CategoryBlock] = []
        start, by_scores = 0, {} if scores is None else scores.by_position()
        for position, (name, column) in enumerate(zip(cells.names, cells.columns, strict=True)):
            if not column.encoded:
                continue
            scanned = scan.columns[name]
            stop = start + feature_width(column, scanned)
            if name not in cells.categories or column.kind is Kind.ORDINAL:
                mean, sd, grid = scanned.mean, scanned.sd or 1.0, cells.grid(position)
                if position in by_scores:
                    mean, sd, grid = 0.0, 1.0, Grid(None, -np.inf, np.inf)
                elif column.offset is not None:
                    mean, sd = scanned.log_mean, scanned.log_sd or 1.0
                block = NumberBlock(
                    name, position, start, stop, mean, sd, scanned.nulls / max(1, scanned.rows), column.weight, grid,
                    column.kind is Kind.ORDINAL, column.offset, by_scores.get(position),
                )  # fmt: skip
                numbers.append(block)
            else:
                counts = scanned.code_counts[scanned.occupied]
                shares = counts / max(1, counts.sum())
                categories.append(CategoryBlock(name, position, start, stop, column.weight, scanned.occupied, shares))
            start = stop
        return cls(tuple(numbers), tuple(categories), start, scores)

    @property
    def on_scores(self) -> FeatureEncoder:
        """The same for cells that hold the scores themselves, as decoding makes them first."""
        return replace(self, numbers=tuple(replace(each, scored=None) for each in self.numbers), scores=None)

    @property
    def numeric_positions(self) -> tuple[int, ...]:
        """Where the columns carried as z-scores stand among the cells: those that may need filling."""
        return tuple(block.position for block in self.numbers)

    @property
    def number_columns(self) -> tuple[tuple[int, int | None], ...]:
        """Of each number its feature column, and the one that is 1 where it is missing; None where it never is."""
        return tuple((each.start, each.start + 1 if each.nullable else None) for each in self.numbers)

    @property
    def category_columns(self) -> tuple[tuple[int, ...], ...]:
        """The feature columns of each category, and of each number's nulls: all that hold -1 and +1 only."""
        nulls = [(block.start + 1,) for block in self.numbers if block.nullable]
        dummies = [tuple(range(block.start, block.stop)) for block in self.categories if block.width]
        return (*nulls, *dummies)

    def encode(
        self,
        cells: FloatArray,
        filled: FloatArray | None = None,
        rng: np.random.Generator | None = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Features of cells, finite, C order; returns (n_rows, width): `out`, where that is given."""
        features = np.empty((len(cells), self.width)) if out is None else out
        stratum = np.zeros(len(cells), dtype=np.int64) if self.scores is None else self.scores.strata.assign(cells)
        for number in self.numbers:
            number.encode(cells, cells if filled is None else filled, features, stratum, rng)
        for block in self.categories:
            block.encode(cells, features)
        return features

    def distance_weights(self, response: tuple[str, float] | None = None, scale: Scale = "z_score") -> FloatArray:
        """Multipliers of squared differences, shape (width,): each column of the table weighs as much as one number.

        `response`: a column and its share of all weight, the others having the rest alike.
        """
        weights = np.empty(self.width)
        blocks: list[NumberBlock | CategoryBlock] = [*self.numbers, *self.categories]
        shares = dict.fromkeys((block.name for block in blocks), 1.0)
        if response is not None:
            name, share = response
            if name not in shares:
                raise ValueError(f"the response {name!r} is not among the columns whose values are replaced")
            shares = dict.fromkeys(shares, (1.0 - share) / max(1, len(blocks) - 1)) | {name: share}
        for block in blocks:
            weights[block.start : block.stop] = block.distance_weights(scale) * block.weight * shares[block.name]
        return weights

    def decode(
        self,
        features: FloatArray,
        cells: FloatArray,
        groups: Groups,
        *,
        rng: np.random.Generator,
        categories: Decoding = "calibrated",
    ) -> FloatArray:
        """Cells of synthetic features; returns (n_rows, n_cells)."""
        if categories not in get_args(Decoding):
            raise ValueError(f"categories is {categories!r}; allowed are {', '.join(get_args(Decoding))}")
        released = cells.copy()
        for number in self.numbers:
            released[:, number.position] = number.decode(features, cells, groups, rng, categories)
        for block in self.categories:
            released[:, block.position] = block.decode(features, cells, groups, rng, categories)
        return released


# --- Values held inside bounds without moving the sums of their groups ------------------------------------------------


@kernel
def _needed_shift(x: FloatArray, low: float, high: float, excess: float) -> float:
    """How far sorted values must fall so that, held inside [low, high], they lose `excess` in sum."""
    # Walks from one change of slope to the next: a value above `high` starts to move when it comes inside, a value at
    # `low` stops. The values inside are always x[bottom:top].
    n = x.shape[0]
    bottom, fall = 0, 0.0
    while bottom < n and x[bottom] <= low:
        bottom += 1
    top = bottom
    while top < n and x[top] <= high:
        top += 1
    while bottom < n:
        until = x[bottom] - low
        if top < n:
            until = min(until, x[top] - high)
        loss = (top - bottom) * (until - fall)
        if loss >= excess:
            return fall + excess / (top - bottom)
        excess -= max(loss, 0.0)
        fall = max(fall, until)
        while top < n and x[top] - high <= fall:
            top += 1
        while bottom < n and x[bottom] - low <= fall:
            bottom += 1
    return fall


@kernel
def _excess(x: FloatArray, low: float, high: float) -> float:
    """By how much holding values inside the bounds raises their sum; 0 also where no values inside have that sum."""
    n = x.shape[0]
    total, clipped = 0.0, 0.0
    for value in x:
        total += value
        clipped += min(max(value, low), high)
    if total < n * low or total > n * high or clipped == total:
        return 0.0
    return clipped - total


@kernel
def _shift(x: FloatArray, low: float, high: float, excess: float) -> float:
    """The shift of sorted values that takes `excess` off their sum once they are held inside."""
    if excess == 0.0:
        return 0.0
    if excess > 0.0:
        return -_needed_shift(x, low, high, excess)
    return float(_needed_shift(-x[::-1], -high, -low, -excess))


@kernel
def variance_inside(x: FloatArray, low: float, high: float) -> float:
    """Variance of sorted values, shape (n_rows,), once `keep_group_sums` moved them into the bounds as one group."""
    n, shift = x.shape[0], _shift(x, low, high, _excess(x, low, high))
    mean, squares = 0.0, 0.0
    for value in x:
        mean += min(max(value + shift, low), high)
    mean /= n
    for value in x:
        squares += (min(max(value + shift, low), high) - mean) ** 2
    return float(squares / n)


@kernel
def keep_group_sums(values: FloatArray, order: IntArray, starts: IntArray, low: float, high: float) -> FloatArray:
    """Move values into [low, high] by the least squares that keep the sum of every group; values (n_rows,)."""
    out = values.copy()
    x = np.empty(values.shape[0])
    for g in range(starts.shape[0] - 1):
        n, outside = 0, False
        for row in order[starts[g] : starts[g + 1]]:
            if not np.isnan(values[row]):
                x[n] = values[row]
                n += 1
                outside = outside or values[row] < low or values[row] > high
        if not outside:
            continue
        shift = _shift(x[ascending(x[:n])], low, high, _excess(x[:n], low, high))
        for row in order[starts[g] : starts[g + 1]]:
            if not np.isnan(values[row]):
                out[row] = min(max(values[row] + shift, low), high)
    return out


# --- Unchanged columns as numbers next to the features, on which masks condition --------------------------------------


@dataclass(frozen=True, eq=False)
class ConditioningEncoder:
    """How unchanged columns become numbers; there is no way back, as they are released as they are.

    A number, date or ordinal is one z-score; nulls stand at the mean, with one more column of -1 and +1. A category
    has dummies of -1 and +1, one fewer than categories (nulls are one).
    """

    positions: tuple[int, ...]  # Where the columns stand among the cells
    tables: tuple[FloatArray, ...]  # Of each column, the numbers of each of its codes, shape (n_codes, its width)

    @classmethod
    def fit(cls, cells: ColumnEncoder, scan: Scan, names: Sequence[str]) -> ConditioningEncoder:
        """The encoder of some unchanged columns."""
        positions = tuple(cells.names.index(name) for name in names)
        tables = tuple(_table(cells, scan, at) for at in positions)
        width = sum(table.shape[1] for table in tables)
        if width > MOST_DUMMIES:
            raise InputError(
                f"the conditioning variables {', '.join(map(repr, names))} make {width} columns of numbers, more than "
                f"{MOST_DUMMIES}; coarsen or drop those with most categories"
            )
        return cls(positions, tables)

    @property
    def width(self) -> int:
        """Columns of numbers."""
        return sum(table.shape[1] for table in self.tables)

    def encode(self, cells: FloatArray) -> FloatArray:
        """The numbers of cells of shape (n_rows, n_cells), shape (n_rows, width)."""
        parts = [table[cells[:, at].astype(np.int64)] for at, table in zip(self.positions, self.tables, strict=True)]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(cells), 0))


def _table(cells: ColumnEncoder, scan: Scan, position: int) -> FloatArray:
    """The numbers of each code of a column, nulls last if there are any."""
    name, kind = cells.names[position], cells.columns[position].kind
    counts = _counts(cells, scan, name)
    if kind.coded and kind is not Kind.ORDINAL:
        occupied = np.flatnonzero(counts)
        table = np.full((len(counts), max(0, len(occupied) - 1)), -1.0)
        table[occupied[1:], np.arange(len(occupied) - 1)] = 1.0
        return table
    categories = cells.categories[name]
    known = len(categories)
    values = np.arange(known, dtype=np.float64) if kind is Kind.ORDINAL else numbers(categories)
    weights = counts[:known] / max(1.0, counts[:known].sum())
    mean = float(weights @ values)
    spread = float(np.sqrt(weights @ (values - mean) ** 2))
    table = np.zeros((len(counts), 1 + (len(counts) > known)))
    table[:known, 0] = (values - mean) / (spread or 1.0)
    table[:, 1:] = np.where(np.arange(len(counts)) < known, -1.0, 1.0)[:, None]
    return table


def _counts(cells: ColumnEncoder, scan: Scan, name: str) -> FloatArray:
    """Records of each code of a column, nulls last if there are any; zeros where codes are left out."""
    counts = np.zeros(cells.code_count(name))
    counted = scan.code_counts(name)
    counts[: len(counted)] = counted
    return counts


# --- The classes of records: codes of the columns with role sensitive, apart or as one compound -----------------------

MOST_CLASSES = 10_000  # Most combinations that a compound of several class columns may have


@dataclass(frozen=True, eq=False)
class ClassColumn:
    """One column with role sensitive."""

    name: str  # The column
    position: int  # Where it stands among the cells
    shares: FloatArray  # Of each of its codes in the whole table, nulls being the last, shape (n_classes,)

    def codes(self, cells: FloatArray) -> IntArray:
        """Class of each record, shape (n_rows,)."""
        return cells[:, self.position].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Compound:
    """Several class columns as one: each combination that occurs is a class."""

    columns: tuple[ClassColumn, ...]  # The columns
    combinations: IntArray  # Mixed radix numbers of the combinations that occur, ascending
    shares: FloatArray  # Share of each in the whole table

    def codes(self, cells: FloatArray) -> IntArray:
        """Class of each record, shape (n_rows,)."""
        index = np.zeros(len(cells), dtype=np.int64)
        for column in self.columns:
            index = index * len(column.shares) + column.codes(cells)
        return np.searchsorted(self.combinations, index).astype(np.int64)


def class_columns(encoder: ColumnEncoder, scan: Scan, names: Sequence[str]) -> tuple[ClassColumn, ...]:
    """The named columns with the shares of their classes."""
    found = []
    for name in names:
        counts = _counts(encoder, scan, name)
        found.append(ClassColumn(name, encoder.names.index(name), counts / max(1.0, counts.sum())))
    return tuple(found)


def compound_of(encoder: ColumnEncoder, scan: Scan, columns: tuple[ClassColumn, ...]) -> Compound:
    """The compound of the columns, whose combinations the scan has counted."""
    names = [column.name for column in columns]
    possible = math.prod(len(column.shares) for column in columns)
    if possible > MOST_CLASSES:
        raise InputError(
            f"columns {', '.join(map(repr, names))} make {possible:,} possible compound classes, more than "
            f"{MOST_CLASSES:,}; coarsen them, or give some of them another role"
        )
    counts = scan.combination_counts(encoder, names)
    occurring = np.flatnonzero(counts)
    return Compound(columns, occurring, counts[occurring] / counts.sum())
