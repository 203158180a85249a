"""The input as an immutable description: its files, their units of work, and its schema."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from anonpipe.columns import Column, Kind, Rule
from anonpipe.encoding.cells import check_order
from anonpipe.encoding.values import check_grid, is_date, is_index, is_number, is_supported, level_array, plain_type
from anonpipe.errors import AnonpipeError, InputError
from anonpipe.files import StorageError
from anonpipe.job.csv_format import CsvFormat
from anonpipe.storage.versions import with_os_errors


@dataclass(frozen=True)
class Unit:
    """A run of consecutive rows that one task reads."""

    index: int  # Its number, in the order of the rows
    path: str  # The file's local path or URL
    format: str  # `parquet`, `csv`, or `statistics` for SPSS, Stata and SAS, `workbook` for Excel
    row_groups: tuple[int, ...]  # The file's row groups in it, for Parquet
    first_row: int  # Where it begins in the whole input
    rows: int  # Its number of rows
    keys: tuple[str | None, ...] = ()  # Texts of the columns that the file's folders name; see `Source.keys`


def units_of(form: str, pieces: Iterable[tuple[str, tuple[int, ...], int]]) -> list[Unit]:
    """Units of files in one format, each of a path, row groups and a number of rows, in the order of the rows."""
    units: list[Unit] = []
    first_row = 0
    for path, row_groups, rows in pieces:
        units.append(Unit(len(units), path, form, row_groups, first_row, rows))
        first_row += rows
    return units


@dataclass(frozen=True)
class Labels:
    """What a file of SPSS, Stata or SAS says of a column."""

    text: str = ""  # What the column is; empty for nothing
    # Of a column that is read as its labels, the value that each label stands for
    codes: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """An input that was opened and found readable."""

    units: tuple[Unit, ...]  # In the order of the rows
    schema: pa.Schema  # Of every file and the keys of its folders, without metadata
    rows: int  # Of all files together
    bytes: int  # Likewise
    paths: tuple[str, ...]  # The files
    stamps: tuple[str, ...]  # What tells a changed file: time of change or entity tag
    form: CsvFormat = field(default_factory=CsvFormat)  # How a CSV is written
    # Of each column that pandas reads in a nullable type of its own, this type
    pandas_types: dict[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()  # Columns that stand in the names of folders, and not in the files
    labels: Mapping[str, Labels] = field(default_factory=dict)  # Of columns of SPSS, Stata or SAS that have some
    orders: tuple[Rule, ...] = ()  # Orders between columns, whose differences are columns too (`with_orders`)

    def with_orders(self, rules: Sequence[Rule]) -> Source:
        """The input with the columns of differences of orders at its end."""
        known = set(self.schema.names)
        orders = tuple(rule for rule in rules if rule.gap and known.issuperset(rule.names))
        added = [pa.field(rule.gap, pa.float64()) for rule in orders]
        return replace(self, schema=pa.schema([*self.schema, *added]), orders=orders)

    def identity(self) -> dict[str, Any]:
        """JSON-able content that changes when a file is changed, added or taken away."""
        return {
            "paths": list(self.paths),
            "stamps": list(self.stamps),
            "rows": self.rows,
            "bytes": self.bytes,
            "schema": self.schema.to_string(),
        }


# --- Columns that stand in the names of folders: `year=2020/sex=f/part.parquet`, as Hive, Spark and pyarrow write them

P = ParamSpec("P")
T = TypeVar("T")

Keys = tuple[tuple[str, str | None], ...]  # Name and text of each, the outermost folder's first; None for null

_NULL = "__HIVE_DEFAULT_PARTITION__"
_KEY = re.compile(r"([^/=]+)=([^/]*)")
_HIDDEN = re.compile(r"(?<=/)([^/=\s]+=)[^/]*(?=/)")
_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def keys_below(base: str, path: str) -> Keys:
    """The keys in the folders of a file below a folder."""
    folders = path.removeprefix(base).split("/")[:-1]
    found = [match.groups() for folder in folders if (match := _KEY.fullmatch(folder))]
    return tuple((unquote(name), None if text in ("", _NULL) else unquote(text)) for name, text in found)


def schema_of_keys(url: str, files: Sequence[File]) -> pa.Schema:
    """The columns that folders name; a leading zero makes whole numbers a text, as in a CSV."""
    names = {tuple(name for name, _ in file.keys) for file in files}
    if len(names) > 1:
        examples = " and ".join(sorted("/".join(each) or "no key" for each in names)[:2])
        raise InputError(f"{url}: files lie in folders of different keys ({examples}); give folders of one table")
    (ordered,) = names
    if len(set(ordered)) < len(ordered):
        raise InputError(f"{url}: a key stands twice in the folders of a file; rename the folders")
    columns = zip(*(file.keys for file in files), strict=True)
    return pa.schema([(name, _type({text for _, text in each})) for name, each in zip(ordered, columns, strict=True)])


def _type(texts: set[str | None]) -> pa.DataType:
    known = [text for text in texts if text is not None]
    if known and all(map(_WHOLE.fullmatch, known)):
        return pa.int64()
    if known and all(map(_DATE.fullmatch, known)):
        with suppress(pa.ArrowInvalid):  # a day that is in no calendar
            pa.array(known).cast(pa.date32())
            return pa.date32()
    return pa.string()


def with_keys(batch: pa.RecordBatch, names: Sequence[str], keys: pa.Schema, unit: Unit) -> pa.RecordBatch:
    """The named columns of a batch of a file, those included that its folders name."""
    texts = dict(zip(keys.names, unit.keys, strict=True))
    arrays = [
        pa.repeat(pa.scalar(texts[name], pa.string()), batch.num_rows).cast(keys.field(name).type)
        if name in texts
        else batch.column(name)
        for name in names
    ]
    return pa.record_batch(arrays, names=list(names))


def hiding(url: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function whose errors name paths; the values in them, which are data, are left out."""
    try:
        return function(*args, **kwargs)
    except InputError as error:
        raise InputError(without_values(str(error), url)) from None


