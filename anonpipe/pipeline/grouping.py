"""Grouping as steps: groups of k or more form in each part, and missing numbers are filled from them.

The channels are the features, what they are drawn given, one channel of codes
for each class column, and at last the labels: one channel a grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.encoding.missing import fill_missing
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.grouping import cluster, constrain_classes, hold_units, refine, unit_points
from anonpipe.methods.steps import Rows
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Layout:
    """What the channels of a table masked in groups are."""

    k: int  # Records of a group at least
    # width, conditioning: columns of features, and of what these are drawn given
    width: int
    conditioning: int
    shares: tuple[FloatArray, ...] = ()  # Of each channel of classes the share of each class in the table
    # How many of these are class columns: groups must meet conditions in them, and what groups tell of them is counted
    told: int = 0
    # Of each grouping the classes that it looks at; one grouping that looks at none where it is empty
    grouped_by: tuple[int, ...] = ()
    # Features that are numbers, and of each the one that is above 0 where it is missing; None where it never is
    numbers: tuple[tuple[int, int | None], ...] = ()
    # Records that are of k units, whichever they are; None where each is one, and k records are
    least: int | None = None
    whole: bool = False  # Whether all records of a unit stay in one group

    @property
    def labels_at(self) -> int:
        """The first channel of labels."""
        return self._units_at + (self.least is not None)

    @property
    def _units_at(self) -> int:
        return self.width + self.conditioning + len(self.shares)

    @property
    def groupings(self) -> int:
        """How many groupings a part gets: one, or one a class column whose results are averaged."""
        return max(1, len(self.grouped_by))

    def features(self, part: FloatArray) -> FloatArray:
        """Columns of features."""
        return np.ascontiguousarray(part[:, : self.width])

    def given(self, part: FloatArray) -> FloatArray:
        """What they are drawn given."""
        return np.ascontiguousarray(part[:, self.width : self.width + self.conditioning])

    def codes(self, part: FloatArray, at: int) -> IntArray:
        """Codes of the classes of one channel."""
        return part[:, self.width + self.conditioning + at].astype(np.int64)

    def units(self, part: FloatArray) -> IntArray | None:
        """The unit of each record, from 0; None where each record is one."""
        return None if self.least is None else part[:, self._units_at].astype(np.int64)

    def points(self, part: FloatArray, weights: FloatArray) -> tuple[FloatArray, IntArray | slice]:
        """What is grouped, features by their weights in distances, and which of it stands for each record."""
        features, units = self.features(part) * np.sqrt(weights), self.units(part)
        return (features, slice(None)) if units is None or not self.whole else unit_points(features, units)

    def labels(self, part: FloatArray) -> list[IntArray]:
        """Labels of each grouping."""
        return [np.ascontiguousarray(each) for each in part[:, self.labels_at :].astype(np.int64).T]

    def with_labels(self, part: FloatArray, labels: list[IntArray]) -> FloatArray:
        """The part with other labels."""
        return np.concatenate([part[:, : self.labels_at], np.stack(labels, axis=1)], axis=1)


@dataclass(frozen=True)
class Asked:
    """Which method groups, and with what."""

    # method, options: of `anonpipe.methods.grouping.cluster`
    method: str
    options: Mapping[str, Any]
    effort: Any  # Of the local search that follows; None for none
    conditions: Mapping[str, Any]  # What groups must meet; empty for nothing


def group_steps(layout: Layout, asked: Asked, weights: FloatArray) -> tuple[Rows, ...]:
    """The steps that form groups in a part, and then fill missing numbers from the groups."""
    steps = [Rows("group", _step(_form, layout, asked, weights), channels=_with_labels(layout), stream="cluster")]
    if asked.effort is not None:
        steps.append(Rows("refine", _step(_refined, layout, asked, weights), stream="refine"))
    if asked.conditions:
        steps.append(Rows("classes", _step(_constrained, layout, asked, weights), stream="classes"))
    if layout.least is not None and not layout.whole:
        steps.append(Rows("units", _step(_with_units, layout, weights), stream="units"))
    return (*steps, Rows("fill", _step(_filled, layout), stream="fill"))


def _step(function: Callable[..., FloatArray], *fixed: Any) -> Callable[..., FloatArray]:
    """A function of a step, without what is known beforehand; most look at no params."""

    def made(part: FloatArray, *, params: Any, rng: np.random.Generator) -> FloatArray:
        return function(part, *fixed, rng=rng)

    return made


def _with_labels(layout: Layout) -> Callable[[int, Any], int]:
    return lambda given, params: layout.labels_at + layout.groupings


def _form(
    part: FloatArray, layout: Layout, asked: Asked, weights: FloatArray, *, rng: np.random.Generator
) -> FloatArray:
    """Groups by the chosen method, in one grouping or several."""
    points, own = layout.points(part, weights)
    told: list[dict[str, Any]] = [
        {"classes": layout.codes(part, at), "class_shares": layout.shares[at]} for at in layout.grouped_by
    ]
    labels = [cluster(points, layout.k, asked.method, rng=rng, **each, **asked.options) for each in told or [{}]]
    return layout.with_labels(part, [each[own] for each in labels])


def _refined(
    part: FloatArray, layout: Layout, asked: Asked, weights: FloatArray, *, rng: np.random.Generator
) -> FloatArray:
    """Groups after a local search."""
    points, own = layout.points(part, weights)
    labels = [each if isinstance(own, slice) else _of_points(each, own) for each in layout.labels(part)]
    refined = [refine(points, each, layout.k, asked.effort, rng=rng)[own] for each in labels]
    return layout.with_labels(part, refined)


def _of_points(labels: IntArray, own: IntArray) -> IntArray:
    """The label of each point, that all its records have."""
    return np.asarray(labels[np.unique(own, return_index=True)[1]])


def _constrained(
    part: FloatArray, layout: Layout, asked: Asked, weights: FloatArray, *, rng: np.random.Generator
) -> FloatArray:
    """Groups merged until every class column meets the conditions; one column's merging can undo another's."""
    features, made = layout.features(part) * np.sqrt(weights), []
    for labels in layout.labels(part):
        groups = -1
        while groups != int(labels.max()):
            groups = int(labels.max())
            for at in range(layout.told):
                codes, shares = layout.codes(part, at), layout.shares[at]
                labels = constrain_classes(features, labels, codes, class_shares=shares, **asked.conditions)
        made.append(labels)
    return layout.with_labels(part, made)


def _with_units(part: FloatArray, layout: Layout, weights: FloatArray, *, rng: np.random.Generator) -> FloatArray:
    """Groups changed until each has k units."""
    features, units = layout.features(part) * np.sqrt(weights), layout.units(part)
    if units is None:
        return part
    return layout.with_labels(part, [hold_units(features, each, units, layout.k) for each in layout.labels(part)])


def _filled(part: FloatArray, layout: Layout, *, rng: np.random.Generator) -> FloatArray:
    """Features with missing numbers filled from records of their group or near it; what cannot be stays at the mean."""
    columns, out = [at for at, _ in layout.numbers], part.copy()
    known = part[:, columns]
    for at, (_, flag) in enumerate(layout.numbers):
        if flag is not None:
            known[part[:, flag] > 0, at] = np.nan
    order, starts = sort_groups(layout.labels(part)[0])
    filled = fill_missing(known, range(len(columns)), order, starts, layout.least or layout.k, rng)
    out[:, columns] = np.where(np.isnan(filled), 0.0, filled)
    return out
