"""Weighted means, shares and totals of a survey, in standard errors."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from anonpipe.evaluate.measurement import Audience, Figure, Measurement, Reason
from anonpipe.evaluate.utility._measure import MOST_PARTS, Term, UtilityMeasure
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import FloatArray, IntArray

_FEWEST = 30  # Records of a category, with a value, from which on its estimates are looked at
FEWEST_DEGREES = 2  # Of freedom from which on an error says what another sample allows
_CHANCE = 0.05  # Probability that another sample is further off in any estimate

_SOURCE = "Särndal, Swensson & Wretman (1992), Model Assisted Survey Sampling, section 5.7; Kish (1965), section 8.2"
_MEANS = Figure(
    "weighted.means", "Weighted means of numbers and shares of categories, the furthest", "standard errors",
    _SOURCE, Audience.STEWARD, undefined="no number varies, and no category has enough records",
)  # fmt: skip
_UNWEIGHTED = replace(_MEANS, key="weighted.without", title="Unweighted means and shares, the furthest")
_TOTALS = replace(_MEANS, key="weighted.totals", title="Weighted totals of numbers by category, the furthest")
_WORST = replace(
    _MEANS, key="weighted_estimates", unit="", audience=Audience.SEVERAL,
    title="Weighted mean, share or total furthest off, as a multiple of what another sample allows",
)  # fmt: skip


class Psus(NamedTuple):
    """Primary sampling units, drawn with replacement in each stratum."""

    at: IntArray  # The number of each record's, shape (n_rows,)
    stratum: IntArray  # Of each PSU, shape (n_psus,)

    @classmethod
    def of(cls, strata: FloatArray, clusters: FloatArray) -> Psus:
        """From numbers of strata and PSUs, which may begin again in each stratum; shapes (n_rows,)."""
        pairs, at = np.unique(np.column_stack([strata, clusters]), axis=0, return_inverse=True)
        return cls(at.reshape(-1), np.unique(pairs[:, 0], return_inverse=True)[1])

    @property
    def degrees(self) -> int:
        """Degrees of freedom: PSUs, with records or without, less strata, of strata with records."""
        held = np.unique(self.stratum[self.at])
        return int(np.isin(self.stratum, held).sum()) - len(held)

    def degrees_of(self, codes: FloatArray, size: int) -> IntArray:
        """Of each category the same of those with records in it, shapes (n_rows,), NaN for none, and (size,)."""
        known = ~np.isnan(codes)
        places = codes[known].astype(np.int64)
        of_psus, of_strata = np.zeros((2, len(self.stratum), size), dtype=bool)
        of_psus[self.at[known], places] = of_strata[self.stratum[self.at[known]], places] = True
        return np.asarray(of_psus.sum(axis=0) - of_strata.sum(axis=0))

    def sums(self, scores: FloatArray) -> FloatArray:
        """Of each PSU the sums of its records, shapes (n_psus, width) and (n_rows, width)."""
        return np.stack([np.bincount(self.at, each, len(self.stratum)) for each in scores.T], axis=1)

    def deviations(self, sums: FloatArray) -> FloatArray:
        """Sums of PSUs less their mean in the stratum, whose products add up to the covariance of the total.

        Of m PSUs of a stratum they are multiplied by the root of m / (m - 1). Shapes (n_psus, width).
        """
        m = np.bincount(self.stratum)
        means = np.stack([np.bincount(self.stratum, each) / m for each in sums.T], axis=1)
        return np.asarray((sums - means[self.stratum]) * np.sqrt(m / np.maximum(m - 1, 1))[self.stratum, None])


def design_effect(weights: FloatArray) -> float:
    """By how much unequal weights raise the variance of a mean: n Σw² / (Σw)², at least 1.

    Kish (1965), Survey Sampling, section 11.2. Shape: (n_rows,).

    Examples
    --------
    >>> design_effect(np.array([1.0, 1.0, 2.0, 4.0]))
    1.375
    """
    return float(len(weights) * np.square(weights).sum() / weights.sum() ** 2)


def weighted_means(
    values: FloatArray, weights: FloatArray, codes: FloatArray | None = None, size: int = 1, psus: Psus | None = None
) -> tuple[FloatArray, FloatArray]:
    """Weighted means of values that count as 0 outside a category, and their standard errors, shapes (size,).

    So the mean of 1 is the share of a category, and that of a number its total over the sum of all weights. Without
    codes it is the mean over the records that have a value. Errors are those of a ratio by linearisation, of records
    (or `psus`) drawn with replacement. Shapes: (n_rows,), NaN for nulls.

    Examples
    --------
    >>> mean, error = weighted_means(np.array([1.0, 3.0]), np.array([3.0, 1.0]))
    >>> float(mean[0]), round(float(error[0]), 3)
    (1.5, 0.75)
    """
    known = ~np.isnan(values)
    if codes is None:
        values, weights = values[known], weights[known]
        psus = psus and psus._replace(at=psus.at[known])
        codes, known = np.zeros(len(values)), np.ones(len(values), dtype=bool)
    inside = known & ~np.isnan(codes)
    at, y, w, n, total = codes[inside].astype(np.int64), values[inside], weights[inside], len(weights), weights.sum()
    if n < 2:
        return np.full(size, math.nan), np.full(size, math.nan)
    sums = [np.bincount(at, each, size) for each in (w * y, w**2, w**2 * y, (w * y) ** 2)]
    mean = sums[0] / total
    if psus is not None:
        m = len(psus.stratum)
        of_psus = np.bincount(psus.at[inside] * size + at, w * y, m * size).astype(np.float64).reshape(m, size)
        off = psus.deviations(of_psus - np.outer(np.bincount(psus.at, weights, m), mean))
        return mean, np.sqrt(np.square(off).sum(axis=0)) / total
    squares = sums[3] - 2.0 * mean * sums[2] + mean**2 * np.square(weights).sum()
    return mean, np.sqrt(np.maximum(squares, 0.0) * n / (n - 1)) / total


_Sides = tuple[FloatArray, FloatArray]  # Weights of both tables
# What, off by how many standard errors, degrees of freedom, columns, and the error of a difference of samples in these
_Estimate = tuple[str, float, float, tuple[str, ...], float]


def _estimates(tables: TypedTables, sides: _Sides, psus: Psus | None) -> tuple[list[_Estimate], list[_Estimate]]:
    """Differences of means and shares, and of totals by category, in standard errors of the original; NaN for none."""
    numbers = [column for column in tables.numbers if column.name != tables.weight]
    categories = [column for column in tables.categories if column.name != tables.cluster]
    means = [term for column in numbers for term in _apart(tables, sides, psus, column, None)]
    shares = [term for column in categories for term in _apart(tables, sides, psus, None, column)]
    totals = [term for pair in product(numbers, categories) for term in _apart(tables, sides, psus, *pair)]
    return means + shares, totals


def _apart(
    tables: TypedTables, sides: _Sides, psus: Psus | None, number: BothColumns | None, category: BothColumns | None
) -> list[_Estimate]:
    codes = (None, None) if category is None else (category.old, category.new)
    size, first, found = 1 if category is None else len(category.levels), codes[0], []
    counts = np.array([tables.rows])
    if first is not None:
        there = ~np.isnan(first if number is None else first + number.old)
        counts = np.bincount(first[there].astype(np.int64), minlength=size)
    degrees: FloatArray | IntArray = np.full(size, math.inf)
    if psus is not None:
        inside = np.zeros(tables.rows) if first is None else first
        degrees = psus.degrees_of(inside if number is None else np.where(np.isnan(number.old), np.nan, inside), size)
    for at, weights in enumerate(sides):
        values = np.ones(len(weights)) if number is None else (number.old, number.new)[at]
        found.append(weighted_means(values, weights, codes[at], size, None if at else psus))
    (old, error), (new, own) = found
    name = "" if number is None else number.name
    columns, terms = tuple(each.name for each in (number, category) if each is not None), []
    known = (error > 1e-9 * np.abs(old)) | (degrees < FEWEST_DEGREES)  # of one unit the error is 0
    for place in np.flatnonzero((counts >= max(_FEWEST, tables.least)) & known):
        label = "" if category is None else f"{category.name} {category.levels[place]}"
        off, other = np.array([new[place] - old[place], own[place]]) / (error[place] or math.nan)
        # Of few dominant records a sample may have none, and so a small error: of both the larger one counts
        both = math.hypot(1.0, np.fmax(1.0, other))
        terms.append((" in ".join(filter(None, (name, label))), abs(float(off)), float(degrees[place]), columns, both))
    return terms


def _judged(terms: list[_Estimate]) -> tuple[list[_Estimate], str]:
    """The estimates whose errors rest on enough degrees of freedom, and a sentence on the others."""
    kept = [term for term in terms if term[2] >= FEWEST_DEGREES]
    if len(kept) == len(terms):
        return kept, ""
    fewer = f"fewer than {FEWEST_DEGREES} degrees of freedom, such as"
    few, _, degrees, *_ = min((term for term in terms if term[2] < FEWEST_DEGREES), key=lambda term: term[2])
    return kept, f" Not judged: {len(terms) - len(kept)} with {fewer} {few} ({degrees:.0f})."


def _psus(tables: TypedTables) -> Psus | None:
    """How the original was drawn; None for records that were drawn one by one."""
    columns = {column.name: column.old for column in tables.columns}
    return Psus.of(columns[tables.design_strata], columns[tables.cluster]) if tables.cluster else None


def _weighted(tables: TypedTables) -> list[Measurement]:
    """The furthest weighted estimates, and the same means without weights."""
    weight = next(column for column in tables.columns if column.name == tables.weight)
    sides = np.nan_to_num(weight.old), np.nan_to_num(weight.new)
    psus = _psus(tables)
    (means, few_means), (totals, few_totals) = map(_judged, _estimates(tables, sides, psus))
    without, few_without = _judged(_estimates(tables, (np.ones(tables.rows), np.ones(tables.released)), psus)[0])
    effects = [f"{design_effect(side):.2f}" for side in sides]
    note = (
        f"Of {{}} estimates; errors are the original's. Design effect of the weights (Kish): {effects[0]} in the "
        f"original, {effects[1]} in the release."
    )
    judged = (_MEANS, means, few_means), (_UNWEIGHTED, without, few_without), (_TOTALS, totals, few_totals)
    found = [
        _furthest(figure, [term[:2] for term in terms], tables.rows, note.format(len(terms)), few)
        for figure, terms, few in judged
    ]
    every = means + totals
    share = _CHANCE / 2.0 / max(1, len(every))
    note = (
        f"1: the difference that another sample of the same design, with the larger error of both tables, exceeds in "
        f"any of {len(every)} estimates once in {1 / _CHANCE:.0f} (Bonferroni)."
    )
    allowed = [(name, value / -(both * float(stdtrit(degrees, share)))) for name, value, degrees, _, both in every]
    furthest = _furthest(_WORST, allowed, tables.rows, note, few_means or few_totals)
    worst = next((columns for name, _, _, columns, _ in every if furthest.parts and name == furthest.parts[0][0]), ())
    return [*found, replace(furthest, worst=worst)]


def _furthest(figure: Figure, terms: list[Term], records: int, note: str, few: str) -> Measurement:
    if not terms:
        note, reason = (few.strip(), Reason.FEW_DEGREES) if few else (f"Not defined: {figure.undefined}.", None)
        return figure.measured(math.nan, records, note=note, reason=reason)
    ordered = sorted(terms, key=lambda term: -math.inf if math.isnan(term[1]) else -term[1])  # undefined ones first
    return figure.measured(ordered[0][1], records, note=note + few, parts=tuple(ordered[:MOST_PARTS]))


_FIGURES = (_MEANS, _UNWEIGHTED, _TOTALS, _WORST)
WEIGHTED = UtilityMeasure(
    _FIGURES, _weighted, without_interval=_FIGURES, where=lambda tables: bool(tables.weight), weighted=True
)
