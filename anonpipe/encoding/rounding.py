"""Counts of categories rounded at random to multiples of a base, always the same way.

Random rounding to a base (Fellegi 1975, "Controlled random rounding", Survey Methodology 1) is unbiased; drawn again at
every release it is averaged away. So the draw follows from a key, as in the cell-key method of the Australian Bureau of
Statistics (Fraser & Wooton 2005; Thompson, Broadfoot & Elazar 2013): here from the secret, the category and the
multiple that the count has passed. A rounded count then never falls when the count rises, one person more changes it
with a chance of one over the base, and in all releases a count has one answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import CategoryBlock, FeatureEncoder, NumberBlock
from anonpipe.encoding.quantiles import Radix
from anonpipe.kernels.points import sort_groups
from anonpipe.rng import generator, keyed, number_keys
from anonpipe.types import FloatArray, IntArray


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
        """Some values of a column and class without a twentieth at random, at least two multiples of the base.

        Exact means would show who joined. Without one record of twenty a mean moves by 0.23 of its sampling error.
        """
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
            if isinstance(block, NumberBlock) and not block.ordinal:
                codes = missing.astype(np.int64)  # whether it is there
            else:
                codes = np.where(missing, size - 1, np.nan_to_num(column)).astype(np.int64)
            counts = np.bincount(codes, minlength=size)
            lacking = self.counts(at, counts) - counts
            moved = _moved(codes, lacking, rng)
            new = np.repeat(np.arange(size), np.maximum(lacking, 0))
            given[moved, block.position] = np.where(of_number & (new == size - 1), np.nan, new)
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
