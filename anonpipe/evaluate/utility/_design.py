"""Columns of a table as formulas and conditions take them: what a column is follows from its type, as for a recipient.

For measures the job says what a column is; they take numbers, days and codes that both tables share (`_tables`). A
model of a recipient knows nothing of the job, and codes each table by the levels that the original has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from anonpipe.errors import JobError
from anonpipe.evaluate.utility._formula import (
    CATEGORIES,
    DRAWN,
    Analysis,
    NoFitError,
    columns_in,
    columns_used,
    condition_of,
    environment,
    evaluate,
    factors_of,
    most_columns,
    patsy_module,
    read_factor,
    refuse_dates,
)
from anonpipe.evaluate.utility._weighted import Psus
from anonpipe.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


def recoded(what: str) -> NoFitError:
    """That a release has a column or term in another form than the original."""
    return NoFitError(
        f"{what} has categories or a type that the original has not; analyse a column that is released in its own "
        "form, neither generalised nor recoded"
    )


def plain(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """Columns in types that patsy knows, rows numbered from 0; categories and dates stay such."""
    import pandas as pd

    return pd.DataFrame(
        {name: _plain_column(frame[name].reset_index(drop=True)) for name in columns}, index=pd.RangeIndex(len(frame))
    )


def _plain_column(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd
    from pandas.api import types

    nulls = bool(column.isna().any())
    if isinstance(column.dtype, pd.CategoricalDtype) or types.is_datetime64_any_dtype(column.dtype):
        return column
    if types.is_bool_dtype(column.dtype) and not nulls:
        return column.astype("bool")
    if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        whole = types.is_integer_dtype(column.dtype) and not nulls
        return pd.Series(column.to_numpy(dtype="int64") if whole else column.to_numpy(dtype="float64", na_value=np.nan))
    values = column.astype(object)
    return values.where(column.notna(), None)


def _levels_of(column: pd.Series[Any]) -> pd.Index[Any] | None:
    """The categories that records have, in their order; None for numbers and truths."""
    import pandas as pd
    from pandas.api import types

    if not isinstance(column.dtype, pd.CategoricalDtype):
        if column.dtype != object or types.infer_dtype(column, skipna=True) == "boolean":
            return None
        column = column.astype("category")
    return column.cat.remove_unused_categories().cat.categories.astype(object)


def coded(part: pd.DataFrame, levels: Mapping[str, pd.Index[Any]]) -> pd.DataFrame:
    """Columns of text and categories with the original's levels, in its order."""
    new = {}
    for name, categories in levels.items():
        column = None
        with suppress(Exception):  # values that cannot be compared
            column = part[name].astype("category").cat.remove_unused_categories()
        if column is None or not column.cat.categories.isin(categories).all():
            raise recoded(name)
        new[name] = column.cat.set_categories(categories)
    return part.assign(**new)


def _dates(frame: pd.DataFrame, columns: Iterable[str]) -> set[str]:
    """Those columns that hold dates."""
    from pandas.api import types

    dates = ("date", "datetime", "datetime64", "timedelta", "period")
    return {name for name in columns if types.infer_dtype(frame[name], skipna=True) in dates}


def met(part: pd.DataFrame, analysis: Analysis) -> pd.DataFrame:
    """Records that meet the subset, with the numbers of their rows."""
    if analysis.subset is not None:
        part = part[condition(part, analysis, "subset") == 1.0]
    if len(part) == 0:
        raise NoFitError("no record meets the subset; widen it")
    return part


def condition(part: pd.DataFrame, analysis: Analysis, what: str) -> FloatArray:
    """1 where `event` or `subset` is met, 0 where not, NaN where a column of it is null; shape (n_rows,)."""
    text = str(getattr(analysis, what))
    tree = condition_of(analysis, what, text)
    named = [name for name in part.columns if name in columns_in(tree)]
    complete = part[named].notna().all(axis=1).to_numpy()
    is_met = None
    with suppress(Exception):  # values that cannot be compared; the library's text quotes them
        is_met = evaluate(tree, part[complete])
    if is_met is None:
        raise JobError(
            f"analysis {analysis.name!r}: {text!r} is no condition on these columns; compare columns with values of "
            "their own type, as in status == 'Dead' and age >= 18"
        )
    outcome = np.full(len(part), np.nan)
    outcome[complete] = is_met
    return outcome


# --- The numbers that an analysis takes from a table: response, predictors, events ------------------------------------

