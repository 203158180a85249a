"""What publishes and prunes in the tests of faults, and what must hold of an output whatever happened to it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.storage import release, release_log


def staged(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Two small files and their manifest."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = [folder / f"part-{at:05d}.parquet" for at in range(2)]
    for at, path in enumerate(paths):
        if not path.exists():
            pq.write_table(pa.table({"a": [1 + at, 2, 3]}), path)
    files = [{"name": p.name, "rows": 3, "bytes": p.stat().st_size, "sha256": release.sha256(p)} for p in paths]
    return paths, {"rows": 6, "schema": release.describe_schema(pa.schema([("a", pa.int64())])), "files": files}


def publish(stage: str, out: str) -> None:
    """Publish what is staged."""
    release.publish(*staged(Path(stage)), release.place(out))


def prune(out: str, keep: int = 1) -> None:
    """Prune."""
    release.prune(out, keep)


def withdraw(version: str) -> None:
    """Withdraw."""
    release_log.withdraw(version, "a column too many")


def try_out(out: str) -> None:
    """The probe of a run before its work."""
    release.check_writable(release.place(out))


def publish_often(stage: str, out: str, times: int) -> None:
    """Publish again and again."""
    for _ in range(times):
        publish(stage, out)


def prune_often(out: str, times: int) -> None:
    """Prune again and again."""
    for _ in range(times):
        prune(out)


def dangling(out: Path) -> list[str]:
    """The pointers of an output that lead to no whole release; those that are not there do not count."""
    found = []
    link, pointer = out / "release", out / "CURRENT"
    if link.is_symlink() and not _whole(Path(os.path.realpath(link))):
        found.append("release")
    with contextlib.suppress(FileNotFoundError):
        if not _whole(out / "versions" / pointer.read_text().strip()):
            found.append("CURRENT")
    return found


def _whole(version: Path) -> bool:
    return (version / "_manifest.json").exists() and release.check(str(version)) == []


def leftovers(out: Path) -> list[str]:
    """What an output holds beside its pointers and its versions that were once current."""
    known = {"CURRENT", "release", "versions", "steward", "failed-verdict.json"}
    found = [name for name in os.listdir(out) if name not in known] if out.exists() else []
    versions = out / "versions"
    found += [f"versions/{name}" for name in os.listdir(versions) if name.startswith(".")] if versions.exists() else []
    return sorted(found)


def versions(out: Path) -> set[str]:
    """The versions of an output, whole or not."""
    return {name for name in os.listdir(out / "versions") if not name.startswith(".")}


def current_version(out: Path) -> str:
    """The version that readers of the link find; empty for none."""
    return os.path.basename(os.readlink(out / "release")) if (out / "release").is_symlink() else ""
