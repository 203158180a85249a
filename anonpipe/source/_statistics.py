"""Files of SPSS, Stata and SAS, read by pyreadstat in pieces; labels of values become texts where all values have one.

Declared missing values and blank texts are nulls. SPSS and SAS know one type of number, so that whole numbers come as
floating ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from anonpipe.errors import InputError
from anonpipe.files import need
from anonpipe.source._files import File, Labels, Unit, guarded, local_path, units_of
from anonpipe.source._parquet import check_same

_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
SUFFIXES = tuple(_READERS)

_CELLS = 4_000_000  # Values of a piece: some 130 MB as the library hands them on
_UNREADABLE = "is no readable file of SPSS, Stata or SAS: it is cut short, damaged or encrypted; copy it again"

Columns = dict[str, list[Any]]


def open_statistics(files: Sequence[File]) -> tuple[list[Unit], pa.Schema, dict[str, Labels]]:
    """One unit a file, the schema of all, and the labels of the first."""
    # Each file is read once as a whole: this counts the rows, and tells types and which columns have a label for each
    # value.
    first, pieces = files[0].path, []
    rows, schema = _scanned(first)
    for file in files:
        if file.path != first:
            rows, found = _scanned(file.path)
            check_same(first, schema, file.path, found)
        pieces.append((file.path, (), rows))
    return units_of("statistics", pieces), schema, _labels(first, schema)


def _labels(path: str, schema: pa.Schema) -> dict[str, Labels]:
    """What the file says of its columns; codes of those alone that are read as their labels."""
    about = guarded(path, _UNREADABLE, _reader(path), local_path(path), metadataonly=True)[1]
    described: dict[str, Labels] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        values = about.variable_value_labels.get(name, {}) if pa.types.is_string(kind) else {}
        found = Labels(about.column_names_to_labels.get(name) or "", {label: code for code, label in values.items()})
        if found != Labels():
            described[name] = found
    return described


def _scanned(path: str) -> tuple[int, pa.Schema]:
    """Rows and columns of a file: texts where each value has a label of its own; what is all null is a number."""
    rows = 0
    types: dict[str, pa.DataType] = {}
    labels: dict[str, dict[Any, str]] = {}
    for columns, described in _pieces(path, None):
        rows += len(next(iter(columns.values()), []))
        if not types:
            labels = {name: texts for name, texts in described.items() if len(set(texts.values())) == len(texts)}
        for name, values in columns.items():
            found = pa.array(values).type
            if pa.types.is_null(types.setdefault(name, found)):
                types[name] = found
            if name in labels and any(each not in labels[name] for each in set(values) - {None}):
                del labels[name]
    plain = {name: pa.float64() if pa.types.is_null(kind) else kind for name, kind in types.items()}
    return rows, pa.schema([(name, pa.string() if name in labels else kind) for name, kind in plain.items()])


def read_statistics(unit: Unit, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of a file, of the named columns."""
    for columns, labels in _pieces(unit.path, names):
        arrays = [
            guarded(unit.path, _CHANGED, _array, columns[name], schema.field(name).type, labels.get(name, {}))
            for name in names
        ]
        yield pa.record_batch(arrays, names=list(names))


_CHANGED = "changed while it was read; run again when nobody writes to it"


def _array(values: list[Any], kind: pa.DataType, labels: dict[Any, str]) -> pa.Array:
    if pa.types.is_string(kind) and labels:
        values = [None if value is None else labels[value] for value in values]
    return pa.array(values, kind)


def _pieces(path: str, names: Sequence[str] | None) -> Iterator[tuple[Columns, dict[str, dict[Any, str]]]]:
    """Values and labels of some columns, all if not given, piece by piece."""
    read, where = _reader(path), local_path(path)
    if where is None:
        raise InputError(f"{path}: files of SPSS, Stata and SAS are read from a disk; copy it to this machine first")
    _, about = guarded(path, _UNREADABLE, read, where, metadataonly=True)
    wanted = list(about.column_names) if names is None else list(names)
    size, done = max(1, _CELLS // max(1, len(wanted))), 0
    while True:
        given = {"usecols": wanted, "row_offset": done, "row_limit": size, "output_format": "dict"}
        found, described = guarded(path, _UNREADABLE, read, where, **given)
        # These files have no other missing text than a blank one
        columns = {name: [None if each == "" or each != each else each for each in found[name]] for name in wanted}
        rows = len(columns[wanted[0]]) if wanted else 0
        if rows or not done:
            yield columns, described.variable_value_labels
        done += rows
        if rows < size:
            return


def _reader(path: str) -> Callable[..., Any]:
    need(f"{path} is read", "statistics", "pyreadstat")
    suffix = next(suffix for suffix in SUFFIXES if path.lower().endswith(suffix))
    reader: Callable[..., Any] = getattr(import_module("pyreadstat"), _READERS[suffix])
    return reader
