"""Atomic publication: a new versioned folder, then one switch of the pointer.

    output/versions/<version>/part-00000.parquet ... _manifest.json _report.json _report.html
    output/CURRENT          the name of the current version (object stores, and everywhere)
    output/release          a link to the current version (local disks)
    output/steward/         reports for the steward alone, one a version and one of a run that failed

A reader follows the pointer and sees the old release or the new one, whole.
The version folder is complete, under its final name, before a pointer moves.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from anonpipe.errors import InputError, OutputError
from anonpipe.store import write_atomic

MANIFEST = "_manifest.json"
"""Readers of Parquet folders pass over names that begin with an underscore."""
POINTER = "CURRENT"
LINK = "release"
FAILED = "failed-verdict.json"
STEWARD = "steward"
"""The folder of what is not for recipients; beside the releases, never inside one."""
FAILED_RUN = "failed"
"""What the files of a failed run are called in there, where others have the name of their version."""
_BLOCK = 2**22


def sha256(path: str | Path, filesystem: Any = None) -> str:
    """SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with (filesystem or LocalFileSystem()).open(str(path), "rb") as source:
        while block := source.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Place:
    """Where releases live: a filesystem and a root path on it."""

    filesystem: Any
    root: str

    @property
    def local(self) -> bool:
        """Whether it is a disk of this machine."""
        return isinstance(self.filesystem, LocalFileSystem)

    def path(self, *parts: str) -> str:
        """A path below the root."""
        return "/".join([self.root.rstrip("/"), *parts])


def place(url: str) -> Place:
    """Resolve an output path or fsspec URL.

    Raises
    ------
    OutputError
        The protocol is unknown or its driver is not installed.
    """
    try:
        filesystem, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError):
        problem = True
    else:
        problem = False
    if problem:
        scheme = url.split("://", 1)[0]
        raise OutputError(
            f"the output protocol {scheme!r} cannot be used; install its fsspec driver or give a local path"
        )
    return Place(filesystem, root)


def check_writable(where: Place) -> None:
    """Write a probe into the output folder, before any work starts; nothing of it stays.

    Raises
    ------
    OutputError
        It cannot be written, or it is a folder with files of another kind.
    """
    reason, made = None, _missing_folders(where)
    try:
        where.filesystem.makedirs(where.root, exist_ok=True)
        names = {path.rstrip("/").rsplit("/", 1)[-1] for path in where.filesystem.ls(where.root, detail=False)}
        probe = where.path(f".probe-{secrets.token_hex(8)}")
        with where.filesystem.open(probe, "wb") as out:
            out.write(b"")
        where.filesystem.rm(probe)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the storage refuses"
    for folder in made:
        with contextlib.suppress(OSError):
            folder.rmdir()
    if reason is not None:
        raise OutputError(
            f"the output {where.root} cannot be written: {reason}; choose another folder or mend its rights"
        )
    visible = {name for name in names if not name.startswith(".")}
    if visible and not visible & {"versions", POINTER, LINK, FAILED, STEWARD}:
        raise OutputError(f"the output folder {where.root} holds other files; give an empty or a new folder")


def _missing_folders(where: Place) -> list[Path]:
    """The folders that must be made for the output, the innermost first; an object store has none."""
    if not where.local:
        return []
    root = Path(where.root)
    return [folder for folder in (root, *root.parents) if not folder.exists()]


