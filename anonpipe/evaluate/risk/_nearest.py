"""The nearest records of each query: exact, ties included, in parts that can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import LARGEST, insert_nearest, squared_distance
from anonpipe.kernels.remaining import halve
from anonpipe.types import Float32Array, FloatArray, IntArray

TILE = 128  # Rows of a tile, the last one excepted

_LOOKED_AT = 64  # Rows from which is judged along which column others are halved

_CHUNK = 128  # Queries whose distances are looked at together, so that the compiler does several at once


class Tiles(NamedTuple):
    """The rows of a table, every `TILE` of them near each other, and the box of each such tile."""

    order: IntArray  # Rows tile by tile, shape (n_rows,)
    low: FloatArray  # Least of each tile and column, shape (n_tiles, width)
    high: FloatArray  # Most of each

    @classmethod
    def of(cls, features: FloatArray, order: IntArray | None = None) -> Self:
        """Of points (n_rows, width), one or more; `order`: of an earlier search for rows that were near there too."""
        order = near_order(features) if order is None else order
        low = np.full((-(-len(order) // TILE), features.shape[1]), np.inf)
        high = -low
        _enclose_tiles(features, order, low, high)
        return cls(order, low, high)

    def nearest_middle(self, centre: FloatArray, unit: float, scaled: Float32Array) -> IntArray:
        """The tile whose box has its middle nearest to each query, (n_queries,): a guess, not exact."""
        middles = (((self.low + self.high) / 2.0 - centre) / unit).astype(np.float32)
        norms, first = np.einsum("ij,ij->i", middles, middles), np.empty(len(scaled), dtype=np.int64)
        for start in range(0, len(scaled), _CHUNK):
            part = slice(start, start + _CHUNK)
            first[part] = (norms - 2.0 * (scaled[part] @ middles.T)).argmin(axis=1)
        return first


def near_order(features: FloatArray, room: int = TILE) -> IntArray:
    """Rows in an order in which every `room` of them are near each other, for one or several searches."""
    order = np.arange(len(features))
    halve(np.ascontiguousarray(features), order, room, _LOOKED_AT)
    return order


@kernel
def _enclose_tiles(features: FloatArray, order: IntArray, low: FloatArray, high: FloatArray) -> None:
    """Widen the boxes (n_tiles, width) by the points of each tile."""
    for i in range(order.shape[0]):
        at, row = i // TILE, order[i]
        for j in range(features.shape[1]):
            value = features[row, j]
            low[at, j] = value if value < low[at, j] else low[at, j]
            high[at, j] = value if value > high[at, j] else high[at, j]


@kernel
def queries_near_box(
    low: FloatArray, high: FloatArray, columns: FloatArray, borders: FloatArray, near: IntArray
) -> int:
    """Write which queries, given as `columns` (width, n), are no further from a box than their border; how many."""
    apart, count = np.empty(_CHUNK), 0
    for start in range(0, columns.shape[1], _CHUNK):
        length = min(_CHUNK, columns.shape[1] - start)
        apart[:length] = 0.0
        for j in range(low.shape[0]):
            least, most, column = low[j], high[j], columns[j, start : start + length]
            for i in range(length):
                below, above = least - column[i], column[i] - most
                step = below if below > above else above
                step = step if step > 0.0 else 0.0
                apart[i] += step * step
        for i in range(length):
            if apart[i] <= borders[start + i]:
                near[count] = start + i
                count += 1
    return count


@dataclass(frozen=True)
class Nearest:
    """The nearest records of each query, nearest first, ties by row number."""

    squared: FloatArray  # Squared distances, shape (n_queries, count); inf where there are fewer than `count` records
    rows: IntArray  # Row numbers of the records, of the same shape; -1 where there are fewer
    # The records themselves, shape (n_queries, count, width), NaN where there are fewer; None where they were not asked
    # for
    values: FloatArray | None = None
    labels: IntArray | None = None  # A number of each record, such as of its group; None where there is none

    @property
    def distances(self) -> FloatArray:
        """Euclidean distances, shape (n_queries, count)."""
        return np.sqrt(self.squared)

    def part(self, queries: slice, count: int, values: bool = False) -> Nearest:
        """The `count` nearest records of some of the queries, with `values` if they were kept and are wanted."""
        kept = self.values[queries, :count] if values and self.values is not None else None
        return Nearest(self.squared[queries, :count], self.rows[queries, :count], kept)


def nearest(
    features: npt.ArrayLike,
    queries: npt.ArrayLike,
    count: int,
    *,
    offset: int = 0,
    without: npt.ArrayLike | None = None,
    values: bool = False,
    order: IntArray | None = None,
    within: FloatArray | None = None,
) -> Nearest:
    """The `count` records of `features` that are nearest to each query, by Euclidean distance.

    - `features`, `queries`: finite numbers, shapes (n_rows, width), of all records or a part, and (n_queries, width).
    - `count`: how many to find, 1 or more.
    - `offset`: number of the first row of `features` in the whole; it is added to the row numbers.
    - `without`: for each query the number in the whole of one row that it must not find, such as itself, or -1.
    - `values`: whether to keep the found records too.
    - `order`: all rows of `features`, as of `near_order`; it saves time and changes nothing.
    - `within`: for each query a squared distance beyond which nothing is found. That of the last of as many records of
      another part saves time, and changes nothing that is merged of both.

    Squares are added column by column, so that a distance has the same bits wherever its record stands and however the
    table is cut.

    Tiles of near records are ruled out by their boxes, most others by a product of matrices; neither decides what is
    found. Time grows with n_rows · n_queries · width, or with less. Memory besides the result: a few megabytes, and
    for each record one number.
    """
    features, queries = table(features, "records"), table(queries, "queries")
    own = np.full(len(queries), -1) if without is None else np.asarray(without, dtype=np.int64)
    # A row of another part cannot be found here.
    here = np.where((own >= offset) & (own < offset + len(features)), own - offset, -1)
    rows, squared = np.empty((len(queries), count), dtype=np.int64), np.empty((len(queries), count))
    search_nearest(features, queries, here, rows, squared, order, within)
    kept = None
    if values:
        some = features if len(features) else np.empty((1, features.shape[1]))
        kept = np.where(rows[..., None] >= 0, some[rows], np.nan)
    return Nearest(squared, np.where(rows >= 0, rows + offset, -1), kept)


def merge_nearest(parts: Sequence[Nearest]) -> Nearest:
    """The nearest records of the whole, as many as the longest part has, from those of its parts.

    The parts, in any order, are of the same queries, found with offsets so that no row number is in two of them.
    """
    squared, rows = (
        np.concatenate(arrays, axis=1) for arrays in zip(*((p.squared, p.rows) for p in parts), strict=True)
    )
    order = np.lexsort((np.where(rows < 0, np.iinfo(np.int64).max, rows), squared), axis=1)
    order = order[:, : max(part.rows.shape[1] for part in parts)]
    kept = [part.values for part in parts if part.values is not None]
    labels = [part.labels for part in parts if part.labels is not None]
    return Nearest(
        np.take_along_axis(squared, order, axis=1),
        np.take_along_axis(rows, order, axis=1),
        np.take_along_axis(np.concatenate(kept, axis=1), order[..., None], axis=1) if kept else None,
        np.take_along_axis(np.concatenate(labels, axis=1), order, axis=1) if labels else None,
    )


def table(features: npt.ArrayLike, name: str) -> FloatArray:
    """A finite float64 table in C order."""
    features = np.ascontiguousarray(features, dtype=np.float64)
    if features.ndim != 2 or features.shape[1] == 0:
        raise InputError(f"the {name} have shape {features.shape}; give rows and one column or more")
    if features.size and not (features.min() >= -LARGEST and features.max() <= LARGEST):
        raise InputError(f"the {name} hold NaN, infinity or numbers above 1e100 in size; fill nulls and scale first")
    return features


# --- The nearest points of other points: boxes and a matrix product rule nearly all pairs out -------------------------
# Rows that are near each other make a tile. A query that is further from the box of a tile than from all that
# was found for it has none of its nearest there: the distance from a box is summed like that of a point, from steps no
# larger, so that no rounding lifts it above one. Of the other tiles a product is taken.
#
# Derivation. With points x and queries q, moved and divided so that all coordinates are at most
# 1, squared distances are |x|² + |q|² - 2 x·q. The product of all pairs is taken with numbers of 24
# bits, e = 2^-24, which is several times faster than measuring pair by pair. Rounding the coordinates,
# products and sums of w terms errs by at most 2 (w + 2) e |x| |q|, the norms and their sum by 5 e |x|² and
# e |q|² (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1). A point that is no further
# than d has |x| <= |q| + sqrt(d), thus |x|² <= 2 |q|² + 2 d, and its estimate of |x|² - 2 x·q is at most
#
#     d (1 + c e) - |q|² (1 - c e) + w 2^-140,    c = 4 w + 32,
#
# the last term for what is too small for such numbers. c has room for the terms of higher order, and
# for the rounding of d and of this limit. Pairs whose estimate is not above it are measured
# with all digits, column by column: what is found depends neither on the estimates nor on the order of the tiles.

_LEAST = 1e-140  # Smaller units have squares without all digits: the limit's last term is then above all estimates

_TOGETHER = 2_048  # Queries of a product, whose estimates stay in the cache with those of a tile

_TRIED = 16  # Points of the first tile that are measured for a first border


def search_nearest(
    features: FloatArray,
    queries: FloatArray,
    without: IntArray,
    rows: IntArray,
    squared: FloatArray,
    order: IntArray | None = None,
    within: FloatArray | None = None,
) -> None:
    """Write the nearest rows of each query that are within some squared distance, and their squared distances."""
    rows[:], squared[:] = -1, np.inf
    if not len(features) or not len(queries):
        return
    tiles, width = Tiles.of(features, order), features.shape[1]
    centre = (tiles.low.mean(axis=0) + tiles.high.mean(axis=0)) / 2.0
    ends = (tiles.low, tiles.high, queries)
    unit = max(
        _LEAST, *(float(np.maximum(side.max(axis=0) - centre, centre - side.min(axis=0)).max()) for side in ends)
    )
    error = (4 * width + 32) * 2.0**-24
    slope = (1 + error) / unit**2
    scaled = ((queries - centre) / unit).astype(np.float32)
    shift = width * 2.0**-140 - (((queries - centre) / unit) ** 2).sum(axis=1) * (1 - error)
    _first_borders(features, tiles.order, tiles.nearest_middle(centre, unit, scaled), queries, without, rows, squared)
    if within is not None:
        np.minimum(squared, np.nextafter(within, np.inf)[:, None], out=squared)
    parts = [slice(low, low + _TOGETHER) for low in range(0, len(queries), _TOGETHER)]
    columns, most = [np.ascontiguousarray(queries[part].T) for part in parts], min(_TOGETHER, len(queries))
    near = np.empty(most, dtype=np.int64)
    some, products = np.empty((most, width), dtype=np.float32), np.empty(TILE * most, dtype=np.float32)
    tile, norms = np.empty((TILE, width), dtype=np.float32), np.empty(TILE, dtype=np.float32)
    for at in range(len(tiles.low)):
        members = tiles.order[at * TILE : (at + 1) * TILE]
        turned = tile[: len(members)]
        _turn(features, members, centre, unit, turned, norms)
        for part, column in zip(parts, columns, strict=True):
            border = squared[part]
            last = np.ascontiguousarray(border[:, -1])
            found = near[: queries_near_box(tiles.low[at], tiles.high[at], column, last, near)]
            if len(found):
                chosen = np.take(scaled[part], found, axis=0, out=some[: len(found)], mode="clip")
                estimates = products[: len(members) * len(found)].reshape(len(members), len(found))
                np.matmul(turned, chosen.T, out=estimates)
                asked, own, shifts, kept = queries[part], without[part], shift[part], rows[part]
                _keep_nearer(features, members, asked, own, found, estimates, norms, slope, shifts, kept, border)
    squared[rows < 0] = np.inf


@kernel
def _turn(
    features: FloatArray, members: IntArray, centre: FloatArray, unit: float, tile: Float32Array, norms: Float32Array
) -> None:
    """Write -2 x of the points of a tile, moved and divided, and |x|²."""
    for i in range(members.shape[0]):
        norm = 0.0
        for j in range(centre.shape[0]):
            x = np.float32((features[members[i], j] - centre[j]) / unit)
            tile[i, j] = np.float32(-2.0) * x
            norm += np.float64(x) * np.float64(x)
        norms[i] = norm


@kernel
def _first_borders(
    features: FloatArray,
    order: IntArray,
    first: IntArray,
    queries: FloatArray,
    without: IntArray,
    rows: IntArray,
    squared: FloatArray,
) -> None:
    """Let `squared` begin right above distances of some points, so that what is nearer is found in its place."""
    count = rows.shape[1]
    for q in range(queries.shape[0]):
        begin, found = first[q] * TILE, 0
        for row in order[begin : begin + max(_TRIED, 2 * count)]:
            if row != without[q]:
                insert_nearest(rows[q], squared[q], row, squared_distance(features[row], queries[q]))
                found += 1
        squared[q] = np.nextafter(squared[q, count - 1], np.inf) if found >= count else np.inf
        rows[q] = -1


@kernel
def _keep_nearer(
    features: FloatArray,
    members: IntArray,
    queries: FloatArray,
    without: IntArray,
    found: IntArray,
    products: Float32Array,
    norms: Float32Array,
    slope: float,
    shift: FloatArray,
    rows: IntArray,
    squared: FloatArray,
) -> None:
    """Measure the points of a tile that may be nearer to a query than what is kept, and keep those that are."""
    last, limits = rows.shape[1] - 1, np.empty(found.shape[0], dtype=np.float32)
    for at in range(found.shape[0]):
        limits[at] = squared[found[at], last] * slope + shift[found[at]]
    for i in range(members.shape[0]):
        row, estimates, norm = members[i], products[i], norms[i]
        for low in range(0, found.shape[0], _CHUNK):
            high = min(low + _CHUNK, found.shape[0])
            if not _any_within(estimates[low:high], norm, limits[low:high]):
                continue
            for at in range(low, high):
                q = found[at]
                if estimates[at] + norm > limits[at] or row == without[q]:
                    continue
                if insert_nearest(rows[q], squared[q], row, squared_distance(features[row], queries[q])):
                    limits[at] = squared[q, last] * slope + shift[q]


@kernel
def _any_within(estimates: Float32Array, norm: float, limits: Float32Array) -> bool:
    """Counted to the end and with numbers of one width: so the compiler does several at once."""
    within = np.int32(0)
    for at in range(estimates.shape[0]):
        within += np.int32(estimates[at] + norm <= limits[at])
    return bool(within)


# --- Values as ranks in their own table -------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankLinkage:
    """Ranks in one table, as shares of its records.

    An intruder who compares ranks of the original with ranks of the release is not misled by a masker that moves or
    stretches whole columns.

    Muralidhar & Domingo-Ferrer (2016), Privacy in Statistical Databases, LNCS 9867:225-236,
    doi:10.1007/978-3-319-45381-1_17.
    """

    ordered: FloatArray  # Each column of the table sorted, shape (n_rows, width)

    @classmethod
    def of(cls, features: npt.ArrayLike) -> RankLinkage:
        """Of a table, or of a random sample of it: ranks are then estimates."""
        return cls(np.sort(table(features, "records"), axis=0))

    def apply(self, features: npt.ArrayLike) -> FloatArray:
        """Share of the table's records below each value, those that equal it counting half, 0 to 1."""
        columns = zip(self.ordered.T, table(features, "records").T, strict=True)
        ranks = [np.searchsorted(own, asked) + np.searchsorted(own, asked, side="right") for own, asked in columns]
        return np.stack(ranks, axis=1) / (2.0 * len(self.ordered))


