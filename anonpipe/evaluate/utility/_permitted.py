"""What recipients may write in a formula or condition: a short list, and nothing beside it is ever evaluated.

Formulas come from recipients and are fitted by the steward, beside the
original rows. Python's syntax tree of every piece is held against the list
before a row is read: no attribute, no subscript, no call but those listed, and
bounds on length, depth, exponents and the number of terms.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import comb, isfinite, prod
from typing import Any

# Of one argument, with or without `np.` before them
FUNCTIONS = ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs")
CONTRASTS = ("Treatment", "Sum", "Diff", "Helmert", "Poly")
SCALINGS = {"center": (), "standardize": ("center", "rescale", "ddof"), "scale": ("center", "rescale", "ddof")}
SPLINES = {
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
    "cr": ("df", "knots", "lower_bound", "upper_bound", "constraints"),
    "cc": ("df", "knots", "lower_bound", "upper_bound", "constraints"),
}

MOST_CHARACTERS = 4_000
MOST_TERMS = 500
DEEPEST = 100
LARGEST_POWER = 10
WIDEST_SPLINE = 50
MOST_LISTED = 1_000

IN_FORMULAS = (
    "columns (those that are no words as Q('their name')), numbers, + - * / : ** between terms, in I(...) also "
    f"arithmetic, comparisons and & | ~, the functions {', '.join(FUNCTIONS)}, {', '.join(SCALINGS)}, "
    f"{', '.join(SPLINES)}, te, and C(column, {' or '.join(CONTRASTS)})"
)
IN_CONDITIONS = (
    "columns (those that are no words in backticks), numbers, 'texts', arithmetic, == != < <= > >=, in [...], "
    f"and, or, not, & | ~, and the functions {', '.join(FUNCTIONS)}"
)
_SHOWN = 80
_REMEDY = "compute anything else as a column of the input"

_QUOTED = re.compile(r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|`([^`\n]+)`""")
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_BITWISE = (ast.BitAnd, ast.BitOr)


class RefusedError(Exception):
    """A piece is not on the list; the text names it."""


@dataclass(frozen=True)
class _Rules:
    """What the pieces of a formula and of a condition have in common, and what each has alone."""

    allowed: str
    logic: bool
    calls: Mapping[str, Callable[[ast.Call, _Rules, int], None]]


def read_factor(code: str) -> ast.expr:
    """The syntax tree of one factor of a formula, all of it on the list.

    Examples
    --------
    >>> ast.unparse(read_factor("np.log(Q('net pay'))"))
    "np.log(Q('net pay'))"
    >>> read_factor("np.__builtins__")
    Traceback (most recent call last):
    anonpipe.evaluate.utility._permitted.RefusedError: 'np.__builtins__' is not allowed; allowed are columns ...
    """
    return _read(code, _FORMULA)


def read_condition(code: str) -> ast.expr:
    """The syntax tree of a condition, all of it on the list; names in backticks become Q('name').

    Examples
    --------
    >>> ast.unparse(read_condition("`net pay` > 3 and stage in ['I', 'II']"))
    "Q('net pay') > 3 and stage in ['I', 'II']"
    """
    return _read(_QUOTED.sub(lambda hit: hit[1] or f"Q({hit[2]!r})", code), _CONDITION)


def check_terms(tree: Any) -> None:
    """Refuse a formula that multiplies out to more than `MOST_TERMS` terms."""
    try:
        many = _count_terms(tree, MOST_TERMS) > MOST_TERMS
    except RecursionError:
        many = True
    if many:
        raise RefusedError(
            f"the formula multiplies out to more than {MOST_TERMS} terms, and so many are allowed; name those that "
            "are meant one by one"
        )


def columns_in(tree: ast.expr) -> set[str]:
    """Columns that a permitted tree names.

    Examples
    --------
    >>> sorted(columns_in(read_factor("C(stage, Treatment('I'))"))), columns_in(read_factor("log(Q('a b'))"))
    (['stage'], {'a b'})
    """
    if isinstance(tree, ast.Name):
        return {tree.id}
    if isinstance(tree, ast.Call):
        name = _called(tree)
        if name == "Q":
            return {_text_of(tree.args[0])}
        arguments = tree.args[:1] if name == "C" else tree.args
        return set[str]().union(*map(columns_in, arguments))
    return set[str]().union(*(columns_in(child) for child in ast.iter_child_nodes(tree) if isinstance(child, ast.expr)))


