"""What a recipient's analysis is, and the names in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from anonpipe.errors import AnonpipeError, JobError

Model = Literal["linear", "logistic", "cox"]

_FUNCTIONS = ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs")
_BACKTICKED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Analysis:
    """A model that a recipient means to fit.

    Attributes
    ----------
    name
        What the analysis is called in results and errors.
    model
        `linear` (least squares), `logistic`, or `cox` (proportional hazards,
        Efron's likelihood for tied times).
    formula
        `response ~ predictors` as patsy and formulaic write it, such as
        `months ~ age + stage + sex:stage`. Text and categories become 0/1
        columns against their first level; `C(code)` does it for numbers,
        `Q("tumour size")` names a column that is no word. Of functions, those
        of numpy (`np.sqrt(age)`), `log` and its like, and those of patsy are
        known. The response of `logistic` has two values, or is a condition
        such as `I(months > 12)`; the later of its two values is modelled. The
        response of `cox` is the time.
    event
        For `cox`: the records that have the event, as a condition on columns
        (`status == 'Dead'`), or a column of 0 and 1. All others are censored.
    subset
        A condition on columns that records must meet (`age >= 18 and sex ==
        'Female'`); None for all.

    Notes
    -----
    A condition is not met where a column that it names is null. Formula and
    conditions are evaluated as Python: take them from people whom you would
    let run a program.

    Raises
    ------
    JobError
        Unknown model; an event without `cox`, or `cox` without one.

    Examples
    --------
    >>> Analysis("survival", "cox", "months ~ age + stage", event="status == 'Dead'").subset is None
    True
    """

    name: str
    model: Model
    formula: str
    event: str | None = None
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
    """The formula library, which comes with statsmodels.

    Raises
    ------
    JobError
        It is not installed.
    """
    try:
        import patsy  # type: ignore[import-untyped]
    except ImportError:
        pass
    else:
        return patsy
    raise JobError("models are fitted by statsmodels, which is not installed; install it with: pip install statsmodels")


def environment() -> Any:
    """What a formula may use beside columns; nothing of the caller's."""
    functions = {name: getattr(np, name) for name in _FUNCTIONS}
    return patsy_module().EvalEnvironment([{"np": np, **functions}])


def factors_of(analysis: Analysis) -> tuple[str, ...]:
    """The parts of the formula that are evaluated, as code, the response first.

    Raises
    ------
    JobError
        It is no formula, or not one of one response and some predictors.

    Examples
    --------
    >>> factors_of(Analysis("a", "linear", "months ~ age + np.log(size):age"))
    ('months', 'age', 'np.log(size)')
    """
    patsy = patsy_module()
    found: Any = None
    try:
        found = patsy.ModelDesc.from_formula(analysis.formula)
    except Exception:  # raised below, free of what the library says
        pass
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
    return tuple(dict.fromkeys(codes))


def columns_named(analysis: Analysis, codes: Iterable[str | None], known: Sequence[str]) -> tuple[str, ...]:
    """Columns that parts of the formula or conditions name, in the table's order.

    Parameters
    ----------
    analysis
        For the text of errors.
    codes
        Code; None names nothing.
    known
        The table's columns.

    Raises
    ------
    JobError
        Code that cannot be read, or names no column, or one of several that
        have the same name.
    """
    allowed = {"np", *_FUNCTIONS, *patsy_module().builtins.__all__}
    named = set[str]().union(*(names_in(analysis, code) for code in codes if code is not None))
    if unknown := sorted(name for name in named if name not in known and name not in allowed):
        raise JobError(
            f"analysis {analysis.name!r} names {', '.join(unknown)}, which the table does not have; "
            f"its columns are: {', '.join(known)}"
        )
    if many := sorted(name for name in named if known.count(name) > 1):
        raise JobError(f"analysis {analysis.name!r} names {many[0]}, as several columns are called; rename them")
    return tuple(name for name in known if name in named)


def columns_used(analysis: Analysis, known: Sequence[str], conditions: bool = True) -> tuple[str, ...]:
    """Columns that an analysis needs: those of its formula and, with `conditions`, of event and subset.

    Raises
    ------
    JobError
        As `factors_of` and `columns_named`.

    Examples
    --------
    >>> columns_used(Analysis("a", "linear", "months ~ age", subset="sex == 'f'"), ["age", "sex", "months", "x"])
    ('age', 'sex', 'months')
    """
    beside = [analysis.event, analysis.subset] if conditions else []
    return columns_named(analysis, [*factors_of(analysis), *beside], known)


def names_in(analysis: Analysis, code: str) -> set[str]:
    """Names that code looks up: words, in backticks, or in Q("...").

    Examples
    --------
    >>> sorted(names_in(Analysis("a", "linear", "y ~ x"), "np.log(Q('the age')) + `net pay` * x"))
    ['net pay', 'np', 'the age', 'x']
    """
    tree = None
    try:
        tree = ast.parse(_BACKTICKED.sub("1", code).strip(), mode="eval")
    except (SyntaxError, ValueError):
        pass
    if tree is None:
        raise JobError(
            f"analysis {analysis.name!r}: {code!r} cannot be read; write names of columns, numbers, 'texts', "
            "== < >= in, and, or, not; names that are no words go in backticks (conditions) or Q('...') (formulas)"
        )
    named = set(_BACKTICKED.findall(code))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            named.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
            named |= {
                item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)
            }
    return named - {"Q"}
