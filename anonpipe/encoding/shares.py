"""Categories and nulls shared out among the parts of a table, where masked records are synthetic.

Synthetic records of a part need not have the categories of its persons. The table's count of each category is shared
out among the parts by their masked features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import CategoryBlock, FeatureEncoder, NumberBlock
from anonpipe.encoding.matching import ScoreMap, ValueScores
from anonpipe.encoding.rounding import RoundedColumns, SmallCells, counted_blocks, fit_margins
from anonpipe.errors import InputError
from anonpipe.moments import Expected, Moments
from anonpipe.types import FloatArray, IntArray

_ROUNDS = 100
_SMALLEST = 1e-6


def share_out(mass: FloatArray, totals: IntArray, sizes: IntArray) -> IntArray:
    """Whole counts near a mass (n_partitions, q), with given totals of categories (q,) and sizes of partitions.

    The mass is fitted to both margins by iterative proportions, which keep its odds ratios. It is rounded one partition
    after the other, and rounding errors are carried to the next.
    """
    if totals.sum() != sizes.sum() or (totals < 0).any():
        raise ValueError("counts of categories and sizes of partitions do not add up to the same")
    above_zero = np.maximum(mass, _SMALLEST * np.maximum(sizes, 1)[:, None]) * (totals > 0)
    fitted = fit_margins(above_zero, sizes, totals, rounds=_ROUNDS, close=None)
    counts, left, carried = np.zeros(mass.shape, dtype=np.int64), totals.astype(np.int64), np.zeros(len(totals))
    for partition, size in enumerate(sizes):
        wanted = fitted[partition] + carried
        counts[partition] = _rounded(wanted, left, int(size))
        left = left - counts[partition]
        carried = wanted - counts[partition]
    return counts


def _rounded(wanted: FloatArray, left: IntArray, size: int) -> IntArray:
    """Whole numbers near `wanted`, none above what is left, of sum `size`; the largest remainders are rounded up."""
    counts = np.minimum(np.floor(np.maximum(wanted, 0.0)).astype(np.int64), left)
    while (missing := size - int(counts.sum())) != 0:
        step = 1 if missing > 0 else -1
        able = counts < left if missing > 0 else counts > 0
        order = np.argsort(np.where(able, step * (counts - wanted), np.inf), kind="stable")
        counts[order[: min(abs(missing), int(able.sum()))]] += step
    return counts


# --- Demand of the parts, and what each part gets


@dataclass(frozen=True, eq=False)
class Demand:
    """Records of each code in parts of the table, and counts by their masked features; lists have an entry a column."""

    # codes, mass: records of each code before (nulls last) and by the masked features, shapes (n_parts, n_codes)
    codes: tuple[IntArray, ...]
    mass: tuple[FloatArray, ...]
    rows: IntArray  # Records of each part, shape (n_parts,)
    # original, masked: moments of the features, and of the masked ones
    original: Moments
    masked: Moments
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
    # Records that small cells add to each two dummies together; None where none were drawn
    drawn: FloatArray | None = None
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

    @classmethod
    def fit(
        cls,
        cells: ColumnEncoder,
        features: FeatureEncoder,
        channels: int,
        rounded: RoundedColumns | None = None,
        small_cells: SmallCells | None = None,
        values: ValueScores | None = None,
    ) -> PartShares:
        """Those of a table."""
        blocks = counted_blocks(features)
        sizes = (len(cells.categories[block.name]) if block.name in cells.categories else 1 for block in blocks)
        return cls(blocks, tuple(sizes), channels, rounded, small_cells, values)

    def count(self, part: FloatArray, *, params: Any, original: FloatArray, stratum: int = 0) -> Demand:
        """Count a part: a dummy x of -1 and +1 asks for (1 + x) / 2 records, an ordinal for the nearest level."""
        pairs = list(zip(self.blocks, self.categories, strict=True))
        masked = np.ascontiguousarray(part[:, : self.channels])
        values = self.values
        return Demand(
            tuple(_counts(block, size, original)[None] for block, size in pairs),
            tuple(_mass(block, size, part)[None] for block, size in pairs),
            np.array([len(part)]),
            Moments.of(original),
            Moments.of(masked),
            None
            if values is None
            else Moments.of(values.with_mean_scores(values.mapped(masked, params), params, stratum)),
        )

    def share(
        self, demand: Demand, *, params: Any, rng: np.random.Generator, guaranteed: Callable[[Moments], Expected | None]
    ) -> Shares:
        """Share the table's counts out among its parts."""
        totals = [codes.sum(axis=0) for codes in demand.codes]
        if self.rounded is not None:
            totals = [self.rounded.counts(at, each) for at, each in enumerate(totals)]
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

    def put(self, cells: FloatArray, shares: Shares, part: int) -> FloatArray:
        """A copy of the cells with the part's categories and nulls, in no meaningful order."""
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
    """How many of each code the masked features ask for, in the order of `_counts`."""
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


RECORDS: tuple[type, ...] = (Demand, Shares, Moments, ScoreMap)  # What lies on disk between counting and decoding
