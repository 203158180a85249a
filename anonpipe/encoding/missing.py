"""Missing numbers filled for the moments of a group; which values are missing is carried separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import block_order, largest_group
from anonpipe.types import BoolArray, FloatArray, IntArray

Places = Mapping[int, Sequence[int]]  # Features of the column at each place among the cells

_COMMON = 0.05  # Share of the records without a value from which on a set of known columns is looked at by itself
_SOME = 500  # Records by which ranges are compared
_FEWEST = 5  # Donors of a run, from the next ones if it has fewer
DONORS = 20  # Records, those with missing values among them, that share their donors


def fill_missing(
    cells: FloatArray,
    numeric_columns: Sequence[int],
    order: IntArray,
    starts: IntArray,
    k: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Fill each missing number with a value of its group, or of groups near it (hot deck)."""
    # Donors are the group's values, where it has k or more, else those of the nearest groups too: one alone would be
    # released as he is by whatever keeps the group's moments. Donors are taken in turn, from a random one on. Of a
    # column with fewer than k values in the table nothing is filled.
    filled = cells.copy()
    given = cells[:, list(numeric_columns)]
    line = _line(given, order, starts) if np.isnan(given).any() else np.arange(len(starts) - 1)
    for column in numeric_columns:
        filled[:, column] = _filled(cells[:, column], order, starts, line, k, rng)
    return filled


def _filled(
    column: FloatArray, order: IntArray, starts: IntArray, line: IntArray, fewest: int, rng: np.random.Generator
) -> FloatArray:
    """A column with its missing values filled, see `_fill_column`; a new array."""
    values, missing = np.array(column), np.isnan(column)
    if missing.any() and not missing.all():
        _fill_column(values, order, starts, line, fewest, rng.random(len(starts) - 1))
    return values


def _line(cells: FloatArray, order: IntArray, starts: IntArray) -> IntArray:
    """The groups in an order in which like means are neighbours, by principal splits; missing values count as means."""
    known = ~np.isnan(cells)
    counts = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, cells, 0.0)
    centred = np.where(known, cells - centred.sum(axis=0) / counts, 0.0)
    spread = np.abs(centred).sum(axis=0) / counts
    sums = np.add.reduceat(centred[order] / np.where(spread > 0, spread, 1.0), starts[:-1], axis=0)
    return block_order(sums / np.diff(starts)[:, None], 1)[0]


def fill_predicted(
    cells: FloatArray, columns: Places, features: FloatArray, rng: np.random.Generator, dummies: Sequence[range] = ()
) -> FloatArray:
    """Fill each missing number with a value of a record of which about the same is predicted, in the features, too.

    The column is regressed on all others. In runs of 20 records of like predictions, those with a value are donors to
    those without (predictive mean matching, Little 1988, doi:10.1080/07350015.1988.10509663), or those of the next run.
    So what the column has to do with the others stays. Columns are filled one after the other, from those that are
    known of a record or were filled before: values that are missing together keep their joint distribution. Sets of
    known columns that few records have count as none; so do nulls and `dummies` of categories that few donors have, and
    numbers where few donors lie: a line through the wages of those in work says nothing about those without.
    """
    filled = cells.copy()
    incomplete = [position for position in columns if 0 < np.isnan(cells[:, position]).sum() < len(cells)]
    blocks = [*(list(own[1:]) for own in columns.values()), *map(list, dummies)]
    for at, position in enumerate(incomplete):
        later = incomplete[at + 1 :]
        known = ~np.isnan(cells[:, position])
        numbers = np.array([own[0] for other, own in columns.items() if other != position], dtype=np.int64)
        some_known = features[np.ix_(_some(np.flatnonzero(known)), numbers)]
        for rows, known_later in _patterns(np.flatnonzero(~known), ~np.isnan(cells[:, later])):
            unknown = [columns[other][0] for other, there in zip(later, known_later, strict=True) if not there]
            rare = [each for own in blocks if _are_unsupported(features[:, own] > 0, rows, known) for each in own]
            apart = numbers[_are_apart(features[np.ix_(_some(rows), numbers)], some_known)]
            others = np.delete(features, [*columns[position], *unknown, *rare, *apart], axis=1)
            donors = _donors(*_predicted(features[:, columns[position][0]], others, known), known, rows, rng)
            filled[rows, position] = cells[donors, position]
            features[rows, columns[position][0]] = features[donors, columns[position][0]]
    return filled


