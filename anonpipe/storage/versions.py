"""The versions of an output: their order, the pointers to the current one, and the lock under which they change.

    output/versions/v000012-5d1c09aa/   a version; the number counts publications, so no clock orders them
    output/versions/.v000013-…          a draft, or what remains of a version that is being deleted
    output/versions/.pending            the version that is being published, until a pointer leads to it
    output/CURRENT, output/release      the pointers
    output/.lock                        exists while a process publishes or prunes

With the lock held exclusively, any draft, pending version or probe that is present belongs to a run that died, and is
deleted. A version is deleted under a hidden name, and never while a pointer leads to it. So readers see whole versions
only, and a death at any step leaves nothing that the next run does not clean up. Object stores and their errors are at
the end.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from fsspec.implementations.local import LocalFileSystem

from anonpipe import interrupts
from anonpipe.errors import AnonpipeError, BusyError
from anonpipe.files import NO_LOCKS, StorageError, drafted, explained, sync_path, try_lock, write_atomic

MANIFEST = "_manifest.json"  # Readers of Parquet folders pass over names that begin with an underscore
SIGNATURE = "_manifest.json.sig"  # Of the bytes of the manifest, see `anonpipe.storage.release`
POINTER = "CURRENT"
LINK = "release"
FAILED = "failed-verdict.json"
STEWARD = "steward"  # The folder of internal documents, in the output but never in a release
VERSIONS = "versions"
_LOCK, _LEASE, _PENDING = ".lock", ".lease", ".pending"
_COUNTED = re.compile(r"v(\d{6,})-[0-9a-f]{8}")
_WITHDRAWN = re.compile(rf"withdrawn-({_COUNTED.pattern})\.json")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_STRAY = re.compile(
    rf"\.(probe-[0-9a-f]+|({POINTER}|{LINK})-[0-9a-f]+|({POINTER}|{re.escape(FAILED)})\.[0-9a-f]+(\.draft)?)"
)
_STRAY_REPORT = re.compile(r"\..+\.[0-9a-f]+(\.draft)?")

PATIENCE = 600.0  # Seconds to wait for another run that publishes to the same output
BEAT, SILENCE = 10.0, 60.0  # On an object store: seconds between heartbeats, and without one until a run counts as dead

# Locked outputs by URL: the owner of the lease, or None for a lock of the kernel
_HELD: ContextVar[Mapping[str, str | None]] = ContextVar("outputs held here", default=MappingProxyType({}))

# Protocols of stores without folders, where makedirs would create a bucket from a typing error
_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "obs", "r2"}
_UNDERSTOOD = (AnonpipeError, StorageError, TypeError, ValueError, NotImplementedError)
_PASSED_ON = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


@dataclass(frozen=True)
class OutputPlace:
    """An output: a filesystem, a root path, and the place of internal documents if it has its own."""

    filesystem: Any
    root: str
    internal: OutputPlace | None = None

    @property
    def steward(self) -> OutputPlace:
        """The folder of internal documents: its own place, or a folder of the output."""
        return self.internal or OutputPlace(self.filesystem, self.path(STEWARD))

    @property
    def failures(self) -> OutputPlace:
        """The folder of verdicts of failed runs."""
        return self.internal or self

    @property
    def local(self) -> bool:
        """Whether it is on a local disk."""
        return isinstance(self.filesystem, LocalFileSystem)

    def path(self, *parts: str) -> str:
        """A path below the root, as the filesystem takes it."""
        return "/".join([self.root.rstrip("/"), *parts])

    def url(self, *parts: str) -> str:
        """The path for messages, with the protocol unless it is local."""
        path = self.path(*parts)
        return path if self.local else str(self.filesystem.unstrip_protocol(path))


def exists(where: OutputPlace, *parts: str) -> bool:
    """Whether a file exists, without caches; a storage that does not answer is an error."""
    if where.local:
        return os.path.exists(where.path(*parts))
    return parts[-1] in list_names(where, *parts[:-1])


def list_names(where: OutputPlace, *folder: str) -> set[str]:
    """Names in a folder of the output; none if it does not exist."""
    with contextlib.suppress(FileNotFoundError):
        where.filesystem.invalidate_cache(where.path(*folder))
        listed = where.filesystem.ls(where.path(*folder), detail=False)
        return {path.rstrip("/").rsplit("/", 1)[-1] for path in listed}
    return set()


def version_order(version: str) -> tuple[int, str]:
    """Sort key of versions by publication."""
    counted = _COUNTED.fullmatch(version)
    return (int(counted[1]) if counted else 0, version)


def is_version(name: str) -> bool:
    """Whether it is the name of a version."""
    return _COUNTED.fullmatch(name) is not None


def named_version(url: str) -> tuple[str, str | None]:
    """The output, and the name of the version where its folder was given."""
    output, _, name = url.rstrip("/").rpartition("/")
    if not is_version(name):
        return url, None
    return output.removesuffix(VERSIONS).rstrip("/") or ".", name


def list_versions(where: OutputPlace) -> list[str]:
    """The versions of an output in the order of publication."""
    return sorted(filter(is_version, list_names(where, VERSIONS)), key=version_order)


def new_version(where: OutputPlace) -> str:
    """A name for a new version: next number and random digits; call it under the lock."""
    used = {name.lstrip(".") for name in list_names(where, VERSIONS)} | set(pointers(where)) | set(withdrawn(where))
    return f"v{max((version_order(name)[0] for name in used), default=0) + 1:06d}-{secrets.token_hex(4)}"


def is_plain_name(name: str) -> bool:
    """Whether a pointer's content is a plain name, which cannot lead out of the versions."""
    return _PLAIN.fullmatch(name) is not None


