"""A release as Parquet in folders of columns that are released unchanged."""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from anonpipe.encoding.values import plain, plain_type
from anonpipe.errors import InputError, JobError, OutputError
from anonpipe.export._released import Exported, batches, check_target, schema_of
from anonpipe.files import sync_path, why
from anonpipe.storage.versions import Place


def export_folders(where: Place, manifest: dict[str, Any], target: Path, by: Sequence[str]) -> Exported:
    """Write a checked release as Parquet in folders `key=value`, whole or not at all."""
    check_target(target)
    _check_keys(manifest, by)
    sizes = _sizes(where, manifest, by)
    if small := sum(size < manifest["k"] for size in sizes.values()):
        raise InputError(
            f"{small:,} of {len(sizes):,} folders would hold fewer than k = {manifest['k']} records; give fewer or "
            "coarser columns"
        )
    schema = schema_of(where, manifest)
    keys = pa.schema([pa.field(name, plain_type(schema.field(name).type)) for name in by])
    rest = [field if field.name not in by else keys.field(field.name) for field in schema]
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.draft")
    try:
        draft.mkdir()
        ds.write_dataset(
            (_with_plain(batch, by, pa.schema(rest)) for batch in batches(where, manifest)),
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


def _with_plain(batch: pa.RecordBatch, by: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [plain(batch.column(name)) if name in by else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sizes(where: Place, manifest: dict[str, Any], by: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """Records of each combination of the keys."""
    sizes: Counter[tuple[Any, ...]] = Counter()
    for batch in batches(where, manifest, by):
        columns = [plain(batch.column(name)) for name in by]
        found = pa.table(columns, names=list(by)).group_by(list(by)).aggregate([([], "count_all")]).to_pydict()
        for *key, count in zip(*(found[name] for name in by), found["count_all"], strict=True):
            sizes[tuple(key)] += count
    return sizes
