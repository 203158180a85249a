"""What all forms of an export begin with: the rows of a checked release, and a place that nothing lies at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import InputError
from anonpipe.storage.versions import Place

_ROWS = 65_536


@dataclass(frozen=True)
class Exported:
    """Where it lies, its rows and files, and what readers should know."""

    path: str
    rows: int
    files: int
    warnings: tuple[str, ...] = ()


def check_target(target: Path) -> None:
    """Refuse a place where something lies, or that has no folder."""
    if target.exists():
        raise InputError(f"{target} is there already; give a name that is not, or delete it")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is no folder of this machine; make it first")


def schema_of(where: Place, manifest: dict[str, Any]) -> pa.Schema:
    """Of the released files, without metadata."""
    with where.filesystem.open(where.path(manifest["files"][0]["name"]), "rb") as handle:
        return pq.ParquetFile(handle).schema_arrow.remove_metadata()


def batches(where: Place, manifest: dict[str, Any], names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The released rows, of all columns or the named ones."""
    for entry in manifest["files"]:
        with where.filesystem.open(where.path(entry["name"]), "rb") as handle:
            yield from pq.ParquetFile(handle).iter_batches(_ROWS, columns=None if names is None else list(names))