def pointers(where: OutputPlace) -> list[str]:
    """The versions that pointers name, the decisive pointer first; they may be missing."""
    linked = None
    if where.local:
        with contextlib.suppress(OSError):
            linked = os.path.basename(os.readlink(where.path(LINK)))
    return [name for name in (linked, _named(where, POINTER)) if name is not None and is_plain_name(name)]


def _named(where: OutputPlace, *parts: str) -> str | None:
    """The name that a file holds; None where it holds none."""
    # Errors that mean a missing file; other errors of a remote storage do not
    with contextlib.suppress(OSError if where.local else FileNotFoundError, UnicodeDecodeError):
        name = where.filesystem.cat_file(where.path(*parts)).decode().strip()
        return name if is_plain_name(name) else None
    return None


def current_version(where: OutputPlace) -> str | None:
    """The version that readers find; None for none."""
    return next((name for name in pointers(where) if exists(where, VERSIONS, name, MANIFEST)), None)


def switch(where: OutputPlace, version: str) -> None:
    """Move the pointers, each in one step (a rename or a put); on a disk all that needs space is made before."""
    refuse_lost_lease(where)
    if not where.local:
        where.filesystem.pipe_file(where.path(POINTER), version.encode())
        return
    draft_link = Path(where.path(f".{LINK}-{secrets.token_hex(4)}"))
    try:
        with drafted(Path(where.path(POINTER)), private=False, sync=False) as draft_pointer:
            draft_pointer.write_text(version)
            draft_link.symlink_to(Path(VERSIONS) / version)
            os.replace(draft_link, where.path(LINK))
    finally:
        with contextlib.suppress(OSError):
            draft_link.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the release is out
        sync_path(Path(where.root))


def unpoint(where: OutputPlace, version: str) -> None:
    """Remove the pointers if they lead to a version, the decisive one last: until then they are restored."""
    if current_version(where) != version:
        return
    refuse_lost_lease(where)
    with contextlib.suppress(FileNotFoundError):
        where.filesystem.rm_file(where.path(POINTER))
    if where.local:
        Path(where.path(LINK)).unlink(missing_ok=True)
        sync_path(Path(where.root))


def withdrawn(where: OutputPlace) -> dict[str, str]:
    """The versions that were withdrawn, and the names of the steward's notes of them."""
    found = {name: _WITHDRAWN.fullmatch(name) for name in list_names(where.steward)}
    return {match[1]: name for name, match in sorted(found.items()) if match is not None}


def withdrawals(where: OutputPlace) -> list[dict[str, str]]:
    """Version, time and reason of what was withdrawn, the oldest first; nothing where they may not be read."""
    found: list[dict[str, str]] = []
    with contextlib.suppress(OSError, ValueError):
        for name in withdrawn(where).values():
            found.append(json.loads(where.steward.filesystem.cat_file(where.steward.path(name))))
    return found


def clear_pending(where: OutputPlace) -> None:
    """Delete the note, once a pointer leads to the version or nothing of it is left."""
    with contextlib.suppress(FileNotFoundError):
        where.filesystem.rm_file(where.path(VERSIONS, _PENDING))


def note_pending(where: OutputPlace, version: str) -> None:
    """Note the version to be published, before anything of it is written."""
    where.filesystem.makedirs(where.path(VERSIONS), exist_ok=True)
    put(where, version.encode(), VERSIONS, _PENDING)


