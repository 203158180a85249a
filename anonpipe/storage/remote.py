"""File systems that are no disk of this machine: their errors are OSErrors here, and no bucket is made by writing.

What their libraries raise is often no OSError (botocore's errors of connections
and of missing credentials, say), and its text may hold addresses with keys:
only its type is told.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from functools import wraps
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from anonpipe.errors import AnonpipeError
from anonpipe.files import StorageError

# Protocols of stores without folders, where making one would make the bucket that a typing error names
_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "obs", "r2"}

_UNDERSTOOD = (AnonpipeError, StorageError, TypeError, ValueError, NotImplementedError)
_TELLING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


@contextlib.contextmanager
def as_os_errors() -> Iterator[None]:
    """Whatever a library raises leaves as an OSError without its text, or as what callers understand already."""
    try:
        yield
        return
    except (*_UNDERSTOOD, *_TELLING):
        raise
    except OSError as error:
        if error.errno and error.errno != errno.EIO:  # which drivers say of anything
            raise
        kind = type(error.__cause__ or error).__name__
    except Exception as error:
        kind = type(error).__name__
    raise StorageError(f"the storage does not answer, or refuses ({kind})")


def telling(filesystem: Any) -> Any:
    """A file system of fsspec whose errors can be told: a disk of this machine as it is."""
    return filesystem if isinstance(filesystem, LocalFileSystem) else Remote(filesystem)


class _Telling:
    """What a library gives, as it is but for its errors."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._given, name)
        return _guarded(found) if callable(found) else found


class Remote(_Telling):
    """A file system of fsspec as it is, but for its errors and for folders that it does not need."""

    def __init__(self, filesystem: Any) -> None:
        super().__init__(filesystem)
        given = filesystem.protocol
        self.protocols = {given} if isinstance(given, str) else set(given)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a folder where there are folders."""
        if not self.protocols & _BUCKETS:
            with as_os_errors():
                self._given.makedirs(path, exist_ok=exist_ok)

    def open(self, path: str, mode: str = "rb") -> Any:
        """A file whose errors are OSErrors, too."""
        with as_os_errors():
            return _RemoteFile(self._given.open(path, mode))


class _RemoteFile(_Telling):
    def __enter__(self) -> _RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        with as_os_errors():
            self._given.close()


def _guarded(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with as_os_errors():
            return function(*args, **kwargs)

    return call
