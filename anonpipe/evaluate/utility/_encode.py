"""Typed tables as the matrices that regressions and trees take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.evaluate.coding import Coding
from anonpipe.evaluate.utility._typed import Tables
from anonpipe.types import FloatArray

# Categories of a column that are told apart, the most frequent in both tables; the others are one more
MOST_LEVELS = 10


@dataclass(frozen=True, eq=False)
class Encoded:
    """Both tables without nulls."""

    # old, new: shapes (n_rows, width) and (n_released, width)
    old: FloatArray
    new: FloatArray
    # Places of the columns that are codes: categories, nulls being one, and whether a number is null
    categories: tuple[int, ...]


def encoded(tables: Tables) -> Encoded:
    """Numbers as z-scores of both tables, nulls at the mean with a column that tells them; rare categories joined.

    Examples
    --------
    >>> import pandas as pd
    >>> from anonpipe.evaluate.utility._typed import typed_tables
    >>> from anonpipe.columns import Kind
    >>> frame = pd.DataFrame({"age": [30.0, None, 50.0], "sex": ["m", "f", None]})
    >>> made = encoded(typed_tables(frame, frame, {"age": Kind.INTEGER, "sex": Kind.BINARY}))
    >>> made.old.round(2).tolist(), made.categories
    ([[-0.87, 0.0, 1.0], [0.0, 1.0, 0.0], [0.87, 0.0, 2.0]], (1, 2))
    """
    old, new = (np.column_stack(side) for side in zip(*((each.old, each.new) for each in tables.columns), strict=True))
    both, coded = np.concatenate([old, new]), [at for at, each in enumerate(tables.columns) if each.kind.coded]
    coding = Coding.of(both, both, coded, MOST_LEVELS)
    old, new = (np.hstack(coding.compact(side)) for side in (old, new))
    return Encoded(old, new, coding.compact_categories)