def columns_calculated(tree: ast.expr) -> set[str]:
    """Columns that arithmetic or a function is applied to: text times a number would be repeated text.

    Examples
    --------
    >>> columns_calculated(read_condition("stage == 'I' and age * 2 > 3"))
    {'age'}
    """
    if isinstance(tree, ast.BinOp) and not isinstance(tree.op, _BITWISE):
        return columns_in(tree)
    if isinstance(tree, ast.Call) and _called(tree) != "Q":
        return columns_in(tree)
    found = set[str]()
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr):
            found |= columns_calculated(child)
    return found


def most_columns(tree: ast.expr, categories: Mapping[str, int]) -> int:
    """The most columns of numbers that a factor can become, given the categories of each column that has some."""
    if isinstance(tree, ast.Call):
        name = _called(tree)
        if name in SPLINES or name == "te":
            return _width(tree)
    return prod(categories.get(name, 1) for name in columns_in(tree))


def _read(code: str, rules: _Rules) -> ast.expr:
    if len(code) > MOST_CHARACTERS:
        raise RefusedError(f"{len(code):,} characters were given, and {MOST_CHARACTERS:,} are allowed; {_REMEDY}")
    tree = None
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    if tree is None:
        raise RefusedError(f"{code!r} cannot be read; allowed are {rules.allowed}")
    _check(tree, rules, 0)
    return tree


def _refuse(node: ast.expr, rules: _Rules, why: str = "is not allowed") -> RefusedError:
    try:
        shown = ast.unparse(node)
    except RecursionError:
        shown = type(node).__name__
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return RefusedError(f"{shown!r} {why}; allowed are {rules.allowed}; {_REMEDY}")


def _check(node: ast.expr, rules: _Rules, depth: int) -> None:
    if depth > DEEPEST:
        raise RefusedError(f"more than {DEEPEST} parentheses or operations inside each other; {_REMEDY}")
    check = _CHECKS.get(type(node))
    if check is None:
        raise _refuse(node, rules)
    check(node, rules, depth + 1)


def _check_name(node: Any, rules: _Rules, depth: int) -> None:
    if node.id.startswith("__"):
        raise _refuse(node, rules)


def _check_number(node: Any, rules: _Rules, depth: int) -> None:
    if not isinstance(node.value, (bool, int, float)) or (isinstance(node.value, float) and not isfinite(node.value)):
        raise _refuse(node, rules)
    if isinstance(node.value, int) and abs(node.value) > 2**63:
        raise _refuse(node, rules, "is too large a number")


def _check_sign(node: Any, rules: _Rules, depth: int) -> None:
    if isinstance(node.op, ast.Not) and not rules.logic:
        raise _refuse(node, rules, "is not allowed (write ~ for not, & for and, | for or)")
    _check(node.operand, rules, depth)


def _check_operation(node: Any, rules: _Rules, depth: int) -> None:
    if isinstance(node.op, ast.Pow):
        power: Any = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        small = isinstance(power, ast.Constant) and isinstance(power.value, (int, float))
        if not small or abs(power.value) > LARGEST_POWER:
            raise _refuse(node, rules, f"has an exponent that is no number up to {LARGEST_POWER}")
    elif not isinstance(node.op, (*_ARITHMETIC, *_BITWISE)):
        raise _refuse(node, rules)
    _check(node.left, rules, depth)
    _check(node.right, rules, depth)
    if isinstance(node.op, ast.Pow) and not columns_in(node.left):  # powers of powers of numbers grow without end
        raise _refuse(node, rules, "is a power without a column: write the number itself")


def _check_logic(node: Any, rules: _Rules, depth: int) -> None:
    if not rules.logic:
        raise _refuse(node, rules, "is not allowed (write ~ for not, & for and, | for or)")
    for part in node.values:
        _check(part, rules, depth)


