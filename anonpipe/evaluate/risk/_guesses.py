"""How an attacker guesses a column from all others: by the closest record, or the one best value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.evaluate.coding import Coding
from anonpipe.evaluate.risk._nearest import near_order
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import ascending, insert_nearest, largest
from anonpipe.types import FloatArray, IntArray

NEIGHBOURS = 5  # Closest released records whose agreement says how sure a guess is


@dataclass(frozen=True, eq=False)
class Guesses:
    """What the closest released records say of each column."""

    # Of each record asked and each column, the cells of the released records that are closest in all other columns,
    # shape (n_asked, n_columns, NEIGHBOURS), the closest first
    values: FloatArray
    squared: FloatArray  # Their squared distances; infinity where there are fewer

    def merge(self, later: Self) -> Self:
        """The closest of both, of equally close ones those of this one: `later` holds rows that come after."""
        values, squared = (
            np.concatenate(both, axis=2) for both in ((self.values, later.values), (self.squared, later.squared))
        )
        closest = np.argsort(squared, axis=2, kind="stable")[:, :, :NEIGHBOURS]
        return type(self)(np.take_along_axis(values, closest, 2), np.take_along_axis(squared, closest, 2))


def guess_nearest(released: FloatArray, asked: FloatArray, coding: Coding, within: FloatArray | None = None) -> Guesses:
    """Guess each column of the records asked from all others by the closest released records, or those of a part.

    Ties go to the lower row. Nothing is found beyond `within`, squared distances (n_asked, n_columns), such as those of
    the last neighbours in another part. Time n_rows · n_asked · features, or less.
    """
    of_released, of_asked = coding.compact(released), coding.compact(asked)
    ends = np.cumsum([features.shape[1] for features in of_released])
    features, queries = (np.ascontiguousarray(np.hstack(side)) for side in (of_released, of_asked))
    rows, squared = nearest_but_one(features, queries, ends, coding.jumps, NEIGHBOURS, within)
    return Guesses(released[rows, np.arange(released.shape[1])[:, None]], squared)


def best_constant(values: FloatArray, allowed: float) -> float:
    """The value around which most released ones lie, or null if there are more of those."""
    present = np.sort(values[~np.isnan(values)])
    if not len(present):
        return math.nan
    # The window of twice the allowed error that starts at each value.
    inside = np.searchsorted(present, present + 2 * allowed * (1 + 1e-9), side="right") - np.arange(len(present))
    first = int(np.argmax(inside))
    last = first + int(inside[first]) - 1
    return float(present[[first, last]].mean()) if inside[first] >= len(values) - len(present) else math.nan


# --- The surest of an intruder's guesses: those where the nearest released records agree, the nearer the surer --------

SHARES = (0.01, 0.05, 0.1)  # Shares of the guesses that are looked at by themselves

FEWEST = 5  # Fewer guesses than this are not looked at by themselves


def agreed(values: FloatArray, squared: FloatArray, allowed: float) -> tuple[FloatArray, IntArray]:
    """The value on which most of some neighbours, shape (n, count), agree, and how many do, shape (n,)."""
    found, null = np.isfinite(squared), np.isnan(values)
    with np.errstate(invalid="ignore"):
        same = np.abs(values[:, :, None] - values[:, None, :]) <= allowed * (1 + 1e-9)
    same |= null[:, :, None] & null[:, None, :]
    counts = (same & found[:, :, None] & found[:, None, :]).sum(axis=2)
    best = counts.argmax(axis=1)
    rows = np.arange(len(values))
    return values[rows, best], counts[rows, best]


def by_sureness(agree: IntArray, squared: FloatArray) -> IntArray:
    """Numbers of the guesses, the surest first: those on which most agree, of these the nearer ones; shape (n,)."""
    return np.asarray(np.lexsort((squared, -agree)))


def surest(ordered: IntArray, share: float) -> IntArray:
    """That share of the guesses, in the order of `by_sureness`; one more than none, and no more than all."""
    return ordered[: max(1, min(len(ordered), math.ceil(share * len(ordered) - 1e-9)))]


# --- The nearest points in all attributes but one, for every attribute in one pass ------------------------------------


_ROOM, _FAN = 64, 16  # Points of a leaf, and leaves of a branch: all that is looked at together stays in the cache


def nearest_but_one(
    features: FloatArray,
    queries: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    wanted: int,
    within: FloatArray | None = None,
) -> tuple[IntArray, FloatArray]:
    """Nearest points to each query in all attributes but one, ties to the lower row: (m, n_attributes, wanted)."""
    rows = np.full((len(queries), len(ends), wanted), -1)
    best = np.full(rows.shape, np.inf)
    if within is not None:
        best[:] = np.nextafter(within, np.inf)[..., None]
    if n := len(features):
        spread, width = features.std(axis=0), features.shape[1]
        order = near_order(features / np.sqrt(np.where(spread > 0, spread, 1.0)), _ROOM)
        padded = np.append(order, np.full(-n % (_ROOM * _FAN), order[-1]))
        points = features[padded].reshape(-1, _ROOM, width)
        low, high = (_by_column(side.reshape(-1, _FAN, width)) for side in (points.min(axis=1), points.max(axis=1)))
        branches = _by_column(low.min(axis=2)), _by_column(high.max(axis=2))
        _search_branches(features, queries, ends, jumps, order, branches, low, high, _by_column(points), rows, best)
    best[rows < 0] = np.inf
    return np.maximum(rows, 0), best


def _by_column(points: FloatArray) -> FloatArray:
    """Points (..., n, width) as columns (..., width, n)."""
    return np.ascontiguousarray(points.swapaxes(-1, -2))


@kernel
def _search_branches(
    features: FloatArray,
    queries: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    order: IntArray,
    boxes: tuple[FloatArray, FloatArray],
    low: FloatArray,
    high: FloatArray,
    columns: FloatArray,
    rows: IntArray,
    best: FloatArray,
) -> None:
    """Fill `rows` and `best`; boxes (width, n_branches); low, high (n_branches, width, _FAN); columns of the leaves."""
    n, branches, attributes = features.shape[0], boxes[0].shape[1], ends.shape[0]
    total, reach, bounds = np.empty(branches), np.empty(branches), np.empty(branches)
    leaf_total, leaf_reach, point_total, point_reach = np.empty(_FAN), np.empty(_FAN), np.empty(_ROOM), np.empty(_ROOM)
    part, parts, borders = np.empty(max(branches, _ROOM)), np.empty(attributes), np.empty(attributes)
    for q in range(queries.shape[0]):
        query = queries[q]
        borders[:] = 0.0
        _add_up(boxes[0], boxes[1], query, ends, jumps, borders, part, total, reach)
        for branch in range(branches):
            bounds[branch] = total[branch] * (1.0 - 1e-12) - reach[branch]  # without its largest part
        for branch in ascending(bounds):
            for a in range(attributes):
                borders[a] = best[q, a, -1]
            if bounds[branch] > largest(borders):
                break
            _add_up(low[branch], high[branch], query, ends, jumps, borders, part, leaf_total, leaf_reach)
            for leaf in range(_FAN):
                begin = (branch * _FAN + leaf) * _ROOM
                if begin >= n or leaf_total[leaf] * (1.0 - 1e-12) > leaf_reach[leaf]:
                    continue
                points = columns[begin // _ROOM]
                for a in range(attributes):
                    borders[a] = best[q, a, -1]
                _add_up(points, points, query, ends, jumps, borders, part, point_total, point_reach)
                for i in range(min(_ROOM, n - begin)):
                    if point_total[i] * (1.0 - 1e-12) <= point_reach[i]:
                        row = order[begin + i]
                        _improve(features[row], query, ends, jumps, parts, row, rows[q], best[q])


@kernel
def _add_up(
    low: FloatArray,
    high: FloatArray,
    query: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    borders: FloatArray,
    part: FloatArray,
    total: FloatArray,
    reach: FloatArray,
) -> None:
    """Least squared distances of some boxes or points (width, n), and up to where they may be near enough."""
    # In all but attribute a one is near if the distance without the part of a is at most the border of a: if the whole
    # is at most the largest sum of a part and its border.
    count, begin = total.shape[0], 0
    total[:] = 0.0
    reach[:] = 0.0
    part[:count] = 0.0
    for a in range(ends.shape[0]):
        jump, border, last = jumps[a], borders[a], ends[a] - 1
        for j in range(begin, last):
            for i in range(count):
                part[i] += _apart(low[j, i], high[j, i], query[j], jump)
        for i in range(count):
            own = part[i] + _apart(low[last, i], high[last, i], query[last], jump)
            total[i] += own
            near = own + border
            reach[i] = near if near > reach[i] else reach[i]
        if last > begin:
            part[:count] = 0.0
        begin = last + 1


@kernel
def _apart(low: float, high: float, value: float, jump: float) -> float:
    """Squared distance of an entry from an interval, or from another entry that is both its ends."""
    if jump > 0:
        return jump if (value < low) | (value > high) else 0.0
    below, above = low - value, value - high
    step = below if below > above else above
    step = step if step > 0.0 else 0.0
    return step * step


@kernel
def _improve(
    point: FloatArray,
    query: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    parts: FloatArray,
    row: int,
    rows: IntArray,
    best: FloatArray,
) -> None:
    """Take the point for the attributes that it is nearer without: sums before plus sums after, no difference."""
    begin, after = 0, 0.0
    for a in range(ends.shape[0]):
        parts[a] = 0.0
        for j in range(begin, ends[a]):
            parts[a] += _apart(point[j], point[j], query[j], jumps[a])
        begin = ends[a]
    # From the last attribute back, parts become the sums after each.
    for a in range(ends.shape[0] - 1, -1, -1):
        parts[a], after = after, after + parts[a]
    before, begin = 0.0, 0
    for a in range(ends.shape[0]):
        distance = before + parts[a]
        if distance <= best[a, -1]:
            insert_nearest(rows[a], best[a], row, distance)
        for j in range(begin, ends[a]):
            before += _apart(point[j], point[j], query[j], jumps[a])
        begin = ends[a]