INTERCEPT = "Intercept"

MOST_COEFFICIENTS = 1_000  # A column of names or numbers taken for categories would fill the memory with 0 and 1
_MOST_NAMES = 100_000  # More columns than this are not even named; patsy counts those of fewer exactly


@dataclass(frozen=True, eq=False)
class Design:
    """The numbers of one table."""

    response: FloatArray  # Shape (n_rows,); 0 and 1 for logistic models, times for Cox models
    predictors: FloatArray  # Shape (n_rows, n_coefficients)
    names: tuple[str, ...]  # Of the coefficients
    terms: tuple[str, ...]  # Of each the part of the formula that it is from
    events: BoolArray | None  # Whether the time is that of an event, shape (n_rows,); for Cox models
    left_out: int  # Records of the subset that are not used, for nulls
    learnt: bool = True  # Whether a function keeps something of the table that was coded first, such as means
    weights: FloatArray | None = None  # Survey weights, shape (n_rows,); None for none
    psus: Psus | None = None  # How the rows of the whole table were drawn, the subset or not; None without weights
    levels: tuple[str, ...] = ()  # Categories of the response, which holds their numbers
    # Of each record, shape (n_rows,), None for none: the exposure of counts, the number of its group or stratum, and
    # the time from which it is at risk
    exposure: FloatArray | None = None
    groups: FloatArray | None = None
    strata: FloatArray | None = None
    entry: FloatArray | None = None

    def take(self, places: Sequence[int]) -> Design:
        """Some of the predictors."""
        names, terms = (tuple(each[place] for place in places) for each in (self.names, self.terms))
        return replace(self, predictors=self.predictors[:, places], names=names, terms=terms)

    @property
    def behind(self) -> dict[str, int]:
        """Of each coefficient the records that tell its predictor from a constant; all of them of a constant."""
        found = {name: int(np.count_nonzero(telling)) for name, telling in self._telling}
        if self.equations:
            of_levels = np.bincount(self.response.astype(np.int64), minlength=len(self.levels))
            pairs = zip(self.equations, np.repeat(of_levels[1:], len(self.names)), strict=True)
            rests = list(found.values()) * (len(self.levels) - 1)
            return {name: min(int(count), other) for (name, count), other in zip(pairs, rests, strict=True)}
        return found

    @property
    def _telling(self) -> Iterator[tuple[str, BoolArray]]:
        """Of each predictor its name and which records tell it from a constant; all of a constant."""
        for name, values in zip(self.names, self.predictors.T, strict=True):
            distinct, counts = np.unique(values, return_counts=True)
            yield name, values != (distinct[counts.argmax()] if len(distinct) > 1 else np.nan)

    def degrees(self, coefficients: int) -> dict[str, int]:
        """Of each coefficient of a survey design the degrees of freedom of its error.

        Those of the model, of so many coefficients an equation; or if fewer, units less 1 of the records that tell its
        predictor from a constant: of an indicator their scores add up to 0.
        """
        psus = self.psus
        assert psus is not None  # as the caller has seen
        every = psus.degrees + 1 - coefficients
        own = [min(every, len(np.unique(psus.at[telling])) - 1) for _, telling in self._telling]
        return {name: own[at % len(own)] for at, name in enumerate(self.equations or self.names)}

    @property
    def equations(self) -> tuple[str, ...]:
        """Names of the coefficients of a multinomial model, category by category; none of others."""
        return tuple(f"{level}: {name}" for level in self.levels[1:] for name in self.names)


@dataclass(frozen=True, eq=False)
class FormulaCoding:
    """An analysis and how its formula codes columns: levels, knots and scales are those of the original."""

    analysis: Analysis  # What is coded
    columns: tuple[str, ...]  # The columns that it names
    levels: Mapping[str, pd.Index[Any]]  # Of each column of text or categories in the formula the original's
    sides: tuple[Any, Any]  # patsy's codings of response and predictors

    @property
    def learnt(self) -> bool:
        """Whether a function of the formula keeps means, deviations or quantiles of the original."""
        return any(factor.state["transforms"] for side in self.sides for factor in side.factor_infos.values())