def _check_comparison(node: Any, rules: _Rules, depth: int) -> None:
    if len(node.ops) > 1 and not rules.logic:
        raise _refuse(node, rules, "compares more than two (write & between comparisons)")
    sides = [node.left, *node.comparators]
    for place, operator in enumerate(node.ops):
        if isinstance(operator, (ast.In, ast.NotIn)) and rules.logic:
            if not isinstance(sides[place + 1], (ast.List, ast.Tuple, ast.Set)):
                raise _refuse(node, rules, "is no membership in a list, as in ['I', 'II']")
        elif not isinstance(operator, _COMPARISONS):
            raise _refuse(node, rules)
    for side in sides:
        if isinstance(side, (ast.List, ast.Tuple, ast.Set)) and rules.logic:
            _check_listed(side, rules)
        elif not _is_text(side):
            _check(side, rules, depth)


def _check_listed(node: Any, rules: _Rules) -> None:
    if len(node.elts) > MOST_LISTED:
        raise RefusedError(f"a list of {len(node.elts):,}, and {MOST_LISTED:,} are allowed; {_REMEDY}")
    for each in node.elts:
        if not _is_text(each):
            _check_value(each, rules)


def _check_value(node: ast.expr, rules: _Rules) -> None:
    """A number with or without a sign, true or false."""
    signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd))
    bare = node.operand if isinstance(node, ast.UnaryOp) and signed else node
    if not isinstance(bare, ast.Constant):
        raise _refuse(node, rules, "is no plain value")
    _check_number(bare, rules, 0)


def _check_call(node: Any, rules: _Rules, depth: int) -> None:
    rule = rules.calls.get(_called(node))
    if rule is None or any(keyword.arg is None for keyword in node.keywords):
        raise _refuse(node.func if rule is None else node, rules)
    rule(node, rules, depth)


def _called(node: ast.Call) -> str:
    """The name of the function that is called; empty for anything but NAME and np.NAME of `FUNCTIONS`."""
    function = node.func
    if isinstance(function, ast.Name):
        return function.id
    numpy = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "np"
    return function.attr if numpy and isinstance(function, ast.Attribute) and function.attr in FUNCTIONS else ""


def _one_argument(node: ast.Call, rules: _Rules, depth: int) -> None:
    if len(node.args) != 1 or node.keywords:
        raise _refuse(node, rules, "takes one column or expression, and nothing else")
    _check(node.args[0], rules, depth)


def _quoted_name(node: ast.Call, rules: _Rules, depth: int) -> None:
    if len(node.args) != 1 or node.keywords or not _is_text(node.args[0]) or _text_of(node.args[0]).startswith("__"):
        raise _refuse(node, rules, "takes the name of one column, as in Q('tumour size')")


def _scaled(node: ast.Call, rules: _Rules, depth: int) -> None:
    _with_options(node, rules, depth, SCALINGS[_called(node)], 1)


def _spline(node: ast.Call, rules: _Rules, depth: int) -> None:
    _with_options(node, rules, depth, SPLINES[_called(node)], 1 + len(SPLINES[_called(node)]))
    if _width(node) > WIDEST_SPLINE:
        raise _refuse(node, rules, f"has more than {WIDEST_SPLINE} degrees of freedom")


def _tensor(node: ast.Call, rules: _Rules, depth: int) -> None:
    splines = all(isinstance(each, ast.Call) and _called(each) in SPLINES for each in node.args)
    if not node.args or not splines or {each.arg for each in node.keywords} - {"constraints"}:
        raise _refuse(node, rules, "takes bs(...), cr(...) or cc(...)")
    for each in node.args:
        _check(each, rules, depth)
    for option in node.keywords:
        _check_option(option.value, rules)
    if _width(node) > MOST_TERMS:
        raise _refuse(node, rules, f"has more than {MOST_TERMS} degrees of freedom")


