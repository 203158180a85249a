"""The nearest points of other points: what a scan of all keeps, and a search of a tree."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.distance import squared_distance
from anonpipe.kernels.remaining import nearest_records, remaining_records
from anonpipe.types import Float32Array, FloatArray, IntArray

_CHUNK = 128  # Queries whose estimates are looked at together, so that the compiler does several at once


@nb.njit(cache=True, nogil=True)
def keep_nearer(
    features: FloatArray,
    first: int,
    queries: FloatArray,
    without: IntArray,
    products: Float32Array,
    norms: Float32Array,
    slope: float,
    shift: FloatArray,
    limits: Float32Array,
    rows: IntArray,
    squared: FloatArray,
) -> None:
    """Measure the points of a tile that may be nearer to a query than what is kept, and keep those that are.

    Shapes: features (n, width); products, norms (n_tile, m); slope, shift (m,); limits (m,).
    """
    last = rows.shape[1] - 1
    for i in range(products.shape[0]):
        row, estimates, norm = first + i, products[i], norms[i]
        for low in range(0, queries.shape[0], _CHUNK):
            high = min(low + _CHUNK, queries.shape[0])
            if not _any_within(estimates[low:high], norm, limits[low:high]):
                continue
            for q in range(low, high):
                if estimates[q] + norm > limits[q] or row == without[q]:
                    continue
                distance = squared_distance(features[row], queries[q])
                # Rows come in ascending order: one as far as the last that is kept is no nearer.
                if distance < squared[q, last]:
                    _insert(rows[q], squared[q], row, distance)
                    limits[q] = squared[q, last] * slope + shift[q]


@nb.njit(cache=True, nogil=True)
def _any_within(estimates: Float32Array, norm: float, limits: Float32Array) -> bool:
    """Counted to the end and with numbers of one width: so the compiler does several at once."""
    within = np.int32(0)
    for at in range(estimates.shape[0]):
        within += np.int32(estimates[at] + norm <= limits[at])
    return bool(within)


@nb.njit(cache=True, nogil=True)
def _insert(rows: IntArray, squared: FloatArray, row: int, distance: float) -> None:
    at = rows.shape[0] - 1
    while at > 0 and distance < squared[at - 1]:
        squared[at] = squared[at - 1]
        rows[at] = rows[at - 1]
        at -= 1
    squared[at] = distance
    rows[at] = row


@nb.njit(cache=True, nogil=True)
def search_nearest(
    features: FloatArray,
    queries: FloatArray,
    without: IntArray,
    rows: IntArray,
    squared: FloatArray,
    trial: int,
    useful: int,
) -> int:
    """The same as a scan, by a tree; returns how many queries were answered.

    All of them, or the first `trial` if these had to look into more than one
    of `useful` leaves, as happens with many columns: a scan is then faster.
    """
    tree = remaining_records(features, np.arange(features.shape[0]))
    rows[:] = -1
    squared[:] = np.inf
    room = min(rows.shape[1] + 1, features.shape[0])
    near, distances = np.empty(room, dtype=np.int64), np.empty(room)
    for q in range(queries.shape[0]):
        if q == trial and tree.looked[0] * useful > trial * tree.ids.shape[0]:
            return trial
        excluded = without[q] >= 0
        wanted = min(rows.shape[1] + excluded, room)
        nearest_records(tree, queries[q], near[:wanted], distances[:wanted])
        at = 0
        for i in range(wanted):
            if near[i] != without[q] and at < rows.shape[1]:
                rows[q, at] = near[i]
                squared[q, at] = distances[i]
                at += 1
    return int(queries.shape[0])
