"""Atomic publication: a new versioned folder, then one switch of the pointer; checks of releases; signatures.

    output/versions/<version>/part-00000.parquet ... _manifest.json _manifest.json.sig _report.json _report.html
    output/CURRENT          the name of the current version (object stores, and everywhere)
    output/release          a link to the current version (local disks)
    output/steward/         reports for the steward alone, one a version and one of a run that failed;
                            outside, where the job names a place for them

A reader follows the pointer and sees the old release or the new one, whole. The version folder is complete, under its
final name, before a pointer moves. `anonpipe.storage.versions` knows the order of versions, the pointers and the lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from fsspec.implementations.local import LocalFileSystem

from anonpipe import interrupts
from anonpipe.errors import AnonpipeError, BusyError, InputError, OutputError
from anonpipe.files import explained, sync_path, why
from anonpipe.rng import keyed
from anonpipe.storage import versions
from anonpipe.storage.versions import MANIFEST, POINTER, SIGNATURE, VERSIONS, OutputPlace, exclusive_lock

FAILED_RUN = "failed"  # Prefix of internal documents of a failed run; others begin with their version
_BLOCK = 2**22
_UNREADABLE = "the manifest of {url} cannot be read; the release is damaged: fetch it again"
_NOT_ALL = "not all of {root} leads to the new release yet: {reason}; the next run sets it right"
MAX_MANIFEST_BYTES = 2**28  # Of a hundred thousand files it has some 30 million


def sha256(path: str | Path, filesystem: Any = None) -> str:
    """SHA-256 of a file, read in blocks."""
    with (filesystem or LocalFileSystem()).open(str(path), "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def place(url: str, internal: str | None = None) -> OutputPlace:
    """Resolve an output path or fsspec URL, and the separate place of internal documents, if any."""
    if internal is not None:
        return replace(place(url), internal=place(internal))
    filesystem, root = None, ""
    with contextlib.suppress(Exception):  # some drivers look for credentials here
        filesystem, root = fsspec.core.url_to_fs(url)
    if filesystem is None:
        raise OutputError(
            f"the output protocol {url.split('://', 1)[0]!r} cannot be used; install its fsspec driver or give a local "
            "path"
        )
    return OutputPlace(versions.with_os_errors(filesystem), root)


def check_writable(where: OutputPlace) -> None:
    """Write and remove a probe in the output folder, and in the steward's own place, before any work starts."""
    present = _probed(where, "output")
    if where.internal is not None:
        _probed(where.internal, "place of internal reports")
    visible = {name for name in present if not name.startswith(".")}
    if visible and not visible & {VERSIONS, POINTER, versions.LINK, versions.FAILED, versions.STEWARD}:
        raise OutputError(f"the output folder {where.url()} holds other files; give an empty or a new folder")


def _probed(where: OutputPlace, what: str) -> set[str]:
    """The content of a folder, after a test that it can be written."""
    remedy = "choose another folder or correct its permissions"
    with explained(f"the {what} {where.url()} cannot be written", remedy), versions.made_folder(where):
        present = versions.list_names(where)
        probe = where.path(f".probe-{secrets.token_hex(8)}")
        with where.filesystem.open(probe, "wb") as out:
            out.write(b"")
        with contextlib.suppress(FileNotFoundError):  # a publishing run has cleaned it up
            where.filesystem.rm_file(probe)
    return present


@dataclass(frozen=True)
class Published:
    """A published version: its path, and failures after publication."""

    path: str
    warnings: tuple[str, ...] = ()


