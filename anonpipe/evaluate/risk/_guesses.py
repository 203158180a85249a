"""How an attacker guesses a column from all others: by the closest record, or the one best value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numba as nb
import numpy as np

from anonpipe.evaluate.coding import Coding
from anonpipe.kernels.points import ascending
from anonpipe.kernels.tiles import TILE, Tiles
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


def guess_nearest(released: FloatArray, asked: FloatArray, coding: Coding) -> Guesses:
    """Guess each column of the records asked from all others by the closest released records, or those of a part.

    Ties go to the lower row. Time n_rows · n_asked · features.
    """
    of_released, of_asked = coding.compact(released), coding.compact(asked)
    ends = np.cumsum([features.shape[1] for features in of_released])
    features, queries = (np.ascontiguousarray(np.hstack(side)) for side in (of_released, of_asked))
    rows, squared = nearest_but_one(features, queries, ends, coding.jumps, NEIGHBOURS)
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
    """The value on which most of some neighbours agree, and how many do.

    Shapes: values, squared (n, count); returns (n,).
    """
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


def nearest_but_one(
    features: FloatArray, queries: FloatArray, ends: IntArray, jumps: FloatArray, wanted: int
) -> tuple[IntArray, FloatArray]:
    """Nearest points to each query in all attributes but one, ties to the lower row: (m, n_attributes, wanted)."""
    rows = np.zeros((len(queries), len(ends), wanted), dtype=np.int64)
    best = np.full(rows.shape, np.inf)
    if len(features):
        tiles, (n, width) = Tiles.of(features), features.shape
        columns = np.zeros((len(tiles.low) * TILE, width))
        columns[:n] = features[tiles.order]
        columns = np.ascontiguousarray(columns.reshape(-1, TILE, width).transpose(0, 2, 1))
        low, high = np.ascontiguousarray(tiles.low.T), np.ascontiguousarray(tiles.high.T)
        _search_tiles(features, queries, ends, jumps, tiles.order, low, high, columns, rows, best)
    return rows, best


@nb.njit(cache=True, nogil=True)
def _search_tiles(
    features: FloatArray,
    queries: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    order: IntArray,
    low: FloatArray,
    high: FloatArray,
    columns: FloatArray,
    rows: IntArray,
    best: FloatArray,
) -> None:
    """Fill `rows` and `best`; low, high (width, n_tiles); columns (n_tiles, width, TILE)."""
    n, tiles, attributes = features.shape[0], low.shape[1], ends.shape[0]
    total, reach = np.empty(max(tiles, TILE)), np.empty(max(tiles, TILE))
    bounds, parts, borders = np.empty(tiles), np.empty(attributes), np.empty(attributes)
    for q in range(queries.shape[0]):
        query, fresh = queries[q], 1
        borders[:] = 0.0
        _add_up(low, high, tiles, query, ends, jumps, borders, total, reach)
        for at in range(tiles):
            bounds[at] = total[at] - reach[at]
        nearest_first = ascending(bounds)
        for turn in range(tiles):
            for a in range(attributes):
                borders[a] = best[q, a, -1]
            if turn == fresh:  # what was found since rules more tiles out
                _add_up(low, high, tiles, query, ends, jumps, borders, total, reach)
                for at in range(tiles):
                    bounds[at] = total[at] * (1.0 - 1e-12) - reach[at]
                fresh *= 4
            at = nearest_first[turn]
            if turn > 0 and bounds[at] > 0.0:
                continue
            count = min(TILE, n - at * TILE)
            _add_up(columns[at], columns[at], count, query, ends, jumps, borders, total, reach)
            for i in range(count):
                if total[i] * (1.0 - 1e-12) <= reach[i]:
                    row = order[at * TILE + i]
                    _improve(features[row], query, ends, jumps, parts, row, rows[q], best[q])


@nb.njit(cache=True, nogil=True)
def _add_up(
    low: FloatArray,
    high: FloatArray,
    count: int,
    query: FloatArray,
    ends: IntArray,
    jumps: FloatArray,
    borders: FloatArray,
    total: FloatArray,
    reach: FloatArray,
) -> None:
    """Least squared distances of some boxes or points (width, n), and up to where they may be near enough.

    In all but attribute a one is near if the distance without the part of a is at most the border of a: if the whole
    is at most the largest sum of a part and its border.
    """
    part, total, reach = np.zeros(count), total[:count], reach[:count]
    total[:] = 0.0
    reach[:] = 0.0
    begin = 0
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
            part[:] = 0.0
        begin = last + 1


@nb.njit(cache=True, nogil=True)
def _apart(low: float, high: float, value: float, jump: float) -> float:
    """Squared distance of an entry from an interval, or from another entry that is both its ends."""
    if jump > 0:
        return jump if (value < low) | (value > high) else 0.0
    below, above = low - value, value - high
    step = below if below > above else above
    step = step if step > 0.0 else 0.0
    return step * step


@nb.njit(cache=True, nogil=True)
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
        distance, at = before + parts[a], best.shape[1] - 1
        if distance < best[a, at] or (distance == best[a, at] and row < rows[a, at]):
            while at > 0 and (distance < best[a, at - 1] or (distance == best[a, at - 1] and row < rows[a, at - 1])):
                best[a, at], rows[a, at] = best[a, at - 1], rows[a, at - 1]
                at -= 1
            best[a, at], rows[a, at] = distance, row
        for j in range(begin, ends[a]):
            before += _apart(point[j], point[j], query[j], jumps[a])
        begin = ends[a]
