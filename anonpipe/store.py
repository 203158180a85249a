"""The private staging of one run: arrays in zarr, receipts in JSON, nothing readable by others.

A `Shelf` is one zarr array of rows, divided into regions; one task writes one
region, once. Regions start at chunk borders, because two writers in one chunk
lose rows silently. Completeness is told by receipts, never by the array: an
unwritten chunk reads as NaN without an error.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import zarr
from platformdirs import user_cache_path
from zarr.codecs import BloscCodec, Crc32cCodec

from anonpipe.errors import AnonpipeError, BusyError, EngineError, InputError, OutputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_CHUNK_ROWS_MIN, _CHUNK_ROWS_MAX = 1_024, 65_536


def staging_root(chosen: str | None) -> Path:
    """The folder that holds all runs' stagings: the job's, `ANONPIPE_STAGING`, or the user's cache folder."""
    named = chosen or os.environ.get("ANONPIPE_STAGING")
    return Path(named) if named else user_cache_path("anonpipe") / "staging"


def make_private(folder: Path) -> Path:
    """Create `folder` so that only its owner can look inside (0700)."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        reason = _reason(error)
    else:
        return folder
    raise OutputError(f"the staging folder {folder} cannot be made: {reason}; set run.staging or ANONPIPE_STAGING")


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else "unknown reason"


def write_atomic(path: Path, content: bytes) -> None:
    """Write a whole file (0600), then rename it: a reader sees all of it or none, and a failure leaves nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically; floats keep all their digits."""
    write_atomic(path, json.dumps(content).encode())


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(path.read_bytes())


@dataclass(frozen=True)
class Receipts:
    """The receipts of one stage: `path/<index>.json`, one a finished task."""

    path: Path

    def has(self, index: int) -> bool:
        """Whether task `index` has finished."""
        return (self.path / f"{index}.json").exists()

    def done(self, count: int) -> set[int]:
        """The indices below `count` that have a receipt."""
        return {index for index in range(count) if self.has(index)}

    def write(self, index: int, receipt: dict[str, Any]) -> None:
        """Record that task `index` has finished."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(self.path / f"{index}.json", receipt)

    def read(self, index: int) -> dict[str, Any]:
        """The receipt of task `index`."""
        receipt: dict[str, Any] = read_json(self.path / f"{index}.json")
        return receipt

    def read_all(self, count: int) -> list[dict[str, Any]]:
        """All receipts in the order of the indices; reductions run in this order."""
        return [self.read(index) for index in range(count)]