def _are_unsupported(dummies: BoolArray, rows: IntArray, known: BoolArray) -> bool:
    """Whether many of some records are in a category, or out of it, and few known ones, which would predict it."""
    # As nulls of all that a person has no second row for: a prediction from the few that are null there is of those.
    asked, there = (np.stack([dummies[of].sum(axis=0), (~dummies[of]).sum(axis=0)]) for of in (rows, known))
    return bool(((there > 0) & (DONORS * there < asked) & (asked > _COMMON * len(rows))).any())


def _some(rows: IntArray) -> IntArray:
    """At most 500 of the rows, evenly."""
    return rows[:: -(-len(rows) // _SOME)]


def _are_apart(asked: FloatArray, known: FloatArray) -> BoolArray:
    """Columns with few known records in the range of nine in ten others, shapes (n_asked, width), (n_known, width)."""
    low, high = np.quantile(asked, [0.05, 0.95], axis=0)
    return np.asarray(((low <= known) & (known <= high)).mean(axis=0) < _COMMON)


def _patterns(rows: IntArray, known: BoolArray) -> list[tuple[IntArray, BoolArray]]:
    """Records by the set of columns that are known of them, shape (n_columns,); rare sets are one, of no column."""
    sets, which, counts = np.unique(known[rows], axis=0, return_inverse=True, return_counts=True)
    sets[counts < _COMMON * len(rows)] = False
    sets, merged = np.unique(sets, axis=0, return_inverse=True)
    which = merged.reshape(-1)[which.reshape(-1)]
    return [(rows[which == at], each) for at, each in enumerate(sets)]


def _donors(
    predicted: FloatArray, error: float, known: BoolArray, rows: IntArray, rng: np.random.Generator
) -> IntArray:
    """For each of some records a known one of which about the same is predicted; shape as `rows`."""
    candidates = known.copy()
    candidates[rows] = True
    inside = rng.permutation(np.flatnonzero(candidates))  # records may come sorted by the column
    # Within their error predictions are equal: thousands with just the same one would have the same few donors
    ties = np.rint(predicted[inside] / max(error, 1e-9 * (np.ptp(predicted) or 1.0)))
    order = inside[np.argsort(ties, kind="stable")]
    starts = np.append(np.arange(max(1, len(order) // DONORS)) * DONORS, len(order))
    given, fewest = np.where(known, np.arange(float(len(known))), np.nan), min(_FEWEST, int(known.sum()))
    return _filled(given, order, starts, np.arange(len(starts) - 1), fewest, rng)[rows].astype(np.int64)


def _predicted(values: FloatArray, others: FloatArray, known: BoolArray) -> tuple[FloatArray, float]:
    """Least squares of known values on the other columns, which are overwritten, for all records, and its error."""
    centred = others[known]  # together with `others`, most of what a worker holds while it encodes
    centre = centred.mean(axis=0)
    centred -= centre
    slopes = np.linalg.pinv(centred.T @ centred, rcond=1e-10, hermitian=True) @ (centred.T @ values[known])
    others -= centre
    predicted = np.asarray(others @ slopes)
    residuals = np.std(values[known] - predicted[known])
    return predicted, float(residuals * np.sqrt(len(slopes) / len(centred)))


@kernel
def _fill_column(
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


@kernel
def _collect(known: FloatArray, order: IntArray, starts: IntArray, group: int, donors: FloatArray, count: int) -> int:
    """Write the values that a group has behind the first `count` donors; the number of donors then."""
    for at in range(starts[group], starts[group + 1]):
        value = known[order[at]]
        if not np.isnan(value):
            donors[count] = value
            count += 1
    return count