def new_version() -> str:
    """A name for a new version: the time (UTC) and chance; names sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def publish(
    files: Sequence[Path],
    manifest: dict[str, Any],
    where: Place,
    documents: Mapping[str, bytes] | None = None,
    version: str | None = None,
) -> str:
    """Copy verified files and their manifest into a new version, then switch the pointer.

    Parameters
    ----------
    files
        Finished files of the staging, on this machine.
    manifest
        Its `files` entry holds name and SHA-256 of each; checked after copying.
    documents
        Further files for the recipients, by name: `_report.html`. The
        manifest that is published lists them too.
    version
        Its name, from `new_version`; None for a new one.

    Returns
    -------
    str
        Path of the new version.
    """
    version, documents, reason = version or new_version(), documents or {}, None
    listed = manifest | {"documents": [_entry(name, content) for name, content in documents.items()]}
    try:
        _copy_version(files, listed, where, version, documents)
        _switch(where, version)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the storage refuses"
    except BaseException:  # whatever stopped it, half a version is no use
        _discard(where, version)
        raise
    if reason is not None and _led_to(where) == version:
        raise OutputError(
            f"the release is out, but not all of {where.root} leads to it: {reason}; mend that, then --resume"
        )
    if reason is not None:
        _discard(where, version)
        raise OutputError(
            f"the release cannot be written to {where.root}: {reason}; nothing was published; free space or mend its "
            "rights, then --resume"
        )
    with contextlib.suppress(OSError):  # of an earlier run, and no longer true
        where.filesystem.rm_file(where.path(FAILED))
    forget_private(where, FAILED_RUN)
    return where.path("versions", version)


def _entry(name: str, content: bytes) -> dict[str, Any]:
    return {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def keep_private(where: Place, run: str, documents: Mapping[str, bytes]) -> list[str]:
    """Put documents for the steward beside the releases; on a disk only their owner can read them.

    Parameters
    ----------
    run
        The version, or `FAILED_RUN`; `report.html` becomes `<run>-report.html`.

    Returns
    -------
    list of str
        Where they are.
    """
    where.filesystem.makedirs(where.path(STEWARD), exist_ok=True)
    if where.local:
        os.chmod(where.path(STEWARD), 0o700)
    paths = []
    for name, content in documents.items():
        path = where.path(STEWARD, f"{run}-{name}")
        if where.local:
            write_atomic(Path(path), content)
        else:
            where.filesystem.pipe_file(path, content)
        paths.append(path)
    return paths


def forget_private(where: Place, run: str) -> None:
    """Delete what `keep_private` put there for a run; nothing if there is none."""
    with contextlib.suppress(OSError):
        for path in where.filesystem.ls(where.path(STEWARD), detail=False):
            if path.rstrip("/").rsplit("/", 1)[-1].startswith(f"{run}-"):
                where.filesystem.rm_file(path)


def _copy_version(
    files: Sequence[Path], manifest: dict[str, Any], where: Place, version: str, documents: Mapping[str, bytes]
) -> None:
    """On a disk: copy under a hidden name, sync, rename. On an object store: the pointer alone decides."""
    folder = where.path("versions", f".{version}" if where.local else version)
    where.filesystem.makedirs(folder, exist_ok=True)
    expected = {entry["name"]: entry["sha256"] for entry in manifest["files"]}
    for path in files:
        target = f"{folder}/{path.name}"
        with open(path, "rb") as source, where.filesystem.open(target, "wb") as out:
            shutil.copyfileobj(source, out, _BLOCK)
            _sync(out)
        if sha256(target, where.filesystem) != expected[path.name]:
            raise OSError(f"{path.name} differs after copying")
    for name, content in {**documents, MANIFEST: json.dumps(manifest, indent=2).encode()}.items():
        with where.filesystem.open(f"{folder}/{name}", "wb") as out:
            out.write(content)
            _sync(out)
    if where.local:
        _open_to_readers(Path(folder))
        _sync_folder(Path(folder))
        os.rename(folder, where.path("versions", version))
        _sync_folder(Path(where.path("versions")))


def _open_to_readers(folder: Path) -> None:
    """Release files follow the usual rights of the machine, not the staging's private ones."""
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)
    folder.chmod(0o777 & ~mask)


def _sync(handle: Any) -> None:
    handle.flush()
    if hasattr(handle, "fileno"):
        try:
            os.fsync(handle.fileno())
        except (OSError, ValueError):  # an object store has no file behind the handle
            pass


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _discard(where: Place, version: str) -> None:
    """Delete what there is of a version, unless readers are led to it."""
    if _led_to(where) == version:
        return
    for name in (f".{version}", version):
        try:
            where.filesystem.rm(where.path("versions", name), recursive=True)
        except OSError:
            pass


def _led_to(where: Place) -> str | None:
    """The version that readers find; None for none."""
    try:
        if where.local:
            return os.path.basename(os.readlink(where.path(LINK)))
        return str(where.filesystem.cat_file(where.path(POINTER)).decode().strip())
    except OSError:
        return None