def publish(
    files: Sequence[Path],
    manifest: dict[str, Any],
    where: OutputPlace,
    documents: Mapping[str, bytes] | None = None,
    version: str | None = None,
    before_switch: Callable[[], None] = lambda: None,
    signer: Ed25519PrivateKey | None = None,
) -> Published:
    """Copy verified files and manifest into a new version and switch the pointer; from then on Ctrl-C is noted."""
    documents, reason, moving = documents or {}, None, False
    with exclusive_lock(where), contextlib.ExitStack() as quiet:
        version = version or versions.new_version(where)
        entries = [
            {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in documents.items()
        ]
        listed = {"version": version, **manifest, "documents": entries}
        if signer is not None:
            listed["signed_by"] = fingerprint(signer.public_key())
        try:
            versions.note_pending(where, version)
            _copy_version(files, listed, where, version, documents, signer)
            before_switch()
            quiet.enter_context(interrupts.held())
            moving = True
            versions.switch(where, version)
        except OSError as error:
            reason = why(error)
        except BaseException:  # half a version is useless
            _discard(where, version)
            raise
        if reason is not None and not (moving and _is_out(where, version, reason)):
            _discard(where, version)
            raise OutputError(
                f"the release cannot be written to {where.url()}: {reason}; nothing was published; free space or "
                "correct its permissions, then --resume"
            )
        with contextlib.suppress(OSError):  # of an earlier run, and no longer true
            versions.forget_private(where, FAILED_RUN)
            where.failures.filesystem.rm_file(where.failures.path(versions.FAILED))
        with contextlib.suppress(OSError):  # the next run sees that a pointer leads to it
            versions.clear_pending(where)
        warnings = [] if reason is None else [_NOT_ALL.format(root=where.url(), reason=reason)]
        return Published(where.url(VERSIONS, version), (*warnings, *late_interrupt_warning()))


def _is_out(where: OutputPlace, version: str, reason: str) -> bool:
    """Whether a version is published in spite of an error: a pointer may move and its answer get lost."""
    try:
        return versions.current_version(where) == version
    except OSError:
        raise OutputError(
            f"{where.url()} failed while readers were being led to the new release: {reason}; whether {version} is out "
            f"is not known: look into {where.url(POINTER)}, or run again, which sets it right"
        ) from None


def late_interrupt_warning() -> tuple[str, ...]:
    """The warning that Ctrl-C came after publication; nothing without one."""
    return ("Ctrl-C came when the release was out already",) if interrupts.asked_to_stop() else ()


def keep_private(where: OutputPlace, run: str, documents: Mapping[str, bytes]) -> list[str]:
    """Write internal documents; on a disk only their owner can read them."""
    folder = where.steward
    if folder.local:
        Path(folder.root).mkdir(parents=True, exist_ok=True, mode=0o700)
        if where.internal is None:
            os.chmod(folder.root, 0o700)
    else:
        folder.filesystem.makedirs(folder.root, exist_ok=True)
    for name, content in documents.items():
        versions.put(folder, content, f"{run}-{name}")
    return [folder.url(f"{run}-{name}") for name in documents]


def _copy_version(
    files: Sequence[Path],
    manifest: dict[str, Any],
    where: OutputPlace,
    version: str,
    documents: Mapping[str, bytes],
    signer: Ed25519PrivateKey | None,
) -> None:
    """On a disk: copy under a hidden name, sync, rename. On an object store: the pointer alone decides."""
    folder = where.path(VERSIONS, f".{version}" if where.local else version)
    where.filesystem.makedirs(folder, exist_ok=True)
    expected = {entry["name"]: entry["sha256"] for entry in manifest["files"]}
    for path in files:
        target = f"{folder}/{path.name}"
        with open(path, "rb") as source, where.filesystem.open(target, "wb") as out:
            while block := source.read(_BLOCK):
                interrupts.safe_point()
                out.write(block)
            _sync(out)
        if sha256(target, where.filesystem) != expected[path.name]:
            raise OSError(f"{path.name} differs after copying")
    listed = json.dumps(manifest, indent=2).encode()
    signed = {} if signer is None else {SIGNATURE: signer.sign(listed)}
    for name, content in {**documents, **signed, MANIFEST: listed}.items():
        with where.filesystem.open(f"{folder}/{name}", "wb") as out:
            out.write(content)
            _sync(out)
    if where.local:
        _open_to_readers(Path(folder))
        sync_path(Path(folder))
        os.rename(folder, where.path(VERSIONS, version))
        sync_path(Path(where.path(VERSIONS)))


def _open_to_readers(folder: Path) -> None:
    """Give release files the default permissions, not the staging's private ones."""
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)
    folder.chmod(0o777 & ~mask)


def _sync(handle: Any) -> None:
    handle.flush()
    with contextlib.suppress(AttributeError, OSError, ValueError):  # an object store has no file behind the handle
        os.fsync(handle.fileno())


def _discard(where: OutputPlace, version: str) -> None:
    """Delete an unpublished version; the next run removes the rest."""
    with contextlib.suppress(OSError, BusyError):
        versions.refuse_lost_lease(where)
        if versions.current_version(where) != version:
            versions.remove_version(where, version)
            versions.clear_pending(where)


def resolve(url: str) -> OutputPlace:
    """The current version below an output path, or the version folder itself."""
    where = place(url)
    with _readable(where):
        if versions.exists(where, MANIFEST):
            return where
        _refuse_strays(where)
        version = versions.current_version(where)
    if version is None:
        refuse_withdrawn(url)
        raise InputError(f"there is no release at {url}; give the output folder of a run, or a version folder")
    return OutputPlace(where.filesystem, where.path(VERSIONS, version))


def refuse_withdrawn(url: str, internal: str | None = None) -> None:
    """Refuse a version that was withdrawn, or an output of which none is left, with the day and the reason."""
    output, name = versions.named_version(url)
    where = place(output, internal)
    gone = [each for each in versions.withdrawals(where) if name in (None, each["version"])]
    if gone and (name is not None or versions.current_version(where) is None):
        raise withdrawn_error(gone[-1]["version"], gone[-1])


