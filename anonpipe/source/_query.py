"""Rows of a database: an SQL file names the database and asks it once; all else reads the Parquet file of its answer.

    -- database: postgresql://registry.clinic.example/cancer
    SELECT age, sex, days, event FROM patients WHERE year >= 2010

DuckDB, SQLite and Postgres, each by its ADBC driver, which yields batches of Arrow. No transaction may write, and one
SELECT alone is taken. The driver looks for the password itself; none is ever read here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import InputError
from anonpipe.files import disk_errors, make_private, need
from anonpipe.job.csv_format import CsvFormat
from anonpipe.source._files import File, Source, guarded, local_path, locate, looked_up, open_bytes
from anonpipe.source._format import refuse_other
from anonpipe.source._parquet import open_parquet

SUFFIX = ".sql"
_LONGEST = 2**20
_FIRST = re.compile(r"--\s*database:\s*(\S.*?)\s*")
_POSTGRES = ("postgresql://", "postgres://")
_OWN_FILE = re.compile(r"(duckdb|sqlite):///")
ROWS = 131_072  # Rows of a row group
_DUCKDB_MEMORY = "1GiB"
# How DuckDB says that what it sorts or joins finds no room on the disk
_NO_ROOM = re.compile("failed to offload|no space left", re.IGNORECASE)
_NO_MEMORY = re.compile("out of memory", re.IGNORECASE)


@dataclass(frozen=True)
class Query:
    """A query that was not asked yet: its file, the database and the text. Neither of the last two is ever shown."""

    url: str
    database: str
    text: str

    def identity(self) -> dict[str, Any]:
        """JSON-able content that changes when another query is asked; not when the database changes."""
        return {"query": hashlib.sha256(f"{self.database}\n{self.text}".encode()).hexdigest(), "paths": [self.url]}

    def read(self, folder: Path) -> Source:
        """Ask, and write the answer into a private folder, batch by batch."""
        return _copied_source(folder, "writing the rows of the query", partial(_copied, self), self.url)


def _copied_source(folder: Path, doing: str, copy: Callable[[Path], int], url: str) -> Source:
    """The Parquet file in a private folder that an input is copied to, as the source."""
    path = make_private(folder) / "rows.parquet"
    with disk_errors(doing):
        size = copy(path)
    with path.open("rb") as handle:
        stamp = hashlib.file_digest(handle, "sha256").hexdigest()
    units, schema, types = open_parquet([File(str(path), size, stamp, "parquet")])
    rows = sum(unit.rows for unit in units)
    if not rows:
        raise InputError(f"{url} has no rows; give a table, or a query, of at least k rows")
    return Source(tuple(units), schema, rows, size, (url,), (stamp,), pandas_types=types)


def find_query(url: str, form: CsvFormat | None = None) -> Query | None:
    """The query in an SQL file; None for inputs that are files of data."""
    if not url.lower().endswith(SUFFIX):
        return None
    refuse_other(url, form)
    if looked_up(url) and not os.path.exists(url):
        raise InputError(f"{url} does not exist{looked_up(url)}; check the path")
    with open_bytes(url) as handle:
        text = guarded(url, "is no text in UTF-8; save it as such", lambda: handle.read(_LONGEST + 1).decode())
    if len(text) > _LONGEST:
        raise InputError(f"{url} is longer than a query is ({_LONGEST:,} characters); give rows as Parquet or CSV")
    first, _, query = text.lstrip("\ufeff").partition("\n")
    named = _FIRST.fullmatch(first.strip())
    if named is None:
        raise InputError(f"{url} does not say where to ask: its first line must be -- database: PATH or postgresql://…")
    query = query.strip().rstrip(";").strip()
    if not query:
        raise InputError(f"{url} holds no query; write one SELECT below its first line")
    refuse_password(url, named[1])
    return Query(url, named[1], query)


def refuse_password(url: str, database: str) -> None:
    if not database.startswith(_POSTGRES):
        return
    parts = guarded(url, "its database is no valid URL", urlsplit, database)
    if parts.password is not None or "password" in parse_qs(parts.query):
        raise InputError(
            f"{url} holds a password, which does not belong there: take it out, change it, and put it into "
            "~/.pgpass or the file that PGPASSFILE names (0600), where Postgres's own library looks for it"
        )


def _driver_of(query: Query, spill: Path) -> tuple[str, dict[str, str]]:
    """The driver of the database and what it is given; DuckDB spills what does not fit into its memory there."""
    if query.database.startswith(_POSTGRES):
        return "postgresql", {"uri": query.database}
    where = _OWN_FILE.sub("", query.database)
    path = None if "://" in where else local_path(where)
    if path is None:
        raise InputError(f"{query.url} names no database that is known: a file of DuckDB or SQLite, or postgresql://…")
    with open_bytes(path) as handle:
        begin: bytes = guarded(path, "cannot be read; check the file", handle.read, 16)
    if begin.startswith(b"SQLite format 3"):
        return "sqlite", {"uri": f"file:{quote(path)}?mode=ro"}
    if begin[8:12] == b"DUCK":
        limits = {"memory_limit": _DUCKDB_MEMORY, "temp_directory": str(spill)}
        return "duckdb", {"path": path, "access_mode": "READ_ONLY", **limits}
    raise InputError(f"the file that {query.url} names as its database is none of DuckDB or SQLite; check the path")


def connect(driver: str, given: dict[str, str]) -> Any:
    """A connection in which a transaction begins."""
    if driver == "duckdb":
        path, manager = import_module("adbc_driver_duckdb").driver_path(), import_module("adbc_driver_manager.dbapi")
        return manager.connect(path, entrypoint="duckdb_adbc_init", db_kwargs=given)
    return import_module(f"adbc_driver_{driver}.dbapi").connect(**given)


def _connect_to_read(driver: str, given: dict[str, str]) -> Any:
    """A connection that may not write."""
    connection = connect(driver, given)
    if driver == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
    return connection


def call_driver(problem: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a driver, whose own errors quote queries and values; of Postgres the number of the error is reported."""
    try:
        return function(*arguments)
    except Exception as error:
        text, number = str(error), getattr(error, "sqlstate", None)
    if _NO_ROOM.search(text):
        raise OSError(errno.ENOSPC, "no room for the answer")
    if _NO_MEMORY.search(text):
        raise InputError("the query needs more memory than it is given; sort and join less in it: no order is needed")
    raise InputError(problem + (f" (SQLSTATE {number})" if number else ""))


