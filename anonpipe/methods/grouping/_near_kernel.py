"""Near points of every point, in time linear in the points.

Each point looks at the others of its block, under two ways of cutting blocks,
and then at the near points of its near points. The second look crosses the
borders of the blocks and finds nearly all of the nearest ones. Up to `EXACT`
points are compared all with all.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from anonpipe.kernels.blocks import block_order
from anonpipe.kernels.distance import gather_columns, squared_distances
from anonpipe.types import FloatArray, IntArray

ListArray = npt.NDArray[np.int32]

EXACT = 1_000


def near_records(features: FloatArray, count: int, block: int) -> ListArray:
    """Numbers of about the `count` nearest other points of each, nearest first.

    The idea that a neighbour's neighbour is likely one, too, is Dong, Moses
    and Li 2011, doi:10.1145/1963405.1963487; here nothing is drawn at random.

    Shapes: features (n, width).

    Examples
    --------
    >>> near_records(np.array([[0.0], [5.0], [1.0], [7.0]]), 2, 4).tolist()
    [[2, 1], [3, 2], [0, 1], [1, 2]]
    """
    n = len(features)
    count = max(0, min(count, n - 1))
    near = np.full((n, count), -1, dtype=np.int32)
    distances = np.full((n, count), np.inf)
    if count == 0:
        return near
    if n <= EXACT:
        compare_in_blocks(features, np.arange(n), np.array([0, n]), near, distances)
        return near
    for turned in (False, True):
        # A block never has fewer points than a list can hold.
        compare_in_blocks(features, *block_order(features, max(block, 2 * count + 2), turned=turned), near, distances)
    ask_neighbours(features, near, distances)
    return near


@nb.njit(cache=True, nogil=True)
def offer(near: ListArray, distances: FloatArray, other: int, distance: float) -> None:
    """Put `other` into one point's sorted list if it belongs there and is not in it."""
    at = near.shape[0] - 1
    if distance > distances[at] or (distance == distances[at] and other >= near[at] >= 0):
        return
    for known in near:
        if known == other:
            return
    while at > 0 and (distance < distances[at - 1] or (distance == distances[at - 1] and other < near[at - 1])):
        distances[at] = distances[at - 1]
        near[at] = near[at - 1]
        at -= 1
    distances[at] = distance
    near[at] = other


@nb.njit(cache=True, nogil=True)
def compare_in_blocks(
    features: FloatArray, order: IntArray, starts: IntArray, near: ListArray, distances: FloatArray
) -> None:
    """Offer every point all others of its block."""
    last = near.shape[1] - 1
    for block in range(starts.shape[0] - 1):
        rows = order[starts[block] : starts[block + 1]]
        columns = gather_columns(features, rows)
        out = np.empty(rows.shape[0])
        for i in rows:
            squared_distances(columns, rows.shape[0], features[i], out)
            for at in range(rows.shape[0]):
                if out[at] <= distances[i, last] and rows[at] != i:
                    offer(near[i], distances[i], rows[at], out[at])


@nb.njit(cache=True, nogil=True)
def ask_neighbours(features: FloatArray, near: ListArray, distances: FloatArray) -> None:
    """Offer every point the near points of its near points, and itself to them."""
    asked = np.full(features.shape[0], -1, dtype=np.int64)
    last = near.shape[1] - 1
    for i in range(features.shape[0]):
        first = near[i].copy()
        asked[i] = i
        for j in first:
            asked[j] = i
        for j in first:
            for h in near[j]:
                if asked[h] == i:
                    continue
                asked[h] = i
                distance = 0.0
                for t in range(features.shape[1]):
                    distance += (features[h, t] - features[i, t]) ** 2
                if distance <= distances[i, last]:
                    offer(near[i], distances[i], h, distance)
                if distance <= distances[h, last]:
                    offer(near[h], distances[h], i, distance)


@nb.njit(cache=True, nogil=True)
def both_ways(near: ListArray) -> tuple[IntArray, ListArray]:
    """Lists in which j is one of i's wherever i is one of j's."""
    n = near.shape[0]
    starts = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        starts[i + 1] += near.shape[1]
        for j in near[i]:
            if not names(near[j], i):
                starts[j + 1] += 1
    starts = np.cumsum(starts)
    others = np.empty(starts[n], dtype=np.int32)
    ends = starts[:n] + near.shape[1]
    for i in range(n):
        others[starts[i] : starts[i] + near.shape[1]] = near[i]
        for j in near[i]:
            if not names(near[j], i):
                others[ends[j]] = i
                ends[j] += 1
    return starts, others


@nb.njit(cache=True, nogil=True)
def names(numbers: ListArray, i: int) -> bool:
    """Whether i is among the few `numbers`."""
    for j in numbers:  # noqa: SIM110 - compiled
        if j == i:
            return True
    return False