def learn(original: pd.DataFrame, analysis: Analysis) -> FormulaCoding:
    """How an analysis codes the columns of the original."""
    codes = factors_of(analysis)
    names = [str(name) for name in original.columns]
    columns = columns_used(analysis, names)
    predicting = columns_used(analysis, names, conditions=False)
    refuse_dates(analysis, names, _dates(original, predicting), "both tables")
    part = met(plain(original, columns), analysis).reset_index(drop=True)
    culprit, levels, sides = None, {}, None
    try:
        with _quiet():
            levels = {name: categories for name in predicting if (categories := _levels_of(part[name])) is not None}
            part = coded(part, levels)
            _refuse_too_wide(analysis, {name: len(categories) for name, categories in levels.items()})
            sides = patsy_module().incr_dbuilders(analysis.formula, lambda: iter([part]), eval_env=environment())
    except JobError:
        raise
    except Exception:  # patsy quotes values, and functions of the formula may raise anything
        evaluated = partial(patsy_module().incr_dbuilder, data_iter_maker=lambda: iter([part]), eval_env=environment())
        culprit = _failing((code, partial(evaluated, f"0 + {code}")) for code in codes) or analysis.formula
    if sides is None:
        raise JobError(
            f"analysis {analysis.name!r}: {culprit} cannot be evaluated; give numbers or categories, and to "
            "functions what they take"
        )
    _check_sides(analysis, sides)
    return FormulaCoding(analysis, columns, levels, sides)


def apply(coding: FormulaCoding, frame: pd.DataFrame) -> Design:
    """The numbers of a table, coded as `learn` found."""
    analysis = coding.analysis
    whole = plain(frame, coding.columns)
    part = met(whole, analysis)
    events = None if analysis.event is None else condition(part, analysis, "event")
    usable = np.ones(len(part), dtype=np.bool_) if events is None else ~np.isnan(events)
    usable &= part[list(analysis.others.values())].notna().all(axis=1).to_numpy()
    used, culprit, matrices = coded(part[usable].reset_index(drop=True), coding.levels), None, None
    made = partial(patsy_module().build_design_matrices, data=used, NA_action="drop")
    try:
        with _quiet():
            matrices = made(coding.sides, return_type="dataframe")
    except Exception:
        terms = [(str(name), side.subset([name])) for side in coding.sides for name in side.term_names]
        culprit = _failing((name, partial(made, [side])) for name, side in terms)
    if matrices is None:
        raise recoded(culprit or analysis.formula)
    left, right = matrices
    kept = right.index.to_numpy()
    if len(kept) == 0:
        raise NoFitError("every record has a null in a column of the analysis; analyse other columns")
    design = Design(
        response=_response(analysis, left.to_numpy(dtype=np.float64)),
        predictors=right.to_numpy(dtype=np.float64),
        names=tuple(right.columns),
        terms=tuple(str(name) for name, place in _terms(coding.sides[1]) for _ in range(place.stop - place.start)),
        events=None if events is None else events[usable][kept] == 1.0,
        left_out=len(part) - len(kept),
        learnt=coding.learnt,
        levels=_levels(coding) if analysis.model == "multinomial" else (),
        psus=None if analysis.weights is None else _psus(analysis, whole, part.index[usable][kept]),
        **{key: _other(analysis, key, used[name], kept) for key, name in analysis.others.items() if key not in DRAWN},
    )
    if analysis.model in ("cox", "ordinal"):
        design = design.take([place for place, name in enumerate(design.names) if name != INTERCEPT])
    bad = ~np.isfinite(design.predictors).all(axis=0)
    if bad.any() or not np.isfinite(design.response).all():
        where = design.terms[int(np.argmax(bad))] if bad.any() else "the response"
        raise NoFitError(f"{where} has values that are not finite; leave such records out by a subset")
    return design


