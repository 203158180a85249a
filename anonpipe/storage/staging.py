"""The private staging of one run: arrays in zarr, task results in JSON, nothing readable by others.

Every file is sealed (see `anonpipe.storage.sealed`): what is damaged, missing or of another run is an error when it is
read. A `StagedArray` is one zarr array of rows, divided into regions; one task writes one region, once. Regions start
at chunk borders, because two writers in one chunk lose rows silently. A task result says that a task has finished, and
tells the digests of all that it wrote; it is written when that has reached the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt
import zarr
from platformdirs import user_cache_path
from pydantic_core import from_json, to_json
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import BloscCodec
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.common import AccessModeLiteral
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import LocalStore, StorePath

from anonpipe.errors import BusyError, OutputError
from anonpipe.files import NO_LOCKS, make_private, try_lock, write_atomic
from anonpipe.storage import sealed
from anonpipe.storage.records import from_bytes, to_bytes
from anonpipe.types import FloatArray

_Record = TypeVar("_Record")

_CHUNK_ROWS_MIN, _CHUNK_ROWS_MAX = 1_024, 65_536

zarr.config.set({"array.write_empty_chunks": True})  # so that a missing chunk is an error

COPIES = "copies"  # The folder of what several copies of a release do not share
_GONE = ".gone"
_NAMED = re.compile(r"([0-9a-f]{16}|(memory|compare|plan|query)-[0-9a-f]{16})(\.[0-9a-f]+)*(\.gone)?")


def staging_root(chosen: str | None) -> Path:
    """The folder that holds all runs' stagings: the job's, `ANONPIPE_STAGING`, or the user's cache folder."""
    named = chosen or os.environ.get("ANONPIPE_STAGING")
    folder = Path(named) if named else user_cache_path("anonpipe") / "staging"
    return folder if _ours(folder) else folder / f"anonpipe-{os.getuid()}"


def _ours(folder: Path) -> bool:
    """Whether a folder is missing or private to this user; permissions of other folders are not changed."""
    try:
        status = folder.stat()
    except OSError:
        return True
    if status.st_uid == os.getuid() and status.st_mode & 0o077 == 0:
        return True
    if (folder / f"anonpipe-{os.getuid()}").is_symlink():
        raise OutputError(
            f"the staging folder {folder}/anonpipe-{os.getuid()} is a link, which is not followed; delete it, or set "
            "run.staging or ANONPIPE_STAGING"
        )
    return False


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically; floats keep all their digits."""
    write_atomic(path, to_json(content, inf_nan_mode="constants"))


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return from_json(path.read_bytes())


@dataclass(frozen=True)
class Staging:
    """The staging folder of one run, for one start of it."""

    root: Path  # The folder
    start: str | None = None  # The start that writes; None where there is only one
    # Which of several copies of a release it is of, from 1; 0 for what they share. A copy sees what it does not have
    # itself as all share it; what is not shared is seen as the first copy has it.
    copy: int = 0

    def results(self, stage: str) -> TaskResults:
        """The task results of a stage."""
        return TaskResults(self, stage)

    def own(self, name: str) -> str:
        """The name of a file of this copy, as it is written."""
        return f"{COPIES}/{self.copy}/{name}" if self.copy else name

    def seen(self, name: str) -> str:
        """The name of the file that is read."""
        own, other = self.own(name), name if self.copy else f"{COPIES}/1/{name}"
        exists = os.path.exists
        return other if not exists(f"{self.root}/{own}") and exists(f"{self.root}/{other}") else own

    def file(self, name: str) -> Path:
        """A file inside the staging."""
        return self.root / self.seen(name)

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return self.file(name).exists()

    def write(self, name: str, content: sealed.Content) -> None:
        """Write a sealed file, whole or not at all; see `sealed.write`."""
        sealed.write(self.root, self.start, self.own(name), content)

    def read(self, name: str) -> memoryview:
        """The content of a sealed file; see `sealed.read`."""
        return sealed.read(self.root, self.seen(name))

    def renamed(self, name: str) -> contextlib.AbstractContextManager[Path]:
        """A draft that becomes the file `name`, unsealed, at the end; see `sealed.renamed`."""
        return sealed.renamed(self.root, self.start, name)

    def checked(self, name: str) -> Path:
        """The path of a verified sealed file, for memory mapping; the seal follows the content."""
        self.read(name)
        return self.file(name)

    def write_json(self, name: str, content: Any) -> None:
        """Write JSON; floats keep all their digits."""
        self.write(name, to_json(content, inf_nan_mode="constants"))

    def read_json(self, name: str) -> Any:
        """Read what `write_json` wrote."""
        return from_json(bytes(self.read(name)))

    def write_record(self, name: str, record: Any) -> None:
        """Write a record; see `anonpipe.storage.records`."""
        self.write(name, to_bytes(record))

    def read_record(self, name: str, *kinds: type) -> Any:
        """Read what `write_record` wrote; `kinds` are the allowed classes."""
        return from_bytes(self.read(name), kinds)

    def read_one(self, name: str, kind: type[_Record], *parts: type) -> _Record:
        """Read a record of one class, whose fields may be of the others."""
        record: _Record = self.read_record(name, kind, *parts)
        return record

    def write_array(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write one array."""
        out = io.BytesIO()
        np.save(out, array)
        self.write(name, out.getbuffer())

    def read_array(self, name: str) -> npt.NDArray[Any]:
        """Read what `write_array` wrote."""
        return np.asarray(np.load(io.BytesIO(self.read(name)), allow_pickle=False))

    @property
    def key(self) -> bytes:
        """The run's key."""
        return bytes(self.read("run.key"))


