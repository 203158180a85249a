"""A published release as a table of Postgres, DuckDB, SQLite, Delta Lake or Iceberg.

    postgresql://host/database#schema.table    duckdb:///people.duckdb#table    sqlite:///people.db#table
    delta:///lake/people                       delta+s3://bucket/people
    iceberg://catalog/namespace.table

Each is one transaction: the whole table or none, counted before it is committed. Manifest, signature and code book go
with it. Tables that exist are never replaced.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from anonpipe.codebook import DOCUMENT
from anonpipe.encoding.values import plain, plain_type
from anonpipe.errors import InputError, OutputError
from anonpipe.export import Exported, batches, check_target, schema_of
from anonpipe.files import need, sync_path, why
from anonpipe.source import call_driver, connect, refuse_password
from anonpipe.storage import release
from anonpipe.storage.versions import MANIFEST, SIGNATURE, OutputPlace, create_if_absent

_TARGET = re.compile(r"(postgres(?:ql)?|duckdb|sqlite|delta|iceberg)(?:(?<=delta)\+(s3))?://(.*)")
_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
_ICEBERG = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}  # Iceberg has no shorter integers
_OF_A_DATABASE = ("", "-journal", "-wal", "-shm", ".wal")  # A file of SQLite or DuckDB, and those next to it
_MARK = "anonpipe.manifest"
_PACKAGES = {"delta": ("deltalake",), "iceberg": ("pyiceberg",)}  # Of the extra [lake]


def is_table(target: str) -> bool:
    """Whether the target of an export is a table, and no file or folder."""
    return _TARGET.fullmatch(target) is not None


def export_table(where: OutputPlace, manifest: dict[str, Any], target: str) -> Exported:
    """Write all rows of a checked release as a new table, whole or not at all.

    Categories become texts, unsigned integers longer signed ones, and times have microseconds. The files of a release
    that describe it become a second table (`TABLE_manifest`), files of the Delta Lake folder, or properties of Iceberg.
    Of a target that is no new table, holds a password or needs a package there is an InputError; of one that does not
    take the rows an OutputError, and nothing is left of them.
    """
    match = _TARGET.fullmatch(target)
    assert match is not None, "looked at by the caller"
    kind, store, name = match.groups()
    kind = "postgresql" if kind == "postgres" else kind
    wanted = _PACKAGES.get(kind, ("adbc_driver_manager", "duckdb" if kind == "duckdb" else f"adbc_driver_{kind}"))
    need(f"tables of {kind} are written", "lake" if kind in _PACKAGES else "sql", *wanted)
    documents = _documents(where, manifest)
    schema = pa.schema(
        [field.with_type(_type(field.type, kind)).with_nullable(True) for field in schema_of(where, manifest)]
    )
    rows = sum(entry["rows"] for entry in manifest["files"])
    write = {"delta": _to_delta, "iceberg": _to_iceberg}.get(kind, _to_database)
    if store is not None:
        write, name = _to_delta_on_store, f"{store}://{name}"
    write(target, name, partial(_rows, where, manifest, schema), documents, rows)
    return Exported(target, rows, 1)


Rows = Callable[[], pa.RecordBatchReader]


def _documents(where: OutputPlace, manifest: dict[str, Any]) -> dict[str, bytes]:
    """Manifest, signature and code book, as they were published."""
    listed = {entry["name"] for entry in manifest.get("documents", [])}
    names = [MANIFEST, SIGNATURE, *sorted({DOCUMENT} & listed)]
    return {
        name: where.filesystem.cat_file(where.path(name)) for name in names if where.filesystem.exists(where.path(name))
    }


def _type(given: pa.DataType, kind: str) -> pa.DataType:
    """The type of a column that the target has."""
    found = plain_type(given)
    found = _SIGNED.get(found, found)
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", found.tz)
    if kind == "sqlite" and pa.types.is_decimal(found):
        return pa.float64()
    return _ICEBERG.get(found, found) if kind == "iceberg" else found


def _rows(where: OutputPlace, manifest: dict[str, Any], schema: pa.Schema) -> pa.RecordBatchReader:
    """The released rows in the types of the target."""

    def cast() -> Iterator[pa.RecordBatch]:
        for batch in batches(where, manifest):
            columns = [plain(batch.column(field.name)).cast(field.type) for field in schema]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, cast())


# --- Databases, by their ADBC drivers ---------------------------------------------------------------------------------


def _to_database(target: str, place: str, rows: Rows, documents: Mapping[str, bytes], count: int) -> None:
    url, _, table = target.partition("#")
    if not table:
        raise InputError("the target names no table; add it after a #, such as sqlite:///people.db#people")
    refuse_password("the target of the export", url)
    if url.startswith("postgres"):
        _ingest(target, "postgresql", {"uri": url}, table, rows, documents, count)
        return
    kind, path = url.partition("://")[0], _local_path(place.partition("#")[0])
    is_new = not path.exists()
    try:
        _ingest(target, kind, {"path" if kind == "duckdb" else "uri": str(path)}, table, rows, documents, count)
    except BaseException:
        for suffix in _OF_A_DATABASE if is_new else ():
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        raise


def _local_path(place: str) -> Path:
    """The path of a file or folder to write; an error where its folder does not exist."""
    path = Path(place.removeprefix("/"))
    if not path.parent.is_dir():
        where = "" if path.is_absolute() else f" in {os.getcwd()} (an absolute path begins after :/// with a fourth /)"
        raise InputError(f"{path.parent} does not exist{where}; create it first")
    return path


def _ingest(
    target: str, kind: str, given: dict[str, str], table: str, rows: Rows, documents: Mapping[str, bytes], count: int
) -> None:
    """The released rows and the documents as two tables, in one transaction."""
    schema, _, name = table.rpartition(".")
    described = pa.table({"file": list(documents), "content": pa.array(documents.values(), pa.binary())})
    contents = {name: (rows, count), f"{name}_manifest": (described.to_reader, len(documents))}
    closed = f"{target} cannot be opened: check host, name, rights and password, and that no other program has it open"
    broke = f"{target} did not take the rows: no room, or a value that its types do not have; nothing was written"
    with closing(call_driver(closed, connect, kind, given)) as connection, closing(connection.cursor()) as cursor:
        for into, (content, expected) in contents.items():
            there = f"{target} takes no new table {into!r}: there is one already, or this account may create none"
            ingest = partial(cursor.adbc_ingest, into, db_schema_name=schema or None)
            call_driver(there, partial(ingest, content().schema.empty_table(), mode="create"))
            _written(broke, partial(ingest, content(), mode="append"))
            quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, into) if part)
            _written(broke, cursor.execute, f"SELECT count(*) FROM {quoted}")
            if cursor.fetchone() != (expected,):  # DuckDB's driver passes over batches that could not be read
                raise OutputError(broke)
        _written(broke, connection.commit)


def _written(problem: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a driver or library that writes; its own errors may quote values."""
    try:
        return call_driver(problem, function, *arguments)
    except InputError as error:
        raise OutputError(str(error)) from None
    except OSError as error:
        raise OutputError(f"{problem} ({why(error)})") from None


