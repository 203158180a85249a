"""What a recipient's analysis is, and the names in it.

Formulas are patsy's. Its maintainers only keep it working, and send whoever
can go to formulaic, so formulaic 1.2.2 was tried on all that `_permitted`
allows. It gives the same columns, those of released tables with the original's
knots and scales too, and wide interactions of categories fifteen times faster.
But it has no `te`, divides by n - 1 in `scale`, orders terms and names
coefficients differently, so that figures of two releases would not be
comparable - and it evaluates code in functions of a module, with all of
Python's built-in functions at hand, where patsy has an object whose
evaluation can be replaced (`_sealed`). Formulas come from anybody: that second
wall stays. statsmodels needs patsy as well.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, get_args

import numpy as np

from anonpipe.errors import AnonpipeError, JobError
from anonpipe.evaluate.utility._permitted import (
    FUNCTIONS,
    MOST_CHARACTERS,
    RefusedError,
    check_terms,
    columns_in,
    read_condition,
    read_factor,
)

Model = Literal["linear", "logistic", "cox"]


@dataclass(frozen=True)
class Analysis:
    """A model that a recipient means to fit.

    Notes
    -----
    A condition is not met where a column that it names is null. Formula and
    conditions hold columns, numbers, texts, operators and a few functions,
    and nothing else: they are checked before any is evaluated, so that they
    may come from anybody.

    Examples
    --------
    >>> Analysis("survival", "cox", "months ~ age + stage", event="status == 'Dead'").subset is None
    True
    """

    name: str  # What the analysis is called in results and errors
    # `linear` (least squares), `logistic`, or `cox` (proportional hazards, Efron's likelihood for tied times)
    model: Model
    # `response ~ predictors` as patsy and formulaic write it, such as `months ~ age + stage + sex:stage`. Text and
    # categories become 0/1 columns against their first level; `C(code)` does it for numbers, `Q("tumour size")` names a
    # column that is no word. Functions are those of `_permitted`: `log` and its like (also as `np.log`), `center`,
    # `standardize`, splines. The response of `logistic` has two values, or is a condition such as `I(months > 12)`; the
    # later of its two values is modelled. The response of `cox` is the time.
    formula: str
    # For `cox`: the records that have the event, as a condition on columns (`status == 'Dead'`), or a column of 0 and
    # 1. All others are censored.
    event: str | None = None
    # A condition on columns that records must meet (`age >= 18 and sex == 'Female'`); None for all
    subset: str | None = None

    def __post_init__(self) -> None:
        if self.model not in get_args(Model):
            raise JobError(f"analysis {self.name!r}: unknown model {self.model!r}; known are linear, logistic and cox")
        if (self.event is not None) != (self.model == "cox"):
            raise JobError(
                f"analysis {self.name!r}: event goes with model cox, and with it only; "
                "give the condition that tells which records have the event"
            )


class NoFitError(AnonpipeError):
    """These records do not allow the model; the text tells why, without their values."""


def patsy_module() -> Any:
    """The formula library."""
    try:
        import patsy
    except ImportError:
        pass
    else:
        return patsy
    raise JobError("formulas are read by patsy, which is not installed; install it with: pip install patsy")


def environment() -> Any:
    """What a formula may use beside columns: functions of numpy, nothing of the caller's, no built-in of Python."""
    functions = {name: getattr(np, name) for name in FUNCTIONS}
    return _sealed()([{"np": SimpleNamespace(**functions), **functions}])


@cache
def _sealed() -> Any:
    """Patsy's evaluation without the built-in functions, which Python otherwise adds to every evaluation."""
    patsy = patsy_module()
    from patsy.eval import VarLookupDict

    base: Any = patsy.EvalEnvironment

    class Sealed(base):  # type: ignore[misc]
        def eval(self, expr: str, source_name: str = "<formula>", inner_namespace: Any = None) -> Any:
            code = compile(expr, source_name, "eval", self.flags, False)
            return eval(code, {"__builtins__": {}}, VarLookupDict([inner_namespace or {}, *self._namespaces]))

        def subset(self, names: Iterable[str]) -> Any:
            return type(self)([{name: self.namespace[name] for name in names}], self.flags)

    return Sealed