def _copied(query: Query, path: Path) -> int:
    """Write the answer as Parquet; how many bytes it had as it came."""
    refused = (
        f"the database refuses the query in {query.url}: it must be one SELECT, of tables and columns that are there "
        "and that this account may read; try it in the database's own client"
    )
    broken = (
        f"the answer to the query in {query.url} broke off: the connection was lost, or a value is not of its column's "
        "type, as in SQLite any may be; CAST the column in the query"
    )
    closed = (
        f"the database that {query.url} names cannot be opened: check host, name, rights and password, and for a file "
        "that no other program has it open for writing"
    )
    driver, given = _driver_of(query, path.parent / "spill")
    need(f"{query.url} is asked", "sql", "adbc_driver_manager", f"adbc_driver_{driver}")
    size = 0
    with (
        closing(call_driver(closed, _connect_to_read, driver, given)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        if driver == "sqlite":  # which takes for a column's type that of its first batch
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(ROWS)})
        call_driver(refused, cursor.execute, f"SELECT * FROM ({query.text}\n) AS asked")  # no statement but SELECT can
        reader = call_driver(refused, cursor.fetch_record_batch)
        for field in reader.schema:
            if pa.types.is_interval(field.type) or pa.types.is_union(field.type) or pa.types.is_null(field.type):
                what = f"column {field.name!r} of {query.url}"
                raise InputError(f"{what} is of a type that no file keeps; CAST it in the query")
        # Types of a database's own come as the text or the bytes that stands for them
        plain = pa.schema([(field.name, getattr(field.type, "storage_type", field.type)) for field in reader.schema])
        with pq.ParquetWriter(path, plain, compression="zstd", write_page_checksum=True) as writer:
            for rows in _gathered(broken, reader):
                size += rows.nbytes
                columns = [_values(column) for column in rows.columns]
                writer.write_table(pa.table(columns, schema=writer.schema), ROWS)
    return size