@dataclass(frozen=True)
class TaskResults:
    """The task results of one stage: `results/<stage>/<index>.record`, one a finished task."""

    staging: Staging
    stage: str

    def name(self, index: int) -> str:
        """The file of a task result."""
        return f"results/{self.stage}/{index}.record"

    def has(self, index: int) -> bool:
        """Whether task `index` has finished."""
        return self.staging.has(self.name(index))

    def done(self, count: int) -> set[int]:
        """The indices below `count` that have a task result."""
        return {index for index in range(count) if self.has(index)}

    def write(self, index: int, result: dict[str, Any], files: Mapping[str, str] | None = None) -> None:
        """Record that a task has finished, after its sealed files have reached the disk."""
        sealed.sync_folders(self.staging.root, files or ())
        self.staging.write_record(self.name(index), {**result, "files": dict(files or {})})
        sealed.sync_folders(self.staging.root, [self.staging.own(self.name(index))])

    def read(self, index: int, *kinds: type) -> dict[str, Any]:
        """The result of a task; records of `kinds` as objects, others as dictionaries."""
        result: dict[str, Any] = from_bytes(self.staging.read(self.name(index)), kinds or None)
        return result

    def read_all(self, count: int, *kinds: type) -> list[dict[str, Any]]:
        """All task results in the order of the indices, in which reductions run."""
        return [self.read(index, *kinds) for index in range(count)]