def put(where: OutputPlace, content: bytes, *parts: str) -> None:
    """Write a small file whole; on a disk only its owner can read it."""
    if where.local:
        write_atomic(Path(where.path(*parts)), content)
    else:
        where.filesystem.pipe_file(where.path(*parts), content)


def remove_version(where: OutputPlace, version: str) -> None:
    """Delete a version that no pointer leads to, and the steward's reports of it."""
    hidden = where.path(VERSIONS, f".{version}")
    if where.local:
        with contextlib.suppress(FileNotFoundError):
            os.rename(where.path(VERSIONS, version), hidden)
    else:
        note_pending(where, version)
    forget_private(where, version)
    for path in (hidden, where.path(VERSIONS, version)):
        with contextlib.suppress(FileNotFoundError):
            where.filesystem.rm(path, recursive=True)
    if not where.local:
        clear_pending(where)


def forget_private(where: OutputPlace, run: str) -> None:
    """Delete the documents for the steward of a run; nothing if there are none."""
    for name in list_names(where.steward):
        if name.startswith(f"{run}-"):
            with contextlib.suppress(FileNotFoundError):
                where.steward.filesystem.rm_file(where.steward.path(name))


def _clean(where: OutputPlace) -> None:
    """Clean up after a run that died, under the lock; what cannot be deleted stays, as nothing depends on it."""
    current = current_version(where)
    if current is not None and where.local and pointers(where) != [current, current]:
        with contextlib.suppress(OSError):
            switch(where, current)
    pending, keep = _named(where, VERSIONS, _PENDING), {*pointers(where), current}
    with contextlib.suppress(OSError):
        if pending is not None and pending not in keep:
            remove_version(where, pending)
        clear_pending(where)
    for name in list_names(where, VERSIONS) - {_PENDING}:
        if name.startswith("."):
            with contextlib.suppress(OSError):
                if is_plain_name(name[1:]) and name[1:] not in keep:
                    forget_private(where, name[1:])
                where.filesystem.rm(where.path(VERSIONS, name), recursive=True)
    for folder, stray in ((where, _STRAY), (where.steward, _STRAY_REPORT)):
        for name in filter(stray.fullmatch, list_names(folder)):
            with contextlib.suppress(OSError):
                folder.filesystem.rm_file(folder.path(name))


@contextlib.contextmanager
def exclusive_lock(where: OutputPlace, patience: float = PATIENCE) -> Iterator[None]:
    """Lock an output against all other processes, and clean it up; nested calls count as one."""
    # The steward's own place, with the release log, may serve several outputs: it is locked after the output.
    deadline = time.monotonic() + patience
    if where.url() in _HELD.get():
        yield
        return
    with contextlib.ExitStack() as stack:
        owners: dict[str, str | None] = {}
        with explained(f"the output {where.url()} cannot be written", "correct its permissions or free space"):
            for place in _places(where):
                stack.enter_context(made_folder(place))
                owners[place.url()] = stack.enter_context(_locked(place, deadline))
            _clean(where)
        token = _HELD.set({**_HELD.get(), **owners})
        try:  # a storage elsewhere may fail at any question
            with explained(f"the output {where.url()} cannot be used", "try again, with --resume", of=StorageError):
                yield
        finally:
            _HELD.reset(token)


def _places(where: OutputPlace) -> list[OutputPlace]:
    return [where] if where.internal is None else [where, where.internal]


@contextlib.contextmanager
def made_folder(where: OutputPlace) -> Iterator[None]:
    """Make the output's folder; what was missing is removed again if it stays empty, the innermost first."""
    root = Path(where.root)
    missing = [folder for folder in (root, *root.parents) if where.local and not folder.exists()]
    try:
        where.filesystem.makedirs(where.root, exist_ok=True)
        yield
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def _locked(where: OutputPlace, deadline: float) -> Iterator[str | None]:
    """Hold the lock, or yield the owner of a lease: on an object store, and on disks that know no locks."""
    path = Path(where.path(_LOCK))  # The kernel takes a lock from a process that dies; a lease has signs of life
    handle: IO[bytes] | None = None
    while where.local and handle is None:
        try:
            handle = try_lock(path)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            break
        if handle is None:
            _wait_or_give_up(where, deadline, 0.05)
    if handle is None:
        with _leased(where, deadline) as owner:
            yield owner
        return
    try:
        yield None
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # while it is held: a waiting process then finds that its file is gone
        handle.close()


def _wait_or_give_up(where: OutputPlace, deadline: float, pause: float) -> None:
    if time.monotonic() > deadline:
        raise BusyError(
            f"another run is publishing or pruning at {where.url()}; wait for it, or stop it, then run with --resume"
        )
    interrupts.safe_point()
    time.sleep(pause)


