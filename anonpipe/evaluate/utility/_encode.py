"""Typed tables as the matrices that regressions and trees take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.evaluate.utility._typed import BothColumns, Tables
from anonpipe.types import FloatArray

MOST_LEVELS = 10
"""Categories of a column that are told apart, the most frequent in both tables; the others are one more."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Both tables without nulls.

    Attributes
    ----------
    old, new
        Shapes (n_rows, width) and (n_released, width).
    categories
        Places of the columns that are codes: categories, nulls being one, and
        whether a number is null.
    """

    old: FloatArray
    new: FloatArray
    categories: tuple[int, ...]


def encoded(tables: Tables) -> Encoded:
    """Numbers with nulls at the original's mean and a column that tells them; categories with the rare ones joined.

    Examples
    --------
    >>> import pandas as pd
    >>> from anonpipe.evaluate.utility._typed import typed_tables
    >>> from anonpipe.columns import Kind
    >>> frame = pd.DataFrame({"age": [30.0, None, 50.0], "sex": ["m", "f", None]})
    >>> made = encoded(typed_tables(frame, frame, {"age": Kind.INTEGER, "sex": Kind.BINARY}))
    >>> made.old.tolist(), made.categories
    ([[30.0, 0.0, 1.0], [40.0, 1.0, 0.0], [50.0, 0.0, 2.0]], (1, 2))
    """
    sides: list[tuple[FloatArray, FloatArray]] = []
    categories = []
    for column in tables.columns:
        if column.kind.coded:
            categories.append(len(sides))
            sides.append(joined_levels(column))
            continue
        known = column.known[0] if len(column.known[0]) else column.known[1]
        middle = float(known.mean()) if len(known) else 0.0
        nulls = np.isnan(column.old), np.isnan(column.new)
        sides.append((np.where(nulls[0], middle, column.old), np.where(nulls[1], middle, column.new)))
        if nulls[0].any() or nulls[1].any():
            categories.append(len(sides))
            sides.append((nulls[0].astype(np.float64), nulls[1].astype(np.float64)))
    old, new = (np.column_stack([side[at] for side in sides]) for at in (0, 1))
    return Encoded(old, new, tuple(categories))


def joined_levels(column: BothColumns) -> tuple[FloatArray, FloatArray]:
    """Codes of the most frequent categories, one for all others, one for nulls, numbered from 0 without gaps."""
    both = np.concatenate([column.old, column.new])
    nulls = np.isnan(both)
    codes = np.where(nulls, 0, both).astype(np.int64)
    counts = np.bincount(codes[~nulls], minlength=len(column.levels) or 1)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
    place = np.full(len(counts), MOST_LEVELS)
    place[frequent] = np.arange(len(frequent))
    made = np.where(nulls, MOST_LEVELS + 1, place[codes])
    made = np.unique(made, return_inverse=True)[1].astype(np.float64)
    return made[: len(column.old)], made[len(column.old) :]
