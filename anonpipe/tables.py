"""Tables of any library in memory: as Arrow tables, and back as what was given."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from anonpipe.errors import InputError


def as_arrow(given: Any) -> pa.Table:
    """Arrow table of a pandas frame, an Arrow table, or any object with the Arrow PyCapsule protocol (polars)."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pd.DataFrame):
        return _from_pandas(given)
    if not hasattr(given, "__arrow_c_stream__") and not hasattr(given, "__arrow_c_array__"):
        raise InputError(
            "anonymize takes a pandas frame, an Arrow table, or a table with __arrow_c_stream__ such as polars frames, "
            f"not {type(given).__name__}"
        )
    try:
        return pa.table(given)
    except Exception:  # the other library's, whose texts may quote data
        pass
    raise InputError(f"the {type(given).__name__} cannot be read as an Arrow table; convert it to one first")


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    if not all(isinstance(name, str) for name in frame.columns) or not frame.columns.is_unique:
        raise InputError("the frame's columns need names that are text and differ; rename them first")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError):
        pass
    raise InputError("a column of the frame holds values of several types; convert it to one type first")


def writable(table: pa.Table) -> pa.Table:
    """The same values in types that Parquet files can hold: no views, which polars hands on."""
    return pa.table([_without_views(column) for column in table.columns], names=table.column_names)


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if not pa.types.is_dictionary(kind):
        return column.cast(_plain(kind))
    value = _plain(kind.value_type)
    if value == kind.value_type:
        return column
    return _dictionary(column, pa.dictionary(pa.int32(), value, kind.ordered))


def _dictionary(column: pa.ChunkedArray, kind: pa.DictionaryType) -> pa.ChunkedArray:
    """Cast indices and values; no cast leads from or to a dictionary of views."""
    parts = [
        pa.DictionaryArray.from_arrays(
            part.indices.cast(kind.index_type), part.dictionary.cast(kind.value_type), ordered=kind.ordered
        )
        for part in column.chunks
    ]
    return pa.chunked_array(parts, kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def in_types_of(table: pa.Table, given: pa.Schema) -> pa.Table:
    """The released table in the very types that were given: Parquet has no seconds and no small dictionary indices."""
    fields = [given.field(name) if name in given.names else table.schema.field(name) for name in table.column_names]
    return pa.table([_as_type(table.column(field.name), field.type) for field in fields], schema=pa.schema(fields))


def _as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast; Parquet returns dictionaries of other values than text as plain columns."""
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    if not pa.types.is_dictionary(column.type):
        column = column.cast(_plain(kind.value_type)).dictionary_encode()
    if _plain(kind.value_type) == kind.value_type:
        return column.unify_dictionaries().cast(kind)
    return _dictionary(column, kind)


def like(released: pa.Table, given: Any) -> Any:
    """The released table as the kind of table that was given, its columns of the same types.

    What is neither of pandas nor of Arrow is made by the `from_arrow` of its
    class or of its library; where there is none, the Arrow table is returned.
    """
    if isinstance(given, pd.DataFrame):
        return _like_pandas(released, given)
    library = sys.modules.get(type(given).__module__.partition(".")[0])
    makers = (getattr(place, "from_arrow", None) for place in (type(given), library))
    make = next(filter(callable, makers), None)
    made = released if make is None or isinstance(given, pa.Table) else make(released)
    return made if isinstance(made, type(given)) else released


def _like_pandas(released: pa.Table, given: pd.DataFrame) -> pd.DataFrame:
    frame: pd.DataFrame = released.to_pandas()
    dtypes = {name: _nullable(given[name].dtype, frame[name]) for name in frame.columns if name in given}
    return frame.astype({name: dtype for name, dtype in dtypes.items() if frame[name].dtype != dtype})


def _nullable(dtype: Any, column: pd.Series[Any]) -> Any:
    """The dtype, or for plain integers and booleans that now hold nulls (rare categories) the one that can."""
    if isinstance(dtype, np.dtype) and dtype.kind in "iub" and column.isna().any():
        return "boolean" if dtype.kind == "b" else dtype.name.capitalize().replace("Uint", "UInt")
    return dtype
