"""The steps of grouping and synthesis, and the counts of groups that they share.

The channels are the features, what they are drawn given, one channel of codes
for each class column, and at last the labels: one channel a grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from anonpipe.encoding.missing import fill_missing
from anonpipe.encoding.row_hash import added, counted
from anonpipe.errors import DamagedError, InputError
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.executor import Reduce, Rows, Step
from anonpipe.methods.grouping import (
    ClassDisclosure,
    LossBound,
    bound_from_distances,
    class_disclosure,
    cluster,
    constrain_classes,
    hold_units,
    refine,
    smallest_distances,
    unit_points,
    units_in_groups,
)
from anonpipe.methods.record import Guarantee, Synthesizer
from anonpipe.methods.synthesis import centroid, noise_scatter, synthesize
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, NoiseScatter, merge_all, noise_scopes, together
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class GroupLayout:
    """The meaning of each channel of a table masked in groups."""

    k: int  # Minimum records of a group
    # width, conditioning: columns of features, and columns that condition them
    width: int
    conditioning: int
    shares: tuple[FloatArray, ...] = ()  # Shares of classes in the table, by channel of classes
    # Sensitive columns among these: groups must meet conditions in them, and their disclosure is counted
    n_sensitive: int = 0
    # Channel of classes of each grouping; one grouping without classes where it is empty
    grouped_by: tuple[int, ...] = ()
    # Numeric features, each with the feature that marks its missing values; None where none is missing
    numbers: tuple[tuple[int, int | None], ...] = ()
    # Records that belong to k units, whichever they are; None where each record is a unit
    min_rows: int | None = None
    whole: bool = False  # Whether all records of a unit stay in one group

    @property
    def labels_at(self) -> int:
        """The first channel of labels."""
        return self._units_at + (self.min_rows is not None)

    @property
    def _units_at(self) -> int:
        return self.width + self.conditioning + len(self.shares)

    @property
    def groupings(self) -> int:
        """Groupings of a part: one, or one for each class column, whose results are averaged."""
        return max(1, len(self.grouped_by))

    def features(self, part: FloatArray) -> FloatArray:
        """Columns of features."""
        return np.ascontiguousarray(part[:, : self.width])

    def given(self, part: FloatArray) -> FloatArray:
        """Columns that condition the features."""
        return np.ascontiguousarray(part[:, self.width : self.width + self.conditioning])

    def codes(self, part: FloatArray, at: int) -> IntArray:
        """Codes of the classes of one channel."""
        return part[:, self.width + self.conditioning + at].astype(np.int64)

    def units(self, part: FloatArray) -> IntArray | None:
        """The unit of each record, from 0; None where each record is a unit."""
        return None if self.min_rows is None else part[:, self._units_at].astype(np.int64)

    def points(self, part: FloatArray, weights: FloatArray) -> tuple[FloatArray, IntArray | slice]:
        """The weighted points to group, and the point of each record."""
        features, units = self.features(part) * np.sqrt(weights), self.units(part)
        return (features, slice(None)) if units is None or not self.whole else unit_points(features, units)

    def labels(self, part: FloatArray) -> list[IntArray]:
        """Labels of each grouping."""
        return [np.ascontiguousarray(labels) for labels in part[:, self.labels_at :].astype(np.int64).T]

    def with_labels(self, part: FloatArray, labels: list[IntArray]) -> FloatArray:
        """The part with new labels."""
        return np.concatenate([part[:, : self.labels_at], np.stack(labels, axis=1)], axis=1)


@dataclass(frozen=True)
class GroupingChoice:
    """The grouping method and its options."""

    # method, options: of `anonpipe.methods.grouping.cluster`
    method: str
    options: Mapping[str, Any]
    effort: Any  # Of the local search; None for none
    conditions: Mapping[str, Any]  # On the classes of groups; empty for none


def group_steps(layout: GroupLayout, grouping: GroupingChoice, weights: FloatArray) -> tuple[Rows, ...]:
    """The steps that form groups in a part, and then fill missing numbers from the groups."""
    width = layout.labels_at + layout.groupings
    bound: dict[str, Any] = {"layout": layout, "grouping": grouping, "weights": weights}
    steps = [Rows("group", partial(_form, **bound), channels=lambda n_channels, params: width, stream="cluster")]
    if grouping.effort is not None:
        steps.append(Rows("refine", partial(_refined, **bound), stream="refine"))
    if grouping.conditions:
        steps.append(Rows("classes", partial(_constrained, **bound), stream="classes"))
    if layout.min_rows is not None and not layout.whole:
        steps.append(Rows("units", partial(_with_units, layout=layout, weights=weights), stream="units"))
    return (*steps, Rows("fill", partial(_filled, layout=layout), stream="fill"))


def _form(
    part: FloatArray, layout: GroupLayout, grouping: GroupingChoice, weights: FloatArray, *, rng: np.random.Generator
) -> FloatArray:
    """Label groups by the chosen method, in one grouping or several."""
    points, point_of = layout.points(part, weights)
    classes: list[dict[str, Any]] = [
        {"classes": layout.codes(part, at), "class_shares": layout.shares[at]} for at in layout.grouped_by
    ]
    labels = [
        cluster(points, layout.k, grouping.method, rng=rng, **options, **grouping.options)
        for options in classes or [{}]
    ]
    return layout.with_labels(part, [column[point_of] for column in labels])


def _refined(part: FloatArray, layout: GroupLayout, grouping: GroupingChoice, weights: FloatArray) -> FloatArray:
    """Improve groups by a local search."""
    points, point_of = layout.points(part, weights)
    first = point_of if isinstance(point_of, slice) else np.unique(point_of, return_index=True)[1]
    labels = [column[first] for column in layout.labels(part)]  # all records of a point share one
    refined = [refine(points, column, layout.k, grouping.effort)[point_of] for column in labels]
    return layout.with_labels(part, refined)


def _constrained(part: FloatArray, layout: GroupLayout, grouping: GroupingChoice, weights: FloatArray) -> FloatArray:
    """Merge groups until every class column meets the conditions; merging for one can undo another."""
    features, groupings = layout.features(part) * np.sqrt(weights), []
    for labels in layout.labels(part):
        groups = -1
        while groups != int(labels.max()):
            groups = int(labels.max())
            for at in range(layout.n_sensitive):
                codes, shares = layout.codes(part, at), layout.shares[at]
                labels = constrain_classes(features, labels, codes, class_shares=shares, **grouping.conditions)
        groupings.append(labels)
    return layout.with_labels(part, groupings)


def _with_units(part: FloatArray, layout: GroupLayout, weights: FloatArray) -> FloatArray:
    """Change groups until each has k units."""
    features, units = layout.features(part) * np.sqrt(weights), layout.units(part)
    if units is None:
        return part
    return layout.with_labels(part, [hold_units(features, labels, units, layout.k) for labels in layout.labels(part)])


def _filled(part: FloatArray, layout: GroupLayout, *, rng: np.random.Generator) -> FloatArray:
    """Fill missing numbers from records of their group or near it; else they stay at the mean."""
    columns, out = [at for at, _ in layout.numbers], part.copy()
    values = part[:, columns]
    for at, (_, flag) in enumerate(layout.numbers):
        if flag is not None:
            values[part[:, flag] > 0, at] = np.nan
    order, starts = sort_groups(layout.labels(part)[0])
    filled = fill_missing(values, range(len(columns)), order, starts, layout.min_rows or layout.k, rng)
    out[:, columns] = np.where(np.isnan(filled), 0.0, filled)
    return out


# --- Synthesis


_SYNTHESIZE = "synthesize"  # The stream of what synthesizers draw


@dataclass(frozen=True, eq=False)
class GroupedPart:
    """A part with its groupings, usually one."""

    features: FloatArray  # Shape (n_rows, width), missing numbers filled
    sorted: tuple[tuple[IntArray, IntArray], ...]  # `order` and `starts` of each grouping

    @classmethod
    def of(cls, part: FloatArray, layout: GroupLayout) -> GroupedPart:
        """Recount the groups of a part."""
        groupings = layout.labels(part)
        if any(labels.min() < 0 or labels.max() >= len(part) for labels in groupings):  # before a kernel counts by them
            raise DamagedError(f"groups are not of the {len(part)} records of their part; run again without --resume")
        groups = tuple(sort_groups(labels) for labels in groupings)
        if any(int(np.diff(starts).min()) < layout.k for _, starts in groups):
            raise InputError(f"a group has fewer than k={layout.k} records; nothing is released")
        units = layout.units(part)
        if units is not None and any(int(units_in_groups(labels, units).min()) < layout.k for labels in groupings):
            raise InputError(f"a group has records of fewer than k={layout.k} units; nothing is released")
        return cls(layout.features(part), groups)

    @property
    def averaged(self) -> bool:
        """Whether several groupings are averaged."""
        return len(self.sorted) > 1

    def centres(self) -> FloatArray:
        """The mean of each record's group means, shape (n_rows, width)."""
        centres: FloatArray = np.mean([centroid(self.features, *grouping) for grouping in self.sorted], axis=0)
        return centres

    def moments(self) -> GroupedMoments:
        """Moments of the features, with their scatter within groups."""
        if self.averaged:
            return GroupedMoments.averaged(self.features, self.centres())
        return GroupedMoments.of(self.features, *self.sorted[0])


