"""The job's columns held against the input's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from anonpipe.columns import Column, Kind
from anonpipe.encoding.cells import check_order
from anonpipe.encoding.pandas_types import is_index
from anonpipe.encoding.values import check_grid, is_date, is_number, is_supported, level_array, plain_type
from anonpipe.errors import InputError

PANDAS_INDEX = " (the index of a pandas table, which has no name)"


def check_types(schema: pa.Schema, columns: Mapping[str, Column]) -> None:
    """Refuse a job whose columns are not those of the input, or whose kinds do not fit the types.

    Examples
    --------
    >>> check_types(pa.schema([("age", pa.string())]), {"age": Column(kind="integer")})
    Traceback (most recent call last):
    anonpipe.errors.InputError: column 'age' holds string, and its kind integer needs numbers; convert the column
    """
    problems = [
        f"the job names column {name!r}, which the input does not have; remove it or correct its spelling"
        for name in columns
        if name not in schema.names
    ]
    problems += [
        f"the input has column {name!r}{PANDAS_INDEX * is_index(name)}, which the job does not name; list it (with "
        "role: dropped if it is not to be released)"
        for name in schema.names
        if name not in columns
    ]
    for name, column in columns.items():
        if name in schema.names and column.role.released:
            problems += _column_problems(name, column, schema.field(name).type)
    if problems:
        raise InputError("\n".join(problems))


def check_rows(rows: int, size: int, most_a_byte: float) -> None:
    """Refuse files of far more rows than bytes: a few bytes can stand for a billion equal rows, and fill any disk.

    Examples
    --------
    >>> check_rows(200_000_000, 3_000_000, 16.0)
    Traceback (most recent call last):
    anonpipe.errors.InputError: the input has 200,000,000 rows in 3,000,000 bytes, 67 a byte, and 16 are allowed; ...
    """
    if rows > most_a_byte * max(size, _SMALL):
        raise InputError(
            f"the input has {rows:,} rows in {size:,} bytes, {rows / max(size, 1):.0f} a byte, and {most_a_byte:g} are "
            "allowed; look whether it is what it should be, and if it is, give run.most_rows_per_byte"
        )


_SMALL = 100_000  # Bytes below which there is no harm


def _column_problems(name: str, column: Column, kind: pa.DataType) -> list[str]:
    if not is_supported(kind):
        return [f"column {name!r} holds {_shown(kind)}, which cannot be released; give it role: dropped or convert it"]
    remedy = _misfit(column.kind, plain_type(kind))
    if remedy:
        return [f"column {name!r} holds {plain_type(kind)}, and its kind {column.kind.value} {remedy}"]
    found: list[str] = []
    _note(found, check_order, name, column, kind)
    if not column.staged_as_codes:
        _note(found, check_grid, name, column, kind)
    for declared in (column.levels, column.event):
        if declared is not None:
            _note(found, level_array, name, declared, kind)
    return found


def _note(found: list[str], check: Callable[..., object], *arguments: object) -> None:
    try:
        check(*arguments)
    except InputError as error:
        found.append(str(error))


def _shown(kind: pa.DataType) -> str:
    """A type's name, without the names of its fields."""
    return "nested values" if pa.types.is_nested(kind) else str(kind)


def _misfit(kind: Kind, plain: pa.DataType) -> str | None:
    """What a kind needs that the type is not, and the remedy."""
    if kind.coded:
        return None
    if kind is Kind.DATE:
        return (
            None
            if is_date(plain) or pa.types.is_string(plain)
            else "needs dates; convert the column, or declare another kind"
        )
    if is_number(plain):
        return None
    remedies = {"date": "declare kind: date", "bool": "declare kind: binary"}
    what = "date" if is_date(plain) else "bool" if pa.types.is_boolean(plain) else "text"
    return "needs numbers; " + remedies.get(what, "convert the column")
