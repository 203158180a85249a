"""Parquet files: units of whole row groups, read as a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.encoding.values import nullable_types
from anonpipe.errors import InputError
from anonpipe.source._files import File, Unit, guarded, local_path, open_bytes, units_of

UNIT_ROWS = 262_144  # Few enough that a million rows keep several workers busy
_DAMAGED = "is no readable Parquet file: it is cut short, damaged or encrypted; copy or write it again"


def bare(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata of its own or of its fields."""
    return pa.schema([field.remove_metadata() for field in schema])


def open_parquet(files: Sequence[File]) -> tuple[list[Unit], pa.Schema, dict[str, str]]:
    """Units of consecutive row groups, with `UNIT_ROWS` or one group; the schema of all files, and pandas' types."""
    pieces: list[tuple[str, tuple[int, ...], int]] = []
    schemas: list[pa.Schema] = []
    for file in files:
        opened = _open(file.path)
        schemas.append(opened.schema_arrow)
        check_same(files[0].path, bare(schemas[0]), file.path, bare(schemas[-1]))
        runs = _runs([opened.metadata.row_group(at).num_rows for at in range(opened.num_row_groups)])
        pieces += [(file.path, row_groups, rows) for row_groups, rows in runs]
        opened.close()
    types = [nullable_types(schema).items() for schema in schemas]
    common = {name: kind for name, kind in types[0] if all((name, kind) in other for other in types)}
    return units_of("parquet", pieces), bare(schemas[0]), common


def _open(path: str) -> pq.ParquetFile:
    where = local_path(path) or open_bytes(path)
    return guarded(path, _DAMAGED, pq.ParquetFile, where, pre_buffer=False, page_checksum_verification=True)


def _runs(row_counts: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Consecutive row groups in runs of at most `UNIT_ROWS` rows, at least one row group each."""
    run: list[int] = []
    rows = 0
    for at, count in enumerate(row_counts):
        if run and rows + count > UNIT_ROWS:
            yield tuple(run), rows
            run, rows = [], 0
        if count:
            run.append(at)
            rows += count
    if run:
        yield tuple(run), rows


def check_same(first_path: str, first: pa.Schema, path: str, other: pa.Schema) -> None:
    """Refuse files that are not of one table."""
    if first.equals(other):
        return
    for name in [*first.names, *other.names]:
        if name not in first.names or name not in other.names:
            raise InputError(
                f"{path} and {first_path} do not have the same columns ({name!r}); give files of one table"
            )
        if not first.field(name).equals(other.field(name)):
            raise InputError(
                f"{path} and {first_path} hold column {name!r} in different types "
                f"({_shown(other.field(name))} and {_shown(first.field(name))}); write them with one schema"
            )
    raise InputError(f"{path} and {first_path} have their columns in different order; write them with one schema")


def _shown(field: pa.Field) -> str:
    return str(field.type) if field.nullable else f"{field.type} not null"


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with texts as strings where they are views, which Arrow can neither filter nor take by position."""
    fields = [pa.field(f.name, pa.string(), f.nullable) if pa.types.is_string_view(f.type) else f for f in batch.schema]
    return batch.cast(pa.schema(fields)) if pa.schema(fields) != batch.schema else batch


def read_parquet(unit: Unit, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `rows` rows of a unit, of the named columns; views of texts come as strings."""
    opened = _open(unit.path)
    wanted = {"batch_size": rows, "row_groups": list(unit.row_groups), "columns": list(names)}
    batches = guarded(unit.path, _DAMAGED, lambda: iter(opened.iter_batches(**wanted)))
    try:
        while (batch := guarded(unit.path, _DAMAGED, next, batches, None)) is not None:
            yield _without_views(batch.select(list(names)).replace_schema_metadata(None))
    finally:
        opened.close()