def _switch(where: Place, version: str) -> None:
    """Move the pointers: each moves in one step (rename on a disk, one put on an object store).

    On a disk all that needs space is made before the first moves.
    """
    if not where.local:
        where.filesystem.pipe_file(where.path(POINTER), version.encode())
        return
    nonce = secrets.token_hex(4)
    draft_link, draft_pointer = (Path(where.path(f".{name}-{nonce}")) for name in (LINK, POINTER))
    try:
        draft_pointer.write_text(version)
        draft_link.symlink_to(Path("versions") / version)
        os.replace(draft_link, where.path(LINK))
        os.replace(draft_pointer, where.path(POINTER))
    finally:
        draft_link.unlink(missing_ok=True)
        draft_pointer.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the release is out
        _sync_folder(Path(where.root))


def resolve(url: str) -> Place:
    """The current version below an output path, or the version folder itself.

    Raises
    ------
    InputError
        There is no release.
    """
    where = place(url)
    if where.filesystem.exists(where.path(MANIFEST)):
        return where
    if where.local and where.filesystem.exists(where.path(LINK, MANIFEST)):
        return Place(where.filesystem, os.path.realpath(where.path(LINK)))
    if where.filesystem.exists(where.path(POINTER)):
        version = where.filesystem.cat_file(where.path(POINTER)).decode().strip()
        return Place(where.filesystem, where.path("versions", version))
    raise InputError(f"there is no release at {url}; give the output folder of a run, or a version folder")


def read_manifest(where: Place) -> dict[str, Any]:
    """The manifest of a version.

    Raises
    ------
    InputError
        It is missing, or not what `publish` wrote.
    """
    try:
        manifest: dict[str, Any] = json.loads(where.filesystem.cat_file(where.path(MANIFEST)))
        complete = isinstance(manifest["rows"], int) and isinstance(manifest["schema"], list)
        complete = complete and all({"name", "rows", "sha256"} <= set(entry) for entry in manifest["files"])
        complete = complete and all({"name", "sha256"} <= set(entry) for entry in manifest.get("documents", []))
    except (OSError, ValueError, LookupError, TypeError):
        complete = False
    if complete:
        return manifest
    raise InputError(f"the manifest of {where.root} cannot be read; the release is damaged")


def check(url: str) -> list[str]:
    """Compare a published release with its manifest; returns what is wrong (nothing: all is well)."""
    where = resolve(url)
    manifest = read_manifest(where)
    problems = []
    documents = manifest.get("documents", [])
    listed = {entry["name"] for entry in [*manifest["files"], *documents]}
    present = {path.rstrip("/").rsplit("/", 1)[-1] for path in where.filesystem.ls(where.root, detail=False)}
    problems += [f"{name}: not in the manifest" for name in sorted(present - listed - {MANIFEST})]
    for entry in [*manifest["files"], *documents]:
        name = entry["name"]
        if name not in present:
            problems.append(f"{name}: missing")
        elif sha256(where.path(name), where.filesystem) != entry["sha256"]:
            problems.append(f"{name}: SHA-256 differs from the manifest")
        elif entry not in documents:
            problems += _check_parquet(where, entry, manifest)
    return problems


def _check_parquet(where: Place, entry: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    with where.filesystem.open(where.path(entry["name"]), "rb") as handle:
        parquet = pq.ParquetFile(handle)
        schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
    found = []
    if describe_schema(schema) != manifest["schema"]:
        found.append(f"{entry['name']}: its schema differs from the manifest")
    if rows != entry["rows"]:
        found.append(f"{entry['name']}: {rows} rows, the manifest says {entry['rows']}")
    return found


def describe_schema(schema: pa.Schema) -> list[dict[str, Any]]:
    """Name, type and nullability of each column, as the manifest writes them."""
    return [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema]


def prune(url: str, keep: int = 1) -> list[str]:
    """Delete all but the newest `keep` versions and the steward's reports of them; the current one always stays.

    Returns
    -------
    list of str
        The deleted versions.
    """
    where = place(url)
    current = resolve(url).root.rstrip("/").rsplit("/", 1)[-1]
    found = sorted(
        path.rstrip("/").rsplit("/", 1)[-1] for path in where.filesystem.ls(where.path("versions"), detail=False)
    )
    others = [version for version in found if version != current]
    doomed = others[: max(0, len(others) - max(0, keep - 1))]
    for version in doomed:
        where.filesystem.rm(where.path("versions", version), recursive=True)
        forget_private(where, version)
    return doomed
