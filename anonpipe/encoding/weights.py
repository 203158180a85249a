"""Survey weights: drawn by categories or as the mask carries them, and calibrated to their sums.

A part of the table counts rows and weights by *cell*, a combination of the columns that matter to the weight. Merged,
these counts give one factor for each cell, so that the released weights add up to the original ones in every stratum
and in every category of the columns of `calibrate`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from anonpipe.columns import Role
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.values import Grid
from anonpipe.errors import InputError
from anonpipe.kernels.points import places
from anonpipe.partition.strata import Strata
from anonpipe.types import BoolArray, FloatArray, IntArray

CLOSE = 1e-6  # Sums count as met at this relative distance
RATIO = (0.2, 5.0)  # Bounds of calibrated over uncalibrated weights (Deville & Särndal 1992, their case 6)
LARGEST_SHARE = 0.5  # Of a sum; were one record's weight more, the sum would disclose it: a dominance rule (1, 50 %)
_ROUNDS = 500
_BINS = 64  # Of a doubling of the weight: bins tell which weights reach the ends of the range
_BITS = 29  # Of a weight that are counted
_SAME = 1e-6  # Parts of a step by which rounded weights may be off it

# Tables whose weights are counted; the input with its rare categories, where some of `calibrate` are suppressed
ORIGINAL, RELEASED, HELD_OUT, INPUT = range(4)


@dataclass(frozen=True, eq=False)
class WeightCounts:
    """Rows and weights by cell, mergeable."""

    table: IntArray  # Which table: `ORIGINAL`, `RELEASED`, `HELD_OUT` or `INPUT`, shape (n,)
    cell: IntArray  # The cell, shape (n,)
    bin: IntArray  # Place of the weight on a logarithmic scale; 0 of a released weight that is not known yet
    rows: FloatArray
    sums: FloatArray  # Of weights
    low: FloatArray  # Smallest weight
    high: FloatArray  # Largest weight

    @classmethod
    def of(cls, table: int, cell: IntArray, weights: FloatArray, *, binned: bool = True) -> WeightCounts:
        """Count rows; cell and weights (n_rows,)."""
        bins = np.floor(np.log2(weights) * _BINS).astype(np.int64) if binned else np.zeros(len(cell), dtype=np.int64)
        ones, power = np.ones(len(cell)), _BITS - bins // _BINS
        # On a grid inside the bin: so 2^23 of them add up without rounding, in any order of rows and parts
        exact = np.ldexp(np.rint(np.ldexp(weights, power)), -power) if binned else weights
        return cls(np.full(len(cell), table), cell, bins, ones, exact, weights, weights)._summed()

    def merge(self, other: WeightCounts) -> WeightCounts:
        """Both parts together."""
        both = [np.concatenate([mine, theirs]) for mine, theirs in zip(self._arrays, other._arrays, strict=True)]
        return WeightCounts(*both)._summed()

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return (self.table, self.cell, self.bin, self.rows, self.sums, self.low, self.high)

    def _summed(self) -> WeightCounts:
        if not len(self.cell):
            return self
        order = np.lexsort((self.bin, self.cell, self.table))
        table, cell, bins, rows, sums, low, high = (each[order] for each in self._arrays)
        new = (np.diff(table, prepend=-1) != 0) | (np.diff(cell, prepend=-1) != 0)
        at = np.flatnonzero(new | (np.diff(bins, prepend=bins[0]) != 0))
        added = np.add.reduceat(rows, at), np.add.reduceat(sums, at)
        ends = np.minimum.reduceat(low, at), np.maximum.reduceat(high, at)
        return WeightCounts(table[at], cell[at], bins[at], *added, *ends)

    def only(self, table: int) -> WeightCounts:
        """Those of one table, of which nothing more is merged: bins of one weight have its sum as it is."""
        found = WeightCounts(*(each[self.table == table] for each in self._arrays))
        return replace(found, sums=np.where(found.low == found.high, found.rows * found.low, found.sums))


@dataclass(frozen=True, eq=False)
class Pieces:
    """The weights that records are given by kind: by combination of the columns that weights depend on."""

    starts: IntArray  # Where the pieces of each kind begin, and where the last ends, shape (n_kinds + 1,)
    values: FloatArray  # Of each piece, ascending inside a kind
    upto: FloatArray  # Share of the records of the kind that have this value or a smaller one

    def expected(self, kinds: IntArray, rows: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Of cells of these kinds and rows: the cell of each weight, the weight, and the rows that it is drawn for."""
        first = np.isin(np.arange(len(self.values)), self.starts)
        shares = self.upto - np.where(first, 0.0, np.append(0.0, self.upto[:-1]))
        counts = np.diff(self.starts)[kinds]
        cell, within = places(counts)
        at = self.starts[kinds][cell] + within
        return cell, self.values[at], rows[cell] * shares[at]

    def draw(self, cell: IntArray, kinds: IntArray, rng: np.random.Generator | None) -> FloatArray:
        """A weight for each record, in the shares of its kind; without `rng` the middle one. Shapes (n_rows,)."""
        place = np.full(len(kinds), 0.5)
        if rng is not None:  # one place in each of n equal parts of a cell
            order = np.lexsort((rng.random(len(kinds)), cell))
            first = np.flatnonzero(np.diff(cell[order], prepend=-1))
            n = np.diff(np.append(first, len(kinds)))
            place[order] = (np.arange(len(kinds)) - np.repeat(first, n) + rng.random(len(kinds))) / np.repeat(n, n)
        key = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)) + np.minimum(self.upto, 1.0 - _TINY)
        at = np.searchsorted(key, kinds + np.minimum(place, 1.0 - 2 * _TINY))
        return np.asarray(self.values[np.clip(at, self.starts[kinds], self.starts[kinds + 1] - 1)])