@dataclass(frozen=True)
class Shelf:
    """Rows on disk, divided into regions of known length.

    Attributes
    ----------
    path
        Folder of the zarr array, shape (rows of all regions with padding, width).
    starts
        First row of each region; a multiple of the chunk length.
    """

    path: Path
    starts: tuple[int, ...]

    def write(self, region: int, rows: npt.ArrayLike) -> None:
        """Write a whole region at once; repeating it writes the same bytes."""
        values = np.asarray(rows)
        if len(values) == 0:
            return
        start = self.starts[region]
        array = zarr.open_array(str(self.path), mode="r+")
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
        array = zarr.open_array(str(self.path), mode="r")
        start = self.starts[region]
        return np.asarray(array[start + begin : start + end])

    def read_column(self, place: int, region_rows: Sequence[int]) -> FloatArray:
        """One column of all rows, the regions of these lengths below each other, shape (n_rows,)."""
        array = zarr.open_array(str(self.path), mode="r")
        out = np.empty(sum(region_rows))
        at = 0
        for start, rows in zip(self.starts, region_rows, strict=True):
            out[at : at + rows] = array[start : start + rows, place]
            at += rows
        return out

    def write_column(self, place: int, region_rows: Sequence[int], values: FloatArray) -> None:
        """Write one column of all rows; for shelves made `by_column`, whose columns share no chunk.

        Raises
        ------
        ValueError
            The shelf's chunks hold several columns: writers of two of them would lose rows.
        """
        array = zarr.open_array(str(self.path), mode="r+")
        if array.chunks[1] != 1:
            raise ValueError("the columns of this shelf share chunks; make it with by_column=True")
        at = 0
        for start, rows in zip(self.starts, region_rows, strict=True):
            padded = np.full(-(-rows // array.chunks[0]) * array.chunks[0], np.nan)
            padded[:rows] = values[at : at + rows]
            array[start : start + len(padded), place] = padded
            at += rows

    def gather(self, pieces: Sequence[tuple[int, int, int]]) -> npt.NDArray[Any]:
        """The rows of several (region, begin, end) below each other, in the order given."""
        array = zarr.open_array(str(self.path), mode="r")
        total = sum(end - begin for _, begin, end in pieces)
        rows = np.empty((total, *array.shape[1:]), dtype=array.dtype)
        at = 0
        for region, begin, end in pieces:
            start = self.starts[region]
            rows[at : at + end - begin] = array[start + begin : start + end]
            at += end - begin
        return rows


def create_shelf(
    path: Path, region_rows: Sequence[int], width: int | None, dtype: str, pieces: int = 1, by_column: bool = False
) -> Shelf:
    """Make an empty shelf, or the same one again.

    Parameters
    ----------
    region_rows
        Length of each region.
    width
        Columns, or None for one plain column.
    pieces
        In how many pieces a region will typically be read; sets the chunk length.
    by_column
        Whether every column has chunks of its own, to be written and read alone.
    """
    chunk = _chunk_rows(max(region_rows, default=1), pieces)
    padded = [-(-rows // chunk) * chunk for rows in region_rows]
    starts = tuple(int(start) for start in np.concatenate([[0], np.cumsum(padded[:-1])]))
    total = max(chunk, sum(padded))
    floating = np.issubdtype(np.dtype(dtype), np.floating)
    if not (path / "zarr.json").exists():
        zarr.create_array(
            str(path),
            shape=(total,) if width is None else (total, width),
            chunks=(chunk,) if width is None else (chunk, 1 if by_column else width),
            dtype=dtype,
            fill_value=np.nan if floating else -1,
            compressors=[BloscCodec(cname="lz4", shuffle="shuffle"), Crc32cCodec()],
            overwrite=True,
        )
    return Shelf(path, starts)


def _chunk_rows(region_rows: int, pieces: int) -> int:
    wanted = max(1, region_rows // max(1, pieces))
    return int(min(_CHUNK_ROWS_MAX, max(_CHUNK_ROWS_MIN, 1 << (wanted.bit_length() - 1))))


@dataclass(frozen=True)
class Staging:
    """Paths inside the staging folder of one run."""

    root: Path

    def receipts(self, stage: str) -> Receipts:
        """The receipts of a stage."""
        return Receipts(self.root / "receipts" / stage)

    def folder(self, name: str) -> Path:
        """A private folder inside the staging."""
        return make_private(self.root / name)

    def file(self, name: str) -> Path:
        """A file inside the staging."""
        return self.root / name

    @property
    def key(self) -> bytes:
        """The run's key."""
        return self.file("run.key").read_bytes()


@contextlib.contextmanager
def lock(staging: Staging) -> Iterator[None]:
    """Hold the run's lock; it is released by the kernel when the process dies.

    Raises
    ------
    BusyError
        Another live process holds it.
    """
    handle = _try_lock(staging.root)
    if handle is None:
        raise BusyError(f"another process is running this job (staging {staging.root}); wait for it, or stop it first")
    try:
        yield
    finally:
        handle.close()


def _lock_path(root: Path) -> Path:
    """Beside the run's folder, so that deleting the folder keeps the lock."""
    return root.with_name(f"{root.name}.lock")


def _try_lock(root: Path) -> IO[str] | None:
    path = _lock_path(root)
    while True:
        handle = open(path, "w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        except OSError:
            handle.close()
            return None
        handle.close()  # its holder deleted the file between our opening and locking it: take the new one


def remove(staging: Staging) -> None:
    """Delete the staging and its lock file."""
    shutil.rmtree(staging.root, ignore_errors=True)
    _lock_path(staging.root).unlink(missing_ok=True)
    if staging.root.exists():
        raise OutputError(
            f"the staging {staging.root} could not be deleted whole; it holds raw data: delete it by hand"
        )


def purge(root: Path, dry_run: bool = False) -> list[Path]:
    """Delete the stagings of crashed runs below `root`; those of live runs stay.

    Returns
    -------
    list of Path
        What was (or with `dry_run` would be) deleted.
    """
    if not root.is_dir():
        return []
    gone = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and _is_staging(path)):
        handle = _try_lock(folder)
        if handle is None:
            continue
        if not dry_run:
            remove(Staging(folder))
        gone.append(folder)
        handle.close()
    return gone


def _is_staging(folder: Path) -> bool:
    """Whether a run made this folder: it has a lock beside it, or its first file in it."""
    return _lock_path(folder).exists() or (folder / "run.json").exists()


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn a full or unwritable disk into one clear error, and lost files into another."""
    try:
        yield
    except OSError as error:
        explained = disk_error(error, what)
    else:
        return
    raise explained


def disk_error(error: OSError, what: str) -> AnonpipeError:
    """What an error of the file system means for the user."""
    code, name = error.errno, error.filename
    if code in (errno.ENOSPC, errno.EDQUOT):
        return OutputError(
            f"the disk is full while {what}; free space or set run.staging to a larger disk, then --resume"
        )
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return OutputError(f"no permission to write {name} while {what}; choose another folder")
    if code == errno.ENOENT:
        return InputError(f"the file {name} disappeared while {what}")
    return EngineError(f"{os.strerror(code) if code else 'unknown I/O error'} while {what}")
