"""What recipients may write in a formula or condition: a short list, and nothing else is ever evaluated.

Formulas come from recipients and are fitted by the steward, who has the original rows. Python's syntax tree of every
piece is held against the list before a row is read: no attribute, no subscript, no call but those listed, and bounds on
length, depth, exponents and the number of terms.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, reduce
from math import comb, isfinite, prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from anonpipe.errors import AnonpipeError, JobError
from anonpipe.types import BoolArray

if TYPE_CHECKING:
    import pandas as pd

# Of one argument, with or without `np.` before them
_FUNCTIONS = ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs")
_CONTRASTS = ("Treatment", "Sum", "Diff", "Helmert", "Poly")
_SCALINGS: dict[str, tuple[str, ...]] = {
    "center": (),
    **dict.fromkeys(("standardize", "scale"), ("center", "rescale", "ddof")),
}
_SPLINES = {
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
    **dict.fromkeys(("cr", "cc"), ("df", "knots", "lower_bound", "upper_bound", "constraints")),
}
_OPTIONS = {**dict.fromkeys((*_FUNCTIONS, "I"), ()), **_SCALINGS, **_SPLINES}  # Of all that takes one argument

_MOST_CHARACTERS, _MOST_TERMS, _MOST_LISTED = 4_000, 500, 1_000
_DEEPEST, _LARGEST_POWER, _WIDEST_SPLINE = 100, 10, 50

_IN_FORMULAS = (
    "columns (those that are no words as Q('their name')), numbers, + - * / : ** between terms, in I(...) also "
    f"arithmetic, comparisons and & | ~, the functions {', '.join(_FUNCTIONS)}, {', '.join(_SCALINGS)}, "
    f"{', '.join(_SPLINES)}, te, and C(column, {' or '.join(_CONTRASTS)})"
)
_IN_CONDITIONS = (
    "columns (those that are no words in backticks), numbers, 'texts', arithmetic, == != < <= > >=, in [...], "
    f"and, or, not, & | ~, and the functions {', '.join(_FUNCTIONS)}"
)
_SHOWN = 80
_REMEDY = "compute anything else as a column of the input"

_QUOTED = re.compile(r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|`([^`\n]+)`""")
_LONE_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_BITWISE = (ast.BitAnd, ast.BitOr)


class RefusedError(Exception):
    """A piece is not on the list; the text names it."""


@dataclass(frozen=True)
class _Grammar:
    """What formulas allow, or conditions."""

    allowed: str  # In words
    logic: bool  # Whether and, or, not, lists and chains of comparisons are allowed
    functions: tuple[str, ...]


_FORMULA = _Grammar(_IN_FORMULAS, False, (*_OPTIONS, "Q", "C", "te"))
_CONDITION = _Grammar(_IN_CONDITIONS, True, (*_FUNCTIONS, "Q"))


def read_factor(code: str) -> ast.expr:
    """The syntax tree of one factor of a formula, all of it on the list."""
    return _read(code, _FORMULA)


def read_condition(code: str) -> ast.expr:
    """The syntax tree of a condition, all of it on the list; names in backticks become Q('name')."""
    return _read(_QUOTED.sub(lambda hit: hit[1] or f"Q({hit[2]!r})", code), _CONDITION)


def _check_terms(tree: Any) -> None:
    """Refuse a formula that multiplies out to more than `_MOST_TERMS` terms."""
    try:
        many = _count_terms(tree, _MOST_TERMS) > _MOST_TERMS
    except RecursionError:
        many = True
    if many:
        raise RefusedError(
            f"the formula multiplies out to more than {_MOST_TERMS} terms, and so many are allowed; name those that "
            "are meant one by one"
        )


def columns_in(tree: ast.expr) -> set[str]:
    """Columns that a permitted tree names."""
    match tree:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=name)]):
            return {str(name)}
        case ast.Call(func=ast.Name(id="C"), args=[column, *_]):
            return columns_in(column)
    children = tree.args if isinstance(tree, ast.Call) else ast.iter_child_nodes(tree)
    return set[str]().union(*(columns_in(child) for child in children if isinstance(child, ast.expr)))


def _columns_calculated(tree: ast.expr) -> set[str]:
    """Columns that arithmetic or a function is applied to: text times a number would be repeated text."""
    is_calculated = isinstance(tree, ast.BinOp) and not isinstance(tree.op, _BITWISE)
    if is_calculated or (isinstance(tree, ast.Call) and _called(tree) != "Q"):
        return columns_in(tree)
    children = (child for child in ast.iter_child_nodes(tree) if isinstance(child, ast.expr))
    return set[str]().union(*map(_columns_calculated, children))


