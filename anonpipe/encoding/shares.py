"""Categories and nulls shared out among the parts of a table, where masked records are of no one person.

The persons of a part say nothing of such records, and their categories must not be forced upon them. What the table has
of each category is shared out among the parts as their masked features call for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import CategoryBlock, FeatureEncoder, NumberBlock
from anonpipe.encoding.matching import ScoreMap, ValueScores
from anonpipe.encoding.pair_tables import SmallCells
from anonpipe.encoding.rounding import RoundedColumns, counted_blocks
from anonpipe.errors import InputError
from anonpipe.moments import Expected, Moments
from anonpipe.types import FloatArray, IntArray

_ROUNDS = 100
_SMALLEST = 1e-6


def share_out(mass: FloatArray, totals: IntArray, sizes: IntArray) -> IntArray:
    """Whole counts near a mass, with given totals of categories and given sizes of partitions.

    The mass is fitted to both margins by iterative proportions, which keep its odds ratios, and rounded one partition
    after the other: what one gets too much of, the next gets less.

    Shapes: mass (n_partitions, q); totals (q,); sizes (n_partitions,); returns (n_partitions, q).
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


# --- What parts call for, and what falls to each


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
    said: Moments | None = None  # Of the masked ones, values by rank in the place of scores; None without scores

    def merge(self, other: Called) -> Called:
        """The parts of both below each other."""
        codes = tuple(np.concatenate(pair) for pair in zip(self.codes, other.codes, strict=True))
        mass = tuple(np.concatenate(pair) for pair in zip(self.mass, other.mass, strict=True))
        rows = np.concatenate([self.rows, other.rows])
        said = None if self.said is None or other.said is None else self.said.merge(other.said)
        return Called(codes, mass, rows, self.original.merge(other.original), self.masked.merge(other.masked), said)


@dataclass(frozen=True, eq=False)
class Shares:
    """What falls to each part."""

    counts: tuple[IntArray, ...]  # Of each column the records of each code, nulls last, shape (n_parts, n_codes)
    # What the masked features lack of the covariance to release: of the original's, where none is promised, and of
    # small cells as they were drawn; None where the covariance is kept as it comes out
    lack: FloatArray | None
    # How many records more each two dummies are to have together, as small cells were drawn; None where none were
    drawn: FloatArray | None = None
    values: ScoreMap | None = None  # How values by rank come out; None without scores


@dataclass(frozen=True, eq=False)
class PartShares:
    """The columns whose decoding looks at counts: categories, ordinals, and numbers with nulls."""

    blocks: tuple[NumberBlock | CategoryBlock, ...]  # The columns
    categories: tuple[int, ...]  # How many categories each has; 1 for numbers
    channels: int  # How many channels the features, and what they are drawn given, have
    rounded: RoundedColumns | None = None  # How the table's counts are rounded; None where they are kept
    small_cells: SmallCells | None = None  # The two-way tables whose small cells are drawn; None for none
    values: ValueScores | None = None  # What values by rank say of scores; None where covariances are not held to it

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

    def call(self, part: FloatArray, *, params: Any, original: FloatArray, stratum: int = 0) -> Called:
        """Count a part: a dummy x of -1 and +1 calls for (1 + x) / 2 records, an ordinal for the nearest level."""
        pairs = list(zip(self.blocks, self.categories, strict=True))
        masked = np.ascontiguousarray(part[:, : self.channels])
        return Called(
            tuple(_counts(block, size, original)[None] for block, size in pairs),
            tuple(_mass(block, size, part)[None] for block, size in pairs),
            np.array([len(part)]),
            Moments.of(original),
            Moments.of(masked),
            None
            if self.values is None
            else Moments.of(self.values.said(self.values.mapped(masked, params), params, stratum)),
        )

    def share(
        self, called: Called, *, params: Any, rng: np.random.Generator, guaranteed: Callable[[Moments], Expected | None]
    ) -> Shares:
        """Share the table's counts out among its parts."""
        totals = [codes.sum(axis=0) for codes in called.codes]
        if self.rounded is not None:
            totals = [self.rounded.counts(at, each) for at, each in enumerate(totals)]
        counts = tuple(share_out(mass, each, called.rows) for mass, each in zip(called.mass, totals, strict=True))
        values = None if self.values is None else params
        if called.original.n < 2:
            return Shares(counts, None, values=values)
        promise = guaranteed(called.original)
        wanted = called.original if promise is None else called.masked
        found = called.masked if called.said is None else called.said
        lack = None if wanted is found else np.asarray(wanted.covariance - found.covariance)
        if self.small_cells is None or (promise is not None and promise.covariance_error.any()):
            # of a covariance that is promised on average small cells come out at random
            return Shares(counts, lack, values=values)
        drawn = self.small_cells.changes(called.original, rng)
        change = 4.0 * drawn / (called.original.n - 1)
        return Shares(counts, change if lack is None else lack + change, drawn, values)

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


RECORDS: tuple[type, ...] = (Called, Shares, Moments, ScoreMap)  # What lies on disk between counting and decoding
