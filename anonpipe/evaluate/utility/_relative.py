"""Relative survival: of the records, over that of a population of the same age, sex and calendar year."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anonpipe.columns import Kind
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.utility._measure import MOST_PARTS, Term, UtilityMeasure
from anonpipe.evaluate.utility._survival import followed, grouped, last_time
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

_MOST_OUTSIDE = 0.5  # Share of records outside of the life table that says that a column is not what it is taken for
_COMPARED = (1, 5, 10)  # Years that registries report; of more years chance alone makes the largest larger
_EPOCH, _DAYS = 1970.0, 365.25  # Dates are days since the first, of years of so many

_DIFFERENCE = Figure(
    "relative_survival", "Largest difference of relative survival after 1, 5 and 10 years, overall or of a group",
    "share", "Ederer & Heise (1959), method II; Dickman & Coviello (2015), Stata Journal 15:186-215", Audience.STEWARD,
    undefined="no record with a time, status, age, sex and year is followed for a year",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class LifeTable:
    """How many of a population die within a year, by sex, calendar year and age."""

    deaths: FloatArray  # Probabilities, shape (n_sexes, n_years, n_ages)
    sexes: tuple[str, ...]  # Empty where the table has no sex
    first_year: int  # That of the first place; years beyond the table are taken for its ends
    first_age: int  # The same of ages

    @classmethod
    def of(cls, frame: pd.DataFrame) -> LifeTable:
        """From a row for each age, and where the table has these, each year and sex.

        - `frame`: columns `age` in whole years, `qx` (probability of death within the year); `year` and `sex` if they
          matter. Every combination once.

        Examples
        --------
        >>> import pandas as pd
        >>> table = LifeTable.of(pd.DataFrame({"age": [60, 61], "qx": [0.01, 0.02]}))
        >>> table.survival(np.zeros(2, dtype=int), np.zeros(2), np.array([60.7, 75.0])).tolist()
        [0.99, 0.98]
        """
        keys = [name for name in ("sex", "year", "age") if name in frame.columns]
        if missing := [name for name in ("age", "qx") if name not in frame.columns]:
            raise InputError(
                f"the life table has no column {missing[0]!r}; it needs age and qx, and may have year, sex"
            )
        numbers = frame[["qx", *(name for name in keys if name != "sex")]]
        whole = numbers.drop(columns="qx")
        known = all(kind.kind in "iuf" for kind in numbers.dtypes) and frame[keys].notna().all(axis=None)
        if not known or not np.isfinite(numbers).all(axis=None) or (whole % 1 != 0).any(axis=None):
            raise InputError(
                "the life table has an empty cell, an age or year that is no whole number, or a qx that is no number"
            )
        if not frame["qx"].between(0, 1, inclusive="left").all():
            raise InputError("the life table has qx outside of [0, 1): it is the probability of death within a year")
        sexes = tuple(sorted(map(_label, frame["sex"].unique()))) if "sex" in keys else ()
        places = [np.searchsorted(sexes, frame["sex"].map(_label)) if sexes else np.zeros(len(frame), dtype=np.int64)]
        places += [frame[n].to_numpy(dtype=np.int64) if n in keys else places[0] * 0 for n in ("year", "age")]
        first = [int(each.min()) for each in places]
        shape = [int(each.max()) - low + 1 for each, low in zip(places, first, strict=True)]
        if len(frame) != math.prod(shape) or frame.duplicated(keys).any():
            raise InputError(
                f"the life table has {len(frame):,} rows for {math.prod(shape):,} combinations of {', '.join(keys)}; "
                "give each combination one row"
            )
        deaths = np.empty(shape)
        deaths[places[0], places[1] - first[1], places[2] - first[2]] = frame["qx"].to_numpy(dtype=np.float64)
        return cls(deaths, sexes, first[1], first[2])

    def outside(self, year: FloatArray, age: FloatArray) -> BoolArray:
        """Which years or ages the table does not have, shapes (n_rows,)."""
        _, years, ages = self.deaths.shape
        beyond = (age < self.first_age) | (age >= self.first_age + ages)
        return np.asarray(beyond | (years > 1) & ((year < self.first_year) | (year >= self.first_year + years)))

    def survival(self, sex: IntArray, year: FloatArray, age: FloatArray) -> FloatArray:
        """Probability to survive a year, shapes (n_rows,)."""
        _, years, ages = self.deaths.shape
        at_year = np.clip(np.floor(year).astype(np.int64) - self.first_year, 0, years - 1)
        at_age = np.clip(np.floor(age).astype(np.int64) - self.first_age, 0, ages - 1)
        return np.asarray(1.0 - self.deaths[sex, at_year, at_age])


def _label(category: object) -> str:
    """A category as text; nulls in a column of whole numbers make these floating-point numbers."""
    whole = isinstance(category, (float, np.floating)) and float(category).is_integer()
    return str(int(category)) if whole else str(category)  # type: ignore[call-overload]


@dataclass(frozen=True, eq=False)
class Population:
    """The population that records are held against, and the columns that tell a record's place in it."""

    table: LifeTable
    age: str  # In years, at the start of follow-up
    sex: str | None  # Values as in the life table
    year: str | None  # Of the begin of follow-up: a number, or a date
    times_a_year: float  # Units of the survival time in a year

    def check_sexes(self, name: str, categories: Iterable[object]) -> None:
        """Refuse a column with categories that the life table does not have."""
        if unknown := len(set(map(_label, categories)) - set(self.table.sexes)):
            raise InputError(
                f"column {name!r} has {unknown} categories that the life table does not have in its column sex; write "
                "both alike"
            )

    def places(self, columns: dict[str, BothColumns], side: str) -> tuple[IntArray, FloatArray, FloatArray, BoolArray]:
        """Of the records of a side sex, year and age, and whether all are known; shapes (n_rows,)."""
        age: FloatArray = getattr(columns[self.age], side)
        sex, year = np.zeros(len(age)), np.full(len(age), float(self.table.first_year))
        if self.sex is not None:
            levels, codes = columns[self.sex].levels, getattr(columns[self.sex], side)
            known = {name: at for at, name in enumerate(self.table.sexes)}
            at = np.array([*(known.get(_label(level), math.nan) for level in levels), math.nan])
            sex = at[np.where(np.isnan(codes), len(levels), codes).astype(np.int64)]
        if self.year is not None:
            year = getattr(columns[self.year], side)
            year = _EPOCH + year / _DAYS if columns[self.year].kind is Kind.DATE else year
        there = ~(np.isnan(age) | np.isnan(sex) | np.isnan(year))
        return np.nan_to_num(sex).astype(np.int64), np.nan_to_num(year), np.nan_to_num(age), there