def most_columns(tree: ast.expr, categories: Mapping[str, int]) -> int:
    """The most columns of numbers that a factor can become, given the categories of each column that has some."""
    if isinstance(tree, ast.Call) and _called(tree) in (*_SPLINES, "te"):
        return _width(tree)
    return prod(categories.get(name, 1) for name in columns_in(tree))


def _read(code: str, rules: _Grammar) -> ast.expr:
    if len(code) > _MOST_CHARACTERS:
        raise RefusedError(f"{len(code):,} characters were given, and {_MOST_CHARACTERS:,} are allowed; {_REMEDY}")
    tree = None
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(code.strip(), mode="eval").body
    if tree is None:
        equals = "write == for equals; " if rules.logic and _LONE_EQUALS.search(code) else ""
        raise RefusedError(f"{code!r} cannot be read; {equals}allowed are {rules.allowed}")
    _check(tree, rules, 0)
    return tree


def _refuse(node: ast.expr, rules: _Grammar, why: str = "is not allowed") -> RefusedError:
    try:
        shown = ast.unparse(node)
    except RecursionError:
        shown = type(node).__name__
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return RefusedError(f"{shown!r} {why}; allowed are {rules.allowed}; {_REMEDY}")


def _check(node: ast.expr, rules: _Grammar, depth: int) -> None:
    """Refuse a node if it, or anything in it, is not on the list."""
    if depth > _DEEPEST:
        raise RefusedError(f"more than {_DEEPEST} parentheses or operations inside each other; {_REMEDY}")
    parts: list[ast.expr] = []
    match node:
        case ast.Name(id=name) if not name.startswith("__"):
            pass
        case ast.Constant():
            _check_number(node, rules)
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() if not rules.logic:
            raise _refuse(node, rules, "is not allowed (write ~ for not, & for and, | for or)")
        case ast.UnaryOp(operand=inner):
            parts = [inner]
        case ast.BoolOp(values=parts):
            pass
        case ast.BinOp(op=ast.Pow()):
            _check_power(node, rules, depth)
        case ast.BinOp(left=left, op=sign, right=right) if isinstance(sign, (*_ARITHMETIC, *_BITWISE)):
            parts = [left, right]
        case ast.Compare():
            parts = _compared_parts(node, rules)
        case ast.Call():
            _check_call(node, rules, depth + 1)
        case _:
            raise _refuse(node, rules)
    for part in parts:
        _check(part, rules, depth + 1)


def _check_power(node: ast.BinOp, rules: _Grammar, depth: int) -> None:
    power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
    value = power.value if isinstance(power, ast.Constant) else None
    if not isinstance(value, (int, float)) or abs(value) > _LARGEST_POWER:
        raise _refuse(node, rules, f"has an exponent that is no number up to {_LARGEST_POWER}")
    _check(node.left, rules, depth + 1)
    _check(node.right, rules, depth + 1)
    if not columns_in(node.left):  # powers of powers of numbers grow without end
        raise _refuse(node, rules, "is a power without a column: write the number itself")


def _check_number(node: ast.Constant, rules: _Grammar) -> None:
    if not isinstance(node.value, (bool, int, float)) or (isinstance(node.value, float) and not isfinite(node.value)):
        raise _refuse(node, rules)
    if isinstance(node.value, int) and abs(node.value) > 2**63:
        raise _refuse(node, rules, "is too large a number")


def _compared_parts(node: ast.Compare, rules: _Grammar) -> list[ast.expr]:
    """The sides of a comparison that are neither texts nor lists of values."""
    if len(node.ops) > 1 and not rules.logic:
        raise _refuse(node, rules, "compares more than two (write & between comparisons)")
    lists = (ast.List, ast.Tuple, ast.Set) if rules.logic else ()
    for comparison, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(comparison, (ast.In, ast.NotIn)) and rules.logic:
            if not isinstance(right, lists):
                raise _refuse(node, rules, "is no membership in a list, as in ['I', 'II']")
        elif not isinstance(comparison, _COMPARISONS):
            raise _refuse(node, rules)
    sides = [side for side in (node.left, *node.comparators) if not _is_text(side)]
    for side in sides:
        if isinstance(side, lists):
            _check_listed(side, rules)
    return [side for side in sides if not isinstance(side, lists)]