class SealedChunks(LocalStore):
    """The sealed files of one zarr array; a missing chunk is an error."""

    def __init__(self, staging: Staging, name: str, *, read_only: bool = False) -> None:
        super().__init__(staging.file(name), read_only=read_only)
        self.staging, self.name = staging, name

    def with_read_only(self, read_only: bool = False) -> SealedChunks:
        """The same files, to be written or not."""
        return type(self)(self.staging, self.name, read_only=read_only)

    async def _open(self, *, mode: AccessModeLiteral | None = None) -> None:
        await Store._open(self)  # makes no folder: the staging may have been removed

    def _ensure_open_sync(self) -> None:
        self._is_open = True

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The content of a file; None for metadata that is not there."""
        if byte_range is not None:
            raise NotImplementedError("a sealed file is read whole")
        if not key.startswith("c/") and not self.staging.has(f"{self.name}/{key}"):
            return None
        kind = prototype or default_buffer_prototype()
        return kind.buffer.from_bytes(self.staging.read(f"{self.name}/{key}"))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write a file."""
        self._check_writable()
        self.staging.write(f"{self.name}/{key}", memoryview(value.as_buffer_like()))

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """As `get_sync`."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        """As `set_sync`."""
        await asyncio.to_thread(self.set_sync, key, value)


@lru_cache(maxsize=64)
def _metadata(content: bytes) -> ArrayV3Metadata:
    """What zarr takes a millisecond to read, and a run asks for at every block of rows."""
    return ArrayV3Metadata.from_dict(json.loads(content))


@dataclass(frozen=True)
class StagedArray:
    """Rows on disk, divided into regions of known length."""

    staging: Staging  # Where the zarr array lies, of shape (rows of all regions with padding, width)
    name: str
    starts: tuple[int, ...]  # First row of each region; a multiple of the chunk length

    def _array(self) -> Any:
        # As zarr.open_array, which goes to another thread and back for these few bytes.
        metadata = _metadata(bytes(self.staging.read(f"{self.name}/zarr.json")))
        return zarr.Array(zarr.AsyncArray(metadata, StorePath(SealedChunks(self.staging, self.name))))

    def write(self, region: int, rows: npt.ArrayLike) -> None:
        """Write a whole region at once; repeating it writes the same bytes."""
        values = np.asarray(rows)
        if len(values) == 0:
            return
        start, array = self.starts[region], self._array()
        chunk = array.chunks[0]
        filled = len(values) - len(values) % chunk
        if filled:
            array[start : start + filled] = values[:filled]
        if filled < len(values):  # the region's last chunk is its own, up to its end
            tail = np.full((chunk, *array.shape[1:]), array.fill_value, dtype=array.dtype)
            tail[: len(values) - filled] = values[filled:]
            array[start + filled : start + filled + chunk] = tail

    def read(self, region: int, begin: int, end: int) -> npt.NDArray[Any]:
        """Rows begin..end of a region."""
        start = self.starts[region]
        return np.asarray(self._array()[start + begin : start + end])

    def read_column(self, place: int, region_rows: Sequence[int]) -> FloatArray:
        """One column of all rows, the regions of these lengths below each other, shape (n_rows,)."""
        array, out, at = self._array(), np.empty(sum(region_rows)), 0
        for start, rows in zip(self.starts, region_rows, strict=True):
            out[at : at + rows] = array[start : start + rows, place]
            at += rows
        return out

    def write_column(self, place: int, region_rows: Sequence[int], values: FloatArray) -> None:
        """Write one column of all rows; for staged arrays made `by_column`, whose columns share no chunk."""
        array, at = self._array(), 0
        if array.chunks[1] != 1:
            raise ValueError("the columns of this staged array share chunks; make it with by_column=True")
        for start, rows in zip(self.starts, region_rows, strict=True):
            padded = np.full(-(-rows // array.chunks[0]) * array.chunks[0], np.nan)
            padded[:rows] = values[at : at + rows]
            array[start : start + len(padded), place] = padded
            at += rows

    def gather(self, pieces: Sequence[tuple[int, int, int]]) -> npt.NDArray[Any]:
        """The rows of several (region, begin, end) below each other, in the order given."""
        array, at = self._array(), 0
        rows = np.empty((sum(end - begin for _, begin, end in pieces), *array.shape[1:]), dtype=array.dtype)
        for region, begin, end in pieces:
            start = self.starts[region]
            rows[at : at + end - begin] = array[start + begin : start + end]
            at += end - begin
        return rows


@lru_cache(maxsize=64)
def _described(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str) -> bytes:
    """The metadata of an empty array, which zarr takes two milliseconds to make; a run has many of one shape."""
    made = zarr.create_array(
        {},
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill_value=np.nan if np.issubdtype(np.dtype(dtype), np.floating) else -1,
        compressors=[BloscCodec(cname="lz4", shuffle="shuffle")],
    )
    return made.metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"].to_bytes()


def create_staged_array(
    staging: Staging,
    name: str,
    region_rows: Sequence[int],
    width: int | None,
    dtype: str,
    pieces: int = 1,
    by_column: bool = False,
) -> StagedArray:
    """Make an empty staged array, or open the existing one with its content."""
    wanted = max(1, max(region_rows, default=1) // max(1, pieces))
    chunk = min(_CHUNK_ROWS_MAX, max(_CHUNK_ROWS_MIN, 1 << (wanted.bit_length() - 1)))
    padded = [-(-rows // chunk) * chunk for rows in region_rows]
    starts = tuple(int(start) for start in np.concatenate([[0], np.cumsum(padded[:-1])]))
    total = max(chunk, sum(padded))
    if not staging.has(f"{name}/zarr.json"):
        shape = (total,) if width is None else (total, width)
        chunks = (chunk,) if width is None else (chunk, 1 if by_column else width)
        staging.write(f"{name}/zarr.json", _described(shape, chunks, dtype))
    return StagedArray(staging, name, starts)


@contextlib.contextmanager
def lock(staging: Staging) -> Iterator[None]:
    """Hold the run's lock, which the kernel releases when the process dies."""
    handle = _try_lock(staging.root)
    if handle is None:
        raise BusyError(f"another process is running this job (staging {staging.root}); wait for it, or stop it first")
    try:
        yield
    finally:
        handle.close()