def hiding_each(batches: Iterator[T]) -> Iterator[T]:
    """The same of what is read piece by piece."""
    end = object()
    while (batch := hiding("", next, batches, end)) is not end:
        yield batch  # type: ignore[misc]


def without_values(text: str, url: str = "") -> str:
    """A message without the values of folders that were not given."""
    return _HIDDEN.sub(lambda found: found[0] if f"/{found[0]}/" in f"/{url}/" else f"{found[1]}…", text)


# --- Finding the files of an input, and errors of reading that quote nothing of their content -------------------------

_ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    "statistics": (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt"),
    "workbook": (".xlsx", ".xlsm", ".xls", ".ods"),
}
_WILD = frozenset("*?[")
_WORKBOOK = re.compile(r"(.+\.(?:xlsx|xlsm|xls|ods))#(.+)", re.IGNORECASE | re.DOTALL)  # Its path and a sheet


def split_sheet(url: str) -> tuple[str, str]:
    """The path of a workbook and, after #, its sheet; no sheet for other paths."""
    found = _WORKBOOK.fullmatch(url)
    return (found[1], found[2]) if found else (url, "")


@dataclass(frozen=True)
class File:
    """One file: its local path or URL, size in bytes, what tells a change, its format, and the keys of its folders."""

    path: str
    bytes: int
    stamp: str
    format: str
    keys: Keys = ()