@dataclass(frozen=True)
class Synthesis:
    """The synthesizer with its arguments."""

    record: Synthesizer
    chosen: Any  # Its section of the job
    arguments: Mapping[str, Any]  # Besides groups, noise and kept columns
    guarantee: Guarantee
    rows: int  # Records of the table

    @property
    def draws_first(self) -> bool:
        """Whether its noise depends on the scatter of all draws, which is then counted first."""
        return self.record.noise is not None and self.record.noise.draws_first(self.chosen)


def synthesis_steps(layout: GroupLayout, chosen: Synthesis) -> tuple[Step, ...]:
    """The steps that count all groups, and replace their records."""

    def near(part: FloatArray, *, params: TableGroups) -> NearestOfPart:
        return NearestOfPart(smallest_distances(layout.features(part), params.sampled, layout.k))

    def make(part: FloatArray, *, params: TableGroups, rng: np.random.Generator, stratum: int) -> FloatArray:
        grouped, arguments, name = GroupedPart.of(part, layout), dict(chosen.arguments), chosen.record.name
        if chosen.record.noise is not None:
            arguments["factor"] = params.factor(stratum)
        if "kept" in chosen.record.required:
            arguments["kept"] = layout.given(part)
        if grouped.averaged:  # each record has a mean of its own
            singles = np.arange(len(part)), np.arange(len(part) + 1)
            released = synthesize(grouped.centres(), *singles, name, rng=rng, **arguments)
        else:
            released = synthesize(grouped.features, *grouped.sorted[0], name, rng=rng, **arguments)
        return np.concatenate([released, part[:, layout.width :]], axis=1)

    count = partial(_counted, layout=layout, chosen=chosen)
    known = partial(_known, chosen=chosen, width=layout.width)
    counting: list[Step] = [Reduce("count groups", count, known, redrawn=True)]
    if layout.groupings == 1:
        with_near = Reduce("loss bound", near, lambda found, params: replace(params, distances=found.distances))
        counting.append(with_near)
    return (*counting, Rows("synthesize", make, stream=_SYNTHESIZE))


