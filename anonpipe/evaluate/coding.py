"""Mixed columns with nulls as finite numbers of equal weight: what attacks and classifiers compare records by.

For tables as a reader has them; the features that methods work on, which are decoded again, are
`anonpipe.encoding.features`. A regression makes its products of columns (`anonpipe.evaluate.utility._two_sample`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from anonpipe.types import FloatArray, IntArray

MOST_PLACES = 64  # Categories of a column that have a place of their own; all rarer ones share one


@dataclass(frozen=True, eq=False)
class _Numbers:
    """A column of numbers: z-scores, and where there are nulls a dummy that tells them from the mean."""

    centre: float
    width: float
    with_nulls: bool

    def features(self, values: FloatArray) -> FloatArray:
        missing = np.isnan(values)
        scores = np.where(missing, 0.0, (values - self.centre) / (self.width or 1.0))
        return np.column_stack([scores, missing]) if self.with_nulls else scores[:, None]


@dataclass(frozen=True, eq=False)
class _Categories:
    """A column of codes: common categories have a place each, in the order of their codes, all others the next."""

    # Null (infinite here) is a category. Two places are 2 · `scale`² apart in squares, as their dummies are.

    codes: FloatArray
    places: IntArray
    scale: float
    others: int

    @classmethod
    def of(cls, values: FloatArray, most: int) -> Self:
        codes, which, counts = np.unique(null_as_code(values), return_inverse=True, return_counts=True)
        common = np.sort(np.argsort(-counts, kind="stable")[:most])
        places = np.full(len(codes), len(common))
        places[common] = np.arange(len(common))
        shares = np.bincount(places[which.reshape(-1)]) / len(values)
        diversity = 1.0 - float((shares**2).sum())
        return cls(codes, places, 1.0 / math.sqrt(diversity) if diversity > 0 else 1.0, len(common))

    def placed(self, values: FloatArray) -> IntArray:
        codes = null_as_code(values)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, self.places[at], self.others)

    def features(self, values: FloatArray) -> FloatArray:
        dummies = np.zeros((len(values), self.others + 1))
        dummies[np.arange(len(values)), self.placed(values)] = self.scale
        return dummies


def null_as_code(values: FloatArray) -> FloatArray:
    """Cells with infinity for null."""
    return np.where(np.isnan(values), np.inf, values)


@dataclass(frozen=True, eq=False)
class Coding:
    """How cells become numbers in which columns count alike, on the scale of some of the records."""

    columns: tuple[_Numbers | _Categories, ...]

    @classmethod
    def of(
        cls, reference: npt.ArrayLike, queries: npt.ArrayLike, categories: Sequence[int] = (), most: int = MOST_PLACES
    ) -> Self:
        """Take scale and categories from some records; those to be asked tell where else there are nulls."""
        table, query_table = (np.asarray(records, dtype=np.float64) for records in (reference, queries))
        columns: list[_Numbers | _Categories] = []
        for at, values in enumerate(table.T):
            if at in categories:
                columns.append(_Categories.of(values, most))
                continue
            defined = values[~np.isnan(values)]
            nulls = len(defined) < len(values) or bool(np.isnan(query_table[:, at]).any())
            columns.append(_Numbers(middle(defined), spread(defined), nulls))
        return cls(tuple(columns))

    def each(self, cells: FloatArray) -> list[FloatArray]:
        """Features of each column, with dummies for categories."""
        return [column.features(values) for column, values in zip(self.columns, cells.T, strict=True)]

    def compact(self, cells: FloatArray) -> list[FloatArray]:
        """The same with one number for each category, its place."""
        return [
            column.features(values)
            if isinstance(column, _Numbers)
            else column.placed(values)[:, None].astype(np.float64)
            for column, values in zip(self.columns, cells.T, strict=True)
        ]

    @property
    def compact_categories(self) -> tuple[int, ...]:
        """Which columns of `compact` are codes: categories, and whether a number is null."""
        widths = [2 if isinstance(column, _Numbers) and column.with_nulls else 1 for column in self.columns]
        numbers = [isinstance(column, _Numbers) and not column.with_nulls for column in self.columns]
        return tuple(int(end) - 1 for end, is_number in zip(np.cumsum(widths), numbers, strict=True) if not is_number)

    @property
    def jumps(self) -> FloatArray:
        """Of each column the squared distance of two categories; 0 for numbers."""
        return np.array([0.0 if isinstance(column, _Numbers) else 2.0 * column.scale**2 for column in self.columns])


def middle(values: FloatArray) -> float:
    """Mean of what is not null, of numbers of any size; 0 where there is none."""
    defined = values[~np.isnan(values)]
    unit = _unit(defined)
    return float((defined / unit).mean() * unit) if len(defined) else 0.0


def spread(values: FloatArray) -> float:
    """Standard deviation of what is not null, exactly 0 for a constant."""
    defined = values[~np.isnan(values)]
    unit = _unit(defined)
    return float((defined / unit).std(ddof=1) * unit) if len(defined) > 1 and (defined != defined[0]).any() else 0.0


def middle_spread(values: FloatArray) -> float:
    """Robust standard deviation: scaled interquartile range, on which extreme values have no influence.

    Where the quartiles are one value, by wider ranges; by the standard deviation where all but a sixteenth are one.
    """
    defined = values[~np.isnan(values)]
    unit = _unit(defined)
    for outer in (0.25, 0.125, 0.0625, 0.03125):
        low, high = np.quantile(defined / unit, [outer, 1.0 - outer]) if len(defined) else (0.0, 0.0)
        if high > low:
            return float((high - low) / (-2.0 * ndtri(outer)) * unit)
    return spread(values)


def _unit(values: FloatArray) -> float:
    """A power of two in which the squares of very large numbers are finite; dividing by it loses no digit."""
    largest = float(np.abs(values).max(initial=0.0))
    return 2.0 ** min(math.frexp(largest)[1], 1022) if largest > 1e100 else 1.0
