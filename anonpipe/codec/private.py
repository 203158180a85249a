"""Private files of a run: an Arrow table with text beside it, never a pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa


def write_private(path: Path, table: pa.Table, texts: Mapping[str, str]) -> None:
    """Write a table and texts to a file that only its owner can read, renamed into place when complete."""
    draft = path.with_name(f".{path.name}.draft-{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    table = table.replace_schema_metadata(dict(texts))
    with os.fdopen(handle, "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    draft.replace(path)


def read_private(path: Path) -> tuple[pa.Table, dict[str, str]]:
    """Read the table and the texts that `write_private` wrote."""
    with pa.OSFile(str(path), "rb") as source:
        table = pa.ipc.open_file(source).read_all()
    texts = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return table.replace_schema_metadata(None), texts
