"""Sealed files of a staging: whole, in their place, and written by the current start of the run.

A sealed file ends with a keyed digest (HMAC-SHA256) of its name and its content. The key follows from the steward's
secret and the name of the folder, which is new for every run. So a reader notices a changed byte, a file in the place
of another, and a file of another run. A missing file is an error, never an empty value.

Only one start of a run may write. A task of an earlier start, whose driver was killed, may still be at work: each write
first looks whether the folder is there, which nothing here makes again, and names the task's own start.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path, PurePosixPath

from anonpipe.errors import DamagedError, EngineError
from anonpipe.files import drafted, sync_path
from anonpipe.rng import keyed

Content = bytes | memoryview

KEY = "seal.key"
START = "start"  # The file that names the start which may write
_TRAILER = 1 + 2 * hashlib.sha256().digest_size  # a line feed and hexadecimal digits

_written: ContextVar[dict[str, str] | None] = ContextVar("files written", default=None)


@contextlib.contextmanager
def recorded() -> Iterator[dict[str, str]]:
    """Collect names and digests of the files sealed in the block, also by its threads."""
    files: dict[str, str] = {}
    token = _written.set(files)
    try:
        yield files
    finally:
        _written.reset(token)


def make_key(root: Path, secret: bytes) -> bytes:
    """The key of a folder's seals."""
    return keyed(secret, "seal", root.name)


def write(root: Path, start: str | None, name: str, content: Content) -> None:
    """Write a sealed file, whole or not at all."""
    digest = _digest(root, name, content)
    with renamed(root, start, name) as draft, open(draft, "wb") as out:
        out.write(content)
        out.write(b"\n" + digest.encode())
    if (files := _written.get()) is not None:
        files[name] = digest


@contextlib.contextmanager
def renamed(root: Path, start: str | None, name: str) -> Iterator[Path]:
    """A draft that is renamed to `name` at the end, if its start is current; a failure leaves nothing."""
    check_start(root, start)
    if not (root / name).parent.is_dir():
        for parent in reversed(PurePosixPath(name).parents[:-1]):  # never the staging itself: it may have been removed
            with contextlib.suppress(FileExistsError):
                (root / parent).mkdir(mode=0o700)
                sync_path(root / parent.parent)

    def place(draft: Path, path: Path) -> None:
        check_start(root, start)
        draft.replace(path)

    with drafted(root / name, place=place, sync=False) as draft:
        yield draft


def check_start(root: Path, start: str | None) -> None:
    """Refuse to write for a start that is over."""
    if start is None:
        return
    current = None
    with contextlib.suppress(FileNotFoundError):
        current = _bytes_of(root, START)
    if current != start.encode():
        raise EngineError("the run was started again, or its staging removed: this start writes nothing more")


def read(root: Path, name: str) -> memoryview:
    """The content of a sealed file."""
    return _read(root, name)[0]


def _read(root: Path, name: str) -> tuple[memoryview, str]:
    try:
        raw = memoryview(_bytes_of(root, name))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise DamagedError(
            f"the staging is damaged: {name} is missing; run again, and the run starts from the input"
        ) from None
    content, trailer = raw[:-_TRAILER], bytes(raw[-_TRAILER:])
    digest = _digest(root, name, content)
    if len(trailer) != _TRAILER or not hmac.compare_digest(trailer, b"\n" + digest.encode()):
        raise DamagedError(
            f"the staging is damaged: {name} is not what was written; run again, and the run starts from the input"
        )
    return content, digest


def _bytes_of(root: Path, name: str) -> bytes:
    """As `Path.read_bytes` at a third of its time, which a small run spends a hundred times."""
    with open(f"{root}/{name}", "rb", buffering=0) as file:
        return file.readall()


def _digest(root: Path, name: str, content: Content) -> str:
    seal = hmac.new(_key(root), name.encode() + b"\0", hashlib.sha256)
    seal.update(content)
    return seal.hexdigest()


@functools.lru_cache(maxsize=64)
def _key(root: Path) -> bytes:
    """A worker's copy of the key; the secret stays with the driver."""
    try:
        return (root / KEY).read_bytes()
    except FileNotFoundError:
        raise EngineError("the staging of the run was removed: this start writes nothing more") from None


def sync_folders(root: Path, names: Iterable[str]) -> None:
    """Sync the folders of these files, so that their names reach the disk."""
    for folder in {PurePosixPath(name).parent for name in names}:
        sync_path(root / folder)


def digests(root: Path, passed_over: set[str]) -> dict[str, str] | None:
    """Names and digests of all sealed files, drafts deleted; None where one of them is damaged."""
    sealed: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.parts[0] in passed_over or not path.is_file():
            continue
        if path.name.startswith("."):
            path.unlink()  # of a write that was killed
            continue
        try:
            sealed[name.as_posix()] = _read(root, name.as_posix())[1]
        except DamagedError:
            return None
    return sealed
