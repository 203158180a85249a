"""Both tables side by side, for the steward: from the moments that the gates judge, so for tables of any size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from anonpipe.columns import Column, Kind
from anonpipe.evaluate.utility import Binning, Distribution, category_distribution
from anonpipe.moments import PairwiseMoments
from anonpipe.report.content import Compared, NumberLine, PairLine, ShareLine
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify.expectations import ReleaseView

MOST_CATEGORIES = 12
MOST_NULLS = 0.02  # Share of nulls with which a number is still in pairs
MOST_PAIRS = 1_000  # Correlations that a report holds, so that it stays small however many columns there are


@dataclass(frozen=True, eq=False)
class CompoundColumn:
    """A column, or one of its categories, as `constant + weights @ variables`, in units of the verified variables."""

    column: str  # Of the table
    name: str  # What is shown
    constant: float
    weights: FloatArray  # Shape (n_variables,)


@dataclass(frozen=True, eq=False)
class Measured:
    """What is known of both tables."""

    view: ReleaseView  # The verified variables
    original: PairwiseMoments  # Their moments, in the order of the view and on its scales
    released: PairwiseMoments  # Likewise

    @property
    def both_tables(self) -> tuple[PairwiseMoments, PairwiseMoments]:
        """Both tables."""
        return self.original, self.released

    @cached_property
    def places(self) -> dict[tuple[str, int | None], int]:
        """Of a column as it is, or of a category by its code, the number of the variable."""
        variables = enumerate(self.view.variables)
        return {(each.column, each.category): at for at, each in variables if not each.on_other_scale}

    @cached_property
    def covariances(self) -> tuple[FloatArray, FloatArray]:
        """Of the variables in their units, of both tables."""
        scale = np.outer(self.view.sd, self.view.sd)
        return self.original.covariance * scale, self.released.covariance * scale

    def number(self, name: str) -> CompoundColumn | None:
        """A column that is measured as it is."""
        at = self.places.get((name, None))
        return None if at is None else CompoundColumn(name, name, 0.0, self._unit(at))

    def category(self, name: str, code: int, label: Any) -> CompoundColumn | None:
        """A category; of two codes one variable says it all. None where it is not measured."""
        if (name, code) in self.places:
            return CompoundColumn(name, f"{name} = {label}", 0.0, self._unit(self.places[name, code]))
        if code == 0 and (name, 1) in self.places and (name, 2) not in self.places:
            return CompoundColumn(name, f"{name} = {label}", 1.0, -self._unit(self.places[name, 1]))
        return None

    def from_codes(self, name: str, values: FloatArray) -> CompoundColumn | None:
        """A column of numbers that is released unchanged, and staged as codes; nulls count as its mean."""
        found = [self.category(name, code, value) for code, value in enumerate(values)]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(values):
            return None
        shares = np.array([self.means(one)[0] for one in known])
        mean = float(shares @ values / shares.sum())
        constant = mean + sum((value - mean) * one.constant for value, one in zip(values, known, strict=True))
        weights = sum((value - mean) * one.weights for value, one in zip(values, known, strict=True))
        return CompoundColumn(name, name, constant, np.asarray(weights))

    def means(self, one: CompoundColumn) -> tuple[float, float]:
        """Of both tables."""
        centre = np.array([variable.mean for variable in self.view.variables])
        used = one.weights != 0
        first, second = (
            one.constant + float(one.weights[used] @ (centre + self.view.sd * side.mean)[used])
            for side in self.both_tables
        )
        return first, second

    def covariance(self, ones: Sequence[CompoundColumn]) -> tuple[FloatArray, FloatArray]:
        """Of both tables, shape (n, n); NaN where not defined."""
        weights = np.array([one.weights for one in ones]).reshape(len(ones), len(self.view.variables))
        used = (weights != 0).astype(np.float64)
        found = []
        for table in self.covariances:
            missing = np.isnan(table)
            whole = weights @ np.where(missing, 0.0, table) @ weights.T
            found.append(np.where(used @ missing @ used.T > 0, np.nan, whole))
        return found[0], found[1]

    def nulls(self, name: str, codes: int) -> tuple[float, float]:
        """Shares of nulls of a column, whose code is that after its categories where it has such."""
        if (name, None) in self.places:
            at = self.places[name, None]
            return float(self.original.null_share[at]), float(self.released.null_share[at])
        null = self.category(name, codes, None)
        return (0.0, 0.0) if null is None else self.means(null)

    def counts(self, name: str, codes: int, before: Sequence[int] | None = None) -> IntArray | None:
        """Records of each category in both tables, nulls last, shape (2, codes + 1); None if any is not measured."""
        known = [one for code in range(codes) if (one := self.category(name, code, None)) is not None]
        if len(known) < codes:
            return None
        shares = np.array([self.means(one) for one in known]).reshape(codes, 2)
        with_nulls = np.append(shares, [self.nulls(name, codes)], axis=0).T
        found: IntArray = np.rint(with_nulls * [[side.rows] for side in self.both_tables]).astype(np.int64)
        if before is not None:
            found[0] = before
        return found

    def _unit(self, at: int) -> FloatArray:
        weights = np.zeros(len(self.view.variables))
        weights[at] = 1.0
        return weights


def compared(
    measured: Measured,
    columns: Mapping[str, Column],
    levels: Mapping[str, Any],
    before: Mapping[str, Sequence[int]],
    k: int,
) -> Compared:
    """Means, deviations, shares and correlations of both tables."""
    # Correlations are those of the original after rare categories were suppressed. A null is none of the categories: it
    # counts as 0 in all of them. The deviations that a correlation is divided by are those of all values of either
    # column, also of rows in which the other is null; so numbers with many nulls are in no pair.
    numbers: dict[str, CompoundColumn] = {}
    shown: dict[str, list[_Shown]] = {}
    categories: dict[str, int] = {}
    for name, column in columns.items():
        if column.kind.coded:
            found = _categories(measured, name, levels[name], before.get(name), k)
            if found is not None:
                shown[name], categories[name] = found[:MOST_CATEGORIES], len(found)
        else:
            number = measured.number(name) or measured.from_codes(name, np.asarray(levels.get(name, ())))
            numbers |= {} if number is None else {name: number}
    indicators = [one.compound for each in shown.values() for one in (each[1:] if len(each) == 2 else each)]
    codes = {name: len(levels.get(name, ())) for name in numbers}
    complete = [one for name, one in numbers.items() if max(measured.nulls(name, codes[name])) <= MOST_NULLS]
    pairs = _pairs(measured, [*complete, *indicators])
    return Compared(
        numbers=tuple(_line(measured, one, columns[name], codes[name]) for name, one in numbers.items()),
        shares=tuple(_share(measured, name, one) for name, each in shown.items() for one in each),
        pairs=tuple(pairs[:MOST_PAIRS]),
        pairs_compared=len(pairs),
        left_out=tuple(name for name in columns if name not in numbers and name not in shown),
        categories=categories,
    )


def category_pictures(
    measured: Measured,
    columns: Mapping[str, Column],
    levels: Mapping[str, Any],
    before: Mapping[str, Sequence[int]],
    binning: Binning,
) -> dict[str, Distribution]:
    """The columns of categories as `compared` has them, all records counted, with names and meanings as there."""
    counted = {name: measured.counts(name, len(levels[name]), before.get(name)) for name in columns if name in levels}
    return {
        name: category_distribution(name, columns[name].kind, levels[name], counts, binning)
        for name, counts in counted.items()
        if counts is not None and columns[name].kind.coded
    }


def _line(measured: Measured, one: CompoundColumn, column: Column, codes: int) -> NumberLine:
    mean, mean_released = map(finite, measured.means(one))
    sides = zip(measured.nulls(one.column, codes), measured.both_tables, strict=True)
    nulls, nulls_released = (_of_rows(share, side.rows) for share, side in sides)
    by_codes = (one.column, None) not in measured.places  # whose nulls are among the rows
    present = (1.0 - nulls, 1.0 - nulls_released) if by_codes else (1.0, 1.0)
    sd, sd_released = (
        finite(math.sqrt(max(0.0, float(table[0, 0])) / share)) if share > 0 else None
        for table, share in zip(measured.covariance([one]), present, strict=True)
    )
    return NumberLine(
        name=one.name,
        date=column.kind is Kind.DATE,
        mean=mean,
        mean_released=mean_released,
        sd=sd,
        sd_released=sd_released,
        nulls=nulls,
        nulls_released=nulls_released,
    )


def finite(value: float) -> float | None:
    """The number; None where it is none."""
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True, eq=False)
class _Shown:
    """A category that is shown, and its original records."""

    label: str
    compound: CompoundColumn
    records: int


def _share(measured: Measured, column: str, one: _Shown) -> ShareLine:
    original = one.records / measured.original.rows
    released = _of_rows(measured.means(one.compound)[1], measured.released.rows)
    return ShareLine(column=column, category=one.label, original=original, released=released)


def _of_rows(share: float, rows: int) -> float:
    """A share as the number of rows over all that it stands for: without what sums of floats add."""
    return round(share * rows) / rows


def _categories(
    measured: Measured, name: str, labels: Sequence[Any], before: Sequence[int] | None, k: int
) -> list[_Shown] | None:
    """The categories that k original records hold, most common first; None where none was measured."""
    found = []
    for code, label in enumerate(labels):
        compound = measured.category(name, code, label)
        if compound is not None:
            counted = round(measured.means(compound)[0] * measured.original.rows) if before is None else before[code]
            found.append(_Shown(str(label), compound, counted))
    kept = sorted((one for one in found if one.records >= k), key=lambda one: (-one.records, one.label))
    return kept if found else None


def _pairs(measured: Measured, ones: Sequence[CompoundColumn]) -> list[PairLine]:
    """All pairs of different columns whose correlation is defined in both tables, the largest change first."""
    least = np.array([1e-12 * np.sum((one.weights * measured.view.sd) ** 2) for one in ones])

    def correlations(covariance: FloatArray) -> FloatArray:
        """NaN for variables whose variance is no more than rounding."""
        variance = np.diag(covariance)
        spread = np.sqrt(np.where(variance > least, variance, np.nan))
        return np.asarray(covariance / np.outer(spread, spread))

    before, after = map(correlations, measured.covariance(ones))
    first, second = np.triu_indices(len(ones), 1)
    owners = np.array([one.column for one in ones], dtype=object)
    kept = (owners[first] != owners[second]) & np.isfinite(before[first, second]) & np.isfinite(after[first, second])
    first, second = first[kept], second[kept]
    order = np.argsort(-np.abs(after[first, second] - before[first, second]), kind="stable")
    return [
        PairLine(first=ones[i].name, second=ones[j].name, original=float(before[i, j]), released=float(after[i, j]))
        for i, j in zip(first[order], second[order], strict=True)
    ]
