"""Files that are there whole or not at all, and what brings them to the disk."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path


class StorageError(OSError):
    """What a storage elsewhere did not do, in words without data; it has no number of the system."""


def write_atomic(path: Path, content: bytes | memoryview, private: bool = True) -> None:
    """Write a file, whole or not at all: a reader sees all of it or none, and a failure leaves nothing."""
    with drafted(path, private) as draft:
        draft.write_bytes(content)


@contextlib.contextmanager
def drafted(
    path: Path,
    private: bool = True,
    *,
    place: Callable[[Path, Path], object] | None = None,
    sync: bool = True,
) -> Iterator[Path]:
    """A draft beside `path` that takes its name at the end, on the disk by then."""
    if path.exists() and not path.is_file():  # a device or a pipe, which must not be replaced
        yield path
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))
    try:
        yield draft
        sync_path(draft)
        (place or os.replace)(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    if sync:
        sync_path(path.parent)


def why(error: OSError) -> str:
    """What the system, or a storage elsewhere, says: its own words for its own numbers, and no text of a library.

    Examples
    --------
    >>> why(OSError(28, "of a library")), why(PermissionError("of a library"))
    ('No space left on device', 'permission denied')
    """
    if isinstance(error, StorageError):
        return str(error)
    if error.errno:
        return os.strerror(error.errno)
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, FileNotFoundError):
        return "there is no such folder or bucket"
    return "the storage refuses"


def sync_path(path: Path) -> None:
    """Bring a file's content, or a folder's names, to the disk: they outlive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
