"""Records of rows are linked into units: each takes the nearest record that follows its last row."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def _distance(
    one: FloatArray, other: FloatArray, codes: IntArray, others: IntArray, weights: FloatArray, total: float, most: float
) -> float:  # fmt: skip
    """The squared distance on from `total`, and the weight of each code that differs; wrong where above `most`."""
    for j in range(one.shape[0]):
        step = one[j] - other[j]
        total += step * step
        if total > most:
            return total
    for j in range(codes.shape[0]):
        if codes[j] != others[j]:
            total += weights[j]
    return total


@nb.njit(cache=True, nogil=True)
def _live(after: IntArray, at: int) -> int:
    """The place at which `after` ends from a place on; the way there is shortened."""
    end = at
    while after[end] != end:
        end = after[end]
    while after[at] != end:
        after[at], at = end, after[at]
    return end


@nb.njit(cache=True, nogil=True)
def _nearest(
    state: FloatArray, codes: IntArray, target: float, rest: IntArray, row: FloatArray, sought: FloatArray,
    sought_codes: IntArray, weights: FloatArray, above: IntArray, below: IntArray,
) -> int:  # fmt: skip
    """The place in `rest` of the nearest unused record, of equally near ones the first record; -1 for none."""
    low, high = 0, rest.shape[0]
    while low < high:
        middle = (low + high) // 2
        if row[rest[middle]] < target:
            low = middle + 1
        else:
            high = middle
    up, down = _live(above, low), _live(below, low)  # `below` counts places from 1, and 0 is none
    best, found = np.inf, -1
    while True:
        from_up = (row[rest[up]] - target) ** 2 if up < rest.shape[0] else np.inf
        from_down = (row[rest[down - 1]] - target) ** 2 if down > 0 else np.inf
        start = min(from_up, from_down)
        if start == np.inf or start > best:
            return found
        if from_up <= from_down:
            at, up = up, _live(above, up + 1)
        else:
            at, down = down - 1, _live(below, down - 1)
        record = rest[at]
        total = _distance(state, sought[record], codes, sought_codes[record], weights, start, best)
        if total < best or (total == best and record < rest[found]):
            best, found = total, at


@nb.njit(cache=True, nogil=True)
def _nearest_unit(
    record: int, rows: IntArray, state: FloatArray, codes: IntArray, targets: FloatArray, row: FloatArray,
    sought: FloatArray, sought_codes: IntArray, weights: FloatArray,
) -> int:  # fmt: skip
    """The unit whose state is nearest to what a record seeks, of equally near ones the first."""
    best, found = np.inf, 0
    for u in range(rows.shape[0]):
        start = (row[record] - targets[min(rows[u], targets.shape[0] - 1)]) ** 2
        if start < best:
            total = _distance(state[u], sought[record], codes[u], sought_codes[record], weights, start, best)
            if total < best:
                best, found = total, u
    return found


@nb.njit(cache=True, nogil=True)
def link(
    first: IntArray, rest: IntArray, wanted: IntArray, targets: FloatArray, row: FloatArray, state: FloatArray,
    codes: IntArray, sought: FloatArray, sought_codes: IntArray, weights: FloatArray, left: FloatArray,
    left_codes: IntArray, gap: FloatArray,
) -> tuple[IntArray, IntArray]:  # fmt: skip
    """The unit of each record, and its place there from 0 on; both (n_records,).

    Units begin with the records `first`. In turn for the second and each further row, every unit that wants one takes
    the unused record that is nearest to its state, until none is left. Of these each goes to the nearest unit then.

    Parameters
    ----------
    first, rest
        Records that begin units, (n_units,), and all others by their `row`, ascending.
    wanted
        Rows that each unit wants.
    targets, row
        A unit's second, third ... row from place 1 on, and the row that a record is, on the scale of distances.
    state, codes
        Numbers and codes of the last row of each unit and of the unit, (n_units, width) and (n_units, n_codes). The
        last number is that by which rows are ordered. They change here.
    sought, sought_codes, weights
        The same of the row before, as a record says it, (n_records, ...); what is added where a code differs.
    left, left_codes, gap
        What a record leaves in the first columns of a unit's state, and what it adds to the last number.
    """
    unit, place = np.full(row.shape[0], -1), np.zeros(row.shape[0], dtype=np.int64)
    rows = np.ones(first.shape[0], dtype=np.int64)
    above, below = np.arange(rest.shape[0] + 1), np.arange(rest.shape[0] + 1)
    for u in range(first.shape[0]):
        unit[first[u]] = u
    unused, step = rest.shape[0], 1
    while unused > 0:
        wants = False
        for u in range(first.shape[0]):
            if wanted[u] <= step or unused == 0:
                continue
            target = targets[step]
            at = _nearest(state[u], codes[u], target, rest, row, sought, sought_codes, weights, above, below)
            above[at], below[at + 1] = at + 1, at
            wants, unused = True, unused - 1
            _append(u, rest[at], unit, place, rows, state, codes, left, left_codes, gap)
        step += 1
        if not wants:
            break
    for at in range(rest.shape[0]):
        if unit[rest[at]] < 0:
            u = _nearest_unit(rest[at], rows, state, codes, targets, row, sought, sought_codes, weights)
            _append(u, rest[at], unit, place, rows, state, codes, left, left_codes, gap)
    return unit, place


@nb.njit(cache=True, nogil=True)
def _append(
    u: int, record: int, unit: IntArray, place: IntArray, rows: IntArray, state: FloatArray, codes: IntArray,
    left: FloatArray, left_codes: IntArray, gap: FloatArray,
) -> None:  # fmt: skip
    """Make a record the next row of a unit."""
    unit[record], place[record] = u, rows[u]
    rows[u] += 1
    for j in range(left.shape[1]):
        state[u, j] = left[record, j]
    for j in range(left_codes.shape[1]):
        codes[u, j] = left_codes[record, j]
    state[u, state.shape[1] - 1] += gap[record]