def relative_survival(
    years: FloatArray,
    died: BoolArray,
    table: LifeTable,
    sex: IntArray,
    year: FloatArray,
    age: FloatArray,
    most: int,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Survival after 1, 2, … years over that expected of the population (Ederer II), shape (at most `most`,).

    - `years`: time of follow-up; `died`: whether it ends by a death of any cause.
    - `table`, `sex`, `year`, `age`: see `LifeTable.survival`; at the start of follow-up.
    - `most`: years that are asked for; fewer where nobody is at risk.
    - `weights`: of a survey; 1 without.

    In each year d of n at risk die and c are censored, sums of weights. The survival d / (n - c/2) short of 1
    (actuarial estimate) is divided by the weighted mean of those at risk in the life table; quotients are multiplied.

    Examples
    --------
    >>> import pandas as pd
    >>> table = LifeTable.of(pd.DataFrame({"age": [60, 61], "qx": [0.1, 0.2]}))
    >>> at, same = np.array([0.5, 1.5, 2.5, 2.5]), np.zeros(4, dtype=int)
    >>> found = relative_survival(at, np.array([True, False, True, False]), table, same, same, same + 60.0, 2)
    >>> found.round(3).tolist()
    [0.833, 1.042]
    """
    found, product, own = [], 1.0, np.ones(len(years)) if weights is None else weights
    for at in range(most):
        at_risk = years >= at
        ends = at_risk & (years < at + 1)
        effective = own[at_risk].sum() - own[ends & ~died].sum() / 2
        if effective <= 0:
            break
        expected = np.average(table.survival(sex[at_risk], year[at_risk] + at, age[at_risk] + at), weights=own[at_risk])
        product *= (1.0 - own[ends & died].sum() / effective) / float(expected)
        found.append(product)
    return np.array(found)


def _relative(tables: TypedTables) -> list[Measurement]:
    """The largest difference after some years, of all records and of groups, while a tenth is at risk."""
    population, columns = tables.population, {column.name: column for column in tables.columns}
    assert population is not None  # as the measure is left out without
    endpoint, terms = tables.endpoints[0], list[Term]()
    sides: list[tuple[FloatArray, BoolArray, tuple[IntArray, FloatArray, FloatArray], FloatArray, BoolArray]] = []
    both, table = followed(tables, endpoint), population.table
    for side, ends in zip(("old", "new"), both, strict=True):
        sex, year, age, there = population.places(columns, side)
        years, died = ends.times / population.times_a_year, ends.outcomes > 0
        sides.append((years, died, (sex, year, age), ends.weights, there & ends.known))
    _, _, (_, year, age), _, there = sides[0]
    beyond = float(table.outside(year, age)[there].mean()) if there.any() else 0.0
    if beyond > _MOST_OUTSIDE:
        note = f"Not defined: {beyond:.0%} of the records begin in a year or at an age outside of the life table."
        return [_DIFFERENCE.measured(math.nan, tables.rows, note=note)]
    for column, labels, *groups in grouped(tables, endpoint, both[0]):
        for at, label in enumerate(labels):
            rows = [there & (group == at) for (*_, there), group in zip(sides, groups, strict=True)]
            if not rows[0].any():
                continue
            most = math.floor(last_time(sides[0][0][rows[0]], tables.least))
            found = [
                relative_survival(years[one], died[one], table, sex[one], year[one], age[one], most, own[one])
                for (years, died, (sex, year, age), own, _), one in zip(sides, rows, strict=True)
            ]
            terms += _differences(f"{column} {label}" if column else label, *found)
    terms.sort(key=lambda term: -term[1])
    if not terms:
        return [_DIFFERENCE.measured(math.nan, tables.rows, note=f"Not defined: {_DIFFERENCE.undefined}.")]
    note = (
        f"While a tenth of the records is at risk; {beyond:.1%} of them begin in a year or at an age outside of the "
        "life table, and count as at its ends."
    )
    return [_DIFFERENCE.measured(terms[0][1], tables.rows, note=note, parts=tuple(terms[:MOST_PARTS]))]


def _differences(title: str, old: FloatArray, new: FloatArray) -> list[Term]:
    """By year; a year that the release does not reach is as far off as can be."""
    years = [at for at in _COMPARED if at <= len(old)]
    return [(f"{title}, year {at}", float(abs(old[at - 1] - new[at - 1])) if at <= len(new) else 1.0) for at in years]


RELATIVE = UtilityMeasure((_DIFFERENCE,), _relative, where=lambda tables: tables.population is not None, weighted=True)