@contextlib.contextmanager
def _leased(where: OutputPlace, deadline: float) -> Iterator[str]:
    """Own the lease object: create it, or take it over from an owner without heartbeat."""
    path, owner = where.path(_LEASE), secrets.token_hex(8)
    seen, since = None, time.monotonic()
    while not create_if_absent(where, path, f"{owner} 0".encode()):
        content = _content(where, path)
        if content != seen:
            seen, since = content, time.monotonic()
        elif content is not None and time.monotonic() - since > SILENCE:
            with contextlib.suppress(FileNotFoundError):
                where.filesystem.rm_file(path)
            continue
        _wait_or_give_up(where, deadline, min(1.0, SILENCE / 10))
    over = threading.Event()
    beats = threading.Thread(target=_beat, args=(where, path, owner, over), daemon=True)
    beats.start()
    try:
        yield owner
    finally:
        over.set()
        beats.join()
        with contextlib.suppress(OSError):  # the next process takes it over
            if _is_owned(where, owner):
                where.filesystem.rm_file(path)


def refuse_lost_lease(where: OutputPlace) -> None:
    """Stop before the pointer moves if another run has taken over the lease."""
    for place in _places(where):
        owner = _HELD.get().get(place.url())
        if owner is not None and not _is_owned(place, owner):
            raise BusyError(
                f"another run has taken over at {place.url()}, as this one had no heartbeat for {SILENCE:.0f} s; "
                "nothing was published; run with --resume"
            )


def _is_owned(where: OutputPlace, owner: str) -> bool:
    return (_content(where, where.path(_LEASE)) or b"").startswith(owner.encode())


def create_if_absent(where: OutputPlace, path: str, content: bytes) -> bool:
    """Write a file that is not there; whether it is this one, and not of another process that began, too."""
    try:
        where.filesystem.pipe_file(path, content, mode="create")
    except FileExistsError:
        return False
    except (TypeError, ValueError, NotImplementedError):  # a driver that cannot create only: look before and after
        if _content(where, path) is not None:
            return False
        where.filesystem.pipe_file(path, content)
    return _content(where, path) == content


def _content(where: OutputPlace, path: str) -> bytes | None:
    with contextlib.suppress(FileNotFoundError):
        return bytes(where.filesystem.cat_file(path))
    return None


def _beat(where: OutputPlace, path: str, owner: str, over: threading.Event) -> None:
    for count in itertools.count(1):
        if over.wait(BEAT):
            return
        with contextlib.suppress(Exception):  # one heartbeat less
            if _is_owned(where, owner):
                where.filesystem.pipe_file(path, f"{owner} {count}".encode())


# --- Remote filesystems
#
# Their libraries often raise no OSError (botocore on connections or missing credentials), and the text of an error may
# hold addresses with keys. So only its type is shown.


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    """Turn errors of a library into OSErrors without their text, except those that callers handle."""
    try:
        yield
        return
    except (*_UNDERSTOOD, *_PASSED_ON):
        raise
    except OSError as error:
        if error.errno and error.errno != errno.EIO:  # which drivers say of anything
            raise
        kind = type(error.__cause__ or error).__name__
    except Exception as error:
        kind = type(error).__name__
    raise StorageError(f"the storage does not answer, or refuses ({kind})")


def with_os_errors(filesystem: Any) -> Any:
    """A filesystem of fsspec whose errors are safe to show; a local one as it is."""
    return filesystem if isinstance(filesystem, LocalFileSystem) else Remote(filesystem)


class _WithOsErrors:
    """An object of a library, with its errors turned into OSErrors."""

    def __init__(self, wrapped: Any) -> None:
        self._given = wrapped

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._given, name)
        return _as_os_errors()(attribute) if callable(attribute) else attribute


class Remote(_WithOsErrors):
    """A remote filesystem of fsspec, with OSErrors, and without folders in buckets."""

    def __init__(self, filesystem: Any) -> None:
        super().__init__(filesystem)
        protocol = filesystem.protocol
        self.protocols = {protocol} if isinstance(protocol, str) else set(protocol)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a folder, except on stores without folders."""
        if not self.protocols & _BUCKETS:
            with _as_os_errors():
                self._given.makedirs(path, exist_ok=exist_ok)

    def open(self, path: str, mode: str = "rb") -> Any:
        """Open a file whose errors are OSErrors, too."""
        with _as_os_errors():
            return _RemoteFile(self._given.open(path, mode))


class _RemoteFile(_WithOsErrors):
    def __enter__(self) -> _RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        with _as_os_errors():
            self._given.close()