def _gathered(broken: str, reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """The rows in tables of some size: drivers hand on batches of a few thousand."""
    batches: list[pa.RecordBatch] = []
    while (batch := call_driver(broken, next, reader, None)) is not None:
        batches.append(batch)
        if sum(each.num_rows for each in batches) >= ROWS:
            yield pa.Table.from_batches(batches)
            batches = []
    if batches:
        yield pa.Table.from_batches(batches)


def _values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = getattr(column.type, "storage_type", None)
    return column if kind is None else pa.chunked_array([chunk.storage for chunk in column.chunks], kind)


# --- Versions of lakehouse tables -------------------------------------------------------------------------------------
# lake/people           s3://bucket/people#12              the newest version, and version 12, of Delta Lake
# iceberg://catalog/namespace.table                        the newest snapshot; with #SNAPSHOT that one

_ICEBERG = "iceberg://"
_BATCHES = 2  # Batches and files that are read ahead


@dataclass(frozen=True)
class LakeTable:
    """A version of a table that was not read yet."""

    url: str
    name: str
    version: int | None

    def identity(self) -> dict[str, Any]:
        """JSON-able content that changes when another table or version is asked for; not when rows are added."""
        return {"paths": [self.name], "version": self.version}

    def read(self, folder: Path) -> Source:
        """Copy the version into a private folder, batch by batch."""
        return _copied_source(folder, "copying the rows of the table", partial(_copied_version, self), self.url)


def find_lake_table(url: str, form: CsvFormat | None = None) -> LakeTable | None:
    """The table of Delta Lake or Iceberg that an input names; None for other inputs."""
    name, _, version = url.rpartition("#")
    is_iceberg = url.startswith(_ICEBERG)
    if not version.isdigit() or (not is_iceberg and _is_delta(url)):  # a folder whose name has such an end
        name = url
    if not is_iceberg and not _is_delta(name):
        return None
    refuse_other(url, form)
    return LakeTable(url, name, int(version) if name != url else None)


def _is_delta(name: str) -> bool:
    """Whether a folder, here or on an object store, has the log of Delta Lake."""
    filesystem, inside = locate(name)
    try:
        return bool(filesystem.isdir(f"{inside.rstrip('/')}/_delta_log"))
    except OSError:  # which opening the files reports
        return False


def _copied_version(table: LakeTable, path: Path) -> int:
    """Write the version as Parquet; how many bytes it had as it came."""
    package = "pyiceberg" if table.name.startswith(_ICEBERG) else "deltalake"
    need(f"{table.url} is read", "lake", package)
    broken = f"{table.url} cannot be read: a file of it is missing or damaged; look at it with {package}"
    schema, batches = _opened_iceberg(table) if package == "pyiceberg" else _opened_delta(table)
    size = 0
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer:
        while (batch := call_driver(broken, next, batches, None)) is not None:
            size += batch.nbytes
            writer.write_batch(batch.cast(schema), ROWS)
    return size


def _opened_delta(table: LakeTable) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    delta = import_module("deltalake")
    asked = "its newest version" if table.version is None else f"version {table.version}"
    problem = (
        f"{table.name}: {asked} cannot be read: it is not there, or has deletion vectors or renamed columns, "
        "which the library does not read; rewrite it by DeltaTable.optimize.compact or with Spark"
    )
    dataset = call_driver(problem, lambda: delta.DeltaTable(table.name, version=table.version).to_pyarrow_dataset())
    scanner = dataset.scanner(batch_size=ROWS, batch_readahead=_BATCHES, fragment_readahead=_BATCHES)
    return dataset.schema.remove_metadata(), scanner.to_batches()


def _opened_iceberg(table: LakeTable) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    catalog, _, name = table.name.removeprefix(_ICEBERG).partition("/")
    problem = (
        f"{table.url} cannot be opened: write iceberg://CATALOG/NAMESPACE.TABLE, and describe the catalog in "
        "~/.pyiceberg.yaml, in YAML without braces; of snapshots, those that were not expired can be read"
    )
    catalogs = call_driver(problem, import_module, "pyiceberg.catalog")  # reads its settings
    scan = call_driver(problem, lambda: catalogs.load_catalog(catalog).load_table(name).scan(snapshot_id=table.version))
    reader = call_driver(problem, scan.to_arrow_batch_reader)
    short = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}  # which the library has instead
    return pa.schema([(field.name, short.get(field.type, field.type)) for field in reader.schema]), iter(reader)
