"""Conditions on columns, evaluated piece by piece: nothing of the text is ever run as Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from anonpipe.evaluate.utility._permitted import columns_calculated
from anonpipe.types import BoolArray

if TYPE_CHECKING:
    import pandas as pd


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(tree: ast.expr, part: pd.DataFrame) -> BoolArray:
    """Where a condition is met, shape (n_rows,).

    Examples
    --------
    >>> import pandas as pd
    >>> from anonpipe.evaluate.utility._permitted import read_condition
    >>> frame = pd.DataFrame({"age": [17, 40, 71], "stage": ["I", "II", "III"]})
    >>> evaluate(read_condition("18 <= age < 70 or stage in ['III']"), frame).tolist()
    [False, True, True]
    """
    for name in columns_calculated(tree):
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
            return _signed(sign, _value(inner, part))
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as joint, right=right):
            return _joined([left, right], isinstance(joint, ast.BitAnd), part)
        case ast.BoolOp(op=joint, values=values):
            return _joined(values, isinstance(joint, ast.And), part)
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left, part), _value(right, part))
        case ast.Compare(left=first, ops=signs, comparators=others):
            sides = [_value(side, part) for side in (first, *others)]
            pairs = zip(sides[:-1], signs, sides[1:], strict=True)
            return reduce(operator.and_, (_truth(_compared(*each)) for each in pairs))
    raise TypeError(type(node).__name__)


def _signed(sign: ast.unaryop, value: Any) -> Any:
    if isinstance(sign, (ast.Not, ast.Invert)):
        return ~_truth(value)
    return -value if isinstance(sign, ast.USub) else +value


def _joined(parts: list[ast.expr], both: bool, part: pd.DataFrame) -> BoolArray:
    truths = (_truth(_value(each, part)) for each in parts)
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
    found = np.asarray(value)
    if found.dtype.kind == "O":  # truths that had nulls beside them
        found = found.astype(np.float64)
    if found.dtype.kind not in "biuf" or not np.isin(found, (0, 1)).all():
        raise TypeError("neither true nor false")
    return found.astype(np.bool_)
