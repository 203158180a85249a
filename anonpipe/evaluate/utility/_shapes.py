"""What chance makes of differences of two tables: the same differences between random halves of the original.

Let D be a difference of two samples of a and b records of one population: the largest difference of two distribution
functions, half the sum of the differences of shares, the difference of two correlations or survival curves. Each is a
norm of the difference of two empirical measures (or of a smooth function of them), so that D / sqrt(1/a + 1/b) has the
same limiting distribution whatever a and b are (van der Vaart & Wellner 1996, section 3.7; for the distribution
functions Smirnov 1948). Of two halves of n records, drawn without replacement, F1 - F2 = 2 (F1 - F) has the variance
p(1 - p) · 4 / (n - 1), that of independent samples of n / 2 and n / 2 but for n / (n - 1). A difference between halves
of h1 and h2 records is therefore scaled to the tables compared by

    sqrt((1/a + 1/b) / (1/h1 + 1/h2))

The law is one for large counts: rare categories are counted as one (`pooled`). A release that is another sample of the
population is as far from the original as that. One that is made from the original itself has its own draws only, half
of that variance, and one that keeps distributions exactly has none.

One figure for many differences. Each is divided by its own root mean square over the splits; the largest quotient T is
what is judged. Over the splits (each divided by the root mean square of the others) its square has a mean and a
standard deviation. All these differences have tails like exp(-x²) or lighter ones (normal variables, suprema of
Gaussian processes: Borell's inequality), so that squares have exponential tails, and the largest of several is near
Gumbel's law. The limit of T² is

    mean + sd · sqrt(6) / pi · (-ln(-ln(1 - _CHANCE)) - 0.5772)

and the figure is T over the root of it. Another sample of the population is above 1 once in 1,600 (three correlations)
to 5,000 times (twenty distribution functions), a single difference once in 550; the upper end of its interval once in
400 to 900, and in 220. Of releases with half that variance none in 30,000 is, of a single difference one. (Counted with
the laws of each, 30,000 times; the tests repeat a part.) In tables these laws are mixed: of 300 second samples of 2,000
records the upper end was above 1 of four (columns), one (pairs) and four (survival curves)
(`python -m tests.benchmarks.beside_chance`).

With S splits the limit of T² has the variance sd² / S · (1 + 1.14 c + c²·(5.4 - 1) / 4), c being the factor of sd, 1.14
and 5.4 Gumbel's skewness and kurtosis (delta method), which gives the figure its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.utility._measure import UtilityMeasure
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import BoolArray, FloatArray, IntArray

SPLITS = 99  # Random halvings of the original
MOST_ROWS = 20_000  # Records of either table that differences and splits are counted on
_CHANCE = 1e-4  # Nominal probability that another sample of the same population is beyond the limit
_LEAST_CELL = 5  # Records that a cell of a table of shares has, or is joined with others

_FACTOR = math.sqrt(6) / math.pi * (-math.log(-math.log1p(-_CHANCE)) - float(np.euler_gamma))
_SKEWNESS, _KURTOSIS = 1.1395, 5.4
_Z = 1.959964
_NAMED = 4  # Columns, or pairs, that are named where they are furthest from the original
_LEAST_ROWS = 4  # Records of the original that can be halved
_ROUNDING = 1e-6  # Of correlations, in which computed columns may differ by rounding


@dataclass(frozen=True, eq=False)
class Splits:
    """Random halves of the original."""

    first: BoolArray  # Whether in the first half, shape (SPLITS, n_rows), or (0, n_rows) of fewer than `_LEAST_ROWS`
    scale: float  # From a difference between halves to one between the tables compared

    @classmethod
    def draw(cls, rows: int, released: int, rng: np.random.Generator) -> Splits:
        """Halves of so many original records, for a comparison with so many released ones."""
        if rows < _LEAST_ROWS:
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
    old: IntArray  # Place of each original record; -1 for what is left out
    new: IntArray  # Of each released record, likewise
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
        whole, places = self.counts(self.old), self.old + 1
        differences = np.full(len(first), np.nan)
        for at, half in enumerate(first):
            first_counts = np.bincount(places * half, minlength=self.cells + 1)[1:]  # faster than to take the half
            second_counts = whole - first_counts
            if first_counts.any() and second_counts.any():
                differences[at] = self._apart(first_counts, second_counts)
        return differences

    def counts(self, places: IntArray) -> IntArray:
        """Records at each place, shape (cells,); those that are left out count nowhere."""
        return np.bincount(places + 1, minlength=self.cells + 1)[1:]

    def _apart(self, old: IntArray, new: IntArray) -> float:
        difference = old / old.sum() - new / new.sum()
        return float(np.abs(difference.cumsum()).max() if self.ordered else np.abs(difference).sum() / 2)

    def pooled(self, least: int) -> Places:
        """Cells of fewer original records than that as one."""
        kept = self.counts(self.old) >= least
        places = np.append(np.where(kept, kept.cumsum() - 1, kept.sum()), -1)  # the last for what is left out
        old, new = places[self.old], places[self.new]
        return Places(self.name, old, new, int(kept.sum()) + 1, self.ordered)


@dataclass(frozen=True, eq=False)
class SplitHalfRatio:
    """Differences of a release as multiples of those between halves of its original."""

    # value, interval: the largest quotient as a multiple of its limit, and the 95 % interval that the number of splits
    # leaves; NaN and None where there are no differences
    value: float
    interval: tuple[float, float] | tuple[None, None]
    usual: float  # Its median over the splits
    worst: int  # Which difference is the largest; -1 for none
    each: FloatArray  # Of every difference its multiple, NaN where it is not defined
    chance: FloatArray  # Root mean square of every difference over the splits, inflated to the tables compared


def split_half_ratio(differences: FloatArray, splits: FloatArray, scale: float) -> SplitHalfRatio:
    """Hold differences (n,) against those between halves (n_splits, n)."""
    defined = np.isfinite(splits)
    count = defined.sum(axis=0)
    squares = np.where(defined, (scale * np.nan_to_num(splits)) ** 2, 0.0)
    total = squares.sum(axis=0)
    chance = np.sqrt(total / np.maximum(count, 1))
    used = ~np.isnan(differences) & (count > 0) & (2 * count >= len(splits))
    ratios = np.full(len(differences), np.nan)
    if not used.any():
        return SplitHalfRatio(math.nan, (None, None), math.nan, -1, ratios, chance)
    others = np.sqrt(np.maximum(total - squares, 0.0) / np.maximum(count - 1, 1))
    largest = _quotients(np.sqrt(squares), np.where(others > 0, others, chance))[:, used].max(axis=1)
    middle, spread = float((largest**2).mean()), float((largest**2).std(ddof=1))
    limit = middle + _FACTOR * spread or 1.0  # where no two halves differ in anything, a release may not either
    ratios[used] = _quotients(differences, chance)[used] / math.sqrt(limit)
    worst = int(np.nanargmax(ratios))
    value = float(ratios[worst])
    error = spread * math.sqrt((1 + _FACTOR * _SKEWNESS + _FACTOR**2 * (_KURTOSIS - 1) / 4) / len(splits))
    reach = _Z * error / limit
    usual = float(np.median(largest)) / math.sqrt(limit)
    high = value / math.sqrt(1 - reach) if reach < 1 else math.inf
    interval = (value / math.sqrt(1 + reach), high) if math.isfinite(high) else (None, None)
    return SplitHalfRatio(value, interval, usual, worst, ratios, chance)


def _similarity(
    figure: Figure,
    differences: FloatArray,
    chance: FloatArray,
    splits: Splits,
    *,
    records: int,
    columns: int,
    note: str = "",
) -> Measurement:
    """One less the mean of differences, as sdmetrics has it, and that of another sample of the population."""
    defined = np.isfinite(differences)
    return figure.measured(
        float(1 - differences[defined].mean()) if defined.any() else math.nan,
        records,
        baseline=float(1 - chance[defined].mean()) if defined.any() and len(splits.first) else None,
        note=note or figure.note if defined.any() else f"Not defined: {figure.undefined}.",
        columns=columns,
    )


def ratio_measured(
    figure: Figure, ratio: SplitHalfRatio, names: Sequence[tuple[str, ...]], records: int, undefined: str | None = None
) -> Measurement:
    """The largest ratio as a figure, of which up to 1 is what chance makes; `names` are the columns of each."""
    defined = int(np.isfinite(ratio.each).sum() + np.isinf(ratio.each).sum())
    note = f"Not defined: {undefined or figure.undefined}."
    if defined:
        note = (
            "Another sample of the same population is above 1 about once in a hundred times; from "
            f"{SPLITS} random halvings of the original, inflated to the sizes compared; largest of {defined}."
        )
    if math.isinf(ratio.value):
        note = f"Not defined: no two halves of the original differ there, and the release does. {note}"
    return figure.measured(
        ratio.value,
        records,
        interval=ratio.interval,
        baseline=ratio.usual if defined else None,
        note=f"{note} {figure.note}".strip(),
        columns=len(set().union(*names)) if names else 0,
        worst=names[ratio.worst] if ratio.worst >= 0 and ratio.value > 0 else (),
        then=tuple(names[at] for at in np.argsort(-ratio.each, kind="stable")[1:_NAMED] if ratio.each[at] > 1),
    )


def ratio_figure(key: str, title: str, *, note: str = "", undefined: str = "") -> Figure:
    """The words of a largest ratio to what chance makes."""
    return Figure(
        key,
        f"{title}, in split-half units",
        "",
        "van der Vaart & Wellner (1996), Weak Convergence and Empirical Processes, section 3.7",
        Audience.SEVERAL,
        baseline_is="two random halves of the original, the median of all halvings",
        note=note,
        undefined=undefined,
    )


def _quotients(differences: FloatArray, chance: FloatArray) -> FloatArray:
    """Differences in units of chance: 0 for none, infinite where chance makes none."""
    quotients = np.where(differences > 0, np.inf, 0.0)
    np.divide(differences, chance, out=quotients, where=np.broadcast_to(chance > 0, quotients.shape))
    return quotients


# --- Whether each column has the distribution of the original, held against two random halves of it -------------------

_NO_VALUES = "there is no column with values, or there are fewer than 4 records"

_SIMILAR_COLUMNS = Figure(
    "shapes.similarity",
    "Similarity of the columns' distributions (1 less Kolmogorov-Smirnov distance or total variation)", "share",
    "sdmetrics, Column Shapes: mean of KSComplement and TVComplement", Audience.SEVERAL, better="higher",
    baseline_is="another sample of the population, from halves of the original",
    note="Mean over columns; nulls are left out.", undefined=_NO_VALUES,
)  # fmt: skip
_WORST_COLUMN = ratio_figure(
    "column_shapes", "Distribution of a column, furthest from the original", undefined=_NO_VALUES
)


def _column_shapes(tables: TypedTables, rng: np.random.Generator) -> list[Measurement]:
    """Similarity of the columns as sdmetrics has it, and the column furthest from the original relative to chance."""
    # Kolmogorov-Smirnov distance of numbers and dates, total variation of categories, nulls left out; on at most 20,000
    # records of either table. For the ratio to chance, categories of fewer than k original records count as one.
    part = tables.sample(MOST_ROWS, rng)
    columns = [places_of(column) for column in part.columns]
    differences = np.array([column.distance() for column in columns])
    pooled = [column if column.ordered else column.pooled(max(part.least, _LEAST_CELL)) for column in columns]
    splits = Splits.draw(part.rows, part.released, rng)
    ratio = split_half_ratio(
        np.array([column.distance() for column in pooled]),
        np.column_stack([column.between_halves(splits.first) for column in pooled]),
        splits.scale,
    )
    records, width = min(part.rows, part.released), int(np.isfinite(differences).sum())
    return [
        _similarity(_SIMILAR_COLUMNS, differences, ratio.chance, splits, records=records, columns=width),
        ratio_measured(_WORST_COLUMN, ratio, [(column.name,) for column in columns], records),
    ]


def places_of(column: BothColumns) -> Places:
    """A column of both tables as places: of numbers in the order of their values."""
    if column.kind.coded:
        old, new = (np.where(np.isnan(side), -1.0, side).astype(np.int64) for side in (column.old, column.new))
        return Places(column.name, old, new, len(column.levels), False)
    both = np.concatenate([column.old, column.new])
    values = np.unique(both[~np.isnan(both)])
    places = np.where(np.isnan(both), -1, np.searchsorted(values, both))
    return Places(column.name, places[: len(column.old)], places[len(column.old) :], len(values), True)


COLUMN_SHAPES = UtilityMeasure((_SIMILAR_COLUMNS, _WORST_COLUMN), _column_shapes, draws=True)


# --- Whether each pair of columns goes together as in the original, held against two random halves of it --------------

_BINS = 10  # Of equal width, into which a number is cut where it is crossed with a category: as sdmetrics does
MOST_TABLES = 200  # Cross tables that are counted; of more columns a keyed choice
_NO_PAIR = "there are not two columns that vary, or there are fewer than 4 records"

_SIMILAR_PAIRS = replace(
    _SIMILAR_COLUMNS, key="pairs.similarity", title="Similarity of pairs of columns (correlations, cross tables)",
    source="sdmetrics, Column Pair Trends: mean of CorrelationSimilarity and ContingencySimilarity", note="",
    undefined=_NO_PAIR,
)  # fmt: skip
_WORST_PAIR = ratio_figure(
    "pair_shapes",
    "Association of two columns, furthest from the original",
    note="Correlations of places in the original's order, and cross tables with numbers in ten bins.",
    undefined=_NO_PAIR,
)


def _pair_shapes(tables: TypedTables, rng: np.random.Generator) -> list[Measurement]:
    """Similarity of the pairs as sdmetrics has it, and the pair furthest from the original relative to chance."""
    # Two numbers: 1 - |difference of their correlations| / 2. Others: 1 less the total variation of their cross tables,
    # a number in ten bins of equal width, nulls a category of their own. On at most 20,000 records of either table and
    # 200 cross tables. For the ratio to chance, cells of fewer than k original records count as one, and a number is
    # its place among the original's (`grades`): of a column with long tails the ordinary correlation has no law that
    # two halves would show, as a few records make it up, and the gate on covariances holds it.
    part = tables.sample(MOST_ROWS, rng)
    crossed = [pair for pair in combinations(part.columns, 2) if any(column.kind.coded for column in pair)]
    if len(crossed) > MOST_TABLES:
        crossed = [crossed[at] for at in np.sort(rng.permutation(len(crossed))[:MOST_TABLES])]
    splits = Splits.draw(part.rows, part.released, rng)
    plain, plain_halves = _of_pairs(*part.number_arrays(), splits)
    graded, graded_halves = _of_pairs(*grades(part), splits)
    cells = [_cells(left, right) for left, right in crossed]
    pooled = [table.pooled(max(part.least, _LEAST_CELL)) for table in cells]
    differences = np.concatenate([plain / 2, [table.distance() for table in cells]])
    halves = [graded_halves, *(table.between_halves(splits.first)[:, None] for table in pooled)]
    ratio = split_half_ratio(
        np.concatenate([graded, [table.distance() for table in pooled]]), np.concatenate(halves, axis=1), splits.scale
    )
    chance = ratio.chance.copy()
    chance[: len(plain)] = split_half_ratio(plain, plain_halves, splits.scale).chance / 2
    names = [(left.name, right.name) for left, right in [*combinations(part.numbers, 2), *crossed]]
    records = min(part.rows, part.released)
    note, width = f"Mean over {int(np.isfinite(differences).sum())} pairs.", len(part.columns)
    return [
        _similarity(_SIMILAR_PAIRS, differences, chance, splits, records=records, columns=width, note=note),
        ratio_measured(_WORST_PAIR, ratio, names, records),
    ]


def _of_pairs(old: FloatArray, new: FloatArray, splits: Splits) -> tuple[FloatArray, FloatArray]:
    """`correlations_apart` of each two columns, shapes (n_pairs,) and (n_splits, n_pairs)."""
    rows, columns = np.triu_indices(old.shape[1], 1)
    differences, halves = correlations_apart(old, new, splits)
    return differences[rows, columns], halves[:, rows, columns]


def grades(tables: TypedTables) -> tuple[FloatArray, FloatArray]:
    """Of each number the share of the original's values below it, equal ones counting half; NaN for nulls."""
    # One bounded function for both tables and all halves: correlations have the law above whatever the tails.
    sides: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for places in map(places_of, tables.numbers):
        counts = places.counts(places.old)
        share = np.append((counts.cumsum() - counts / 2) / max(1, counts.sum()), np.nan)  # the last for nulls
        for side, at in zip(sides, (places.old, places.new), strict=True):
            side.append(share[at])
    rows = tables.rows, tables.released
    old, new = (np.column_stack([np.empty((n, 0)), *side]) for n, side in zip(rows, sides, strict=True))
    return old, new


