"""What a Parquet file says of pandas' nullable types, kept so that pandas reads a release as it reads the original.

Of the metadata that pandas writes, nothing but such a type is taken, and only where it is one of the list for
the column's own type: the rest may hold an index with its values, counts of rows and categories, columns that are
dropped, and whatever else a frame was given along.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from anonpipe.encoding.values import plain_type

_KEY = b"pandas"

# By Arrow's name of a type the type of pandas that holds nulls besides
_NULLABLE = {
    **{f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "Float32",
    "double": "Float64",
    "bool": "boolean",
    "string": "string",
}


def is_index(name: str) -> bool:
    """Whether a column has the name that pandas stores a frame's index without a name under."""
    return re.fullmatch(r"__index_level_\d+__", name) is not None


def nullable_types(schema: pa.Schema) -> dict[str, str]:
    """Columns that pandas reads in a type of its own which holds nulls, and this type.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"n": pd.array([1, None], "Int64"), "x": [0.5, 1.5]}, index=["Ada", "Grace"])
    >>> nullable_types(pa.Table.from_pandas(frame).schema)
    {'n': 'Int64'}
    """
    try:
        told = json.loads((schema.metadata or {}).get(_KEY, b"{}"))
        entries = [(each["field_name"], each["numpy_type"]) for each in told.get("columns", ())]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # of another program, or damaged
        return {}
    kinds = {field.name: field.type for field in schema}
    return {
        name: kind
        for name, kind in entries
        if isinstance(name, str) and name in kinds and kind in _permitted(kinds[name])
    }


def _permitted(kind: pa.DataType) -> tuple[str, ...]:
    """The types that pandas may read values of this type in; none for dictionaries, which are read as categories."""
    if pa.types.is_dictionary(kind):
        return ()
    nullable = _NULLABLE.get(str(plain_type(kind)))
    return (f"{kind}[pyarrow]",) if nullable is None else (nullable, f"{kind}[pyarrow]")


def with_nullable_types(schema: pa.Schema, types: Mapping[str, str]) -> pa.Schema:
    """The schema of a release with what pandas needs to read these columns in their types; as it is without any.

    Made from an empty table of that schema, so that no row, count or index can be in it.
    """
    wanted = {field.name: types[field.name] for field in schema if types.get(field.name) in _permitted(field.type)}
    if not wanted:
        return schema
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    frame = pa.schema(fields).empty_table().to_pandas().astype(wanted)
    made: dict[str, Any] = pa.Table.from_pandas(frame, pa.schema(fields), preserve_index=False).schema.pandas_metadata
    for entry, field in zip(made["columns"], schema, strict=True):
        if pa.types.is_dictionary(field.type):  # Arrow's own schema tells of it, without the number of its categories
            entry |= {"pandas_type": "object", "numpy_type": "object", "metadata": None}
    return schema.with_metadata({_KEY: json.dumps(made, sort_keys=True).encode()})