def _check_listed(node: Any, rules: _Grammar) -> None:
    if len(node.elts) > _MOST_LISTED:
        raise RefusedError(f"a list of {len(node.elts):,}, and {_MOST_LISTED:,} are allowed; {_REMEDY}")
    for item in node.elts:
        if not _is_text(item):
            _check_value(item, rules)


def _check_value(node: ast.expr, rules: _Grammar) -> None:
    """A number with or without a sign, true or false."""
    signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd))
    bare = node.operand if isinstance(node, ast.UnaryOp) and signed else node
    if not isinstance(bare, ast.Constant):
        raise _refuse(node, rules, "is no plain value")
    _check_number(bare, rules)


def _check_call(node: ast.Call, rules: _Grammar, depth: int) -> None:
    name, keywords = _called(node), {keyword.arg for keyword in node.keywords}
    if name not in rules.functions or None in keywords:
        raise _refuse(node if name in rules.functions else node.func, rules)
    if name == "Q":
        name_of = node.args[0] if len(node.args) == 1 and not keywords else None
        if not isinstance(name_of, ast.Constant) or not _is_text(name_of) or str(name_of.value).startswith("__"):
            raise _refuse(node, rules, "takes the name of one column, as in Q('tumour size')")
        return
    if name == "te":
        _check_tensor(node, rules, depth)
        return
    options = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
    if name == "C":
        if not 1 <= len(node.args) <= 3 or keywords - {"contrast", "levels"}:
            raise _refuse(node, rules, "takes a column, a contrast and levels")
    else:
        known, places = _OPTIONS[name], 1 + len(_SPLINES.get(name, ()))
        if not 1 <= len(node.args) <= places or keywords - set(known):
            also = f"of options {', '.join(known)}" if known else "nothing else"
            raise _refuse(node, rules, f"takes one column or expression, and {also}")
    _check(node.args[0], rules, depth)
    for option in options:
        (_check_contrast if name == "C" else _check_option)(option, rules)
    if name in _SPLINES and _width(node) > _WIDEST_SPLINE:
        raise _refuse(node, rules, f"has more than {_WIDEST_SPLINE} degrees of freedom")


def _check_tensor(node: ast.Call, rules: _Grammar, depth: int) -> None:
    splines = all(isinstance(part, ast.Call) and _called(part) in _SPLINES for part in node.args)
    if not node.args or not splines or {keyword.arg for keyword in node.keywords} - {"constraints"}:
        raise _refuse(node, rules, "takes bs(...), cr(...) or cc(...)")
    for part in node.args:
        _check(part, rules, depth)
    for keyword in node.keywords:
        _check_option(keyword.value, rules)
    if _width(node) > _MOST_TERMS:
        raise _refuse(node, rules, f"has more than {_MOST_TERMS} degrees of freedom")


def _called(node: ast.Call) -> str:
    """The name of the function that is called; empty for anything but NAME and np.NAME of `_FUNCTIONS`."""
    function = node.func
    if isinstance(function, ast.Name):
        return function.id
    numpy = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "np"
    return function.attr if numpy and isinstance(function, ast.Attribute) and function.attr in _FUNCTIONS else ""


def _check_option(node: ast.expr, rules: _Grammar) -> None:
    """A number, text, truth or None, or a list of numbers."""
    if isinstance(node, (ast.List, ast.Tuple)):
        _check_listed(node, rules)
    elif not _is_text(node) and not (isinstance(node, ast.Constant) and node.value is None):
        _check_value(node, rules)


def _width(node: ast.Call) -> int:
    """The most columns that a spline becomes."""
    if _called(node) == "te":
        return prod(_width(part) for part in node.args if isinstance(part, ast.Call))
    named: dict[str, Any] = dict(zip(("df", "knots", "degree"), node.args[1:], strict=False))
    named |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
    numbers = [named[name].value for name in ("df", "degree") if isinstance(named.get(name), ast.Constant)]
    whole = [int(number) for number in numbers if isinstance(number, (int, float))]
    return sum(map(abs, whole)) + len(getattr(named.get("knots"), "elts", ())) + 4