def _cells(left: BothColumns, right: BothColumns) -> Places:
    """The cross table of two columns, cells that neither table has left out."""
    (first, _), (second, wide) = _codes(left), _codes(right)
    cells = first * wide + second
    used, places = np.unique(cells, return_inverse=True)
    places = places.reshape(-1).astype(np.int64)
    name = f"{left.name} x {right.name}"
    return Places(name, places[: len(left.old)], places[len(left.old) :], len(used), False)


def _codes(column: BothColumns) -> tuple[IntArray, int]:
    """A column of both tables one below the other as codes from 0 on, nulls the last, and how many there are."""
    both, size = np.concatenate([column.old, column.new]), len(column.levels)
    if not column.kind.coded:
        values, size = column.known[0], _BINS
        varies = len(values) > 0 and values.min() < values.max()
        edges = np.histogram_bin_edges(values, _BINS)[1:-1] if varies else np.empty(0)
        # digitize: a value at an edge is in the upper bin, as there
        both = np.where(np.isnan(both), np.nan, np.digitize(both, edges))
    return np.where(np.isnan(both), size, both).astype(np.int64), size + 1


def correlations_apart(old: FloatArray, new: FloatArray, splits: Splits) -> tuple[FloatArray, FloatArray]:
    """Differences of correlations over the records in which neither of a pair is null."""
    width = old.shape[1]
    with np.errstate(invalid="ignore"):
        middle = np.array([np.nanmean(side) if (~np.isnan(side)).any() else 0.0 for side in old.T])
        unit = np.array([np.nanmax(np.abs(side)) if (~np.isnan(side)).any() else 1.0 for side in (old - middle).T])
    sides = [(side - middle) / np.where(unit > 0, unit, 1.0) for side in (old, new)]
    whole, other = (_sums(side, np.ones(len(side), dtype=np.bool_)) for side in sides)
    before, after = _correlation(whole), _correlation(other)
    differences = np.abs(after - before)
    differences[differences < _ROUNDING] = 0.0  # of a column that a rule computes from another, chance has less
    differences[np.isnan(after) & ~np.isnan(before)] = np.inf
    halves = np.empty((len(splits.first), width, width))
    for at, half in enumerate(splits.first):
        sums = _sums(sides[0], half)
        halves[at] = np.abs(_correlation(sums) - _correlation(whole - sums))
    return differences, halves


def _sums(values: FloatArray, rows: BoolArray) -> FloatArray:
    """Of each two columns, where both are known: records, sums, squares and products, shape (4, width, width)."""
    part = values[rows]
    defined = ~np.isnan(part)
    filled, here = np.where(defined, part, 0.0), defined.astype(np.float64)
    return np.stack([here.T @ here, filled.T @ here, (filled**2).T @ here, filled.T @ filled])


def _correlation(sums: FloatArray) -> FloatArray:
    """Correlations from such sums; NaN for fewer than two records, or a column that is constant in them."""
    count, total, squares, products = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = squares - total**2 / count
        spread = np.where(spread > 1e-12 * np.maximum(squares, 1e-300), spread, np.nan)
        shared = products - total * total.T / count
        return np.asarray(np.clip(shared / np.sqrt(spread * spread.T), -1.0, 1.0))


PAIR_SHAPES = UtilityMeasure((_SIMILAR_PAIRS, _WORST_PAIR), _pair_shapes, draws=True)
