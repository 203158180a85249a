"""Cells as typed tables: numbers, dates and categories as a reader of the release has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from anonpipe.columns import Kind
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.values import is_date, is_number, numbers
from anonpipe.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd


def typed(encoder: ColumnEncoder, cells: FloatArray, names: tuple[str, ...]) -> pd.DataFrame:
    """Some columns of cells as a frame.

    Numbers are float64, dates datetime64 (whole days), texts categorical in
    the order of their levels, truths bool (object where there are nulls).
    """
    import pandas as pd

    return pd.DataFrame({name: _column(encoder, name, cells[:, at]) for at, name in enumerate(names)})


def _column(encoder: ColumnEncoder, name: str, values: FloatArray) -> Any:
    position = encoder.names.index(name)
    column = encoder.columns[position]
    if name not in encoder.categories:
        return _days(values) if column.kind is Kind.DATE else values
    categories = encoder.categories[name]
    missing = np.isnan(values) | (values >= len(categories))
    codes = np.where(missing, -1, np.where(missing, 0.0, values)).astype(np.int64)
    plain = categories.type
    if is_number(plain) or is_date(plain):
        looked_up = np.where(missing, np.nan, np.append(numbers(categories), np.nan)[codes])
        return _days(looked_up) if is_date(plain) else looked_up
    if pa.types.is_boolean(plain):
        truths = categories.take(pa.array(np.where(missing, 0, codes), mask=missing))
        return truths.to_pandas()
    import pandas as pd

    return pd.Categorical.from_codes(codes, categories.to_pylist(), ordered=column.kind is Kind.ORDINAL)


def _days(values: FloatArray) -> Any:
    """Days since 1970-01-01 as dates."""
    missing = np.isnan(values)
    days = np.where(missing, 0, np.rint(np.where(missing, 0.0, values))).astype("datetime64[D]").astype("datetime64[s]")
    days[missing] = np.datetime64("NaT")
    return days
