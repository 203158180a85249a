"""Columns of a table as formulas and conditions take them: what a column is follows from its type, as for a recipient.

Measures are told by the job what a column is, and take numbers, days and codes
that both tables share (`_typed`); a model that a recipient fits knows nothing
of the job, and codes each table by the levels that the original has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from anonpipe.errors import JobError
from anonpipe.evaluate.utility._condition import evaluate
from anonpipe.evaluate.utility._formula import Analysis, NoFitError, condition_of
from anonpipe.evaluate.utility._permitted import columns_in
from anonpipe.types import FloatArray

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


def levels_of(column: pd.Series[Any]) -> pd.Index[Any] | None:
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
    for name, known in levels.items():
        column = None
        try:
            column = part[name].astype("category").cat.remove_unused_categories()
        except Exception:  # values that cannot be compared
            pass
        if column is None or not column.cat.categories.isin(known).all():
            raise recoded(name)
        new[name] = column.cat.set_categories(known)
    return part.assign(**new)


def refuse_dates(frame: pd.DataFrame, analysis: Analysis, columns: Iterable[str]) -> None:
    """A formula would take dates for categories."""
    from pandas.api import types

    for name in columns:
        if types.infer_dtype(frame[name], skipna=True) in ("date", "datetime", "datetime64", "timedelta", "period"):
            raise JobError(
                f"analysis {analysis.name!r}: {name} is a date, and a formula takes numbers and categories; "
                "add a column of days or years to both tables"
            )


def met(part: pd.DataFrame, analysis: Analysis) -> pd.DataFrame:
    """Records that meet the subset."""
    if analysis.subset is not None:
        part = part[condition(part, analysis, "subset") == 1.0].reset_index(drop=True)
    if len(part) == 0:
        raise NoFitError("no record meets the subset; widen it")
    return part


def condition(part: pd.DataFrame, analysis: Analysis, what: str) -> FloatArray:
    """1 where `event` or `subset` is met, 0 where not, NaN where a column of it is null; shape (n_rows,)."""
    text = str(getattr(analysis, what))
    tree = condition_of(analysis, what, text)
    named = [name for name in part.columns if name in columns_in(tree)]
    complete = part[named].notna().all(axis=1).to_numpy()
    found = None
    try:
        found = evaluate(tree, part[complete])
    except Exception:  # values that cannot be compared; the library's text quotes them
        pass
    if found is None:
        raise JobError(
            f"analysis {analysis.name!r}: {text!r} is no condition on these columns; compare columns with values of "
            "their own type, as in status == 'Dead' and age >= 18"
        )
    outcome = np.full(len(part), np.nan)
    outcome[complete] = found
    return outcome
