"""Finding the files of an input, and errors of reading that quote nothing of their content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from anonpipe.errors import AnonpipeError, InputError
from anonpipe.files import StorageError
from anonpipe.source._folder_keys import Keys, is_key, keys_below
from anonpipe.storage.versions import with_os_errors

P = ParamSpec("P")
T = TypeVar("T")

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".sav": "statistics",
    ".zsav": "statistics",
    ".dta": "statistics",
    ".sas7bdat": "statistics",
    ".xpt": "statistics",
}
_WILD = frozenset("*?[")


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
    problem = f"{path}: {otherwise}"
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
        pass
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


def find_files(url: str) -> list[File]:
    """The files of an input in the order of their names."""
    filesystem, inside = locate(url)
    found = guarded(url, "cannot be listed; check path and access", _listed, filesystem, inside)
    if found is None:
        found = [inside]
    else:
        found = [path for path in sorted(found) if _visible(inside, path) and _suffix(path) is not None]
        if not found:
            raise InputError(f"{url} matches no file that ends in {', '.join(_SUFFIXES)}; check the path")
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
            f"export a snapshot of it with its own library ({_EXPORTS[kind]}), and give that"
        )


_UNSEEN = "cannot be inspected; check path and access"
_EXPORTS = {
    "Delta Lake": "deltalake: DeltaTable(path).to_pyarrow_table(), then pyarrow.parquet.write_table",
    "Iceberg": "pyiceberg: table.scan().to_arrow(), then pyarrow.parquet.write_table",
    "Hudi": "Spark: spark.read.format('hudi').load(path), then write.parquet",
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
        below = [path for path in found if is_key(path) and filesystem.isdir(path)]
        return [path for path in found if path not in below] + [
            file for folder in below for file in filesystem.find(folder)
        ]
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


def _suffix(path: str) -> str | None:
    lower = path.lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if lower.endswith(suffix)), None)


def _describe(filesystem: Any, inside: str) -> File:
    local = isinstance(filesystem, LocalFileSystem)
    path = inside if local else filesystem.unstrip_protocol(inside)
    info = guarded(path, "cannot be inspected; check path and access", filesystem.info, inside)
    if info["type"] == "directory":
        raise InputError(f"{path} is a folder; give its files by a glob such as {path}/*.parquet")
    if info["size"] == 0:
        raise InputError(f"{path} is empty (0 bytes); give a file with at least k rows")
    stamp = next((str(info[key]) for key in ("mtime", "ETag", "etag", "LastModified", "md5Hash") if key in info), "")
    return File(path, int(info["size"] or 0), stamp, _suffix(path) or _sniffed(path))


def _sniffed(path: str) -> str:
    with open_bytes(path) as handle:
        begin: bytes = guarded(path, "cannot be read; check the file", handle.read, 4096)
    if begin[:4] == b"PAR1":
        return "parquet"
    if b"\0" in begin or b"\n" not in begin:
        raise InputError(f"{path} is neither Parquet nor CSV; convert it to one of them")
    return "csv"