def guarded(path: str, otherwise: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a library; whatever it raises becomes an InputError without the library's text, which may quote data."""
    try:
        return function(*args, **kwargs)
    except AnonpipeError:
        raise
    except FileNotFoundError:
        problem = f"{path} does not exist; check the path"
    except PermissionError:
        problem = f"{path} cannot be read: permission denied; ask for read access or change the file's mode"
    except StorageError as error:
        problem = f"{path} cannot be read: {error}; try again when it can"
    except ImportError:
        problem = (
            f"{path} needs a package that is not installed; install the one that fsspec names for this kind of URL"
        )
    except Exception:
        problem = f"{path}: {otherwise}"
    raise InputError(problem)


def locate(path: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path inside it."""
    filesystem, inside = guarded(
        path,
        "is no path or URL that can be opened; give a file, a folder, a glob, or a URL that fsspec knows",
        fsspec.core.url_to_fs,
        path,
    )
    return with_os_errors(filesystem), inside


def open_bytes(path: str) -> Any:
    """A file object for the bytes of a file, local or not."""
    filesystem, inside = locate(path)
    return guarded(path, "cannot be opened; check that it is a readable file", filesystem.open, inside, "rb")


def local_path(path: str) -> str | None:
    """The path of a local file, None for others."""
    filesystem, inside = locate(path)
    return inside if isinstance(filesystem, LocalFileSystem) else None


def looked_up(url: str) -> str:
    """Where a relative path is looked up, for messages; nothing for others."""
    return "" if "://" in url or os.path.isabs(url) else f" in {os.getcwd()}, where this command was started"


def find_files(url: str) -> list[File]:
    """The files of an input in the order of their names."""
    plain, sheet = split_sheet(url)
    if sheet:
        return [replace(each, path=f"{each.path}#{sheet}") for each in find_files(plain)]
    filesystem, inside = locate(url)
    found = guarded(url, "cannot be listed; check path and access", _listed, filesystem, inside)
    if found is None:
        if looked_up(url) and not os.path.exists(inside):
            raise InputError(f"{url} does not exist{looked_up(url)}; check the path")
        found = [inside]
    else:
        found = [path for path in sorted(found) if _visible(inside, path) and table_kind(path) is not None]
        if not found:
            suffixes = ", ".join(chain(*_ENDINGS.values()))
            raise InputError(f"{url} matches no file that ends in {suffixes}{looked_up(url)}; check the path")
    _refuse_table_formats(filesystem, url, inside, found)
    base = _given(inside)
    files = [replace(_describe(filesystem, path), keys=keys_below(base, path)) for path in found]
    if len({file.format for file in files}) > 1:
        raise InputError(f"{url} holds files of several formats; give a glob such as {url.rstrip('/')}/*.parquet")
    return files


def _refuse_table_formats(filesystem: Any, url: str, inside: str, found: list[str]) -> None:
    """The folder of such a table also holds files of rows that were deleted or replaced: only its log tells which."""
    if "http" in str(filesystem.protocol):  # which knows no folders
        return
    folders = {parent for path in [*found, f"{inside.rstrip('/')}/"] for parent in _parents(path)}
    kinds = {kind for folder in sorted(folders) for kind in guarded(url, _UNSEEN, _kinds, filesystem, folder)}
    if kinds:
        kind = sorted(kinds)[0]
        raise InputError(
            f"{url} is (in) the folder of a table of {kind}, whose files also hold rows that were deleted or replaced; "
            f"{_INSTEAD[kind]}"
        )


_UNSEEN = "cannot be inspected; check path and access"
_INSTEAD = {
    "Delta Lake": "give its whole folder, with 'anonpipe[lake]'",
    "Iceberg": "give iceberg://CATALOG/NAMESPACE.TABLE, with 'anonpipe[lake]'",
    "Hudi": "export a snapshot (Spark: spark.read.format('hudi').load(path), then write.parquet), and give that",
}


def _parents(path: str) -> list[str]:
    """The folders that a file lies in, but for the root."""
    parts = path.split("/")[:-1]
    return [folder for at in range(1, len(parts) + 1) if (folder := "/".join(parts[:at])) and not _WILD & set(folder)]


def _kinds(filesystem: Any, folder: str) -> list[str]:
    """The formats of tables that keep their log in a folder."""
    found = ["Delta Lake"] if filesystem.exists(f"{folder}/_delta_log") else []
    found += ["Hudi"] if filesystem.exists(f"{folder}/.hoodie") else []
    logs = filesystem.ls(f"{folder}/metadata", detail=False) if filesystem.isdir(f"{folder}/metadata") else []
    iceberg = any(name.endswith((".metadata.json", "version-hint.text", ".gz.metadata.json")) for name in logs)
    return found + (["Iceberg"] if iceberg else [])


def _listed(filesystem: Any, inside: str) -> list[str] | None:
    """What a folder, with the folders of keys below it, or a glob holds; None for a single file."""
    if filesystem.isdir(inside):
        found = list(filesystem.ls(inside, detail=False))
        named = [path for path in found if _KEY.fullmatch(path.rstrip("/").rsplit("/", 1)[-1])]
        below = list(filter(filesystem.isdir, named))
        files = [file for folder in below for file in filesystem.find(folder)]
        return [path for path in found if path not in below] + files
    if _WILD & set(inside) and not filesystem.exists(inside):
        return list(filesystem.glob(inside))
    return None


def _given(inside: str) -> str:
    """The folder that was given, without a slash at its end: of a glob, as far as it has no wild card."""
    if not _WILD & set(inside):
        return inside.rstrip("/")
    parts = inside.split("/")
    wild = next(at for at, part in enumerate(parts) if _WILD & set(part))
    return "/".join(parts[:wild])


def _visible(inside: str, path: str) -> bool:
    """Whether neither a file nor a folder below the one that was given begins with a dot or an underscore."""
    below = path.rstrip("/").removeprefix(_given(inside)).split("/")
    return not any(part.startswith((".", "_")) for part in below)


def table_kind(path: str) -> str | None:
    """What kind of table a file is by its name; None for others."""
    lower = path.lower()
    return next((kind for kind, endings in _ENDINGS.items() if lower.endswith(endings)), None)


def _describe(filesystem: Any, inside: str) -> File:
    local = isinstance(filesystem, LocalFileSystem)
    path = inside if local else filesystem.unstrip_protocol(inside)
    info = guarded(path, "cannot be inspected; check path and access", filesystem.info, inside)
    if info["type"] == "directory":
        raise InputError(f"{path} is a folder; give its files by a glob such as {path}/*.parquet")
    if info["size"] == 0:
        raise InputError(f"{path} is empty (0 bytes); give a file with at least k rows")
    stamp = next((str(info[key]) for key in ("mtime", "ETag", "etag", "LastModified", "md5Hash") if key in info), "")
    return File(path, int(info["size"] or 0), stamp, table_kind(path) or _sniffed(path))


def _sniffed(path: str) -> str:
    with open_bytes(path) as handle:
        begin: bytes = guarded(path, "cannot be read; check the file", handle.read, 4096)
    if begin[:4] == b"PAR1":
        return "parquet"
    if (b"\0" in begin and begin[:2] not in (BOM_UTF16_LE, BOM_UTF16_BE)) or b"\n" not in begin:
        raise InputError(f"{path} is neither Parquet nor CSV; convert it to one of them")
    return "csv"


# --- The job's columns held against the input's schema ----------------------------------------------------------------

PANDAS_INDEX = " (the index of a pandas table, which has no name)"


def check_types(schema: pa.Schema, columns: Mapping[str, Column]) -> None:
    """Refuse a job whose columns are not those of the input, or whose kinds do not fit the types."""
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
    """Refuse files of far more rows than bytes: a few bytes can stand for a billion equal rows, and fill any disk."""
    if rows > most_a_byte * max(size, _SMALL):
        raise InputError(
            f"the input has {rows:,} rows in {size:,} bytes, {rows / max(size, 1):.0f} a byte, and {most_a_byte:g} are "
            "allowed; look whether it is what it should be, and if it is, give run.max_rows_per_byte"
        )


_SMALL = 100_000  # Bytes below which there is no harm


def _column_problems(name: str, column: Column, kind: pa.DataType) -> list[str]:
    if not is_supported(kind):
        what = "nested values" if pa.types.is_nested(kind) else kind  # without the names of its fields
        return [f"column {name!r} holds {what}, which cannot be released; give it role: dropped or convert it"]
    remedy = _misfit(column.kind, plain_type(kind))
    if remedy:
        return [f"column {name!r} holds {plain_type(kind)}, and its kind {column.kind.value} {remedy}"]
    checks: list[tuple[Callable[..., object], Any]] = [(check_order, column)]
    checks += [] if column.staged_as_codes else [(check_grid, column)]
    checks += [(level_array, declared) for declared in (column.levels, column.event, column.competing) if declared]
    found = []
    for check, given in checks:
        try:
            check(name, given, kind)
        except InputError as error:
            found.append(str(error))
    return found


def _misfit(kind: Kind, plain: pa.DataType) -> str | None:
    """What a kind needs that the type is not, and the remedy."""
    if kind is Kind.DATE:
        fits = is_date(plain) or pa.types.is_string(plain)
        return None if fits else "needs dates; convert the column, or declare another kind"
    if kind.coded or is_number(plain):
        return None
    if is_date(plain):
        return "needs numbers; declare kind: date"
    instead = (
        "declare kind: binary" if pa.types.is_boolean(plain) else "convert the column, or declare kind: categorical"
    )
    return f"needs numbers; {instead}"
