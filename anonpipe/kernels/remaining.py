"""The records still to be grouped: the furthest one, the nearest ones, taking one out.

They lie in leaves of near records. Queries bound leaves by their box and their reach from a fixed centre, then look at
records, along axes that the compiler vectorises. Distances are summed as `squared_distances` does: answers, ties
included, are those of a loop over all records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import add_row, insert_nearest, split_rows, squared_distance, squared_distances
from anonpipe.types import BoolArray, FloatArray, IntArray

ROOM = 72  # Records that one of several leaves has room for
FEW = 4096  # Up to so many records bounds save less than they cost; all records are then one leaf
_SOME = 1024  # Records that tell along which column a set varies most
_TRIAL = 64  # Queries after which bounds are judged
_USEFUL = 3  # Bounds pay where queries look into less than one in so many leaves


class Remaining(NamedTuple):
    """Records by leaf, and bounds of leaves."""

    values: FloatArray  # Records of each leaf, shape (n_leaves, width, room)
    ids: IntArray  # Their row numbers, shape (n_leaves, room)
    counts: IntArray  # How many there are, shape (n_leaves,)
    places: IntArray  # leaf * room + place of each row of the table; -1 for rows not here
    # low, high, reach: the box of each leaf, (width, n_leaves), and its largest squared distance to the centre,
    # (n_leaves,); of no records from infinity to minus infinity
    low: FloatArray
    high: FloatArray
    reach: FloatArray
    loose: BoolArray  # Whether records have left since these were set, which are then no tighter than they could be
    looked: IntArray  # Leaves that queries have looked into, and queries, shape (2,)
    centre: FloatArray  # Mean of the records at the start, shape (width,)
    bounds: FloatArray  # Room to work in
    distances: FloatArray  # Likewise


@kernel
def remaining_records(features: FloatArray, rows: IntArray, few: int) -> Remaining:
    """Put `rows` of `features` (n_rows, width), one or more, into leaves; up to `few` into a single one."""
    room = rows.shape[0]
    if room > few:
        rows, room = rows.copy(), int(ROOM)
        halve(features, rows, room, int(_SOME))
    return _lay_out(features, rows, room)


@kernel
def halve(features: FloatArray, rows: IntArray, room: int, some: int) -> None:
    """Sort rows so that every `room` of them are near: halves along the column in which about `some` vary most."""
    values = np.empty(rows.shape[0])
    stack = [(0, rows.shape[0])]
    while len(stack) > 0:
        start, end = stack.pop()
        if end - start <= room:
            continue
        part = rows[start:end]
        column = _widest_column(features, part[:: max(1, part.shape[0] // some)])
        for i in range(part.shape[0]):
            values[i] = features[part[i], column]
        left = -(-part.shape[0] // room) // 2 * room
        split_rows(part, values[: part.shape[0]], left)
        stack.append((start, start + left))
        stack.append((start + left, end))


@kernel
def _widest_column(features: FloatArray, rows: IntArray) -> int:
    """The column in which `rows` have the largest variance."""
    widest, most = 0, -1.0
    for j in range(features.shape[1]):
        first, total, squares = features[rows[0], j], 0.0, 0.0
        for i in rows:
            step = features[i, j] - first
            total += step
            squares += step * step
        spread = squares - total * total / rows.shape[0]
        if spread > most:
            widest, most = j, spread
    return widest


@kernel
def _lay_out(features: FloatArray, rows: IntArray, room: int) -> Remaining:
    """Write records into leaves in the order given, and set all bounds."""
    n, width = rows.shape[0], features.shape[1]
    leaves = -(-n // room)
    tree = Remaining(
        np.zeros((leaves, width, room)),
        np.zeros((leaves, room), dtype=np.int64),
        np.zeros(leaves, dtype=np.int64),
        np.full(features.shape[0], -1, dtype=np.int64),
        np.zeros((width, leaves)),
        np.zeros((width, leaves)),
        np.zeros(leaves),
        np.zeros(leaves, dtype=np.bool_),
        np.zeros(2, dtype=np.int64),
        np.zeros(width),
        np.empty(leaves),
        np.empty(room),
    )
    for i in range(n):
        leaf, place = divmod(i, room)
        tree.ids[leaf, place] = rows[i]
        tree.places[rows[i]] = i
        tree.counts[leaf] = place + 1
        for j in range(width):
            tree.values[leaf, j, place] = features[rows[i], j]
            tree.centre[j] += features[rows[i], j] / n
    for leaf in range(leaves):
        _set_bounds(tree, leaf)
    return tree


@kernel
def _set_bounds(tree: Remaining, leaf: int) -> None:
    """Set box and reach of a leaf from its records."""
    values, centre, radii, count = tree.values[leaf], tree.centre, tree.distances, tree.counts[leaf]
    radii[:count] = 0.0
    for j in range(centre.shape[0]):
        low, high = np.inf, -np.inf
        for i in range(count):
            value = values[j, i]
            low = value if value < low else low
            high = value if value > high else high
            step = value - centre[j]
            radii[i] += step * step
        tree.low[j, leaf], tree.high[j, leaf] = low, high
    reach = -np.inf
    for i in range(count):
        reach = max(reach, radii[i])
    tree.reach[leaf], tree.loose[leaf] = reach, False


@kernel
def take_rows(tree: Remaining, rows: IntArray) -> None:
    """Remove records one after the other; the last one of its leaf takes the place of each."""
    # Arrays by themselves: to reach for them in the tree takes longer than the work.
    values, ids, counts, places, loose = tree.values, tree.ids, tree.counts, tree.places, tree.loose
    for row in rows:
        leaf, place = divmod(places[row], ids.shape[1])
        counts[leaf] -= 1
        last = counts[leaf]
        ids[leaf, place] = ids[leaf, last]
        places[ids[leaf, last]] = places[row]
        places[row] = -1
        for j in range(values.shape[1]):
            values[leaf, j, place] = values[leaf, j, last]
        loose[leaf] = True


@kernel
def take_group(
    tree: Remaining, features: FloatArray, sums: FloatArray, rows: IntArray, labels: IntArray, label: int
) -> None:
    """Give `rows` their label; take them out of `tree` and of the `sums` of what remains."""
    take_rows(tree, rows)
    for row in rows:
        labels[row] = label
        add_row(sums, features, row, -1.0)


@kernel
def tidied(features: FloatArray, tree: Remaining, few: int = FEW) -> Remaining:
    """The records laid out again where a quarter of the room is empty, else `tree` itself."""
    # All go into one leaf when they are few, or bounds of little use, as where many columns are independent
    leaves, n, queries = tree.counts.shape[0], tree.counts.sum(), tree.looked[1]
    useless = queries >= _TRIAL and _USEFUL * tree.looked[0] > queries * leaves
    if leaves > 1 and n > 0 and (useless or 4 * n <= 3 * tree.ids.size):
        rows = np.empty(n, dtype=np.int64)
        found = 0
        for leaf in range(leaves):
            for place in range(tree.counts[leaf]):
                rows[found] = tree.ids[leaf, place]
                found += 1
        tree = remaining_records(features, rows, n if useless else few)
    return tree


@kernel
def _look(tree: Remaining, leaf: int, point: FloatArray) -> None:
    """Write the squared distances of a leaf's records; bounds of one of several that records have left are set."""
    if tree.loose[leaf] and tree.counts.shape[0] > 1:
        _set_bounds(tree, leaf)
    squared_distances(tree.values[leaf], tree.counts[leaf], point, tree.distances)
    tree.looked[0] += 1


