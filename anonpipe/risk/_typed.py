"""Cells of typed tables: numbers as they are, everything else as codes that all tables share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TypedCells:
    """Several tables of the same columns as numbers.

    Attributes
    ----------
    names
        Of the columns.
    categories
        Numbers of the columns that hold codes.
    tables
        One for each table given, shape (n_rows, n_columns), NaN for null.
    """

    names: tuple[str, ...]
    categories: tuple[int, ...]
    tables: tuple[FloatArray, ...]


def typed_cells(*tables: pd.DataFrame) -> TypedCells:
    """Number the categories of several tables together.

    Numbers stay; dates and times become days; truth values, text, categories
    and anything else become codes.

    Raises
    ------
    InputError
        The tables have not the same columns in the same order.

    Examples
    --------
    >>> import pandas as pd
    >>> told = typed_cells(pd.DataFrame({"a": ["x", None]}), pd.DataFrame({"a": ["y"]}))
    >>> told.categories, [t.tolist() for t in told.tables]
    ((0,), [[[0.0], [nan]], [[1.0]]])
    """
    import pandas as pd

    if not tables or any(list(table.columns) != list(tables[0].columns) for table in tables):
        raise InputError("the tables have different columns; give the same ones in the same order")
    names = tuple(str(name) for name in tables[0].columns)
    made = [np.empty((len(table), len(names)), dtype=np.float64) for table in tables]
    categories = []
    for at, name in enumerate(tables[0].columns):
        columns = [table[name] for table in tables]
        parts: list[FloatArray]
        if all(pd.api.types.is_datetime64_any_dtype(column) for column in columns):
            parts = [_days(column) for column in columns]
        elif all(_numeric(column) for column in columns):
            parts = [np.asarray(column.to_numpy(np.float64, na_value=np.nan)) for column in columns]
        else:
            categories.append(at)
            parts = _codes(columns)
        for table, part in zip(made, parts, strict=True):
            table[:, at] = part
    return TypedCells(names, tuple(categories), tuple(made))


def _numeric(column: pd.Series) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column))


def _days(column: pd.Series) -> FloatArray:
    import pandas as pd

    since = (column - pd.Timestamp(0, tz=column.dt.tz)) / pd.Timedelta(days=1)
    return np.asarray(since, dtype=np.float64)


def _codes(columns: list[pd.Series]) -> list[FloatArray]:
    """Codes in the order of first appearance, NaN for null."""
    import pandas as pd

    values = pd.concat([column.astype(object) for column in columns], ignore_index=True)
    codes = pd.factorize(values)[0].astype(np.float64)
    codes[codes < 0] = np.nan
    return list(np.split(codes, np.cumsum([len(column) for column in columns])[:-1]))
