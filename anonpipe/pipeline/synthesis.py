"""Synthesis as steps: all groups are counted, which gives the noise its covariance, and their records are replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anonpipe.errors import DamagedError, InputError
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.grouping import class_disclosure, smallest_distances, units_in_groups
from anonpipe.methods.record import Guarantee, Synthesizer
from anonpipe.methods.steps import Reduce, Rows, Step
from anonpipe.methods.synthesis import centroid, noise_scatter, synthesize
from anonpipe.moments import (
    GroupedMoments,
    GroupSpread,
    NoiseScatter,
    noise_scopes,
    together,
)
from anonpipe.pipeline.group_counts import (
    GroupCounts,
    NearestOfPart,
    StrataCounts,
    TableGroups,
    sampled_rows,
    sizes_of,
)
from anonpipe.pipeline.grouping import Layout
from anonpipe.types import FloatArray, IntArray

SYNTHESIZE = "synthesize"  # The stream of what synthesizers draw


@dataclass(frozen=True, eq=False)
class Grouped:
    """A part with its groupings, nearly always one."""

    features: FloatArray  # Shape (n_rows, width), missing numbers filled
    sorted: tuple[tuple[IntArray, IntArray], ...]  # `order` and `starts` of each grouping

    @classmethod
    def of(cls, part: FloatArray, layout: Layout) -> Grouped:
        """Recount the groups of a part."""
        every = layout.labels(part)
        if any(labels.min() < 0 or labels.max() >= len(part) for labels in every):  # before a kernel counts by them
            raise DamagedError(f"groups are not of the {len(part)} records of their part; run again without --resume")
        groups = tuple(sort_groups(labels) for labels in every)
        if any(int(np.diff(starts).min()) < layout.k for _, starts in groups):
            raise InputError(f"a group has fewer than k={layout.k} records; nothing is released")
        units = layout.units(part)
        if units is not None and any(int(units_in_groups(each, units).min()) < layout.k for each in every):
            raise InputError(f"a group has records of fewer than k={layout.k} units; nothing is released")
        return cls(layout.features(part), groups)

    @property
    def averaged(self) -> bool:
        """Whether several groupings are averaged."""
        return len(self.sorted) > 1

    def centres(self) -> FloatArray:
        """The mean of each record's group means, shape (n_rows, width)."""
        centres: FloatArray = np.mean([centroid(self.features, *each) for each in self.sorted], axis=0)
        return centres

    def moments(self) -> GroupedMoments:
        """Moments of the features, and what of their scatter the groups do not keep."""
        if self.averaged:
            return GroupedMoments.averaged(self.features, self.centres())
        return GroupedMoments.of(self.features, *self.sorted[0])


@dataclass(frozen=True)
class Synthesis:
    """Which synthesizer replaces records, and what it needs to know."""

    record: Synthesizer  # Of the synthesizer
    chosen: Any  # What the job tells it
    arguments: Mapping[str, Any]  # What it is given beyond groups, noise and kept columns
    guarantee: Guarantee  # What it guarantees
    rows: int  # Records of the table

    @property
    def draws_first(self) -> bool:
        """Whether its noise depends on all draws, which are then counted beforehand."""
        return self.record.noise is not None and self.record.noise.draws_first(self.chosen)


def synthesis_steps(layout: Layout, chosen: Synthesis) -> tuple[Step, Step]:
    """The steps that count all groups, and replace their records."""

    def count(
        part: FloatArray, *, params: TableGroups | None, stratum: int, draws: Callable[[str], np.random.Generator]
    ) -> StrataCounts | NearestOfPart:
        if params is not None:
            return NearestOfPart(smallest_distances(layout.features(part), params.sampled, layout.k))
        return _counted(part, layout, chosen, stratum, draws)

    def finish(
        found: StrataCounts | NearestOfPart, *, params: TableGroups | None, rng: np.random.Generator
    ) -> TableGroups:
        if params is not None and isinstance(found, NearestOfPart):
            return replace(params, distances=found.distances)
        if not isinstance(found, StrataCounts):
            raise DamagedError("groups were counted twice; run again without --resume")
        return _known(found, chosen, layout.width)

    def again(params: TableGroups) -> bool:
        return params.distances is None and layout.groupings == 1

    def make(part: FloatArray, *, params: TableGroups, rng: np.random.Generator, stratum: int) -> FloatArray:
        return _synthesized(part, layout, chosen, params, stratum, rng)

    counting = Reduce("count groups", count, finish, again, with_stratum=True, with_draws=True)
    return counting, Rows("synthesize", make, with_stratum=True, stream=SYNTHESIZE)


def _counted(
    part: FloatArray,
    layout: Layout,
    chosen: Synthesis,
    stratum: int,
    draws: Callable[[str], np.random.Generator],
) -> StrataCounts:
    grouped = Grouped.of(part, layout)
    order, starts = grouped.sorted[0]
    exact = noise_scatter(starts, layout.width, rng=draws(SYNTHESIZE)) if chosen.draws_first else None
    own = range(layout.told) if grouped.averaged else [0] * layout.told  # of several groupings that of the column
    labels = layout.labels(part)
    sizes, groups = sizes_of([np.diff(each) for _, each in grouped.sorted])
    counts = GroupCounts(
        grouped=grouped.moments(),
        sizes=sizes,
        groups=groups,
        noise=exact,
        spread=GroupSpread.of(grouped.features, order, starts) if chosen.guarantee.needs_spread else None,
        classes=tuple(
            class_disclosure(labels[by], layout.codes(part, at), layout.shares[at]) for at, by in enumerate(own)
        ),
    )
    sampled = sampled_rows(len(part), chosen.rows, draws("loss bound")) if not grouped.averaged else np.arange(0)
    return StrataCounts((stratum,), (counts,), grouped.features[sampled])


def _known(found: StrataCounts, chosen: Synthesis, width: int) -> TableGroups:
    """What follows from the counts of all strata: which share their noise, and its factors."""
    grouped, noise = [each.grouped for each in found.counts], chosen.record.noise
    scopes = [0] * len(grouped)
    if chosen.guarantee.scope != "table":
        scopes = list(range(len(grouped))) if noise is None else noise_scopes(grouped)
    factors = np.empty((0, width, width))
    if noise is not None:
        drawn = [each.noise for each in found.counts if each.noise is not None]
        scoped: list[NoiseScatter] | list[None] = together(drawn, scopes) if drawn else [None] * len(set(scopes))
        pairs = zip(together(grouped, scopes), scoped, strict=True)
        factors = np.stack([noise.factor(chosen.chosen, *pair) for pair in pairs])
    return TableGroups(found.counts, np.array(scopes), factors, found.sampled)


def _synthesized(
    part: FloatArray, layout: Layout, chosen: Synthesis, groups: TableGroups, stratum: int, rng: np.random.Generator
) -> FloatArray:
    """The part with features replaced, group by group."""
    grouped, given, name = Grouped.of(part, layout), dict(chosen.arguments), chosen.record.name
    if chosen.record.noise is not None:
        given["factor"] = groups.factor(stratum)
    if "kept" in chosen.record.required:
        given["kept"] = layout.given(part)
    if grouped.averaged:  # each record has a mean of its own
        every = np.arange(len(part)), np.arange(len(part) + 1)
        made = synthesize(grouped.centres(), *every, name, rng=rng, **given)
    else:
        made = synthesize(grouped.features, *grouped.sorted[0], name, rng=rng, **given)
    return np.concatenate([made, part[:, layout.width :]], axis=1)