@kernel
def _bound_furthest(tree: Remaining, point: FloatArray) -> None:
    """Bound the squared distances of each leaf's records from above; below 0 for no records."""
    # With u = point - centre, the squared distance of a record x is |x - centre|² + |u|² - 2 (x - centre)·u:
    # the first is the reach at most, the last least in a corner of the box. The slack covers rounding, of this sum and
    # of the distance; its last term numbers too small for relative slack.
    low, high, reach, centre, out = tree.low, tree.high, tree.reach, tree.centre, tree.bounds
    squared = squared_distance(point, centre)
    slack = 1.0 + 1e-14 * (16 + point.shape[0])
    for leaf in range(out.shape[0]):
        out[leaf] = (reach[leaf] + squared) * slack + 1e-300
    for j in range(point.shape[0]):
        u, c = 2.0 * (point[j] - centre[j]), centre[j]
        side = low[j] if u > 0.0 else high[j]
        for leaf in range(out.shape[0]):
            out[leaf] += (c - side[leaf]) * u


@kernel
def furthest_record(tree: Remaining, point: FloatArray, again: bool) -> int:
    """Row of the record furthest from a point; of equals, the lowest row."""
    # `again`: the last query was from this point, and no record has left: a single leaf has its distances already
    ids, counts, bounds, distances = tree.ids, tree.counts, tree.bounds, tree.distances
    _bound_furthest(tree, point)
    first = int(np.argmax(bounds))
    largest, row = 0.0, -1
    for turn in range(-1, bounds.shape[0]):
        leaf = first if turn < 0 else turn
        if not bounds[leaf] >= largest or turn == first:
            continue
        if not again or counts.shape[0] > 1:
            _look(tree, leaf, point)
        for i in range(counts[leaf]):
            value = distances[i]
            if value >= largest and (value > largest or row < 0 or ids[leaf, i] < row):
                largest, row = value, ids[leaf, i]
    tree.looked[1] += 1
    return row


@kernel
def _bound_nearest(tree: Remaining, point: FloatArray) -> None:
    """Bound the squared distances of each leaf's records from below; infinity for no records."""
    # Summed as the records' own distances, from steps no larger: no rounding lifts a bound above one of them
    low, high, out = tree.low, tree.high, tree.bounds
    out[:] = 0.0
    for j in range(point.shape[0]):
        p = point[j]
        for leaf in range(out.shape[0]):
            below, above = low[j, leaf] - p, p - high[j, leaf]
            step = below if below > above else above
            step = step if step > 0.0 else 0.0
            out[leaf] += step * step


@kernel
def nearest_records(tree: Remaining, point: FloatArray, rows: IntArray, nearest: FloatArray) -> None:
    """Write as many nearest records as `rows` has room for, and squared distances, nearest first, ties by row."""
    ids, counts, bounds, distances = tree.ids, tree.counts, tree.bounds, tree.distances
    _bound_nearest(tree, point)
    first = int(np.argmin(bounds))
    border = np.finfo(np.float64).max
    rows[:], nearest[:] = -1, np.inf
    for turn in range(-1, bounds.shape[0]):
        leaf = first if turn < 0 else turn
        if bounds[leaf] > border or turn == first:
            continue
        _look(tree, leaf, point)
        for i in range(counts[leaf]):
            if distances[i] <= border and insert_nearest(rows, nearest, ids[leaf, i], distances[i]):
                border = min(border, nearest[-1])
    tree.looked[1] += 1
