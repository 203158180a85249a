"""Merging in a given order, and what the mergeable records share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError
from anonpipe.types import FloatArray


class _Mergeable(Protocol):
    def merge(self, other: Self) -> Self: ...


Statistic = TypeVar("Statistic", bound=_Mergeable)


def merge_all(parts: Sequence[Statistic]) -> Statistic:
    """Merge pieces in the given order.

    Examples
    --------
    >>> from anonpipe.moments import Moments
    >>> halves = [Moments.of(np.array([[0.0]])), Moments.of(np.array([[2.0]]))]
    >>> merge_all(halves).mean.tolist()
    [1.0]
    """
    if not parts:
        raise InputError("there are no moments to merge; give at least one piece")
    return reduce(lambda whole, part: whole.merge(part), parts)


def divide(a: npt.NDArray[Any], b: npt.NDArray[Any], empty: float = np.nan) -> FloatArray:
    """Divide a by b; `empty` where b is not positive."""
    result: FloatArray = np.divide(a, b, out=np.full(np.shape(a), empty), where=b > 0)
    return result


def as_table(features: FloatArray) -> FloatArray:
    """Two-dimensional `features` as float64 in C order."""
    if features.ndim != 2:
        raise InputError(f"records are given as a table of 2 dimensions, not {features.ndim}; reshape them")
    return np.ascontiguousarray(features, dtype=np.float64)


def same_width(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    """Refuse to merge statistics of different columns."""
    if a.shape != b.shape:
        raise InputError(f"moments of {len(a)} and {len(b)} columns do not merge; count the same columns everywhere")