def _counted(
    part: FloatArray, layout: GroupLayout, chosen: Synthesis, stratum: int, draws: Callable[[str], np.random.Generator]
) -> StrataCounts:
    grouped = GroupedPart.of(part, layout)
    order, starts = grouped.sorted[0]
    exact = noise_scatter(starts, layout.width, rng=draws(_SYNTHESIZE)) if chosen.draws_first else None
    # Of several groupings that of the column
    grouping_of = range(layout.n_sensitive) if grouped.averaged else [0] * layout.n_sensitive
    labels = layout.labels(part)
    sizes, groups = counted(np.concatenate([np.diff(starts) for _, starts in grouped.sorted]))
    counts = GroupCounts(
        grouped=grouped.moments(),
        sizes=sizes,
        groups=groups,
        noise=exact,
        spread=GroupSpread.of(grouped.features, order, starts) if chosen.guarantee.needs_spread else None,
        classes=tuple(
            class_disclosure(labels[by], layout.codes(part, at), layout.shares[at]) for at, by in enumerate(grouping_of)
        ),
    )
    sampled = sampled_rows(len(part), chosen.rows, draws("loss bound")) if not grouped.averaged else np.arange(0)
    return StrataCounts((stratum,), (counts,), grouped.features[sampled])


def _known(strata: StrataCounts, chosen: Synthesis, width: int) -> TableGroups:
    """The noise scopes of all strata, and the factors of their noise."""
    grouped, noise = [counts.grouped for counts in strata.counts], chosen.record.noise
    scopes = [0] * len(grouped)
    if chosen.guarantee.scope != "table":
        scopes = list(range(len(grouped))) if noise is None else noise_scopes(grouped)
    factors = np.empty((0, width, width))
    if noise is not None:
        drawn = [counts.noise for counts in strata.counts if counts.noise is not None]
        scoped: list[NoiseScatter] | list[None] = together(drawn, scopes) if drawn else [None] * len(set(scopes))
        pairs = zip(together(grouped, scopes), scoped, strict=True)
        factors = np.stack([noise.factor(chosen.chosen, *pair) for pair in pairs])
    return TableGroups(strata.counts, np.array(scopes), factors, strata.sampled)


