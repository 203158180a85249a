"""Private content of a run as bytes: an Arrow table with text beside it, never a pickle."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa


def table_to_bytes(table: pa.Table, texts: Mapping[str, str]) -> memoryview:
    """A table and texts as the bytes of an Arrow file."""
    table, out = table.replace_schema_metadata(dict(texts)), pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return memoryview(out.getvalue())


def table_from_bytes(content: bytes | memoryview) -> tuple[pa.Table, dict[str, str]]:
    """The table and the texts that `table_to_bytes` was given."""
    table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
    texts = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return table.replace_schema_metadata(None), texts
