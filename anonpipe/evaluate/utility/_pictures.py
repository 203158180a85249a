"""Distributions and correlations of both tables for pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anonpipe.columns import Kind
from anonpipe.evaluate.utility._moments import pairwise_correlations
from anonpipe.evaluate.utility._survival import (
    EVENTS_OF_K,
    RECORDS_OF_K,
    Followed,
    compared_endpoints,
    cumulative_incidence,
    followed,
    grouped,
)
from anonpipe.evaluate.utility._tables import BothColumns, Endpoint, TypedTables
from anonpipe.types import BoolArray, FloatArray, IntArray

_MOST_BINS = 40
_OTHER, _EMPTY = "(other)", "(empty text)"


@dataclass(frozen=True)
class Binning:
    """How values are put into bins and categories that are shown."""

    least: int  # Original records that each holds or more: bins are joined, rare categories are ``(other)``
    least_released: int = 0  # Released records that each holds
    from_release: bool = False  # Whether edges, and which categories are shown, follow from the release alone
    rounded: int = 1  # Counts of the original are shown in multiples of this
    # Where `least` records are of this many units for certain, as units have several; words then tell of units alone.
    # None where they tell of records.
    units: int | None = None

    def enough(self, counts: IntArray) -> bool:
        """Whether a bin holds enough records of both tables, given shape (2,)."""
        return bool(counts[0] >= self.least and counts[1] >= self.least_released)

    def shown_count(self, count: int) -> int:
        """A count of the original as it is shown, rounded: never none where there is some."""
        return max(self.rounded, round(count / self.rounded) * self.rounded) if count else 0


@dataclass(frozen=True)
class Distribution:
    """Counts of one column by bin or category."""

    name: str
    kind: Kind
    # Numbers and dates (days since 1970-01-01): one more than bins, a bin being [edge, next edge); the first and the
    # last are None, as outer bins are open. Empty for categories.
    edges: tuple[float | None, ...]
    labels: tuple[str, ...]  # Categories; the last may be ``(other)``. Empty for numbers and dates.
    original: tuple[int, ...]  # Counts by bin or category; empty where there are too few records
    released: tuple[int, ...]  # Likewise
    original_records: int  # Values and nulls
    released_records: int  # Likewise
    original_nulls: int | None  # None where some, but fewer than k, are null
    released_nulls: int
    note: str = ""  # Why there are no bins


def distributions(tables: TypedTables, binning: Binning) -> tuple[Distribution, ...]:
    """Counts of every column in common bins, none of them of fewer original records than asked.

    Edges are multiples of a round step, never values of the data, and no version shows extremes: outer bins begin near
    the 1 % and 99 % quantiles. Bins differ in width once joined: draw counts per width.
    """
    return tuple(_distribution(column, binning) for column in tables.columns)


def _distribution(column: BothColumns, binning: Binning) -> Distribution:
    sides = column.known
    nulls = np.array([np.isnan(column.old).sum(), np.isnan(column.new).sum()])
    edges: tuple[float | None, ...] = ()
    labels: tuple[str, ...] = ()
    counts = np.zeros((2, 0), dtype=np.int64)
    enough = binning.enough(np.array([len(side) for side in sides]))
    if enough and column.kind.coded:
        by_level = [np.bincount(side.astype(np.int64), minlength=len(column.levels)) for side in sides]
        labels, counts = _by_category(np.array(by_level), column.levels, column.kind, binning)
    elif enough:
        whole = column.kind in (Kind.INTEGER, Kind.DATE)
        inner = _round_edges(sides[1] if binning.from_release else np.concatenate(sides), whole)
        inner, counts = joined(inner, binned(sides, inner), binning)
        edges = (None, *inner.tolist(), None)

    records = np.array([len(column.old), len(column.new)])
    of_units = f"values of fewer than {binning.units} units"
    few = f"fewer than {binning.least} values" if binning.units is None else of_units
    note = "" if counts.shape[1] else few
    of = np.array([records, nulls])
    return _shown(column.name, column.kind, counts, of, binning, edges=edges, labels=labels, note=note)


def _shown(name: str, kind: Kind, counts: IntArray, of: IntArray, binning: Binning, **about: Any) -> Distribution:
    """Original counts as they are shown; shapes: counts (2, n_bins), `of`: records and nulls of both tables (2, 2)."""
    (records, released_records), (nulls, released_nulls) = of.tolist()
    return Distribution(
        name,
        kind,
        original=tuple(map(binning.shown_count, counts[0].tolist())),
        released=tuple(counts[1].tolist()),
        original_records=binning.shown_count(records),
        released_records=released_records,
        original_nulls=None if 0 < nulls < binning.least else binning.shown_count(nulls),
        released_nulls=released_nulls,
        **about,
    )


def _round_edges(values: FloatArray, whole: bool) -> FloatArray:
    """Multiples of a round step, up to 37 about the outer quantiles; half a unit below them for whole numbers."""
    low, high = np.quantile(values, [0.01, 0.99])
    if low == high:
        low, high = values.min(), values.max()
    span = float(high) / 2 - float(low) / 2  # halves, as the difference may overflow
    if span == 0:
        return np.empty(0)
    step = _round_step(span / (_MOST_BINS - 4) * 2)
    step = max(1.0, step) if whole else step
    first, last = math.floor(low / step), math.ceil(high / step)
    edges = np.array([float(f"{place * step:.12g}") for place in range(first, last + 1)])
    if whole:
        edges = np.append(edges, edges[-1] + step) - 0.5
        # Outer edges with nothing beyond them are no edges.
        edges = edges[(edges > values.min()) & (edges < values.max())]
    return np.unique(edges)[: _MOST_BINS - 1]


def _round_step(least: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{factor * power:.12g}") for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-12))


def binned(sides: tuple[FloatArray, FloatArray], edges: FloatArray) -> IntArray:
    """Counts of both tables, shape (2, n_edges + 1)."""
    places = (np.searchsorted(edges, side, side="right") for side in sides)
    return np.array([np.bincount(place, minlength=len(edges) + 1) for place in places])


def joined(edges: FloatArray, counts: IntArray, binning: Binning) -> tuple[FloatArray, IntArray]:
    """Bins joined from the left until each has enough; what is left at the end goes to the last."""
    kept, sums = [], [np.zeros(2, dtype=np.int64)]
    for place in range(counts.shape[1]):
        sums[-1] = sums[-1] + counts[:, place]
        if place < len(edges) and binning.enough(sums[-1]):
            kept.append(edges[place])
            sums.append(np.zeros(2, dtype=np.int64))
    if len(sums) > 1 and not binning.enough(sums[-1]):
        last = sums.pop()
        sums[-1] = sums[-1] + last
        kept.pop()
    return np.array(kept, dtype=np.float64), np.array(sums).T


def category_distribution(
    name: str, kind: Kind, levels: Sequence[object], counts: IntArray, binning: Binning
) -> Distribution:
    """Distribution of a categorical column of which the counts are known, nulls last, shape (2, n_levels + 1)."""
    values, nulls, records = counts[:, :-1], counts[:, -1], counts.sum(axis=1)
    labels, shown = _by_category(values, levels, kind, binning, join=False)
    left_out = bool((values.sum(axis=1) - shown.sum(axis=1)).any())
    note = f"categories that fewer than {binning.least} records have are left out" if left_out else ""
    return _shown(name, kind, shown, np.array([records, nulls]), binning, edges=(), labels=labels, note=note)


def _by_category(
    counts: IntArray, levels: Sequence[object], kind: Kind, binning: Binning, join: bool = True
) -> tuple[tuple[str, ...], IntArray]:
    """Names and counts; rare categories, and all but the most frequent, in one (or, without `join`, left out)."""
    order = np.argsort(-counts[1 if binning.from_release else 0], kind="stable")
    shown = [int(place) for place in order if binning.enough(counts[:, place])][: _MOST_BINS - 1]
    other = counts.sum(axis=1) - counts[:, shown].sum(axis=1)
    while join and shown and other.any() and not binning.enough(other):
        other = other + counts[:, shown.pop()]
    if kind in (Kind.ORDINAL, Kind.BINARY):
        shown.sort()
    # of a code that is a whole number without the point that the table's type may add
    named = (levels[place] for place in shown)
    texts = (f"{one:.0f}" if isinstance(one, float) and one.is_integer() else str(one) for one in named)
    labels = tuple(text or _EMPTY for text in texts)
    if other.any() and (join or binning.enough(other)):
        return (*labels, _OTHER), np.column_stack([counts[:, shown], other])
    return labels, counts[:, shown]


@dataclass(frozen=True, eq=False)
class CorrelationMatrices:
    """Correlations of both tables, NaN for constants: moments of the original, not for recipients."""

    names: tuple[str, ...]
    original: FloatArray
    released: FloatArray


def correlation_changes(tables: TypedTables) -> CorrelationMatrices:
    """Correlations of the numbers and dates of both tables, over the records in which neither of a pair is null."""
    old, new = tables.number_arrays()
    names = tuple(column.name for column in tables.numbers)
    return CorrelationMatrices(names, pairwise_correlations(old), pairwise_correlations(new))


# --- Survival curves of both tables for pictures: no point of them rests on fewer events than asked -------------------

_MOST_PANELS = 24  # Groups of an endpoint that are drawn


@dataclass(frozen=True)
class SurvivalPanel:
    """Both curves of all records, or of a group."""

    column: str  # Which; empty for all records
    group: str  # Likewise
    times: tuple[float, ...]  # From 0, at multiples of a round step between which k events lie
    original: tuple[float, ...]  # Share that survives each time; with competing events, share that had the event before
    released: tuple[float, ...]  # Likewise
    records: int  # Original ones, as they may be shown


@dataclass(frozen=True)
class SurvivalPicture:
    """The panels of an endpoint, the first of all records; groups that are too small have none."""

    endpoint: Endpoint  # Which
    panels: tuple[SurvivalPanel, ...]  # In the order of the columns
    left_out: int  # Groups that could have been drawn, and are too many


def survival_pictures(
    tables: TypedTables, endpoints: Sequence[Endpoint], binning: Binning
) -> tuple[SurvivalPicture, ...]:
    """Survival curves of both tables at common round times, between any two of which k events or more lie.

    Kaplan-Meier curves, or with competing events cumulative incidences.

    A group is drawn where it has 10 k original records and k events. Those of a column that are not drawn (nulls are
    one) have as many together, or one more is left out: all records less those that are drawn would tell of them.
    """
    tables = replace(tables, least=binning.least)
    return tuple(_picture(tables, endpoint, binning) for endpoint in compared_endpoints(tables, endpoints))


def _picture(tables: TypedTables, endpoint: Endpoint, binning: Binning) -> SurvivalPicture:
    old, new = followed(tables, endpoint)
    whole = next(column.kind for column in tables.columns if column.name == endpoint.time) is Kind.INTEGER
    panels = []
    for column, labels, groups, others in grouped(tables, endpoint, old):
        drawn = range(len(labels)) if not column else _not_by_difference(old, groups, len(labels), tables.least)
        for at in drawn:
            sides = _part(old, groups == at), _part(new, others == at)
            label = labels[at] if column else ""
            panels.append(_panel(column, label, *sides, binning, whole, falls=not endpoint.competing))
    kept = [panel for panel in panels if panel is not None]
    return SurvivalPicture(endpoint, tuple(kept[: _MOST_PANELS + 1]), max(0, len(kept) - _MOST_PANELS - 1))


def _not_by_difference(old: Followed, groups: IntArray, count: int, least: int) -> list[int]:
    """The groups that are drawn, so that what is left of all records is enough, or nothing."""
    own = groups[old.known]
    sizes, events = (np.bincount(part + 1, minlength=count + 1) for part in (own, groups[old.events]))
    rest, happened = sizes[0], events[0]
    drawn = [int(at) for at in np.argsort(-sizes[1:], kind="stable")]
    while drawn and rest and (rest < RECORDS_OF_K * least or happened < EVENTS_OF_K * least):
        gone = drawn.pop() + 1
        rest, happened = rest + sizes[gone], happened + events[gone]
    return sorted(drawn)


def _part(side: Followed, which: BoolArray) -> Followed:
    """The records with a time of a group."""
    rows = which & side.known
    return Followed(side.times[rows], side.outcomes[rows], side.weights[rows])


def _panel(
    column: str, group: str, old: Followed, new: Followed, binning: Binning, whole: bool, *, falls: bool
) -> SurvivalPanel | None:
    """Both curves at common times; None where these would be none."""
    happened = old.times[old.events], new.times[new.events]
    if not binning.enough(np.array([len(each) for each in happened])) or not len(new.times):
        return None
    placed = happened[1] if binning.from_release and len(happened[1]) else np.concatenate(happened)
    edges = _round_edges(placed, whole)
    if np.ptp(old.weights) > 0:
        edges = _undominated(old, edges)
    inner, _ = joined(edges, binned(happened, edges), binning)
    times = np.concatenate([[0.0], inner[inner > 0]])
    if len(times) < 2:
        return None
    shares = _share_before(old, times, falls)
    records = binning.shown_count(len(old.times))
    steps = records / binning.rounded  # shares in steps of the exact number would give that
    shown = np.rint(shares * steps) / steps if binning.rounded > 1 else shares
    at, before, after = (tuple(points.tolist()) for points in (times, shown, _share_before(new, times, falls)))
    return SurvivalPanel(column, group, at, before, after, records)


def _undominated(side: Followed, edges: FloatArray) -> FloatArray:
    """Edges between which no event has more than half of the weights: joined from the left, the rest to the last."""
    places = np.searchsorted(edges, side.times[side.events], side="right")
    sums, largest = np.zeros((2, len(edges) + 1))
    np.add.at(sums, places, side.weights[side.events])
    np.maximum.at(largest, places, side.weights[side.events])
    kept, parts = [], [(0.0, 0.0)]
    for place, (total, most) in enumerate(zip(sums, largest, strict=True)):
        parts[-1] = parts[-1][0] + total, max(parts[-1][1], most)
        if place < len(edges) and parts[-1][0] >= 2 * parts[-1][1] > 0:
            kept.append(edges[place])
            parts.append((0.0, 0.0))
    while kept and parts[-1][0] < 2 * parts[-1][1]:
        (total, most), _ = parts.pop(), kept.pop()
        parts[-1] = parts[-1][0] + total, max(parts[-1][1], most)
    return np.array(kept)


def _share_before(side: Followed, times: FloatArray, falls: bool) -> FloatArray:
    """Share with the event before each time, what happens at it left out; if it falls, the share without it."""
    at, risen = cumulative_incidence(side.times, side.outcomes, side.weights)
    shares = np.append(0.0, risen)[np.searchsorted(at, times, side="left")]
    return 1.0 - shares if falls else shares
