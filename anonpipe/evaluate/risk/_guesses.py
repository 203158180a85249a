"""How an attacker guesses a column from all others: by the closest record, by a forest, or the one best value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from anonpipe.evaluate.risk._left_out_kernel import nearest_but_one
from anonpipe.types import FloatArray, IntArray

_MOST_DUMMIES = 64
"""Categories of a column that have a dummy of their own; all rarer ones share one."""

_TREES, _FIT_ROWS = 50, 10_000
"""Trees of a forest, and released records that they are grown on."""


@dataclass(frozen=True, eq=False)
class _Numbers:
    """A column of numbers: z-scores, and where there are nulls a dummy that tells them from the mean."""

    centre: float
    width: float
    with_nulls: bool

    def points(self, values: FloatArray) -> FloatArray:
        missing = np.isnan(values)
        scores = np.where(missing, 0.0, (values - self.centre) / (self.width or 1.0))
        return np.column_stack([scores, missing]) if self.with_nulls else scores[:, None]


@dataclass(frozen=True, eq=False)
class _Categories:
    """A column of codes: common categories have a place each, all others one; null (infinite here) is a category.

    Points of two places are 2 · `scale`² apart in squares, as their dummies are.
    """

    codes: FloatArray
    places: IntArray
    scale: float

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        codes, which, counts = np.unique(_null_as_code(values), return_inverse=True, return_counts=True)
        places = np.full(len(codes), min(len(codes), _MOST_DUMMIES))
        common = np.argsort(-counts, kind="stable")[:_MOST_DUMMIES]
        places[common] = np.arange(len(common))
        shares = np.bincount(places[which.reshape(-1)]) / len(values)
        apart = 1.0 - float((shares**2).sum())
        return cls(codes, places, 1.0 / math.sqrt(apart) if apart > 0 else 1.0)

    def placed(self, values: FloatArray) -> IntArray:
        asked, others = _null_as_code(values), min(len(self.codes), _MOST_DUMMIES)
        at = np.minimum(np.searchsorted(self.codes, asked), len(self.codes) - 1)
        return np.where(self.codes[at] == asked, self.places[at], others)

    def points(self, values: FloatArray) -> FloatArray:
        made = np.zeros((len(values), min(len(self.codes), _MOST_DUMMIES) + 1))
        made[np.arange(len(values)), self.placed(values)] = self.scale
        return made


def _null_as_code(values: FloatArray) -> FloatArray:
    return np.where(np.isnan(values), np.inf, values)


@dataclass(frozen=True, eq=False)
class Coding:
    """How cells become points in which columns count alike, on the scale of released records."""

    columns: tuple[_Numbers | _Categories, ...]

    @classmethod
    def of(cls, released: npt.ArrayLike, asked: npt.ArrayLike, categories: Sequence[int] = ()) -> Self:
        """Take the scale from released cells, all or a sample; records to be asked tell where else there are nulls.

        Parameters
        ----------
        released, asked
            Shapes (n_rows, n_columns) and (n_asked, n_columns); NaN for null.
        categories
            Numbers of the columns that hold codes.
        """
        table, queries = (np.asarray(each, dtype=np.float64) for each in (released, asked))
        found: list[_Numbers | _Categories] = []
        for at, values in enumerate(table.T):
            if at in categories:
                found.append(_Categories.of(values))
                continue
            told = values[~np.isnan(values)]
            nulls = len(told) < len(values) or bool(np.isnan(queries[:, at]).any())
            found.append(_Numbers(float(told.mean()) if len(told) else 0.0, spread(told), nulls))
        return cls(tuple(found))

    def each(self, cells: FloatArray) -> list[FloatArray]:
        """Points of each column, with dummies for categories."""
        return [column.points(values) for column, values in zip(self.columns, cells.T, strict=True)]

    def compact(self, cells: FloatArray) -> list[FloatArray]:
        """The same with one number for each category, its place."""
        return [
            column.points(values) if isinstance(column, _Numbers) else column.placed(values)[:, None].astype(np.float64)
            for column, values in zip(self.columns, cells.T, strict=True)
        ]

    @property
    def jumps(self) -> FloatArray:
        """Of each column the squared distance of two categories; 0 for numbers."""
        return np.array([0.0 if isinstance(column, _Numbers) else 2.0 * column.scale**2 for column in self.columns])


@dataclass(frozen=True, eq=False)
class Guesses:
    """What the closest released records say of each column.

    Attributes
    ----------
    values
        Of each record asked and each column, the cell of the released record
        that is closest in all other columns, shape (n_asked, n_columns).
    squared
        Its squared distance.
    """

    values: FloatArray
    squared: FloatArray

    def merge(self, later: Self) -> Self:
        """The closer of both, of equally close ones this one: `later` holds rows that come after."""
        closer = later.squared < self.squared
        return type(self)(np.where(closer, later.values, self.values), np.where(closer, later.squared, self.squared))


def guess_nearest(released: FloatArray, asked: FloatArray, coding: Coding) -> Guesses:
    """Guess each column of the records asked from all others by the closest of the released records, or of a part.

    Ties go to the lower row. Time n_rows · n_asked · points.

    Examples
    --------
    >>> table = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> guess_nearest(table, np.array([[0.9, 5.1]]), Coding.of(table, table)).values
    array([[0., 7.]])
    """
    of_released, of_asked = coding.compact(released), coding.compact(asked)
    ends = np.cumsum([points.shape[1] for points in of_released])
    points, queries = (np.ascontiguousarray(np.hstack(side)) for side in (of_released, of_asked))
    rows, squared = nearest_but_one(points, queries, ends, coding.jumps)
    return Guesses(released[rows, np.arange(released.shape[1])], squared)


def spread(values: FloatArray) -> float:
    """Standard deviation of what is not null, exactly 0 for a constant."""
    told = values[~np.isnan(values)]
    return float(told.std(ddof=1)) if len(told) > 1 and (told != told[0]).any() else 0.0


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
    """Guesses of a forest from the points of all other columns; of nulls only where the column is of categories."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    points, queries = (
        np.hstack([piece for other, piece in enumerate(side) if other != at]) for side in (of_released, of_asked)
    )
    rows = np.arange(len(values)) if coded else np.flatnonzero(~np.isnan(values))
    if len(rows) > _FIT_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _FIT_ROWS, replace=False))
    if not len(rows):
        return np.full(len(queries), np.nan)
    settings = {"n_estimators": _TREES, "min_samples_leaf": 3, "random_state": seed}
    if not coded:
        fitted = ExtraTreesRegressor(**settings).fit(points[rows], values[rows])
        return np.asarray(fitted.predict(queries), dtype=np.float64)
    distinct, codes, counts = np.unique(values[rows], return_inverse=True, return_counts=True)
    kept = np.isin(codes.reshape(-1), np.argsort(-counts, kind="stable")[:_MOST_DUMMIES])
    fitted = ExtraTreesClassifier(**settings).fit(points[rows][kept], codes.reshape(-1)[kept])
    return np.asarray(distinct[fitted.predict(queries)], dtype=np.float64)