@dataclass(frozen=True, eq=False)
class Factors:
    """What turns carried or drawn weights into released ones, by cell."""

    cells: IntArray  # Cells that the released table has, ascending
    kinds: IntArray  # The kind of each; 0 of carried weights
    pieces: Pieces | None  # None for a carried weight
    factor: FloatArray  # What drawn or carried weights of each cell are multiplied by
    low: float  # Released weights are no smaller and no larger
    high: float
    # Margins: the number of each cell's margins, (n_cells, n_margin_kinds); and the original sum of each
    margins: IntArray
    targets: FloatArray


@dataclass(frozen=True, eq=False)
class SamplingWeight:
    """The survey weight of a job: where it is, what decides it and what it adds up to."""

    name: str
    position: int
    # Positions of the columns that make the cells, their numbers of codes (nulls being the last), and the values of 0
    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    least_values: tuple[float, ...]
    by: tuple[int, ...]  # Places among these of the columns that the weight depends on; empty for a carried one
    calibrate: tuple[int, ...]  # Places among these of the columns of `calibrate`
    names: tuple[str, ...]  # Of all these columns
    strata: Strata
    grid: Grid
    least: int  # Rows that hold k persons or other units

    @classmethod
    def fit(cls, cells: ColumnEncoder, strata: Strata, least: int) -> SamplingWeight | None:
        """The weight of an encoded table; None where no column has this role."""
        at = next((at for at, column in enumerate(cells.columns) if column.role is Role.SAMPLING_WEIGHT), None)
        if at is None:
            return None
        column = cells.columns[at]
        of_strata = [cells.names[position] for position in strata.positions]
        names = tuple(dict.fromkeys((*of_strata, *column.by, *column.calibrate)))
        positions = tuple(cells.names.index(name) for name in names)
        ends = [
            (0.0, len(cells.categories[name]) - 1.0) if name in cells.categories else cells.columns[at].numeric_bounds
            for name, at in zip(names, positions, strict=True)
        ]
        lows = tuple(low or 0.0 for low, _ in ends)
        sizes = tuple(int((high or 0.0) - low) + 2 for low, (_, high) in zip(lows, ends, strict=True))
        if math.prod(sizes) > 2**62:
            raise InputError(f"columns {', '.join(names)} have too many combinations for weights; take fewer of them")
        drawn_by, calibrated = (tuple(map(names.index, each)) for each in (column.by, column.calibrate))
        own = cells.names[at], at
        return cls(*own, positions, sizes, lows, drawn_by, calibrated, names, strata, cells.grid(at), least)

    @property
    def meaning(self) -> str:
        """What recipients should know of it."""
        also = [repr(self.names[at]) for at in self.calibrate]
        return (
            f"column {self.name!r} holds survey weights. They add up to those of the whole input, "
            + (f"by {', '.join(also)} as well (rare categories, and those not released, together), " if also else "")
            + "records that were held out included"
            + (f". Given {', '.join(map(repr, self.names))}, they go with no other column" if self.by else "")
        )

    def cell_of(self, cells: FloatArray) -> IntArray:
        """The cell of each record, shape (n_rows,)."""
        index = np.zeros(len(cells), dtype=np.int64)
        for position, size, low in zip(self.positions, self.sizes, self.least_values, strict=True):
            codes = cells[:, position] - low
            index = index * size + np.where(np.isnan(codes), size - 1, codes).astype(np.int64)
        return index

    def count(self, original: FloatArray, released: FloatArray) -> WeightCounts:
        """Count the cells of records before and after; shapes (n_rows, n_columns)."""
        carried = np.ones(len(released)) if self.by else self._positive(released[:, self.position])
        after = WeightCounts.of(RELEASED, self.cell_of(released), carried, binned=not self.by)
        return self.count_table(ORIGINAL, original).merge(after)

    def count_table(self, table: int, cells: FloatArray) -> WeightCounts:
        """Count the cells of records of one table, whose weights are known; cells (n_rows, n_columns)."""
        return WeightCounts.of(table, self.cell_of(cells), cells[:, self.position])

    def put(self, released: FloatArray, factors: Factors, rng: np.random.Generator | None) -> None:
        """Write released weights into rows; without `rng`, for rows that are to be equal, nothing is drawn."""
        at = np.searchsorted(factors.cells, self.cell_of(released))
        if factors.pieces is None:
            base = self._positive(released[:, self.position])
        else:
            base = factors.pieces.draw(at, factors.kinds[at], rng)
        weights = np.clip(base * factors.factor[at], factors.low, factors.high)
        if self.grid.step is not None and rng is not None:
            weights = self._rounded(weights, rng)
        released[:, self.position] = weights

    def _positive(self, weights: FloatArray) -> FloatArray:
        """Carried weights; what a mask without normal scores makes 0 or less counts as the smallest above 0."""
        above = weights[weights > 0.0]
        return np.asarray(np.maximum(weights, above.min() if len(above) else 1.0))

    def _rounded(self, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        """On the steps, up with the probability of the rest: sums are kept but for chance."""
        step, origin = self.grid.step or 1.0, self.grid.origin
        counts = (weights - origin) / step
        whole = np.rint(counts)
        exact = np.abs(counts - whole) < _SAME * np.maximum(1.0, np.abs(counts))
        drawn = np.where(exact, whole, np.floor(counts + rng.random(len(counts))))
        return np.asarray(np.maximum(drawn * step + origin, step))

    def off(self, written: WeightCounts, factors: Factors) -> float:
        """How far sums of written weights are from the original's, the furthest, in standard errors of the sum."""
        # That of a sum of n weights is taken for the root of the sum of their squares.
        at = np.searchsorted(factors.cells, written.cell)
        furthest = 0.0
        for kind in factors.margins.T:
            sums = np.bincount(kind[at], written.sums, len(factors.targets))
            error = np.sqrt(np.bincount(kind[at], np.square(written.sums) / written.rows, len(factors.targets)))
            there = np.isin(np.arange(len(sums)), kind)
            furthest = max(furthest, float((np.abs(sums - factors.targets)[there] / error[there]).max(initial=0.0)))
        return furthest

    # The factors

    def solve(self, counted: WeightCounts) -> Factors:
        """The factors of all cells, by iterative proportional fitting inside `RATIO` and the range of weights."""
        # Where records are held out, all weights and their range are expanded by what those held out stood for.
        kept, after = counted.only(ORIGINAL), counted.only(RELEASED)
        expanded = np.where(counted.table == HELD_OUT, ORIGINAL, counted.table)
        before = replace(counted, table=expanded)._summed().only(ORIGINAL)
        more = float(before.sums.sum() / kept.sums.sum())
        cells, which = np.unique(after.cell, return_inverse=True)
        which, pieces = which.reshape(-1), None
        kinds, carried, rows = np.zeros(len(cells), dtype=np.int64), after.sums / after.rows, after.rows
        low, high = float(after.low.min()), float(after.high.max())
        if self.by:
            kinds, pieces = self._pieces(before, cells)
            which, carried, rows = pieces.expected(kinds, after.rows)
            low, high = float(pieces.values.min()), float(pieces.values.max())
        carried, low, high = more * carried, more * low, more * high
        low, high = max(low, self._least_positive), min(high, self.grid.high)
        unsuppressed = counted.only(INPUT)
        margins, targets = self._margins(unsuppressed if len(unsuppressed.cell) else before, cells)
        sums = np.bincount(which, carried * rows, len(cells)).astype(np.float64)
        factor, off = _fitted(margins, targets, sums, lambda factor: np.clip(factor, *RATIO))
        if off.max(initial=0.0) > CLOSE:
            raise InputError(self._not_met(margins, off))

        def inside(factor: FloatArray) -> FloatArray:
            held = np.clip(carried * np.clip(factor, *RATIO)[which], low, high) * rows
            return np.asarray(np.bincount(which, held, len(cells)) / sums)

        held, off = _fitted(margins, targets, sums, inside, factor)
        if off.max(initial=0.0) <= CLOSE:
            factor = held
        else:  # no weights inside the range have these sums
            low, high = max(RATIO[0] * low, self._least_positive), min(RATIO[1] * high, self.grid.high)
        return Factors(cells, kinds, pieces, more * factor, low, high, margins, targets)

    @property
    def _least_positive(self) -> float:
        return max(self.grid.low, self.grid.step or 0.0, np.finfo(np.float64).tiny)

    def _not_met(self, margins: IntArray, off: FloatArray) -> str:
        kind = int(np.flatnonzero((margins == int(np.argmax(off))).any(axis=0))[0])
        what = "strata" if kind == 0 else f"categories of {self.names[self.calibrate[kind - 1]]!r}"
        return (
            f"column {self.name!r}: the released weights cannot be calibrated: sums by {what} are off by up to "
            f"{off.max():.1%} where weights stay within {RATIO[0]:g} to {RATIO[1]:g} times themselves. Calibrate by "
            "fewer columns, join their rare categories, or give by, so that weights are drawn by categories"
        )

    def _codes(self, cells: IntArray, places: Sequence[int]) -> IntArray:
        """Codes of some of the columns of cells, shape (n_cells, n_places)."""
        codes = np.stack(np.unravel_index(cells, self.sizes or (1,)), axis=1)
        return codes[:, list(places)].astype(np.int64)

    def _margins(self, before: WeightCounts, cells: IntArray) -> tuple[IntArray, FloatArray]:
        """The margins of each released cell, and the original sums: strata, then the columns of `calibrate`."""
        # Margins of fewer records than k, in which one weight dominates, or of no released record count together.
        if _dominated(before.sums.sum(), before.high.max()):
            raise InputError(
                f"column {self.name!r}: one record has more than half of the sum of all weights, which would disclose "
                "it; correct or trim that weight"
            )
        kinds = [(self._stratum(before.cell), self._stratum(cells))]
        kinds += [(self._codes(before.cell, (at,))[:, 0], self._codes(cells, (at,))[:, 0]) for at in self.calibrate]
        margins, targets = np.zeros((len(cells), len(kinds)), dtype=np.int64), np.empty(0)
        for at, (old, new) in enumerate(kinds):
            size = int(max(old.max(), new.max())) + 1
            rows, sums = (np.bincount(old, each, size).astype(np.float64) for each in (before.rows, before.sums))
            highest = np.zeros(size)
            np.maximum.at(highest, old, before.high)
            together = self._together(rows, sums, highest, np.isin(np.arange(size), new))
            margins[:, at] = np.where(together, size, np.arange(size))[new] + len(targets)
            targets = np.concatenate([targets, sums, [sums[together].sum()]])
        return margins, targets

    def _together(self, rows: FloatArray, sums: FloatArray, highest: FloatArray, released: BoolArray) -> BoolArray:
        """Which margins have no target of their own: so many that neither they nor the rest disclose a weight."""
        # Released ones among them have half of their sum or more, which they are to carry.

        def safe(which: BoolArray) -> bool:
            of_all, carried = sums[which].sum(), sums[which & released].sum()
            enough = rows[which].sum() >= self.least and carried >= LARGEST_SHARE * of_all
            return bool(enough and not _dominated(of_all, highest[which].max(initial=0.0)))

        together = (rows > 0) & ((rows < self.least) | _dominated(sums, highest) | ~released)
        while together.any() and not safe(together):
            together[np.argmin(np.where(together | (rows == 0), np.inf, sums))] = True
        return np.asarray(together)

    def _stratum(self, cells: IntArray) -> IntArray:
        codes = np.zeros((len(cells), max((0, *self.positions)) + 1))
        codes[:, list(self.positions)] = self._codes(cells, range(len(self.positions)))  # those of strata are codes
        return self.strata.assign(codes)

    # A weight that depends on categories

    def _pieces(self, before: WeightCounts, cells: IntArray) -> tuple[IntArray, Pieces]:
        """The kind of each released cell, and the weights of each kind: means of k or more records."""
        # A kind of fewer records gets the nearest weight of all others. A combination of categories that the original
        # has not, gets the weights of the nearest one: that agrees in most columns, the first counting most.
        old, new = self._codes(before.cell, self.by), self._codes(cells, self.by)
        kinds, which = np.unique(np.concatenate([old, new]), axis=0, return_inverse=True)
        of_old, of_new = np.split(which.reshape(-1), [len(old)])
        order = np.lexsort((before.bin, of_old))
        first = np.flatnonzero(
            (np.diff(of_old[order], prepend=-1) != 0) | (np.diff(before.bin[order], prepend=before.bin[order[0]]) != 0)
        )
        rows, sums = (np.add.reduceat(each[order], first) for each in (before.rows, before.sums))
        highest, kind = np.maximum.reduceat(before.high[order], first), of_old[order][first]
        found: list[FloatArray] = []  # of each kind the values and their rows
        ends = np.searchsorted(kind, np.arange(len(kinds) + 1))
        for begin, end in pairwise(ends):
            inside = slice(begin, end)
            found.append(_of_enough(rows[inside], sums[inside], highest[inside], self.least))
        total = np.bincount(kind, rows, len(kinds))
        known = np.array([at for at, each in enumerate(found) if len(each)], dtype=np.int64)
        if not len(known):  # every combination is of fewer than k: one kind for all
            by_bin = np.argsort(before.bin, kind="stable")
            every = _of_enough(before.rows[by_bin], before.sums[by_bin], before.high[by_bin], self.least)
            found, known = [every] * len(kinds), np.arange(len(kinds))
        values = np.unique(np.concatenate([found[at][0] for at in known]))
        worth = 2.0 ** -np.arange(len(self.by)) + 1.0
        for at in range(len(kinds)):
            if len(found[at]):
                continue
            if total[at] > 0:
                mean = sums[kind == at].sum() / total[at]
                found[at] = np.array([[values[np.abs(values - mean).argmin()]], [1.0]])
            else:
                agrees = (kinds[known] == kinds[at]) @ worth
                found[at] = found[known[np.lexsort((-total[known], -agrees))[0]]]
        starts = np.append(0, np.cumsum([each.shape[1] for each in found]))
        upto = np.concatenate([np.cumsum(each[1]) / each[1].sum() for each in found])
        return of_new, Pieces(starts, np.concatenate([each[0] for each in found]), upto)


@dataclass(frozen=True)
class Replicates:
    """Weights of a delete-a-group jackknife (JKn) of released rows; Kott (2001), J. Off. Stat. 17:521-526."""

    weight: str
    cluster: str  # The column of random groups, numbered through: in each stratum `groups` of them
    groups: int
    count: int  # Of groups in all strata

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, by number of the group that is left out."""
        return tuple(f"{self.weight}_jk{at}" for at in range(1, self.count + 1))

    def weights(self, weights: FloatArray, group: IntArray) -> FloatArray:
        """Of each record, with a weight and the number of its group from 1, its replicates, shape (n_rows, count).

        Examples
        --------
        >>> Replicates("w", "psu", 2, 4).weights(np.array([3.0]), np.array([2])).tolist()
        [[6.0, 0.0, 3.0, 3.0]]
        """
        own, every = group[:, None] - 1, np.arange(self.count)
        same = every // self.groups == own // self.groups
        factor = np.where(same, self.groups / (self.groups - 1.0), 1.0)
        return np.asarray(np.where(every == own, 0.0, factor * weights[:, None]))

    @property
    def described(self) -> dict[str, dict[str, str]]:
        """Of each column what recipients should know of it."""
        text = f"Replicate weight {{}} of {self.count}: JKn, scale 1, rscales {1.0 - 1.0 / self.groups:.6g}"
        about = {"kind": "continuous", "treatment": "replicate weight"}
        return {name: about | {"label": text.format(at)} for at, name in enumerate(self.names, 1)}

    @property
    def meaning(self) -> str:
        """How recipients use them."""
        formula = re.sub(r"([\\`])", r"\\\1", self.weight)
        pattern = json.dumps(re.sub(r"([.^$|()[\]{}*+?\\])", r"\\\1", self.weight), ensure_ascii=False)[1:-1]
        return (
            f"columns {self.names[0]!r} to {self.names[-1]!r} are replicate weights of column {self.cluster!r}; in R: "
            f'svrepdesign(weights = ~`{formula}`, repweights = "^{pattern}_jk[0-9]+$", type = "JKn", scale = 1, '
            f"rscales = rep({1.0 - 1.0 / self.groups:.6g}, {self.count}), combined.weights = TRUE, data = ...)"
        )


def _fitted(
    margins: IntArray,
    targets: FloatArray,
    sums: FloatArray,
    inside: Callable[[FloatArray], FloatArray],
    start: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Factors that bring sums to their targets, and how far each is off, in parts of itself."""
    # `inside(factor)` is what is left of factors within the limits.
    factor = np.ones(len(sums)) if start is None else start.copy()
    off = np.zeros(len(targets))
    for _ in range(_ROUNDS):
        off[:] = 0.0
        for kind in margins.T:
            now = np.bincount(kind, sums * inside(factor), len(targets))
            there = now > 0
            ratio = np.divide(targets, now, out=np.ones(len(targets)), where=there)
            off[there] = np.maximum(off[there], np.abs(ratio[there] - 1.0))
            factor = np.clip(factor * np.where(np.abs(ratio - 1.0) > _TINY, ratio, 1.0)[kind], 1e-3, 1e3)
        if off.max(initial=0.0) <= CLOSE:
            break
    return np.asarray(np.clip(factor, *RATIO)), off


def _dominated(sums: FloatArray, highest: FloatArray) -> BoolArray:
    return np.asarray(highest > LARGEST_SHARE * sums)


def _of_enough(rows: FloatArray, sums: FloatArray, highest: FloatArray, least: int) -> FloatArray:
    """Means of `least` or more neighbouring weights, and their rows, shape (2, n); none for fewer rows in all."""
    # Weights are given by place on an ascending scale. One that makes up most of its mean counts as its neighbour
    # below.
    if rows.sum() < least:
        return np.empty(0)
    piece, piece_rows = np.zeros(len(rows), dtype=np.int64), 0.0
    for at in range(1, len(rows)):
        piece_rows += rows[at - 1]
        new = piece_rows >= least and rows[at:].sum() >= least
        piece[at] = piece[at - 1] + new
        piece_rows = 0.0 if new else piece_rows
    sums = sums.copy()
    for at in range(len(rows) - 1, 0, -1):
        if highest[at] > LARGEST_SHARE * sums[piece == piece[at]].sum():
            sums[at] = rows[at] * sums[at - 1] / rows[at - 1]
    held = np.bincount(piece, rows)
    return np.stack([np.bincount(piece, sums) / held, held])


_TINY = 1e-12
