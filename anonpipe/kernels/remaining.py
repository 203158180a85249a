"""The records still to be grouped: the furthest one, the nearest ones, taking one out.

Leaves of ROOM near records and branches of FAN leaves know their box and their reach from a fixed centre, kept exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from anonpipe.kernels.points import add_row, split_recursively, split_rows, squared_distances
from anonpipe.types import FloatArray, IntArray

# Queries bound branches, then leaves, then look at records, along axes that the compiler vectorises; distances are
# summed as `squared_distances` does: answers, ties included, are those of a loop over all records.

ROOM = 16  # Records a leaf has room for
FAN = 16  # Leaves of a branch
_FEW = 4096  # Up to so many records bounds save less than they cost; all records are then one leaf
_TRIAL = 64  # Queries after which bounds are judged
_USEFUL = 3  # Bounds pay where queries look into less than one in so many leaves


class Remaining(NamedTuple):
    """Records by leaf, and bounds of leaves and branches."""

    # values, ids, radii: of each leaf: the records (n_leaves, width, ROOM), their row numbers and their squared
    # distances to the centre (n_leaves, ROOM)
    values: FloatArray
    ids: IntArray
    radii: FloatArray
    places: IntArray  # leaf * ROOM + place of each row of the table; -1 for rows not here
    # low, high, reach, counts: of each branch and leaf in it: box (n_branches, width, FAN), largest of `radii` and
    # number of records (n_branches, FAN). An empty leaf has a box from infinity to minus infinity and reach -1.
    low: FloatArray
    high: FloatArray
    reach: FloatArray
    counts: IntArray
    # branch_low, branch_high, branch_reach: the same of whole branches, (1, width, n_branches) and (1, n_branches)
    branch_low: FloatArray
    branch_high: FloatArray
    branch_reach: FloatArray
    left: IntArray  # Number of records, shape (1,)
    looked: IntArray  # Leaves that queries have looked into, and queries, shape (2,)
    centre: FloatArray  # Mean of the records at the start, shape (width,)
    # branch_bounds, leaf_bounds, distances: room to work in
    branch_bounds: FloatArray
    leaf_bounds: FloatArray
    distances: FloatArray


@nb.njit(cache=True, nogil=True)
def remaining_records(features: FloatArray, rows: IntArray, few: int = _FEW) -> Remaining:
    """Put `rows` of `features` (n_rows, width), one or more, into leaves; up to `few` into a single one."""
    n = rows.shape[0]
    if n <= few:
        return _lay_out(features, rows, np.array([0, n]), n, int(1))
    branches = -(-n // (FAN * ROOM))
    here = features[rows]
    order, starts = split_recursively(here, branches, nb.boolean(False))
    for branch in range(branches):
        halve(here, order[starts[branch] : starts[branch + 1]], ROOM, n)
    return _lay_out(features, rows[order], starts, int(ROOM), int(FAN))


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
def _lay_out(features: FloatArray, rows: IntArray, starts: IntArray, room: int, fan: int) -> Remaining:
    """Write records into leaves in the order given; branch b gets `rows[starts[b]:starts[b + 1]]`."""
    n, width = rows.shape[0], features.shape[1]
    branches = starts.shape[0] - 1
    tree = Remaining(
        np.zeros((branches * fan, width, room)),
        np.zeros((branches * fan, room), dtype=np.int64),
        np.zeros((branches * fan, room)),
        np.full(features.shape[0], -1, dtype=np.int64),
        np.full((branches, width, fan), np.inf),
        np.full((branches, width, fan), -np.inf),
        np.full((branches, fan), -np.inf),
        np.zeros((branches, fan), dtype=np.int64),
        np.full((1, width, branches), np.inf),
        np.full((1, width, branches), -np.inf),
        np.full((1, branches), -np.inf),
        np.array([n]),
        np.zeros(2, dtype=np.int64),
        np.zeros(width),
        np.empty(branches),
        np.empty(fan),
        np.empty(room),
    )
    for row in rows:
        for j in range(width):
            tree.centre[j] += features[row, j] / n
    for branch in range(branches):
        _fill_branch(tree, branch, features, rows[starts[branch] : starts[branch + 1]])
    return tree


@nb.njit(cache=True, nogil=True)
def _fill_branch(tree: Remaining, branch: int, features: FloatArray, rows: IntArray) -> None:
    """Write records into the leaves of a branch, one leaf after the other, and set all bounds."""
    values, ids, radii, places = tree.values, tree.ids, tree.radii, tree.places
    low, high, reach, centre = tree.low, tree.high, tree.reach, tree.centre
    room, fan = ids.shape[1], reach.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        leaf, place = divmod(i, room)
        at = branch * fan + leaf
        ids[at, place] = row
        places[row] = at * room + place
        tree.counts[branch, leaf] = place + 1
        radius = 0.0
        for j in range(features.shape[1]):
            value = features[row, j]
            values[at, j, place] = value
            low[branch, j, leaf] = min(low[branch, j, leaf], value)
            high[branch, j, leaf] = max(high[branch, j, leaf], value)
            step = value - centre[j]
            radius += step * step
        radii[at, place] = radius
        reach[branch, leaf] = max(reach[branch, leaf], radius)
    # The bounds of the branch from those of its leaves
    tree.branch_reach[0, branch] = reach[branch].max()
    for j in range(features.shape[1]):
        tree.branch_low[0, j, branch] = _least(low, branch, j, fan)
        tree.branch_high[0, j, branch] = _most(high, branch, j, fan)


@nb.njit(cache=True, nogil=True)
def _least(values: FloatArray, at: int, column: int, count: int) -> float:
    """Smallest of the first `count` of `values[at, column]`, infinity of none."""
    least = np.inf
    for i in range(count):
        value = values[at, column, i]
        least = value if value < least else least
    return least


@nb.njit(cache=True, nogil=True)
def _most(values: FloatArray, at: int, column: int, count: int) -> float:
    """Largest of the first `count` of `values[at, column]`, minus infinity of none."""
    most = -np.inf
    for i in range(count):
        value = values[at, column, i]
        most = value if value > most else most
    return most


@nb.njit(cache=True, nogil=True)
def take_rows(tree: Remaining, rows: IntArray) -> None:
    """Remove records one after the other; the last one of its leaf takes the place of each."""
    # Arrays by themselves: to reach for them in the tree takes longer than the work.
    values, ids, radii, places, counts = tree.values, tree.ids, tree.radii, tree.places, tree.counts
    low, high, reach = tree.low, tree.high, tree.reach
    branch_low, branch_high, branch_reach = tree.branch_low, tree.branch_high, tree.branch_reach
    single = ids.shape[0] == 1
    for row in rows:
        if single:
            _leave_single(values, ids, places, counts, row)
        else:
            at, place = places[row] // ROOM, places[row] % ROOM
            branch, leaf = at // FAN, at % FAN
            last = counts[branch, leaf] - 1
            # The bounds that the record held are drawn closer.
            gone = radii[at, place]
            if gone == reach[branch, leaf]:
                reach[branch, leaf] = _most_but(radii[at], last + 1, place)
                if gone == branch_reach[0, branch]:
                    branch_reach[0, branch] = reach[branch].max()
            for j in range(values.shape[1]):
                gone = values[at, j, place]
                values[at, j, place] = values[at, j, last]
                if gone == low[branch, j, leaf]:
                    low[branch, j, leaf] = _least(values, at, j, last)
                    if gone == branch_low[0, j, branch]:
                        branch_low[0, j, branch] = _least(low, branch, j, int(FAN))
                if gone == high[branch, j, leaf]:
                    high[branch, j, leaf] = _most(values, at, j, last)
                    if gone == branch_high[0, j, branch]:
                        branch_high[0, j, branch] = _most(high, branch, j, int(FAN))
            _leave_leaf(ids, radii, places, counts, row)
    tree.left[0] -= rows.shape[0]


@nb.njit(cache=True, nogil=True)
def _leave_single(values: FloatArray, ids: IntArray, places: IntArray, counts: IntArray, row: int) -> None:
    """Remove a record from the only leaf; no bounds are kept."""
    place = places[row]
    counts[0, 0] -= 1
    last = counts[0, 0]
    ids[0, place] = ids[0, last]
    places[ids[0, last]] = place
    places[row] = -1
    for j in range(values.shape[1]):
        values[0, j, place] = values[0, j, last]


@nb.njit(cache=True, nogil=True)
def _leave_leaf(ids: IntArray, radii: FloatArray, places: IntArray, counts: IntArray, row: int) -> None:
    """Remove a record's number and radius from one of several leaves."""
    at, place = places[row] // ROOM, places[row] % ROOM
    counts[at // FAN, at % FAN] -= 1
    last = counts[at // FAN, at % FAN]
    ids[at, place] = ids[at, last]
    radii[at, place] = radii[at, last]
    places[ids[at, last]] = at * ROOM + place
    places[row] = -1


@nb.njit(cache=True, nogil=True)
def _most_but(values: FloatArray, count: int, place: int) -> float:
    """Largest of the first `count` values but that at `place`, minus infinity of none."""
    most = -np.inf
    for i in range(count):
        most = max(most, values[i] if i != place else most)
    return most


@nb.njit(cache=True, nogil=True)
def take_group(
    tree: Remaining, features: FloatArray, sums: FloatArray, rows: IntArray, labels: IntArray, label: int
) -> None:
    """Give `rows` their label; take them out of `tree` and of the `sums` of what remains."""
    take_rows(tree, rows)
    for row in rows:
        labels[row] = label
        add_row(sums, features, row, -1.0)


@nb.njit(cache=True, nogil=True)
def tidied(features: FloatArray, tree: Remaining, few: int = _FEW) -> Remaining:
    """The records moved together, in their order, where a quarter of the room is empty, else `tree` itself."""
    # All go into one leaf when they are few, or bounds of little use, as where many columns are independent
    n, fan, room = tree.left[0], tree.counts.shape[1], tree.ids.shape[1]
    leaves, queries = tree.ids.shape[0], tree.looked[1]
    if leaves == 1 or n == 0:
        return tree
    useless = queries >= _TRIAL and _USEFUL * tree.looked[0] > queries * leaves
    if not useless and 4 * n > 3 * tree.ids.size:
        return tree
    rows = np.empty(n, dtype=np.int64)
    found = 0
    for at in range(leaves):
        for place in range(tree.counts[at // fan, at % fan]):
            rows[found] = tree.ids[at, place]
            found += 1
    if useless or n <= few:
        return _lay_out(features, rows, np.array([0, n]), n, int(1))
    starts = np.minimum(np.arange(-(-n // (fan * room)) + 1) * (fan * room), n)
    return _lay_out(features, rows, starts, room, fan)


@nb.njit(cache=True, nogil=True)
def _distances(values: FloatArray, leaf: int, count: int, point: FloatArray, out: FloatArray) -> None:
    """Write the squared distances of a leaf's records, column by column; free places may get any number."""
    if values.shape[0] == 1:
        squared_distances(values[0], count, point, out)
        return
    out[:] = 0.0
    for j in range(point.shape[0]):
        p = point[j]
        for i in range(values.shape[2]):
            step = values[leaf, j, i] - p
            out[i] += step * step


@nb.njit(cache=True, nogil=True)
def _furthest_possible(
    low: FloatArray,
    high: FloatArray,
    reach: FloatArray,
    at: int,
    centre: FloatArray,
    apart: FloatArray,
    squared: float,
    out: FloatArray,
) -> None:
    """Bound the squared distances of one row of boxes from above; below 0 for an empty one."""
    # With u = point - centre (`apart`, of squared length `squared`), the squared distance of a record x is
    # |x - centre|² + |u|² - 2 (x - centre)·u: the first is the reach at most, the last least in a corner of the box.
    # The slack covers rounding, of this sum and of the distance; its last term numbers too small for relative slack.
    slack = 1.0 + 1e-14 * (16 + apart.shape[0])
    for i in range(out.shape[0]):
        out[i] = (reach[at, i] + squared) * slack + 1e-300
    for j in range(apart.shape[0]):
        u, c = 2.0 * apart[j], centre[j]
        side = low if u > 0.0 else high
        for i in range(out.shape[0]):
            out[i] += (c - side[at, j, i]) * u


@nb.njit(cache=True, nogil=True)
def furthest_record(tree: Remaining, point: FloatArray, again: bool) -> int:
    """Row of the record furthest from a point; of equals, the lowest row."""
    # `again`: the last query was from this point, and no record has left: a single leaf has its distances already
    values, ids, distances = tree.values, tree.ids, tree.distances
    low, high, reach, counts = tree.low, tree.high, tree.reach, tree.counts
    centre, branch_bounds, leaf_bounds = tree.centre, tree.branch_bounds, tree.leaf_bounds
    apart = point - centre
    squared = 0.0
    for j in range(apart.shape[0]):
        squared += apart[j] * apart[j]
    single = values.shape[0] == 1
    _furthest_possible(
        tree.branch_low, tree.branch_high, tree.branch_reach, int(0), centre, apart, squared, branch_bounds
    )
    first = int(np.argmax(branch_bounds))
    largest, row, looked = 0.0, -1, 0
    for turn in range(-1, branch_bounds.shape[0]):
        branch = first if turn < 0 else turn
        if not branch_bounds[branch] >= largest or turn == first:
            continue
        _furthest_possible(low, high, reach, branch, centre, apart, squared, leaf_bounds)
        for leaf in range(leaf_bounds.shape[0]):
            if not leaf_bounds[leaf] >= largest:
                continue
            at, count = branch * leaf_bounds.shape[0] + leaf, counts[branch, leaf]
            if not (again and single):
                _distances(values, at, count, point, distances)
            for i in range(count):
                value = distances[i]
                if value >= largest and (value > largest or row < 0 or ids[at, i] < row):
                    largest, row = value, ids[at, i]
            looked += 1
    tree.looked[0] += looked
    tree.looked[1] += 1
    return row


@nb.njit(cache=True, nogil=True)
def _nearest_possible(low: FloatArray, high: FloatArray, at: int, point: FloatArray, out: FloatArray) -> None:
    """Bound the squared distances of one row of boxes from below; infinity for an empty one."""
    # Summed as the records' own distances, from steps no larger: no rounding lifts a bound above one of them
    out[:] = 0.0
    for j in range(point.shape[0]):
        p = point[j]
        for i in range(out.shape[0]):
            below, above = low[at, j, i] - p, p - high[at, j, i]
            step = below if below > above else above
            step = step if step > 0.0 else 0.0
            out[i] += step * step


@nb.njit(cache=True, nogil=True)
def nearest_records(tree: Remaining, point: FloatArray, rows: IntArray, nearest: FloatArray) -> None:
    """Write as many nearest records as `rows` has room for, and squared distances, nearest first, ties by row."""
    values, ids, distances = tree.values, tree.ids, tree.distances
    low, high, counts = tree.low, tree.high, tree.counts
    branch_bounds, leaf_bounds = tree.branch_bounds, tree.leaf_bounds
    _nearest_possible(tree.branch_low, tree.branch_high, int(0), point, branch_bounds)
    first = int(np.argmin(branch_bounds))
    found, wanted, looked = int(0), rows.shape[0], 0
    border = np.finfo(np.float64).max
    for turn in range(-1, branch_bounds.shape[0]):
        branch = first if turn < 0 else turn
        if branch_bounds[branch] > border or turn == first:
            continue
        _nearest_possible(low, high, branch, point, leaf_bounds)
        start = int(np.argmin(leaf_bounds))
        for step in range(-1, leaf_bounds.shape[0]):
            leaf = start if step < 0 else step
            if leaf_bounds[leaf] > border or step == start:
                continue
            at, count = branch * leaf_bounds.shape[0] + leaf, counts[branch, leaf]
            _distances(values, at, count, point, distances)
            for i in range(count):
                if distances[i] <= border:
                    found = _insert(rows, nearest, found, ids[at, i], distances[i])
                    if found == wanted:
                        border = nearest[wanted - 1]
            looked += 1
    tree.looked[0] += looked
    tree.looked[1] += 1


@nb.njit(cache=True, nogil=True)
def _insert(rows: IntArray, distances: FloatArray, found: int, row: int, distance: float) -> int:
    """Put a record at its place in a sorted list, full or not, of `found` records; how many there are now."""
    at = found
    if found == rows.shape[0]:
        at -= 1
        if distance == distances[at] and row > rows[at]:
            return found
    else:
        found += 1
    while at > 0 and (distances[at - 1] > distance or (distances[at - 1] == distance and rows[at - 1] > row)):
        rows[at], distances[at] = rows[at - 1], distances[at - 1]
        at -= 1
    rows[at], distances[at] = row, distance
    return found
