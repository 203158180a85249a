"""A release as one file of Stata or SPSS, with the labels of columns and values that the original had."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.encoding.values import is_number, plain
from anonpipe.errors import InputError, OutputError
from anonpipe.export._released import Exported, batches, check_target, schema_of
from anonpipe.files import drafted
from anonpipe.storage.versions import Place

if TYPE_CHECKING:
    import pandas as pd

LABELLED = (".dta", ".sav")
_NAMES = {".dta": ("Stata", re.compile(r"[A-Za-z_]\w{0,31}")), ".sav": ("SPSS", re.compile(r"[^\W\d_][\w.@#$]{0,63}"))}
# Values of a table that is written: the library takes them from memory, some 3 GB with texts and all
_MOST_VALUES = 100_000_000
_SMALL = 2**31 - 101  # Whole numbers up to here are long in Stata, which has no longer ones

Codes = dict[str, float | str]


def export_labelled(where: Place, manifest: dict[str, Any], target: Path) -> Exported:
    """Write all rows of a checked release as one file of Stata or SPSS, whole or not at all.

    What was read by its labels is written as codes with labels again, columns have their labels, and timestamps that
    are all of whole days are dates. The table must fit into memory.
    """
    check_target(target)
    schema = schema_of(where, manifest)
    _check(schema, manifest, target)
    table = pa.Table.from_batches(list(batches(where, manifest)), schema)
    told = manifest["columns"]
    codes = _ordered(table) | {name: told[name]["codes"] for name in table.column_names if told[name].get("codes")}
    try:
        with drafted(target, private=False) as draft:
            _writer(target)(
                _frame(table, codes),
                str(draft),
                column_labels={name: told[name].get("label") for name in table.column_names},
                variable_value_labels={name: _inverted(each) for name, each in codes.items()},
            )
    except Exception:  # errors of the library may quote values
        pass
    else:
        return Exported(str(target), table.num_rows, 1)
    raise OutputError(f"{target} cannot be written: the disk is full, or a text is too long for it; try CSV")


def _ordered(table: pa.Table) -> dict[str, Codes]:
    """Of categories in an order their places, which keep it."""
    kinds = {field.name: field.type for field in table.schema if pa.types.is_dictionary(field.type)}
    unified = table.unify_dictionaries()
    return {
        name: {
            str(value): float(at) for at, value in enumerate(unified.column(name).chunk(0).dictionary.to_pylist(), 1)
        }
        for name, kind in kinds.items()
        if kind.ordered and pa.types.is_string(kind.value_type) and table.num_rows
    }


def _check(schema: pa.Schema, manifest: dict[str, Any], target: Path) -> None:
    if find_spec("pyreadstat") is None:
        raise InputError(
            f"{target} is written by pyreadstat, which is not installed: pip install 'anonpipe[statistics]'"
        )
    program, allowed = _NAMES[target.suffix.lower()]
    if odd := [name for name in schema.names if allowed.fullmatch(name) is None]:
        raise InputError(f"{program} takes no columns named {', '.join(map(repr, odd))}; export as CSV and rename them")
    rows = sum(entry["rows"] for entry in manifest["files"])
    if rows * len(schema) > _MOST_VALUES:
        raise InputError(f"{rows:,} rows of {len(schema)} columns are too many for {target.suffix}; export as CSV")


def _writer(target: Path) -> Callable[..., None]:
    name = {".dta": "write_dta", ".sav": "write_sav"}[target.suffix.lower()]
    write: Callable[..., None] = getattr(import_module("pyreadstat"), name)
    return write


def _inverted(codes: Codes) -> dict[float | str, str]:
    return {code: label for label, code in codes.items()}


def _frame(table: pa.Table, codes: dict[str, Codes]) -> pd.DataFrame:
    """The table in types that both programs have."""
    import pandas as pd

    columns = {name: _coded(table.column(name), codes.get(name)) for name in table.column_names}
    return pd.DataFrame({name: _column(column) for name, column in columns.items()})


def _coded(column: pa.ChunkedArray, codes: Codes | None) -> pa.Array:
    """Plain values; labels as the codes that they stand for."""
    values = plain(column.combine_chunks())
    if codes is None:
        return values
    at = pc.index_in(values, pa.array(list(codes), values.type))
    return pa.array(list(codes.values())).take(at)


def _column(values: pa.Array) -> pd.Series[Any]:
    import pandas as pd

    kind = values.type
    if pa.types.is_boolean(kind):
        return pd.Series(values.cast(pa.int8())).astype("Int8")
    if pa.types.is_integer(kind):
        largest = pc.max(pc.abs(values.cast(pa.float64()))).as_py() or 0
        return pd.Series(values.cast(pa.float64())).astype("Int32" if largest <= _SMALL else "float64")
    if is_number(kind):
        return pd.Series(values.cast(pa.float64()))
    if pa.types.is_timestamp(kind):
        days = pc.floor_temporal(values, unit="day")
        if pc.all(pc.equal(values, days), min_count=0).as_py():
            return _column(values.cast(pa.date32()))
        return pd.Series(np.asarray(values.cast(pa.timestamp("us"))))
    return pd.Series(values.to_pylist(), dtype=object)