def _check_contrast(node: ast.expr, rules: _Grammar) -> None:
    """A contrast with or without one option, or levels."""
    if isinstance(node, ast.Call):
        if _called(node) not in _CONTRASTS or len(node.args) + len(node.keywords) > 1:
            raise _refuse(node, rules)
        for value in [*node.args, *(keyword.value for keyword in node.keywords)]:
            _check_option(value, rules)
    elif not (isinstance(node, ast.Name) and node.id in _CONTRASTS):
        _check_option(node, rules)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _count_terms(node: Any, most: int) -> int:
    """No fewer than the terms that a node multiplies out to; where more than `most`, any number above it."""
    if not node.args:
        return 1
    if node.type == "**":
        power = node.args[1].token.extra if node.args[1].token is not None else ""
        if power not in map(str, range(1, _LARGEST_POWER + 1)):
            raise RefusedError(f"terms have an exponent that is no number from 1 to {_LARGEST_POWER}; name the terms")
        base = _count_terms(node.args[0], most)
        return min(sum(comb(base, size) for size in range(1, int(power) + 1)), most + 1)
    parts = [_count_terms(part, most) for part in node.args]
    crossed = prod(parts) if node.type in (":", "*") and len(parts) == 2 else 0
    return min(crossed + (0 if node.type == ":" else sum(parts)), most + 1)


# --- Conditions on columns, evaluated piece by piece: nothing of the text is ever run as Python -----------------------

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow},
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne},
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}


def evaluate(tree: ast.expr, part: pd.DataFrame) -> BoolArray:
    """Where a condition is met, shape (n_rows,)."""
    for name in _columns_calculated(tree):
        if part[name].dtype.kind not in "biuf":
            raise TypeError("arithmetic with texts, categories or dates")
    met = _truth(_value(tree, part))
    if met.shape != (len(part),):
        raise TypeError("a condition without a column")
    return met


def _value(node: ast.expr, part: pd.DataFrame) -> Any:
    match node:
        case ast.Name(id=name):
            return part[name]
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item, part) for item in items]
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=name)]):
            return part[name]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner]):
            return getattr(np, name)(_value(inner, part))
        case ast.UnaryOp(op=sign, operand=inner):
            value = _value(inner, part)
            if isinstance(sign, (ast.Not, ast.Invert)):
                return ~_truth(value)
            return -value if isinstance(sign, ast.USub) else +value
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as joint, right=right):
            return _joined([left, right], isinstance(joint, ast.BitAnd), part)
        case ast.BoolOp(op=joint, values=values):
            return _joined(values, isinstance(joint, ast.And), part)
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left, part), _value(right, part))
        case ast.Compare(left=first, ops=signs, comparators=others):
            sides = [_value(side, part) for side in (first, *others)]
            pairs = zip(sides[:-1], signs, sides[1:], strict=True)
            return reduce(operator.and_, (_truth(_compared(*pair)) for pair in pairs))
    raise TypeError(type(node).__name__)


def _joined(parts: list[ast.expr], both: bool, part: pd.DataFrame) -> BoolArray:
    truths = (_truth(_value(node, part)) for node in parts)
    return reduce(operator.and_ if both else operator.or_, truths)


def _compared(left: Any, sign: ast.cmpop, right: Any) -> Any:
    if isinstance(right, list):  # == means: is one of them, as in
        inside = left.isin(right)
        return ~inside if isinstance(sign, (ast.NotEq, ast.NotIn)) else inside
    if isinstance(left, list):
        return _compared(right, sign, left)
    return _OPERATORS[type(sign)](left, right)


def _truth(value: Any) -> BoolArray:
    """Truths, or numbers that are all 0 or 1."""
    truths = np.asarray(value)
    if truths.dtype.kind == "O":  # truths and nulls
        truths = truths.astype(np.float64)
    if truths.dtype.kind not in "biuf" or not np.isin(truths, (0, 1)).all():
        raise TypeError("neither true nor false")
    return truths.astype(np.bool_)


# --- What a recipient's analysis is, and the names in it --------------------------------------------------------------
# Formulas are patsy's, which statsmodels needs as well. Its maintainers send all who can to formulaic: 1.2.2 was
# tried on all that is allowed here. It gives the same columns, and wide interactions fifteen times faster. But it has
# no `te`, divides by n - 1 in `scale`, and names coefficients differently, so that figures of two releases would not be
# comparable. And it evaluates code with all of Python's built-in functions at hand, where patsy has an object whose
# evaluation can be replaced (`_sealed`). Formulas come from anybody: that second wall stays.