def withdrawn_error(version: str, note: Mapping[str, str]) -> InputError:
    """The error where a version was withdrawn."""
    return InputError(f"{version} was withdrawn on {note['time'][:10]}: {note['because']}")


def _readable(where: OutputPlace) -> contextlib.AbstractContextManager[None]:
    """Report a storage that does not answer as such, not as damage."""
    return explained(f"{where.url()} cannot be read", "try again when it can", InputError)


def _refuse_strays(where: OutputPlace) -> None:
    """Refuse links of pointers or versions that lead out of the versions of this output."""
    stray = None
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not versions.is_plain_name(where.filesystem.cat_file(where.path(POINTER)).decode(errors="replace").strip()):
            stray = where.path(POINTER)
    if where.local:
        home = os.path.join(os.path.realpath(where.root), VERSIONS)
        followed = [where.path(versions.LINK), *(where.path(VERSIONS, name) for name in versions.pointers(where))]
        outside = (path for path in followed if os.path.dirname(os.path.realpath(path)) != home)
        stray = stray or next((path for path in outside if os.path.lexists(path)), None)
    if stray is not None:
        raise InputError(
            f"{stray} does not lead to a version of this output and is not followed; "
            "give the folder of a version, or publish again"
        )


def _is_regular(where: OutputPlace, name: str) -> bool:
    """Whether a file of a release is one: a pipe or device would never end."""
    return not where.local or stat.S_ISREG(os.stat(where.path(name)).st_mode)


def _read_small(where: OutputPlace, name: str) -> bytes:
    """A manifest or a signature; a ValueError for what is none by its kind or size."""
    if not _is_regular(where, name) or where.filesystem.size(where.path(name)) > MAX_MANIFEST_BYTES:
        raise ValueError
    return bytes(where.filesystem.cat_file(where.path(name)))


def read_manifest(where: OutputPlace) -> dict[str, Any]:
    """The manifest of a version."""
    return _parsed(where, _manifest_bytes(where))


def _manifest_bytes(where: OutputPlace) -> bytes:
    try:
        return _read_small(where, MANIFEST)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise InputError(_UNREADABLE.format(url=where.url())) from None


def _parsed(where: OutputPlace, written: bytes) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(written)
        complete = isinstance(manifest["rows"], int) and isinstance(manifest["schema"], list)
        complete = complete and all({"name", "rows", "sha256"} <= set(entry) for entry in manifest["files"])
        if complete and all({"name", "sha256"} <= set(entry) for entry in manifest.get("documents", [])):
            return manifest
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise InputError(_UNREADABLE.format(url=where.url()))


NOT_SIGNED = "is not by the key given: another key signed, or the manifest or its signature was changed"


class Checked(NamedTuple):
    """The result of checking a version: folder, manifest and problems."""

    where: OutputPlace
    manifest: dict[str, Any] | None  # None if the signature is wrong: then nothing else was read
    origin: list[str]  # Problems with the signature
    order: list[str]  # Problems with name and age of the version
    damage: list[str]  # Files that differ from the manifest

    @property
    def problems(self) -> list[str]:
        """All problems."""
        return [*self.origin, *self.order, *self.damage]


def check(url: str, key: Ed25519PublicKey | None = None, seen: str | None = None) -> list[str]:
    """Problems of a published release; see `checked`."""
    return checked(url, key, seen).problems


def checked(url: str, key: Ed25519PublicKey | None = None, seen: str | None = None) -> Checked:
    """Compare a published release with its manifest, whose signature comes first."""
    if seen is not None and not versions.is_version(seen):
        raise InputError(f"{seen!r} is no name of a version, such as v000012-5d1c09aa")
    where = resolve(url)
    with _readable(where):
        written = _manifest_bytes(where)
        if origin := _check_origin(where, written, key):
            return Checked(where, None, origin, [], [])
        manifest = _parsed(where, written)
        return Checked(where, manifest, [], _check_order(where, manifest, key, seen), _check_files(where, manifest))


def _check_files(where: OutputPlace, manifest: dict[str, Any]) -> list[str]:
    """Differences of the files from the manifest."""
    documents = manifest.get("documents", [])
    listed = {entry["name"] for entry in [*manifest["files"], *documents]}
    present = {path.rstrip("/").rsplit("/", 1)[-1] for path in where.filesystem.ls(where.root, detail=False)}
    problems = [f"{name}: not in the manifest" for name in sorted(present - listed - {MANIFEST, SIGNATURE})]
    for entry in [*manifest["files"], *documents]:
        name = entry["name"]
        if name not in present:
            problems.append(f"{name}: missing")
        elif where.local and os.path.islink(where.path(name)):
            problems.append(f"{name}: a link, not a file")
        elif not _is_regular(where, name):
            problems.append(f"{name}: not a regular file")
        elif sha256(where.path(name), where.filesystem) != entry["sha256"]:
            problems.append(f"{name}: SHA-256 differs from the manifest")
        elif entry not in documents:
            problems += _check_parquet(where, entry, manifest)
    return problems


