"""How an attacker guesses a column from all others: by the closest record, by a forest, or the one best value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.evaluate.coding import MOST_PLACES, Coding
from anonpipe.evaluate.risk._left_out_kernel import nearest_but_one
from anonpipe.types import FloatArray

NEIGHBOURS = 5  # Closest released records whose agreement says how sure a guess is

_TREES, _FIT_ROWS = 50, 10_000  # Trees of a forest, and released records that they are grown on


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

    Examples
    --------
    >>> table = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> guess_nearest(table, np.array([[0.9, 5.1]]), Coding.of(table, table)).values[:, :, 0]
    array([[0., 7.]])
    """
    of_released, of_asked = coding.compact(released), coding.compact(asked)
    ends = np.cumsum([features.shape[1] for features in of_released])
    features, queries = (np.ascontiguousarray(np.hstack(side)) for side in (of_released, of_asked))
    rows, squared = nearest_but_one(features, queries, ends, coding.jumps, NEIGHBOURS)
    return Guesses(released[rows, np.arange(released.shape[1])[:, None]], squared)


def best_constant(values: FloatArray, allowed: float) -> float:
    """The value around which most released ones lie, or null if there are more of those."""
    told = np.sort(values[~np.isnan(values)])
    if not len(told):
        return math.nan
    # The window of twice the allowed error that starts at each value.
    inside = np.searchsorted(told, told + 2 * allowed * (1 + 1e-9), side="right") - np.arange(len(told))
    first = int(np.argmax(inside))
    last = first + int(inside[first]) - 1
    return float(told[[first, last]].mean()) if inside[first] >= len(values) - len(told) else math.nan


def by_trees(
    of_released: list[FloatArray], of_asked: list[FloatArray], values: FloatArray, at: int, coded: bool, seed: int
) -> FloatArray:
    """Guesses of a forest from the features of all other columns; of nulls only where the column is of categories."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    features, queries = (
        np.hstack([piece for other, piece in enumerate(side) if other != at]) for side in (of_released, of_asked)
    )
    rows = np.arange(len(values)) if coded else np.flatnonzero(~np.isnan(values))
    if len(rows) > _FIT_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _FIT_ROWS, replace=False))
    if not len(rows):
        return np.full(len(queries), np.nan)
    settings = {"n_estimators": _TREES, "min_samples_leaf": 3, "random_state": seed}
    if not coded:
        fitted = ExtraTreesRegressor(**settings).fit(features[rows], values[rows])
        return np.asarray(fitted.predict(queries), dtype=np.float64)
    distinct, codes, counts = np.unique(values[rows], return_inverse=True, return_counts=True)
    kept = np.isin(codes.reshape(-1), np.argsort(-counts, kind="stable")[:MOST_PLACES])
    fitted = ExtraTreesClassifier(**settings).fit(features[rows][kept], codes.reshape(-1)[kept])
    return np.asarray(distinct[fitted.predict(queries)], dtype=np.float64)