# --- Delta Lake and Iceberg -------------------------------------------------------------------------------------------


def _to_delta(target: str, place: str, rows: Rows, documents: Mapping[str, bytes], count: int) -> None:
    """A new folder; the documents lie in it, with names that readers of Delta Lake pass over."""
    path = _local_path(place)
    check_target(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    broke = f"{target} did not take the rows: the disk is full or may not be written; nothing was written"
    try:
        _commit_delta(broke, draft, rows, documents, count)
        for name, content in documents.items():
            (draft / name).write_bytes(content)
        for each in draft.rglob("*"):
            sync_path(each)
        _written(broke, os.rename, draft, path)
        sync_path(path.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _to_delta_on_store(target: str, place: str, rows: Rows, documents: Mapping[str, bytes], count: int) -> None:
    """A new prefix of an object store, of which readers see nothing before the commit, which is one put."""
    folder = release.place(place)
    broke = f"{target} did not take the rows: its storage does not answer or refuses; nothing was written"
    first = folder.path(MANIFEST), documents[MANIFEST]  # of two exports that begin together one alone creates it
    if folder.filesystem.exists(folder.root) or not _written(broke, create_if_absent, folder, *first):
        raise InputError(f"{target} exists already; choose another name or delete it")
    try:
        for name, content in documents.items():
            _written(broke, folder.filesystem.pipe_file, folder.path(name), content)
        _commit_delta(broke, place, rows, documents, count)
    except BaseException:
        with suppress(OSError):
            if _is_of_another(folder, documents):
                folder.filesystem.rm([folder.path(name) for name in documents])
            else:
                folder.filesystem.rm(folder.root, recursive=True)
        raise


def _is_of_another(folder: OutputPlace, documents: Mapping[str, bytes]) -> bool:
    """Whether another program has committed to the table there, or it cannot be known that none has."""
    try:
        folder.filesystem.invalidate_cache()
        commits = folder.filesystem.glob(folder.path("_delta_log/*.json"))
        own = _mark(documents)[_MARK].encode()
        return any(own not in folder.filesystem.cat_file(commit) for commit in commits)
    except Exception:
        return True


def _mark(documents: Mapping[str, bytes]) -> dict[str, str]:
    """What a commit says of the release."""
    return {_MARK: hashlib.sha256(documents[MANIFEST]).hexdigest()}


def _commit_delta(broke: str, folder: Path | str, rows: Rows, documents: Mapping[str, bytes], count: int) -> None:
    """Write the rows in one commit, which names the manifest, and count them."""
    delta = import_module("deltalake")
    note = delta.CommitProperties(custom_metadata=_mark(documents))
    _written(broke, partial(delta.write_deltalake, folder, rows(), mode="error", commit_properties=note))
    if delta.DeltaTable(folder).count() != count:
        raise OutputError(broke)


def _to_iceberg(target: str, place: str, rows: Rows, documents: Mapping[str, bytes], count: int) -> None:
    """A table of a catalog that pyiceberg's own settings name; the documents are properties, the signature in hex."""
    name, _, table = place.partition("/")
    if "." not in table:
        raise InputError(f"{target} names no table; write iceberg://CATALOG/NAMESPACE.TABLE")
    unknown = f"catalog {name!r} cannot be opened; describe it in ~/.pyiceberg.yaml, in YAML without braces"
    catalog = call_driver(unknown, lambda: import_module("pyiceberg.catalog").load_catalog(name))
    if call_driver(unknown, catalog.table_exists, table):
        raise InputError(f"{target} exists already; choose another name or drop it")
    properties = {
        f"anonpipe.{key}": text.hex() if key == SIGNATURE else text.decode() for key, text in documents.items()
    }
    broke = f"{target} did not take the rows: its namespace does not exist, or its storage refuses; nothing was written"

    def write() -> None:
        with catalog.create_table_transaction(table, rows().schema, properties=properties) as change:
            change.append(rows())

    _written(broke, write)
    if catalog.load_table(table).scan().count() != count:
        _written(broke, catalog.drop_table, table)
        raise OutputError(broke)
