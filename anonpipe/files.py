"""Files that are there whole or not at all, their locks, and what errors of the disk mean."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from anonpipe.errors import AnonpipeError, EngineError, InputError, OutputError

if TYPE_CHECKING:
    from jinja2 import Environment

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL}  # What a file system without locks answers
FULL = (errno.ENOSPC, errno.EDQUOT)
_KINDS = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}


class StorageError(OSError):
    """An error of a remote storage in words without data; it has no errno."""


def absolute(path: str) -> str:
    """A path from the root on; a URL as it is."""
    return path if "://" in path else os.path.abspath(path)


def write_atomic(path: Path, content: bytes | memoryview, private: bool = True) -> None:
    """Write a file, whole or not at all: a reader sees all of it or none, and a failure leaves nothing."""
    with drafted(path, private) as draft:
        draft.write_bytes(content)


def templates(folder: Path, **options: Any) -> Environment:
    """The templates of a folder, in which lines of tags alone leave nothing and unknown names are errors."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(folder)
    return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options)


@contextlib.contextmanager
def drafted(
    path: Path, private: bool = True, *, place: Callable[[Path, Path], object] | None = None, sync: bool = True
) -> Iterator[Path]:
    """A synced draft in the same folder that is renamed to `path` at the end."""
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
    """The reason of an error in the system's words, without texts of libraries."""
    if isinstance(error, StorageError):
        return str(error)
    if error.errno:
        return os.strerror(error.errno)
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, FileNotFoundError):
        return "there is no such folder or bucket"
    return "the storage refuses"


def need(what: str, extra: str, *packages: str) -> None:
    """Refuse what is done by packages that are not installed; an extra of anonpipe brings them."""
    if missing := next((name for name in packages if find_spec(name) is None), None):
        package = missing.replace("_", "-")
        raise InputError(f"{what} by {package}, which is not installed: pip install 'anonpipe[{extra}]'")


@contextlib.contextmanager
def private_umask() -> Iterator[None]:
    """Files made here are for their owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def explained(
    problem: str, remedy: str, kind: type[AnonpipeError] = OutputError, of: type[OSError] = OSError
) -> Iterator[None]:
    """Turn errors of the file system into the user's: what cannot be done, why, and what helps."""
    try:
        yield
    except of as error:
        raise kind(f"{problem}: {why(error)}; {remedy}") from None


def make_private(folder: Path) -> Path:
    """Create `folder` so that only its owner can look inside (0700)."""
    with explained(f"the staging folder {folder} cannot be made", "set run.staging or ANONPIPE_STAGING"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    return folder


def sync_path(path: Path) -> None:
    """Bring a file's content, or a folder's names, to the disk: they outlive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(path: Path) -> IO[bytes] | None:
    """The lock file, held until it is closed; None where another process holds it."""
    while True:
        handle = open(path, "ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BlockingIOError:
            handle.close()
            return None
        except BaseException:
            handle.close()
            raise
        handle.close()  # its holder deleted the file between our opening and locking it: take the new one


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn a full or unwritable disk into one clear error, and lost files into another."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, what) from None


def disk_error(error: BaseException, what: str) -> AnonpipeError:
    """The user's error for an error of the filesystem."""
    code, name = system_code(error), getattr(error, "filename", None)
    if code in FULL:
        return OutputError(
            f"the disk is full while {what}; free space or set run.staging to a larger disk, then "
            "--resume; or delete the working files, which hold original values: anonpipe purge"
        )
    if code == errno.EFBIG:
        return OutputError(f"a file grew beyond the limit of this account (ulimit -f) while {what}; raise the limit")
    if code == errno.ENAMETOOLONG:
        return OutputError(f"the name of a file or folder is too long while {what}; give a shorter path")
    if code in (errno.EMFILE, errno.ENFILE):
        return OutputError(f"too many files are open while {what}; raise the limit (ulimit -n) or give fewer workers")
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return OutputError(f"no permission to write {name or 'a file'} while {what}; choose another folder")
    if code == errno.ENOENT:
        return InputError(f"the file {name} disappeared while {what}" if name else f"a file disappeared while {what}")
    return EngineError(f"{os.strerror(code) if code else 'unknown I/O error'} while {what}")


def system_code(error: BaseException) -> int | None:
    """The errno of an error; Arrow has it only in its text, other libraries in a cause."""
    link: BaseException | None = error
    while link is not None:
        number = re.search(r"\[errno (\d+)\]", str(link), re.IGNORECASE)
        kind = next((code for kind, code in _KINDS.items() if isinstance(link, kind)), None)
        code = (getattr(link, "errno", None) if isinstance(link, OSError) else None) or (
            int(number[1]) if number else kind
        )
        if code:
            return int(code)
        link = link.__cause__ or link.__context__
    return None
