"""A published release in another form: one CSV file, or Parquet in folders of columns that are released unchanged.

What is exported are the bytes that were checked, read again; the release
itself stays as it is, and only it is signed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from anonpipe.encoding.values import plain, plain_type
from anonpipe.errors import InputError, JobError, OutputError
from anonpipe.files import drafted, sync_path, why
from anonpipe.source import NULLS
from anonpipe.storage.versions import Place

_ROWS = 65_536


@dataclass(frozen=True)
class Exported:
    """Where it lies, its rows and files, and what readers should know."""

    path: str
    rows: int
    files: int
    warnings: tuple[str, ...] = ()


def export_csv(where: Place, manifest: dict[str, Any], target: Path) -> Exported:
    """Write all rows of a checked release as one CSV, whole or not at all; compressed where it is called .gz.

    Nulls are empty fields, empty texts stand in quotes, and timestamps that are all of whole days are dates.

    Raises
    ------
    InputError
        The target is there, or is no name of a CSV.
    OutputError
        It cannot be written.
    """
    _check_target(target)
    if not target.name.lower().endswith((".csv", ".csv.gz")):
        raise InputError(f"{target}: give a file that ends in .csv or .csv.gz, or --by COLUMN for a folder")
    like_null: set[str] = set()
    rows = 0
    try:
        schema = _schema_of_csv(where, manifest)
        with (
            drafted(target, private=False) as draft,
            pa.output_stream(str(draft), compression="gzip" if target.suffix.lower() == ".gz" else None) as out,
            pcsv.CSVWriter(out, schema) as writer,
        ):
            for batch in _batches(where, manifest):
                rows += batch.num_rows
                told = pa.record_batch(
                    [plain(column).cast(field.type) for column, field in zip(batch.columns, schema, strict=True)],
                    schema=schema,
                )
                like_null |= {name for name in told.schema.names if _like_null(told.column(name))}
                writer.write_batch(told)
    except OSError as error:
        problem = why(error)
    else:
        told_names = ", ".join(map(repr, sorted(like_null)))
        warning = f"texts of {told_names} such as NA are taken for missing by many readers of CSV"
        return Exported(str(target), rows, 1, (warning,) if like_null else ())
    raise OutputError(f"{target} cannot be written: {problem}; give another place")


def export_folders(where: Place, manifest: dict[str, Any], target: Path, by: Sequence[str]) -> Exported:
    """Write a checked release as Parquet in folders `key=value`, whole or not at all.

    Raises
    ------
    InputError
        A column is not released unchanged, or a folder would hold fewer than k records.
    OutputError
        It cannot be written.
    """
    _check_target(target)
    _check_keys(manifest, by)
    sizes = _sizes(where, manifest, by)
    if small := sum(size < manifest["k"] for size in sizes.values()):
        raise InputError(
            f"{small:,} of {len(sizes):,} folders would hold fewer than k = {manifest['k']} records; give fewer or "
            "coarser columns"
        )
    schema = _schema(where, manifest)
    keys = pa.schema([pa.field(name, plain_type(schema.field(name).type)) for name in by])
    rest = [field if field.name not in by else keys.field(field.name) for field in schema]
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.draft")
    try:
        draft.mkdir()
        ds.write_dataset(
            (_with_plain(batch, by, pa.schema(rest)) for batch in _batches(where, manifest)),
            draft,
            schema=pa.schema(rest),
            format="parquet",
            partitioning=ds.partitioning(keys, flavor="hive"),
            max_partitions=len(sizes) + 1,
            max_open_files=256,
            use_threads=False,
            file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
        )
        files = [path for path in draft.rglob("*.parquet")]
        for path in files:
            sync_path(path)
        os.rename(draft, target)
    except OSError as error:
        problem = why(error)
    else:
        return Exported(str(target), sum(sizes.values()), len(files))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    raise OutputError(f"{target} cannot be written: {problem}; give another place")


def _check_target(target: Path) -> None:
    if target.exists():
        raise InputError(f"{target} is there already; give a name that is not, or delete it")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is no folder of this machine; make it first")


def _check_keys(manifest: dict[str, Any], by: Sequence[str]) -> None:
    kept = [name for name, told in manifest["columns"].items() if told["treatment"] == "unchanged"]
    for name in by:
        if name not in kept:
            raise InputError(
                f"column {name!r} is not released unchanged, as folders need it; such are: {', '.join(kept) or 'none'}"
            )
    if len(set(by)) < len(by) or len(by) == len(manifest["columns"]):
        raise JobError("--by names a column twice, or all columns; give some columns once")
    if manifest.get("k_counts", "rows") != "rows":
        raise InputError("k counts units of several rows, which a release does not name: folders cannot be checked")


def _schema(where: Place, manifest: dict[str, Any]) -> pa.Schema:
    with where.filesystem.open(where.path(manifest["files"][0]["name"]), "rb") as handle:
        return pq.ParquetFile(handle).schema_arrow.remove_metadata()


def _schema_of_csv(where: Place, manifest: dict[str, Any]) -> pa.Schema:
    plainly = pa.schema([(field.name, plain_type(field.type)) for field in _schema(where, manifest)])
    days = {field.name for field in plainly if pa.types.is_timestamp(field.type) and field.type.tz is None}
    for batch in _batches(where, manifest, sorted(days)) if days else ():
        for name in sorted(days & set(batch.schema.names)):
            values = batch.column(name)
            if not pc.all(pc.equal(values, pc.floor_temporal(values, unit="day")), min_count=0).as_py():
                days.discard(name)
    return pa.schema([field.with_type(pa.date32()) if field.name in days else field for field in plainly])


def _batches(where: Place, manifest: dict[str, Any], names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    for entry in manifest["files"]:
        with where.filesystem.open(where.path(entry["name"]), "rb") as handle:
            yield from pq.ParquetFile(handle).iter_batches(_ROWS, columns=None if names is None else list(names))


def _with_plain(batch: pa.RecordBatch, by: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [plain(batch.column(name)) if name in by else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sizes(where: Place, manifest: dict[str, Any], by: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """Records of each combination of the keys."""
    sizes: Counter[tuple[Any, ...]] = Counter()
    for batch in _batches(where, manifest, by):
        columns = [plain(batch.column(name)) for name in by]
        found = pa.table(columns, names=list(by)).group_by(list(by)).aggregate([([], "count_all")]).to_pydict()
        for *key, count in zip(*(found[name] for name in by), found["count_all"], strict=True):
            sizes[tuple(key)] += count
    return sizes


def _like_null(values: pa.Array) -> bool:
    """Whether it holds texts that readers of CSV take for missing."""
    if not pa.types.is_string(values.type):
        return False
    texts = pa.array([text for text in NULLS if text], pa.string())
    return bool(pc.any(pc.is_in(values, texts), min_count=0).as_py())
