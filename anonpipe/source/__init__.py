"""Reading the input: Parquet, CSV, SPSS, Stata or SAS; a file, a folder, a glob or a URL; as a stream of batches.

A query of a database and a version of a table of Delta Lake or Iceberg are copied once, into Parquet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from anonpipe.columns import Column
from anonpipe.encoding.rules import with_differences
from anonpipe.errors import InputError
from anonpipe.job.csv_format import DEFAULT_FORMAT, CsvFormat
from anonpipe.source import _files
from anonpipe.source._csv import open_csv, read_csv, spellings
from anonpipe.source._detect import FoundFormat, find_format
from anonpipe.source._files import Labels, Source, Unit, check_rows, check_types, table_kind
from anonpipe.source._format import Spelling, refuse_other
from anonpipe.source._format import fields as csv_fields
from anonpipe.source._parquet import open_parquet, read_parquet
from anonpipe.source._query import LakeTable, Query, call_driver, connect, find_lake_table, find_query, refuse_password
from anonpipe.source._statistics import open_statistics, read_statistics
from anonpipe.source._workbook import open_workbook, read_workbook

__all__ = [
    "NO_CSV", "FoundFormat", "Labels", "LakeTable", "Query", "Source", "Spelling", "Unit", "call_driver", "check_rows",
    "check_types", "connect", "csv_fields", "csv_spellings", "find_copied", "found_format", "open_source", "opened",
    "read_batches", "refuse_password", "table_kind",
]  # fmt: skip

NO_CSV = FoundFormat(DEFAULT_FORMAT)


def find_copied(url: str, form: CsvFormat | None = None) -> Query | LakeTable | None:
    """The query or the table of a lakehouse that an input names; None for files of data."""
    return find_query(url, form) or find_lake_table(url, form)


def open_source(url: str, columns: Mapping[str, Column] | None = None, form: CsvFormat = DEFAULT_FORMAT) -> Source:
    """Find the files of an input, check that they are one table, and cut them into units of work."""
    return _files.hiding(url, _opened, url, columns, form)


@contextlib.contextmanager
def opened(
    url: str, columns: Mapping[str, Column] | None = None, staging: str | None = None, form: CsvFormat = DEFAULT_FORMAT
) -> Iterator[Source]:
    """An input for as long as it is read: files, or a copy, which lies in the private staging until the end."""
    copied = find_copied(url, form)
    if copied is None:
        yield open_source(url, columns, form)
        return
    from anonpipe.storage.staging import scratch  # here, as zarr takes .3 s to load

    with scratch("query", staging) as folder:
        yield copied.read(folder)


def _opened(url: str, columns: Mapping[str, Column] | None, form: CsvFormat) -> Source:
    files = _files.find_files(url)
    keys = _files.schema_of_keys(url, files)
    types, labels = dict[str, str](), dict[str, Labels]()
    if files[0].format != "csv":
        refuse_other(url, form)
    if files[0].format == "parquet":
        units, schema, types = open_parquet(files)
        repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if repeated:
            raise InputError(f"{url}: several columns are named {', '.join(map(repr, repeated))}; rename them")
    elif files[0].format == "statistics":
        units, schema, labels = open_statistics(files)
    elif files[0].format == "workbook":
        if len(files) > 1:
            raise InputError(f"{url} holds several workbooks; give one, such as {files[0].path}#SHEET")
        units, schema = open_workbook(files[0])
    else:
        units, schema, form = open_csv(files, columns, CsvFormat(**form.given()))
    rows = sum(unit.rows for unit in units)
    if not rows:
        raise InputError(f"{url} has no rows; give a table of at least k rows")
    if twice := [name for name in keys.names if name in schema.names]:
        raise InputError(f"{url}: column {twice[0]!r} stands in the files and in the names of their folders")
    texts = {file.path: tuple(text for _, text in file.keys) for file in files}
    return Source(
        units=tuple(replace(unit, keys=texts[unit.path]) for unit in units),
        schema=pa.schema([*schema, *keys]),
        rows=rows,
        bytes=sum(file.bytes for file in files),
        paths=tuple(file.path for file in files),
        stamps=tuple(file.stamp for file in files),
        form=form if files[0].format == "csv" else DEFAULT_FORMAT,
        pandas_types=types,
        keys=tuple(keys.names),
        labels=labels,
    )


def found_format(url: str) -> FoundFormat:
    """How the CSV of an input is written; the default format for inputs that are none."""
    files = [] if find_copied(url) else _files.hiding(url, _files.find_files, url)
    return _files.hiding(url, find_format, files) if files and files[0].format == "csv" else NO_CSV


def csv_spellings(url: str, form: CsvFormat, names: Sequence[str]) -> dict[str, Spelling]:
    """How the CSVs of an input write the values of some columns; nothing of inputs that are none, or gone."""
    with contextlib.suppress(InputError):
        files = [] if find_copied(url) else _files.hiding(url, _files.find_files, url)
        if files and files[0].format == "csv":
            return _files.hiding(url, spellings, [file.path for file in files], form, names)
    return {}


def read_batches(
    source: Source, unit: Unit, columns: Sequence[str] | None = None, rows: int = 65_536
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read a unit as a stream, in bounded memory."""
    names = [name for name in source.schema.names if columns is None or name in columns]
    orders = [rule for rule in source.orders if rule.gap in names]
    if orders:
        whole = {*names, *(name for rule in orders for name in rule.names)} - {rule.gap for rule in orders}
        plain = replace(source, orders=())
        for first_row, batch in read_batches(plain, unit, sorted(whole), rows):
            yield first_row, with_differences(batch, orders).select(names)
        return
    own = [name for name in names if name not in source.keys] or source.schema.names[:1]
    if unit.format == "parquet":
        batches = read_parquet(unit, own, rows)
    elif unit.format == "statistics":
        batches = read_statistics(unit, source.schema, own)
    elif unit.format == "workbook":
        batches = read_workbook(unit, source.schema, own, rows)
    else:
        batches = read_csv(unit, source.schema, source.form, own)
    if source.keys:
        fields = pa.schema([source.schema.field(name) for name in source.keys])
        batches = (_files.with_keys(batch, names, fields, unit) for batch in _files.hiding_each(batches))
    done = 0
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            yield unit.first_row + done + begin, batch.slice(begin, rows)
        done += batch.num_rows
    if done != unit.rows:
        path = _files.without_values(unit.path) if unit.keys else unit.path
        raise InputError(f"{path} changed while it was read; run again when nobody writes to it")