@cache
def factors_of(analysis: Analysis) -> tuple[str, ...]:
    """The parts of the formula that are evaluated, as code, the response first; all of it is permitted.

    Examples
    --------
    >>> factors_of(Analysis("a", "linear", "months ~ age + np.log(size):age"))
    ('months', 'age', 'np.log(size)')
    """
    found = _described(analysis)
    if found is None:
        problem: str | None = "is no formula"
    elif len(found.lhs_termlist) != 1 or len(found.lhs_termlist[0].factors) != 1:
        problem = "needs one response"
    elif not any(term.factors for term in found.rhs_termlist):
        problem = "has no predictor"
    elif analysis.model == "cox" and all(term.factors for term in found.rhs_termlist):
        raise JobError(
            f"analysis {analysis.name!r}: a cox model has no intercept that {analysis.formula!r} could take out; "
            "leave out - 1 or 0 +"
        )
    else:
        problem = None
    if problem is not None:
        raise JobError(
            f"analysis {analysis.name!r}: {analysis.formula!r} {problem}; write response ~ predictor + predictor"
        )
    codes = [factor.code for term in [*found.lhs_termlist, *found.rhs_termlist] for factor in term.factors]
    codes = list(dict.fromkeys(codes))
    for code in codes:
        _permitted(analysis, "formula", read_factor, code)
    return tuple(codes)


def _described(analysis: Analysis) -> Any:
    """The formula as patsy describes it; None where it is none."""
    patsy = patsy_module()
    from patsy.parse_formula import parse_formula

    if len(analysis.formula) > MOST_CHARACTERS:
        raise JobError(
            f"analysis {analysis.name!r}: the formula has {len(analysis.formula):,} characters, and "
            f"{MOST_CHARACTERS:,} are allowed; leave out predictors"
        )
    try:
        tree = parse_formula(analysis.formula)
    except Exception:  # what the library says is of no use
        return None
    _permitted(analysis, "formula", check_terms, tree)
    try:
        return patsy.ModelDesc.from_formula(analysis.formula)
    except Exception:
        return None


def condition_of(analysis: Analysis, what: str, text: str) -> ast.expr:
    """A condition, all of it permitted, as a syntax tree."""
    tree: ast.expr = _permitted(analysis, what, read_condition, text)
    return tree


def _permitted(analysis: Analysis, what: str, read: Callable[[Any], Any], content: Any) -> Any:
    try:
        return read(content)
    except RefusedError as error:
        problem = str(error)
    raise JobError(f"analysis {analysis.name!r}: in its {what}, {problem}")


def check_analysis(analysis: Analysis) -> None:
    """Refuse an analysis whose formula or conditions hold anything that is not allowed; columns are not looked up.

    Raises
    ------
    JobError
        As `factors_of` and `condition_of`.

    Examples
    --------
    >>> check_analysis(Analysis("a", "linear", "months ~ age", subset="age.to_csv('copy')"))
    Traceback (most recent call last):
    anonpipe.errors.JobError: analysis 'a': in its subset, 'age.to_csv' is not allowed; allowed are columns ...
    """
    factors_of(analysis)
    for what, text in conditions_of(analysis):
        condition_of(analysis, what, text)


def conditions_of(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    """`event` and `subset` with their texts, where given."""
    return tuple((what, text) for what in ("event", "subset") if (text := getattr(analysis, what)) is not None)


def factor_columns(analysis: Analysis, codes: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Columns that factors of the formula name, in the table's order."""
    return _known(analysis, set[str]().union(*(columns_in(read_factor(code)) for code in codes)), known)


def columns_used(analysis: Analysis, known: Sequence[str], conditions: bool = True) -> tuple[str, ...]:
    """Columns that an analysis needs: those of its formula and, with `conditions`, of event and subset.

    Parameters
    ----------
    analysis
        Which.
    known
        The table's columns; the result is in their order.
    conditions
        Whether those of event and subset too.

    Raises
    ------
    JobError
        A piece of it is not allowed, or names no column, or one of several
        that have the same name.

    Examples
    --------
    >>> columns_used(Analysis("a", "linear", "months ~ age", subset="sex == 'f'"), ["age", "sex", "months", "x"])
    ('age', 'sex', 'months')
    """
    named = set[str]().union(*(columns_in(read_factor(code)) for code in factors_of(analysis)))
    for what, text in conditions_of(analysis) if conditions else ():
        named |= columns_in(condition_of(analysis, what, text))
    return _known(analysis, named, known)


def _known(analysis: Analysis, named: set[str], known: Sequence[str]) -> tuple[str, ...]:
    if unknown := sorted(name for name in named if name not in known):
        raise JobError(
            f"analysis {analysis.name!r} names {', '.join(unknown)}, which the table does not have; "
            f"its columns are: {', '.join(known)}"
        )
    if many := sorted(name for name in named if known.count(name) > 1):
        raise JobError(f"analysis {analysis.name!r} names {many[0]}, as several columns are called; rename them")
    return tuple(name for name in known if name in named)