# --- Counts of groups


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Counts of whole groups."""

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
            tuple(a.merge(b) for a, b in zip(self.classes, other.classes, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class StrataCounts:
    """Counts by stratum, and a sample of records for the lower bound of the information loss."""

    strata: tuple[int, ...]  # Those that have records here, ascending
    counts: tuple[GroupCounts, ...]  # Of each of them
    sampled: FloatArray  # Features of the sampled records, shape (n_sampled, width)

    def merge(self, other: StrataCounts) -> StrataCounts:
        """Both together."""
        merged = dict(zip(self.strata, self.counts, strict=True))
        for stratum, counts in zip(other.strata, other.counts, strict=True):
            merged[stratum] = merged[stratum].merge(counts) if stratum in merged else counts
        strata = tuple(sorted(merged))
        sampled = np.concatenate([self.sampled, other.sampled])
        return StrataCounts(strata, tuple(merged[stratum] for stratum in strata), sampled)


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
    """Counts of all groups of the table."""

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
        return [counts.grouped for counts in self.counts]

    @property
    def spread(self) -> list[GroupSpread] | None:
        """The spread that errors of drawn moments depend on, one entry a stratum; None if not needed."""
        spreads = [counts.spread for counts in self.counts if counts.spread is not None]
        return spreads if len(spreads) == len(self.counts) else None

    @property
    def whole(self) -> GroupCounts:
        """Of the table."""
        return merge_all(self.counts)

    @property
    def smallest(self) -> int:
        """Records of the smallest group."""
        return int(min(counts.sizes[0] for counts in self.counts))

    @property
    def tallied_sizes(self) -> IntArray:
        """Records of each group, ascending, shape (n_groups,)."""
        table = self.whole
        return np.repeat(table.sizes, table.groups)

    def factor(self, stratum: int) -> FloatArray:
        """The factor of the noise of a stratum."""
        factor: FloatArray = self.factors[self.scopes[stratum]]
        return factor

    def loss_bound(self, k: int) -> LossBound | None:
        """A lower bound of the information loss; None where several groupings are averaged."""
        if self.distances is None:
            return None
        total = self.whole.grouped.total
        return bound_from_distances(self.distances, k, total.n, float(np.trace(total.scatter)))


# Pairs of records that may be measured, some tenths of a second: all up to 4,472 rows, 200 against all of 100,000
PAIRS = 20_000_000

FEWEST = 128  # Records measured of the largest tables


def sampled_rows(rows: int, of: int, rng: np.random.Generator) -> IntArray:
    """A random sample of rows for the lower bound; all rows of a small table."""
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