Model = Literal["linear", "logistic", "cox", "poisson", "negative_binomial", "ordinal", "multinomial", "mixed"]
CATEGORIES = ("ordinal", "multinomial")  # Models of a response of categories

_WEIGHTED: tuple[Model, ...] = tuple(model for model in get_args(Model) if model != "mixed")

DRAWN = ("cluster", "design_strata")  # What tells how records were drawn

# Columns that an analysis takes besides its formula, and the models that take them
TAKES: dict[str, tuple[Model, ...]] = {
    "exposure": ("poisson", "negative_binomial"),
    "groups": ("mixed",),
    "strata": ("cox",),
    "entry": ("cox",),
    **dict.fromkeys(("weights", *DRAWN), _WEIGHTED),
}


@dataclass(frozen=True)
class Analysis:
    """A model that a recipient means to fit.

    A condition is not met where a column that it names is null. Formula and conditions hold columns, numbers, texts,
    operators and a few functions only: they are checked before any is evaluated, so that they may come from anybody.
    """

    name: str  # What the analysis is called in results and errors
    # `linear` (least squares), `logistic`, `cox` (proportional hazards, Efron's likelihood for tied times); of counts
    # `poisson` and `negative_binomial` (NB2); of categories `ordinal` (proportional odds) and `multinomial` (odds
    # against the first); `mixed`, linear with a random intercept
    model: Model
    # `response ~ predictors` as patsy and formulaic write it, such as `months ~ age + stage + sex:stage`. Text and
    # categories become 0/1 columns against their first level; `C(code)` does it for numbers, `Q("tumour size")` names a
    # column that is no word. Functions are `log` and its like (also as `np.log`), `center`,
    # `standardize`, splines. The response of `logistic` has two values, or is a condition such as `I(months > 12)`; the
    # later of its two values is modelled. The response of `cox` is the time.
    formula: str
    # For `cox`: the records that have the event, as a condition on columns (`status == 'Dead'`), or a column of 0 and
    # 1. All others are censored.
    event: str | None = None
    # A condition on columns that records must meet (`age >= 18 and sex == 'Female'`); None for all
    subset: str | None = None
    # A column of survey weights, not for `mixed`: standard errors are then those of the weighted sample
    weights: str | None = None
    # With weights: columns of the primary sampling units, and of the strata of these
    cluster: str | None = None
    design_strata: str | None = None
    exposure: str | None = None  # A column of what counts are of, such as person-years: rates are modelled
    groups: str | None = None  # The column whose values share an intercept in a mixed model
    # For `cox`: a column whose values have hazards of their own, and one of the times from which records are at risk
    strata: str | None = None
    entry: str | None = None

    def __post_init__(self) -> None:
        if self.model not in get_args(Model):
            known = ", ".join(get_args(Model))
            raise JobError(f"analysis {self.name!r}: unknown model {self.model!r}; known are {known}")
        if (self.groups is not None) != (self.model == "mixed"):
            raise JobError(f"analysis {self.name!r}: groups goes with model mixed, and with it only; name their column")
        if (self.event is not None) != (self.model == "cox"):
            raise JobError(
                f"analysis {self.name!r}: event goes with model cox, and with it only; "
                "give the condition that tells which records have the event"
            )
        given = [each is not None for each in (self.cluster, self.design_strata, self.weights)]
        if given[0] != given[1] or given[0] > given[2]:
            raise JobError(f"analysis {self.name!r}: cluster, design_strata and weights go together; give all three")
        for what, models in TAKES.items():
            if getattr(self, what) is not None and self.model not in models:
                called = "survey weights go" if what == "weights" else f"{what} goes"
                with_them = " and ".join(filter(None, (", ".join(models[:-1]), models[-1])))
                raise JobError(f"analysis {self.name!r}: {called} with {with_them} models; leave it out")

    @property
    def others(self) -> dict[str, str]:
        """The columns that it takes besides its formula and conditions, by what they are."""
        return {what: column for what in TAKES if (column := getattr(self, what)) is not None}


class NoFitError(AnonpipeError):
    """These records do not allow the model; the text tells why, without their values."""


def patsy_module() -> Any:
    """The formula library, loaded where a formula is read."""
    import patsy

    return patsy


def environment() -> Any:
    """What a formula may use besides columns: functions of numpy, nothing of the caller's, no built-in of Python."""
    functions = {name: getattr(np, name) for name in _FUNCTIONS}
    return _sealed()([{"np": SimpleNamespace(**functions), **functions}])