# --- Records by Mahalanobis distance: differences across what columns have in common count more than those along it ---

SHRUNK = 0.1  # Part of the covariances that is taken away, so that columns that nearly follow from others decide less

LEAST = 1e-3  # Smallest variance of an axis, in parts of the largest


@dataclass(frozen=True)
class Whitened:
    """Axes on which original and released records together have variance 1 and no correlation, but for shrinkage.

    Noise that was added column by column hides little where columns go together: a record then differs from its own by
    directions in which others hardly differ at all.

    Torra & Domingo-Ferrer 2003 and Torra, Abowd & Domingo-Ferrer 2006, doi:10.1007/11930242_20 (record linkage by
    Mahalanobis distance); Ledoit & Wolf 2004 (shrinkage towards a diagonal).
    """

    axes: FloatArray  # Shape (width, width)

    @classmethod
    def of(cls, original: npt.ArrayLike, released: npt.ArrayLike) -> Whitened:
        """From random samples of both tables."""
        tables = [table(each, "records") for each in (original, released)]
        pooled = sum(np.atleast_2d(np.cov(each, rowvar=False, ddof=0)) for each in tables) / 2.0
        variances, directions = np.linalg.eigh((1.0 - SHRUNK) * pooled + SHRUNK * np.diag(np.diag(pooled)))
        least = LEAST * variances[-1] if variances[-1] > 0.0 else 1.0
        return cls(directions / np.sqrt(np.maximum(variances, least)))

    def apply(self, features: npt.ArrayLike) -> FloatArray:
        """Records on these axes."""
        return np.ascontiguousarray(table(features, "records") @ self.axes)