def _with_options(node: ast.Call, rules: _Rules, depth: int, known: tuple[str, ...], places: int) -> None:
    if not 1 <= len(node.args) <= places or {each.arg for each in node.keywords} - set(known):
        raise _refuse(node, rules, f"takes one column or expression, and of options {', '.join(known) or 'none'}")
    _check(node.args[0], rules, depth)
    for option in [*node.args[1:], *(each.value for each in node.keywords)]:
        _check_option(option, rules)


def _check_option(node: ast.expr, rules: _Rules) -> None:
    """A number, text, truth or None, or a list of numbers."""
    if isinstance(node, (ast.List, ast.Tuple)):
        _check_listed(node, rules)
    elif not _is_text(node) and not (isinstance(node, ast.Constant) and node.value is None):
        _check_value(node, rules)


def _width(node: ast.Call) -> int:
    """The most columns that a spline becomes."""
    if _called(node) == "te":
        return prod(_width(each) for each in node.args if isinstance(each, ast.Call))
    named: dict[str, Any] = dict(zip(("df", "knots", "degree"), node.args[1:], strict=False))
    named |= {each.arg: each.value for each in node.keywords if each.arg is not None}
    numbers = [named[name].value for name in ("df", "degree") if isinstance(named.get(name), ast.Constant)]
    whole = [int(number) for number in numbers if isinstance(number, (int, float))]
    return sum(map(abs, whole)) + len(getattr(named.get("knots"), "elts", ())) + 4


def _coded(node: ast.Call, rules: _Rules, depth: int) -> None:
    if not 1 <= len(node.args) <= 3 or {each.arg for each in node.keywords} - {"contrast", "levels"}:
        raise _refuse(node, rules, "takes a column, a contrast and levels")
    _check(node.args[0], rules, depth)
    for option in [*node.args[1:], *(each.value for each in node.keywords)]:
        if isinstance(option, ast.Call):
            if _called(option) not in CONTRASTS or len(option.args) + len(option.keywords) > 1:
                raise _refuse(option, rules)
            for each in [*option.args, *(keyword.value for keyword in option.keywords)]:
                _check_option(each, rules)
        elif not (isinstance(option, ast.Name) and option.id in CONTRASTS):
            _check_option(option, rules)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text_of(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _count_terms(node: Any, most: int) -> int:
    """No fewer than the terms that a node multiplies out to; where more than `most`, any number above it."""
    if not node.args:
        return 1
    if node.type == "**":
        power = node.args[1].token.extra if node.args[1].token is not None else ""
        if power not in map(str, range(1, LARGEST_POWER + 1)):
            raise RefusedError(f"terms have an exponent that is no number from 1 to {LARGEST_POWER}; name the terms")
        base = _count_terms(node.args[0], most)
        return min(sum(comb(base, each) for each in range(1, int(power) + 1)), most + 1)
    parts = [_count_terms(each, most) for each in node.args]
    crossed = prod(parts) if node.type in (":", "*") and len(parts) == 2 else 0
    return min(crossed + (0 if node.type == ":" else sum(parts)), most + 1)


_CHECKS: dict[type, Callable[[Any, _Rules, int], None]] = {
    ast.Name: _check_name,
    ast.Constant: _check_number,
    ast.UnaryOp: _check_sign,
    ast.BinOp: _check_operation,
    ast.BoolOp: _check_logic,
    ast.Compare: _check_comparison,
    ast.Call: _check_call,
}
_OF_BOTH: dict[str, Callable[[ast.Call, _Rules, int], None]] = {
    **dict.fromkeys(FUNCTIONS, _one_argument),
    "Q": _quoted_name,
}
_OF_FORMULAS: dict[str, Callable[[ast.Call, _Rules, int], None]] = {
    **_OF_BOTH,
    "I": _one_argument,
    "C": _coded,
    "te": _tensor,
    **dict.fromkeys(SCALINGS, _scaled),
    **dict.fromkeys(SPLINES, _spline),
}
_FORMULA = _Rules(IN_FORMULAS, False, _OF_FORMULAS)
_CONDITION = _Rules(IN_CONDITIONS, True, _OF_BOTH)
