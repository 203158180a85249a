"""Values of single persons that a release reproduces, as opposed to those that it meets by chance.

On whole years nearly every age is an original value and a released one. So each original value that fewer than k
records hold is given its chance: were the released values drawn without a look at the originals, the grid point x would
be met with about the local density of distinct released values around x times the width of a grid point. The density is
that of the `NEIGHBOURS` nearest distinct released values other than x. Where those are all about equally far, x stands
apart: half a value there (Jeffreys' estimate of a rate of which nothing was seen), not five. The grid is the declared
step, the type's, or the coarsest round one that `ON_GRID` of the distinct original values lie on (only what lies on it
too can meet them); without any it is as fine as rounding errors, and no coincidence is explained. Of a column without a
step, released values are on a coarser grid of the originals because they are rounded, or means of several (then others
are on a fraction of that grid, see `means_lie_on`), or because they are originals: if most values are neither, a chance
is at most `UNEXPLAINED`. A person far off has a chance near 0, a value among many has one near 1.

Values are then taken in the order of their chances, the least first. There is something beyond chance if m are met up
to any point of this order, and m or more have a probability below a / (m (m + 1)) by the Poisson law with `LEEWAY`
times the sum of chances up to twice as large: released values that lie evenly, as means of neighbours by rank do, are
less dense around one of themselves than around a value that falls between them. Summed over all m that is a, so no
correction for the many points is left to make; a is `FALSE_ALARM` over the number of columns. One value alone is enough
if the chances up to its own sum to less than a / 2 / `LEEWAY`: one in 75,000 with five columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.special import pdtrc

from anonpipe.encoding.row_hash import exact_rows
from anonpipe.moments import PairwiseMoments
from anonpipe.storage.sketch import log_binomial
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.expectations import ReleaseView

NEIGHBOURS = 5
ON_GRID = 0.9
APART = 1.05  # A value stands apart if its nearest neighbours are at most so much unequally far

FALSE_ALARM = 2e-4  # Bound for a release, all columns together; `LEEWAY` and the bins leave less than half of it

LEEWAY = 1.5  # The density is an estimate: this much more is no evidence of handing on

UNEXPLAINED = 0.01  # Of the values: a few groups of equal or mostly missing values are on the grid whatever the method

MOST_AVERAGED = 500
FEWEST_AVERAGED = 50  # Means of up to so many are looked for; where digits do not reach the fewest, any may be one

_ROUNDING = 64 * np.finfo(np.float64).eps
_BINS = 64
_STEPS_APART = 100  # Nearer neighbours are equally far because their grid leaves no other places

# Round steps, those of hours, minutes and seconds in days among them, the coarsest first
_DECIMAL = {digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 2.5, 5)}
_GRIDS = sorted(_DECIMAL | {1 / 24, 1 / 1440, 1 / 86400, 7.0}, reverse=True)


@dataclass(frozen=True, eq=False)
class Chances:
    """How many rare values were looked for and met, by their chance: bin b holds chances of 2^-b to 2^(1-b)."""

    expected: FloatArray  # Sum of the chances, shape (64,)
    met: IntArray  # Rare values that were released, shape (64,)

    @classmethod
    def none(cls) -> Chances:
        """Of no values."""
        return cls(np.zeros(_BINS), np.zeros(_BINS, dtype=np.int64))

    @classmethod
    def of(cls, chance: FloatArray, met: BoolArray) -> Chances:
        """Of some values, shapes (n,)."""
        bins = np.clip(np.floor(-np.log2(np.maximum(chance, 2.0**-_BINS))), 0, _BINS - 1).astype(np.int64)
        return cls(np.bincount(bins, chance, _BINS).astype(np.float64), np.bincount(bins[met], minlength=_BINS))

    def merge(self, other: Chances) -> Chances:
        """Of both together."""
        return Chances(self.expected + other.expected, self.met + other.met)

    def beyond(self, columns: int) -> int:
        """Values that were met beyond chance; 0 where chance explains all."""
        met, explained = np.cumsum(self.met[::-1]), np.cumsum(self.expected[::-1])
        expected = LEEWAY * np.append(explained[1:], explained[-1])  # of chances up to twice as large
        alarm = FALSE_ALARM / columns / np.maximum(met * (met + 1.0), 1.0)
        return int(np.max(met - _allowed(met, expected, alarm), initial=0))


def _allowed(met: IntArray, expected: FloatArray, alarm: FloatArray) -> IntArray:
    """Least count, if below `met`, that a Poisson count exceeds with that chance; by the tail, as it may be tiny."""
    low, high = np.full_like(met, -1), met.copy()
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = (middle >= 0) & (pdtrc(np.maximum(middle, 0), expected) <= alarm)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


@dataclass(frozen=True)
class Fineness:
    """How fine the values of a column are."""

    size: float  # Of the numbers that a value was computed with, besides itself: its column's mean and deviation
    step: float = 0.0  # Of the grid that the job or the type sets; 0 for none
    grid: float = 0.0  # Coarser one that most of the original values lie on; 0 for none
    relative: float = 0.0  # Of a type of few digits the distance of neighbouring numbers over their size; 0 for others
    meets_grid: bool = True  # Whether they may lie on the coarser grid for other reasons than being originals
    between: FloatArray | None = None  # Of places among heaps the step, from those before the first to after the last

    def rounding(self, values: FloatArray) -> FloatArray:
        """Values nearer than this are one: arithmetic moves them so far."""
        return _ROUNDING * (np.abs(values) + self.size)

    def on_grid(self, values: FloatArray) -> BoolArray:
        """Which values lie on the coarser grid."""
        return _lies_on(values, self.grid, self.relative) if self.grid else np.zeros(len(values), dtype=np.bool_)

    def width(self, values: FloatArray, coarse: bool) -> FloatArray:
        """How wide the grid points of values are."""
        steps: FloatArray | float = self.step
        if self.between is not None:
            steps = self.between[np.clip(np.floor(values).astype(np.int64) + 1, 0, len(self.between) - 1)]
        fixed = np.maximum(self.grid if coarse else steps, 2 * self.rounding(values))
        return np.maximum(fixed, self.relative * np.abs(values))


def _lies_on(values: FloatArray, grid: float, relative: float = 0.0) -> BoolArray:
    """Which values are multiples of a step, but for rounding."""
    rounding = np.maximum(1e-9 * grid, max(1e-14, relative) * np.abs(values))
    return np.asarray(np.abs(values - np.rint(values / grid) * grid) <= rounding)


def coarsest_grid(distinct: Callable[[], list[FloatArray]], step: float, relative: float = 0.0) -> float:
    """The coarsest round step, coarser than the set one, that most distinct values are multiples of; 0 for none."""
    for grid in _GRIDS:
        if grid <= step:
            return 0.0
        parts = [(_lies_on(values, grid, relative).sum(), len(values)) for values in distinct()]
        on, among = (sum(int(part[at]) for part in parts) for at in (0, 1))
        if among and on >= ON_GRID * among:
            return grid
    return 0.0


def means_lie_on(grid: float, released: FloatArray, relative: float = 0.0) -> bool:
    """Whether rounding or averaging explains released values on a grid of the originals."""
    # Of means of m values one in m lies on it, and the others on 1/m of it. Draws, rotated and noisy values lie on
    # neither: where most values are such, those on the grid are originals.
    digits = relative * float(np.median(np.abs(released))) if len(released) else 0.0
    most = int(min(MOST_AVERAGED, np.sqrt(0.4 * grid / digits))) if digits else MOST_AVERAGED
    if most < FEWEST_AVERAGED:
        return True
    explained = _lies_on(released, grid, relative)
    for size in range(2, most + 1):
        explained |= _lies_on(released, grid / size, relative)
    return bool(2 * explained.sum() >= len(released))


def chances(rare: FloatArray, released: FloatArray, fineness: Fineness) -> Chances:
    """What became of rare original values, shape (n,)."""
    chance, met = _chances(rare, released, fineness.width(rare, False), fineness.rounding(rare))
    coarse, among = fineness.on_grid(rare), fineness.on_grid(released)
    if coarse.any():  # draws may meet the grid, too, where a type has few digits
        on, width = rare[coarse], fineness.width(rare[coarse], True)
        grid, _ = _chances(on, released[among], width, fineness.rounding(on))
        most = 1.0 if fineness.meets_grid else UNEXPLAINED
        chance[coarse] = np.maximum(chance[coarse], np.minimum(grid, most))
    return Chances.of(chance, met)


def _chances(
    rare: FloatArray, released: FloatArray, width: FloatArray, rounding: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """The chance of each rare value, and whether it was met."""
    if not len(rare) or not len(released):
        return np.zeros(len(rare)), np.zeros(len(rare), dtype=np.bool_)
    low = np.searchsorted(released, rare - rounding)
    high = np.searchsorted(released, rare + rounding, side="right")
    steps = np.arange(NEIGHBOURS)
    below, above = low[:, None] - 1 - steps, high[:, None] + steps
    left = np.where(below >= 0, rare[:, None] - released[np.maximum(below, 0)], np.inf)
    right = np.where(above < len(released), released[np.minimum(above, len(released) - 1)] - rare[:, None], np.inf)
    apart = np.concatenate([left, right], axis=1)
    apart.sort(axis=1)
    near = np.minimum(NEIGHBOURS, np.isfinite(apart).sum(axis=1))
    nearest, reach = apart[:, 0], apart[np.arange(len(rare)), np.maximum(near - 1, 0)]
    alone = (near == NEIGHBOURS) & (reach <= APART * nearest) & (nearest > _STEPS_APART * width)
    around = np.where(alone, 0.5, near)
    chance = np.where(near > 0, around * width / np.maximum(2 * reach, width), 0.0)
    return np.minimum(chance, 1.0), high > low


# --- Unchanged records: a group without variance, or too small a group, betrays its members ---------------------------


def unchanged_records(original: FloatArray, released: FloatArray, order: IntArray, starts: IntArray, k: int) -> int:
    """Released rows that equal, in every synthetic column, any original row of their group that is rare.

    Rare is what fewer than k rows of the partition share: a row that k persons have points to none of them. Shapes:
    original, released (n_rows, n_columns).
    """
    before, after = exact_rows(original), exact_rows(released)
    _, which, counts = np.unique(before, return_inverse=True, return_counts=True)
    rare = counts[which] < k
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    inside = exact_rows(original[:, :0], group)
    return int(np.isin(after + inside, (before + inside)[rare]).sum())


def kept_records(original: FloatArray, released: FloatArray) -> tuple[int, float]:
    """Rows of a partition that equal their own original, and how many would if drawn from their frequencies.

    Cohen (1960), doi:10.1177/001316446002000104. Shapes: original, released (n_rows, n_columns).
    """
    codes = np.unique(exact_rows(np.concatenate([original, released])), return_inverse=True)[1]
    before, after = np.split(codes.reshape(-1), 2)
    counts = [np.bincount(each, minlength=len(codes)).astype(np.float64) for each in (before, after)]
    return int((before == after).sum()), float(counts[0] @ counts[1]) / max(1, len(before))


class ByChance(NamedTuple):
    """How many rows another sample would have in common with the original, and an upper limit of its variance."""

    rows: int
    variance: int


def equal_by_chance(original: FloatArray, k: int) -> ByChance:
    """Of as many other records of the same population, how many are expected to equal an original row that is rare.

    A record of a new sample equals one of those that occur r times with probability (r + 1) N(r + 1) / n, where
    N(r + 1) are the values that occur once more often: so as many as there are original rows of 2 to k alike. The count
    itself varies by no more than its mean, and the estimate by no more than r² N(r) of the r alike. Good 1953,
    Biometrika 40:237-264, doi:10.1093/biomet/40.3-4.237, equation 7. Shape: original (n_rows, n_columns).
    """
    counts = np.unique(exact_rows(original), return_counts=True)[1]
    some = counts[(counts >= 2) & (counts <= k)]
    return ByChance(int(some.sum()), int((some * (some + 1)).sum()))


def rows_without_spread(original: FloatArray, order: IntArray, starts: IntArray) -> int:
    """Rows of groups whose rows are all one: masking inside changes nothing of them; original (n_rows, n_columns)."""
    alike = np.ones(len(starts) - 1, dtype=np.bool_)
    for values in original.T:
        found = np.where(np.isnan(values), np.inf, values)[order]
        alike &= np.minimum.reduceat(found, starts[:-1]) == np.maximum.reduceat(found, starts[:-1])
    return int(np.diff(starts)[alike].sum())


# --- Small cells of two-way tables ------------------------------------------------------------------------------------
# A cell of one person, released as one, tells who knows one of the two values the other. Another sample of the
# population with the same margins has such a count by chance, too: as a binomial draw of the smaller margin. And a
# released pair of rare categories tells that somebody in the original has it, as far as it does so more surely than
# another sample's: as far as fewer released pairs are new than another sample would have. How many these are follows
# from the cells of the original alone (Good & Toulmin 1956, doi:10.1093/biomet/43.1-2.45), not from the means that
# cells are drawn by.

# Of cells with 1, 2, ... records, how many new cells each stands for: Good and Toulmin's alternating sum, smoothed by
# binomial chances (Efron & Thisted 1976, doi:10.1093/biomet/63.3.435)
_NEW = np.array([(-1.0) ** (m + 1) * sum(comb(8, j) for j in range(m, 9)) / 2**8 for m in range(1, 9)])

STANDARD_ERRORS = 4.0  # Beyond what is expected by chance; one honest release in 30,000 is further off


@dataclass(frozen=True)
class SmallCellCounts:
    """The cells of 1 to k - 1 original records in two-way tables of which one column is masked."""

    cells: int
    exact: int  # Those with the same released count
    expected: float  # How many these would be by chance
    variance: float  # Of their number by chance, cells drawn one by one
    # The same of the cells of 1 to k - 1 released records: how many, of how many the original has records, by chance
    released: int = 0
    occurring: int = 0
    expected_to_occur: float = 0.0
    variance_of_occurring: float = 0.0

    @property
    def excess(self) -> float:
        """Exact, or occurring, cells beyond chance and `STANDARD_ERRORS`, as a share of the cells; the larger share."""
        exact = _beyond(self.exact, self.expected, self.variance, self.cells)
        return max(exact, _beyond(self.occurring, self.expected_to_occur, self.variance_of_occurring, self.released))

    @classmethod
    def of(
        cls,
        original: PairwiseMoments,
        released: PairwiseMoments,
        view: ReleaseView,
        k: int,
        unpublished: Collection[str] = (),
    ) -> SmallCellCounts:
        """Those of a table, without columns that are not published."""
        levels = _Levels.of(view, unpublished)
        before, after = levels.counts(original), levels.counts(released)
        compared = np.triu(levels.apart) & (before > 0) & (before < k)
        counts = before[compared]
        sizes = np.diag(before)
        smaller = np.minimum.outer(sizes, sizes)[compared]
        chance = np.exp(log_binomial(counts, smaller, counts / np.maximum(smaller, 1.0)))
        exact = int(np.count_nonzero(counts == after[compared]))
        of_exact = len(counts), exact, float(chance.sum()), float((chance * (1.0 - chance)).sum())
        shown = before[np.triu(levels.apart) & (after > 0) & (after < k)]
        every = before[np.triu(levels.apart)].astype(np.int64)
        of_size = np.bincount(every[every <= len(_NEW)], minlength=len(_NEW) + 1)[1:]
        new = min(max(0.0, float(_NEW @ of_size)), float(len(shown)))
        occurring = len(shown), int(np.count_nonzero(shown)), len(shown) - new, new + float(_NEW**2 @ of_size)
        return cls(*of_exact, *occurring)


def _beyond(found: int, expected: float, variance: float, of: int) -> float:
    return max(0.0, found - expected - STANDARD_ERRORS * float(np.sqrt(variance))) / max(1, of)


@dataclass(frozen=True, eq=False)
class _Levels:
    """Categories of a view, and nulls of its numbers, each as a sum of indicators, non-null values and records."""

    value: FloatArray  # Shape (n_levels, n_variables), 0, 1 or -1
    present: FloatArray  # The same
    constant: FloatArray  # Shape (n_levels,)
    columns: FloatArray  # Position of each level's column
    synthesized: BoolArray  # Whether it is masked
    mean: FloatArray  # Of each variable
    sd: FloatArray

    @classmethod
    def of(cls, view: ReleaseView, unpublished: Collection[str]) -> _Levels:
        """Those of a view; a column of one indicator has a second level, and so have nulls."""
        size, rows = len(view.variables), []
        own = [sum(each.position == other.position for other in view.variables) for each in view.variables]
        for at, variable in enumerate(view.variables):
            if variable.own_unit or variable.probability or variable.derived or variable.column in unpublished:
                continue
            unit = np.eye(1, size, at)[0]
            if variable.category is None:
                rows += [(0 * unit, unit, 0.0, variable), (0 * unit, -unit, 1.0, variable)]
            else:
                rows.append((unit, 0 * unit, 0.0, variable))
                rows += [(-unit, 0 * unit, 1.0, variable)] * (own[at] == 1)
        value, present, constant, variables = zip(*rows, strict=True) if rows else ((), (), (), ())
        both = [np.reshape(each, (len(rows), size)) for each in (value, present)]
        positions = np.array([each.position for each in variables], dtype=np.float64)
        synthesized = np.array([each.synthesized for each in variables], dtype=bool)
        means = np.array([each.mean for each in view.variables])
        return cls(both[0], both[1], np.array(constant), positions, synthesized, means, view.sd)

    @property
    def apart(self) -> BoolArray:
        """Pairs of levels of two columns, of which one is masked."""
        different = np.not_equal.outer(self.columns, self.columns)
        return np.asarray(different & np.logical_or.outer(self.synthesized, self.synthesized))

    def counts(self, moments: PairwiseMoments) -> FloatArray:
        """Records of each two levels; on the diagonal those of each; shape (n_levels, n_levels)."""
        n, rows = moments.n.astype(np.float64), float(moments.rows)
        # values of j among the records that have h, and products: of indicators, whose values are never null
        ones = self.sd[:, None] * moments.sums + self.mean[:, None] * n
        both = np.outer(self.sd, self.sd) * moments.cross + self.mean[:, None] * self.sd * moments.sums.T
        both += self.mean * self.sd[:, None] * moments.sums + np.outer(self.mean, self.mean) * n
        v, p, c = self.value, self.present, self.constant
        single = v @ np.diag(ones) + p @ np.diag(n)
        mixed = v @ ones @ p.T
        counts = v @ both @ v.T + mixed + mixed.T + p @ n @ p.T
        counts += np.outer(single, c) + np.outer(c, single) + rows * np.outer(c, c)
        return np.rint(counts)