@contextmanager
def _quiet() -> Iterator[None]:
    """Logarithms of 0 and the like become numbers that are not finite."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _failing(attempts: Iterable[tuple[str, Callable[[], Any]]]) -> str | None:
    """The first of several pieces that cannot be evaluated by itself."""
    for name, attempt in attempts:
        try:
            attempt()
        except Exception:
            return name
    return None


def _refuse_too_wide(analysis: Analysis, categories: Mapping[str, int]) -> None:
    """Categories multiply in interactions, and patsy would make all columns before they can be counted."""
    for term in patsy_module().ModelDesc.from_formula(analysis.formula).rhs_termlist:
        wide = prod(most_columns(read_factor(factor.code), categories) for factor in term.factors)
        if wide > _MOST_NAMES:
            raise _too_wide(analysis, wide, term.name())


def count_coefficients(analysis: Analysis, categories: Mapping[str, int]) -> int:
    """How many coefficients an equation has, given the categories of columns; at least, where functions make some."""
    terms = patsy_module().ModelDesc.from_formula(analysis.formula).rhs_termlist
    kept = [term.factors for term in terms if term.factors or analysis.model not in ("cox", "ordinal")]
    return sum(prod(max(1, categories.get(factor.code, 2) - 1) for factor in factors) for factors in kept)


def _too_wide(analysis: Analysis, count: int, widest: str) -> JobError:
    return JobError(
        f"analysis {analysis.name!r} would have {count:,} coefficients, most of them for "
        f"{widest}; {MOST_COEFFICIENTS:,} are allowed: leave it out, or coarsen it"
    )


def _check_sides(analysis: Analysis, sides: tuple[Any, Any]) -> None:
    left, right = sides
    (response,) = left.factor_infos.values()
    categories = 0 if response.type == "numerical" else len(response.categories)
    wide = response.type == "numerical" and response.num_columns > 1
    if analysis.model in CATEGORIES:
        if categories < 2:
            raise JobError(
                f"analysis {analysis.name!r}: the response of a {analysis.model} model has two categories or more; "
                "write C(name) for numbers"
            )
    elif wide or (categories > 0 and analysis.model != "logistic"):
        raise JobError(f"analysis {analysis.name!r}: the response of a {analysis.model} model is one number")
    elif categories > 2:
        raise JobError(
            f"analysis {analysis.name!r}: the response has {categories} categories, and a logistic model takes two; "
            "make it a condition, as in I(status == 'Dead') or I(months > 12)"
        )
    if len(right.column_names) > MOST_COEFFICIENTS:
        widest = max(_terms(right), key=lambda term: term[1].stop - term[1].start)
        raise _too_wide(analysis, len(right.column_names), widest[0])


def _terms(side: Any) -> list[tuple[str, slice]]:
    """Terms in their order, and which columns are of each."""
    return [(str(name), side.term_name_slices[name]) for name in side.term_names]


def _levels(coding: FormulaCoding) -> tuple[str, ...]:
    """The categories of the response, in their order."""
    (response,) = coding.sides[0].factor_infos.values()
    return tuple(map(str, response.categories))


def _other(analysis: Analysis, what: str, column: pd.Series[Any], kept: IntArray) -> FloatArray:
    """A column besides the formula: numbers, of groups and strata those of their values."""
    from pandas.api import types

    if what in ("groups", "strata"):
        return _codes(column.iloc[kept])
    if not types.is_numeric_dtype(column.dtype):
        raise JobError(f"analysis {analysis.name!r}: {what} is {column.name}, which is no number; name another column")
    values: FloatArray = column.to_numpy(np.float64)[kept]
    return _weights(values) if what == "weights" else values


def _codes(column: pd.Series[Any]) -> FloatArray:
    """Numbers of its values."""
    return np.unique(column.astype(str).to_numpy(), return_inverse=True)[1].astype(np.float64)


def _psus(analysis: Analysis, whole: pd.DataFrame, rows: pd.Index[Any]) -> Psus:
    """How some rows of a table were drawn, one by one without a design; units with none of them count, too."""
    if analysis.cluster is None:
        return Psus(rows.to_numpy(), np.zeros(len(whole), dtype=np.int64))
    drawn = whole[[analysis.design_strata, analysis.cluster]].dropna()
    psus = Psus.of(*(_codes(drawn[name]) for name in drawn))
    psus = psus._replace(at=psus.at[drawn.index.get_indexer(rows)])
    if psus.degrees < 1:
        raise NoFitError("each stratum of these records has one PSU, and errors need two; analyse other records")
    return psus


def _weights(weights: FloatArray) -> FloatArray:
    """Of mean 1."""
    if not (weights > 0.0).all():
        raise NoFitError("survey weights are null, 0 or negative in some records; correct them, or fit without weights")
    return np.asarray(weights / weights.mean())


def _response(analysis: Analysis, values: FloatArray) -> FloatArray:
    """One column; of the two 0/1 columns of a category the later; of a model of categories their numbers."""
    if analysis.model in CATEGORIES:
        return np.asarray(values.argmax(axis=1), dtype=np.float64)
    response = np.ascontiguousarray(values[:, -1])
    if analysis.model == "logistic" and not np.isin(response, (0.0, 1.0)).all():
        raise NoFitError(
            "the response has numbers other than 0 and 1, and a logistic model takes two values; make it a condition, "
            "as in I(months > 12)"
        )
    return response