@contextlib.contextmanager
def scratch(what: str, chosen: str | None) -> Iterator[Path]:
    """A private folder in the staging, deleted at the end, or purged after a crash."""
    staging = Staging(make_private(staging_root(chosen)) / f"{what}-{secrets.token_hex(8)}")
    with lock(staging):
        try:
            yield make_private(staging.root)
        finally:
            remove(staging)


def _job_of(root: Path) -> str:
    """The part of a folder's name that is the same for all runs of a job."""
    return root.name.partition(".")[0]


def _lock_path(root: Path) -> Path:
    """The lock file of a job, outside its folders: deleting a folder keeps the lock."""
    return root.with_name(f"{_job_of(root)}.lock")


def _try_lock(root: Path) -> IO[bytes] | None:
    try:
        return try_lock(_lock_path(root))
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return None


def new_root(folder: Path, job: str) -> Path:
    """A new folder name, so that late tasks of an earlier run cannot write into this one."""
    return folder / f"{job}.{secrets.token_hex(8)}"


def roots_of(folder: Path, job: str) -> list[Path]:
    """The folders of all runs of a job below `folder`, including half-removed ones."""
    there = folder.iterdir() if folder.is_dir() else ()  # no run has been before
    return sorted(path for path in there if path.is_dir() and _job_of(path) == job)


def is_gone(root: Path) -> bool:
    """Whether a folder is half removed."""
    return root.name.endswith(_GONE)


def remove(staging: Staging) -> None:
    """Delete the staging and its lock file."""
    delete(staging.root)
    _lock_path(staging.root).unlink(missing_ok=True)


def delete(root: Path) -> None:
    """Delete the folder of a run, renamed first, so that tasks that are still at work no longer find it."""
    if root.exists() and not is_gone(root):
        with contextlib.suppress(OSError):
            root = root.rename(root.with_name(f"{root.name}.{secrets.token_hex(4)}{_GONE}"))
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():
        raise OutputError(f"the staging {root} could not be deleted whole; it holds raw data: delete it by hand")


def purge(root: Path, dry_run: bool = False, days: float = 0.0, but: str | None = None) -> list[Path]:
    """Delete the stagings of crashed runs below `root`; those of live runs stay."""
    if not root.is_dir():
        return []
    gone = []
    for folder in sorted(filter(Path.is_dir, root.iterdir())):
        if not (_NAMED.fullmatch(folder.name) or _lock_path(folder).exists() or (folder / "run.json").exists()):
            continue  # no run made it
        if _job_of(folder) == but or not _idle_for(folder, days) or (handle := _try_lock(folder)) is None:
            continue
        if not dry_run:
            remove(Staging(folder))
        gone.append(folder)
        handle.close()
    for path in () if dry_run else root.glob("*.lock"):  # that no process holds and no folder needs
        if not roots_of(root, path.stem) and (handle := _try_lock(root / path.stem)) is not None:
            path.unlink(missing_ok=True)
            handle.close()
    return gone


def _idle_for(folder: Path, days: float) -> bool:
    """Whether nothing was written to a staging for some days."""
    try:
        newest = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return False
    return time.time() - newest >= days * 86_400