def _check_origin(where: OutputPlace, written: bytes, key: Ed25519PublicKey | None) -> list[str]:
    """Problems with the signature of the manifest's bytes."""
    if key is None:
        return []
    try:
        signature = _read_small(where, SIGNATURE)
    except FileNotFoundError:
        return [f"{SIGNATURE}: missing: the release is not signed"]
    except ValueError:
        return [f"{SIGNATURE}: not a regular file of a signature's size"]
    return [] if is_signed(written, signature, key) else [f"{SIGNATURE}: {NOT_SIGNED}"]


def _check_order(
    where: OutputPlace, manifest: dict[str, Any], key: Ed25519PublicKey | None, seen: str | None
) -> list[str]:
    """Problems with the name of the version, and with an older version than before."""
    name = os.path.basename(os.path.realpath(where.root)) if where.local else where.root.rstrip("/").rsplit("/", 1)[-1]
    named = manifest.get("version")
    problems = []
    if named is None and key is not None:
        problems.append("the manifest does not name its version")
    elif named is not None and versions.is_version(name) and name != named:
        problems.append(f"the folder is called {name}, and the manifest is of {named}")
    if seen is not None and versions.version_order(str(named or name)) < versions.version_order(seen):
        problems.append(f"{named or name} is older than {seen}, which was there before")
    return problems


def _check_parquet(where: OutputPlace, entry: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    with where.filesystem.open(where.path(entry["name"]), "rb") as handle:
        parquet = pq.ParquetFile(handle)
        schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
    problems = []
    if describe_schema(schema) != manifest["schema"]:
        problems.append(f"{entry['name']}: its schema differs from the manifest")
    if rows != entry["rows"]:
        problems.append(f"{entry['name']}: {rows} rows, the manifest says {entry['rows']}")
    return problems


def describe_schema(schema: pa.Schema) -> list[dict[str, Any]]:
    """Name, type and nullability of each column, as the manifest writes them."""
    return [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema]


def clean_up(url: str, internal: str | None = None) -> None:
    """Clean up an output after dead runs, unless a live run publishes there."""
    where = place(url, internal)
    with contextlib.suppress(AnonpipeError, OSError):
        if versions.list_names(where):
            with exclusive_lock(where, patience=0.0):
                pass


def prune(url: str, keep: int = 1, internal: str | None = None) -> list[str]:
    """Delete all but the newest `keep` of the versions up to the current one, and the steward's reports of them.

    What was published after the current one (where somebody led readers back to an older one) stays, too.
    """
    where = place(url, internal)
    resolve(url)
    deleted = []
    with exclusive_lock(where):
        current, order = versions.current_version(where), versions.version_order
        older = [name for name in versions.list_versions(where) if current and order(name) < order(current)]
        remedy = "correct its permissions, then try again"
        with explained(f"old versions at {where.url()} cannot be deleted", remedy):
            for version in older[: max(0, len(older) - max(0, keep - 1))]:
                if version not in versions.pointers(where):
                    versions.remove_version(where, version)
                    deleted.append(version)
    return deleted


# --- Signatures of manifests
#
# A manifest lists its version and the checksums of all files, so one Ed25519 signature of its bytes (RFC 8032) binds
# them all. The private key is derived from the steward's secret. Recipients must get the public key from the steward,
# not from the place of the release. The signature is 64 raw bytes, the key PEM: other tools check them, too:
#
#     openssl pkeyutl -verify -pubin -inkey steward.pub -rawin -in _manifest.json -sigfile _manifest.json.sig


def signing_key(secret: bytes) -> Ed25519PrivateKey:
    """The private key that belongs to a steward's secret."""
    return Ed25519PrivateKey.from_private_bytes(keyed(secret, "signing key")[:32])


def public_pem(key: Ed25519PublicKey) -> bytes:
    """The public key as a PEM file."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the 32 bytes of a public key, in hexadecimal digits."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """A public key from a PEM file."""
    key = None
    with contextlib.suppress(OSError, ValueError):
        key = load_pem_public_key(Path(path).read_bytes())
    if not isinstance(key, Ed25519PublicKey):
        what = "is no public key of a steward" if Path(path).is_file() else "does not exist"
        raise InputError(f"{path} {what}; ask the steward for the output of: anonpipe key")
    return key


def is_signed(content: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    """Whether the owner of a key has signed these bytes."""
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True
