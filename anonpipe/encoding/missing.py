"""Missing numbers filled for the moments of a group; which values are missing is carried beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numba import njit

from anonpipe.kernels.points import largest_group
from anonpipe.kernels.principal import block_order
from anonpipe.types import BoolArray, FloatArray, IntArray

DONORS = 20  # Records, those with missing values among them, that share their donors


def fill_missing(
    cells: FloatArray,
    numeric_columns: Sequence[int],
    order: IntArray,
    starts: IntArray,
    k: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Fill each missing number with a value of its group, or of groups near it (hot deck).

    Donors are the group's values, where it has k or more: fewer persons would stand for all of the group, and one alone
    would be released as he is by whatever keeps the group's moments. Else the nearest groups' values are donors too,
    until there are k. Donors are taken in turn, from a random one on, so that none is used twice before all are used
    once. Of a column with fewer than k values in the table nothing is filled.
    """
    filled = cells.copy()
    given = cells[:, list(numeric_columns)]
    line = _line(given, order, starts) if np.isnan(given).any() else np.arange(len(starts) - 1)
    for column in numeric_columns:
        filled[:, column] = _filled(cells[:, column], order, starts, line, k, rng)
    return filled


def _filled(
    column: FloatArray, order: IntArray, starts: IntArray, line: IntArray, fewest: int, rng: np.random.Generator
) -> FloatArray:
    """A column with its missing values filled, see `fill_column`; a new array."""
    values, missing = np.array(column), np.isnan(column)
    if missing.any() and not missing.all():
        fill_column(values, order, starts, line, fewest, rng.random(len(starts) - 1))
    return values


def _line(cells: FloatArray, order: IntArray, starts: IntArray) -> IntArray:
    """The groups in an order in which those of like means stand side by side: recursive principal splits.

    What is missing counts as the mean.
    """
    known = ~np.isnan(cells)
    counts = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, cells, 0.0)
    centred = np.where(known, cells - centred.sum(axis=0) / counts, 0.0)
    spread = np.abs(centred).sum(axis=0) / counts
    sums = np.add.reduceat(centred[order] / np.where(spread > 0, spread, 1.0), starts[:-1], axis=0)
    return block_order(sums / np.diff(starts)[:, None], 1)[0]


def fill_predicted(
    cells: FloatArray, columns: Mapping[int, Sequence[int]], features: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Fill each missing number with a value of a record of which about the same is predicted.

    The column is regressed on all others; records are put in the order of what the regression predicts, and in runs of
    20 those with a value are donors to those without (predictive mean matching), or those of the next run where none
    has one. So what the column has to do with the others stays, which donors from anywhere in the table would dilute by
    the share of missing values.

    Shapes: features (n_rows, width).

    Little (1988), doi:10.1080/07350015.1988.10509663.
    """
    filled = cells.copy()
    for position, own in columns.items():
        missing = np.isnan(cells[:, position])
        if missing.any() and not missing.all():
            others = np.delete(features, list(own), axis=1)
            order = np.argsort(_predicted(cells[:, position], others, ~missing), kind="stable")
            starts = np.append(np.arange(max(1, len(cells) // DONORS)) * DONORS, len(cells))
            filled[:, position] = _filled(cells[:, position], order, starts, np.arange(len(starts) - 1), 1, rng)
    return filled


def _predicted(values: FloatArray, others: FloatArray, known: BoolArray) -> FloatArray:
    """Least squares of the known values on the other columns, for all records."""
    centre = others[known].mean(axis=0)
    centred = others[known] - centre
    slopes = np.linalg.pinv(centred.T @ centred, rcond=1e-10, hermitian=True) @ (centred.T @ values[known])
    return np.asarray((others - centre) @ slopes)


@njit(cache=True, nogil=True)
def fill_column(
    values: FloatArray, order: IntArray, starts: IntArray, line: IntArray, fewest: int, draws: FloatArray
) -> None:
    """Give each missing value a value of its group or of near ones, in place; values (n,); line (n_groups,)."""
    groups = len(starts) - 1
    known = values.copy()
    donors = np.empty(fewest + largest_group(starts), dtype=np.float64)
    for place in range(groups):
        group = line[place]
        count = _collect(known, order, starts, group, donors, int(0))
        if count == starts[group + 1] - starts[group]:
            continue
        before, after = place, place
        while count < fewest and (before > 0 or after < groups - 1):
            if after < groups - 1:
                after += 1
                count = _collect(known, order, starts, line[after], donors, count)
            if count < fewest and before > 0:
                before -= 1
                count = _collect(known, order, starts, line[before], donors, count)
        if count < fewest:
            continue
        turn = int(draws[group] * count)
        for at in range(starts[group], starts[group + 1]):
            row = order[at]
            if np.isnan(values[row]):
                values[row] = donors[turn % count]
                turn += 1


@njit(cache=True, nogil=True)
def _collect(known: FloatArray, order: IntArray, starts: IntArray, group: int, donors: FloatArray, count: int) -> int:
    """Write the values that a group has behind the first `count` donors; the number of donors then."""
    for at in range(starts[group], starts[group + 1]):
        value = known[order[at]]
        if not np.isnan(value):
            donors[count] = value
            count += 1
    return count