@cache
def _sealed() -> Any:
    """Patsy's evaluation without the built-in functions, which Python otherwise adds to every evaluation."""
    base: Any = patsy_module().EvalEnvironment
    from patsy.eval import VarLookupDict

    class Sealed(base):  # type: ignore[misc]
        def eval(self, expr: str, source_name: str = "<formula>", inner_namespace: Any = None) -> Any:
            code = compile(expr, source_name, "eval", self.flags, False)
            return eval(code, {"__builtins__": {}}, VarLookupDict([inner_namespace or {}, *self._namespaces]))

        def subset(self, names: Iterable[str]) -> Any:
            return type(self)([{name: self.namespace[name] for name in names}], self.flags)

    return Sealed


@cache
def factors_of(analysis: Analysis) -> tuple[str, ...]:
    """The parts of the formula that are evaluated, as code, the response first; all of it is permitted."""
    description, problem = _described(analysis), ""
    if description is None:
        problem = "is no formula"
    elif len(description.lhs_termlist) != 1 or len(description.lhs_termlist[0].factors) != 1:
        problem = "needs one response"
    elif not any(term.factors for term in description.rhs_termlist):
        problem = "has no predictor"
    if problem:
        raise JobError(
            f"analysis {analysis.name!r}: {analysis.formula!r} {problem}; write response ~ predictor + predictor"
        )
    if analysis.model in ("cox", "ordinal") and all(term.factors for term in description.rhs_termlist):
        raise JobError(
            f"analysis {analysis.name!r}: {analysis.model} models have no intercept that {analysis.formula!r} could "
            "take out; leave out - 1 or 0 +"
        )
    terms = [*description.lhs_termlist, *description.rhs_termlist]
    codes = tuple(dict.fromkeys(factor.code for term in terms for factor in term.factors))
    for code in codes:
        _permitted(analysis, "formula", read_factor, code)
    return codes


def _described(analysis: Analysis) -> Any:
    """The formula as patsy describes it; None where it is none."""
    patsy = patsy_module()
    from patsy.parse_formula import parse_formula

    if len(analysis.formula) > _MOST_CHARACTERS:
        raise JobError(
            f"analysis {analysis.name!r}: the formula has {len(analysis.formula):,} characters, and "
            f"{_MOST_CHARACTERS:,} are allowed; leave out predictors"
        )
    try:
        tree = parse_formula(analysis.formula)
    except Exception:  # what the library says is of no use
        return None
    _permitted(analysis, "formula", _check_terms, tree)
    if tree.type == "~" and len(tree.args) == 2 and tree.args[0].type in ("+", "-", "*", "/", ":", "**"):
        raise JobError(
            f"analysis {analysis.name!r}: {analysis.formula!r} needs one response, and outside I(...) an operator "
            "joins or leaves out columns; to calculate the response write I(...) around it"
        )
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
    """Refuse an analysis whose formula or conditions hold anything that is not allowed; columns are not looked up."""
    factors_of(analysis)
    for what, text in _conditions_of(analysis):
        condition_of(analysis, what, text)


def _conditions_of(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    """`event` and `subset` with their texts, where given."""
    return tuple((what, text) for what in ("event", "subset") if (text := getattr(analysis, what)) is not None)


def columns_used(analysis: Analysis, columns: Sequence[str], conditions: bool = True) -> tuple[str, ...]:
    """Columns of a formula and, with `conditions`, of event and subset, in the order of the table's `columns`."""
    named = set[str]().union(*(columns_in(read_factor(code)) for code in factors_of(analysis)))
    for what, text in _conditions_of(analysis) if conditions else ():
        named |= columns_in(condition_of(analysis, what, text))
    named |= set(analysis.others.values()) if conditions else set()
    if unknown := sorted(name for name in named if name not in columns):
        raise JobError(
            f"analysis {analysis.name!r} names {', '.join(unknown)}, which is no column here; check its spelling, "
            f"and that of columns: {', '.join(columns)}"
        )
    return tuple(name for name in columns if name in named)


def refuse_dates(analysis: Analysis, columns: Sequence[str], dates: Container[str], where: str = "the input") -> None:
    """A formula would take dates for categories."""
    for name in columns_used(analysis, columns, conditions=False):
        if name in dates:
            raise JobError(
                f"analysis {analysis.name!r}: {name} is a date, and a formula takes numbers and categories; "
                f"add a column of days or years to {where}"
            )
