"""What is counted of groups: the statistics of a part, merged to those of the table, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.encoding.counts import added, counted
from anonpipe.methods.grouping import ClassDisclosure, LossBound, bound_from_distances
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, NoiseScatter, merge_all
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """What is counted of some groups; none of them has records elsewhere."""

    grouped: GroupedMoments  # Moments of the records in their groups
    # sizes, groups: sizes that occur, ascending, and how many groups have each
    sizes: IntArray
    groups: IntArray
    noise: NoiseScatter | None  # Scatter of the draws that exact noise will be made of; None for other methods
    spread: GroupSpread | None  # What errors of drawn moments depend on; None for other methods
    classes: tuple[ClassDisclosure, ...]  # Of each class column, what the groups tell of it

    def merge(self, other: GroupCounts) -> GroupCounts:
        """Both together."""
        sizes, groups = added([(self.sizes, self.groups), (other.sizes, other.groups)])
        return GroupCounts(
            self.grouped.merge(other.grouped),
            sizes,
            groups,
            None if self.noise is None or other.noise is None else self.noise.merge(other.noise),
            None if self.spread is None or other.spread is None else self.spread.merge(other.spread),
            tuple(one.merge(two) for one, two in zip(self.classes, other.classes, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class StrataCounts:
    """The same by stratum, and some records for the lower bound of the information loss."""

    strata: tuple[int, ...]  # Those that have records here, ascending
    counts: tuple[GroupCounts, ...]  # Of each of them
    sampled: FloatArray  # Features of the sampled records, shape (n_sampled, width)

    def merge(self, other: StrataCounts) -> StrataCounts:
        """Both together."""
        found = dict(zip(self.strata, self.counts, strict=True))
        for stratum, counts in zip(other.strata, other.counts, strict=True):
            found[stratum] = found[stratum].merge(counts) if stratum in found else counts
        strata = tuple(sorted(found))
        sampled = np.concatenate([self.sampled, other.sampled])
        return StrataCounts(strata, tuple(found[stratum] for stratum in strata), sampled)


@dataclass(frozen=True, eq=False)
class NearestOfPart:
    """The smallest squared distances of the sampled records to those of some parts, shape (n_sampled, k)."""

    distances: FloatArray

    def merge(self, other: NearestOfPart) -> NearestOfPart:
        """The smallest of both."""
        both = np.sort(np.concatenate([self.distances, other.distances], axis=1), axis=1)
        return NearestOfPart(both[:, : self.distances.shape[1]])


@dataclass(frozen=True, eq=False)
class TableGroups:
    """What is known of all groups of the table."""

    counts: tuple[GroupCounts, ...]  # Of each stratum
    # Of each stratum the scope it belongs to: strata of a scope share what is promised of means and covariances
    scopes: IntArray
    # Of each scope the factor of its noise, shape (n_scopes, width, width); none for methods without
    factors: FloatArray
    sampled: FloatArray  # Records that the lower bound is estimated from
    distances: FloatArray | None = None  # Their smallest squared distances; None before they are known

    @property
    def grouped(self) -> list[GroupedMoments]:
        """Moments of the records in their groups, one entry a stratum."""
        return [each.grouped for each in self.counts]

    @property
    def spread(self) -> list[GroupSpread] | None:
        """What errors of drawn moments depend on, one entry a stratum; None where they do not."""
        found = [each.spread for each in self.counts if each.spread is not None]
        return found if len(found) == len(self.counts) else None

    @property
    def whole(self) -> GroupCounts:
        """Of the table."""
        return merge_all(self.counts)

    @property
    def smallest(self) -> int:
        """Records of the smallest group."""
        return int(min(each.sizes[0] for each in self.counts))

    @property
    def tallied_sizes(self) -> IntArray:
        """Records of each group, ascending, shape (n_groups,)."""
        whole = self.whole
        return np.repeat(whole.sizes, whole.groups)

    def factor(self, stratum: int) -> FloatArray:
        """The factor of the noise of a stratum."""
        factor: FloatArray = self.factors[self.scopes[stratum]]
        return factor

    def loss_bound(self, k: int) -> LossBound | None:
        """What no grouping could lose less than; None where nothing was sampled, as several groupings are averaged."""
        if self.distances is None:
            return None
        total = self.whole.grouped.total
        return bound_from_distances(self.distances, k, total.n, float(np.trace(total.scatter)))


def sizes_of(groupings: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Sizes that occur in some groupings, each given by the sizes of its groups, and how often."""
    return counted(np.concatenate(groupings))


# Pairs of records that may be measured, some tenths of a second: all up to 4,472 rows, 200 against all of 100,000
PAIRS = 20_000_000

FEWEST = 128  # Records measured of the largest tables


def sampled_rows(rows: int, of: int, rng: np.random.Generator) -> IntArray:
    """Rows of a part that the lower bound is estimated from: all of a small table, else a share at random."""
    wanted = max(FEWEST, PAIRS // max(1, of))
    if wanted >= of:
        return np.arange(rows)
    share = wanted * rows / of
    count = int(share) + int(rng.random() < share % 1.0)
    return np.sort(rng.choice(rows, min(rows, count), replace=False))


# What lies on disk between two steps
RECORDS: tuple[type, ...] = (
    ClassDisclosure,
    GroupCounts,
    GroupedMoments,
    TableGroups,
    GroupSpread,
    Moments,
    NearestOfPart,
    NoiseScatter,
    StrataCounts,
)
