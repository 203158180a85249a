"""Tables of Delta Lake and Iceberg: one version is copied once; all else reads the Parquet file of the copy.

lake/people           s3://bucket/people#12              the newest version, and version 12, of Delta Lake
iceberg://catalog/namespace.table                        the newest snapshot; with #SNAPSHOT that one
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import InputError
from anonpipe.files import disk_errors
from anonpipe.job.csv_format import CsvFormat
from anonpipe.source._files import Source, locate
from anonpipe.source._format import refuse_other
from anonpipe.source._query import ROWS, call_driver, copied_source
from anonpipe.storage.staging import make_private

_ICEBERG = "iceberg://"
_BATCHES = 2  # Batches and files that are read ahead


@dataclass(frozen=True)
class LakeTable:
    """A version of a table that was not read yet."""

    url: str
    name: str
    version: int | None

    def identity(self) -> dict[str, Any]:
        """JSON-able content that changes when another table or version is asked for; not when rows are added."""
        return {"paths": [self.name], "version": self.version}

    def read(self, folder: Path) -> Source:
        """Copy the version into a private folder, batch by batch."""
        path = make_private(folder) / "rows.parquet"
        with disk_errors("copying the rows of the table"):
            size = _copied(self, path)
        return copied_source(path, size, self.url)


def find_lake_table(url: str, form: CsvFormat | None = None) -> LakeTable | None:
    """The table of Delta Lake or Iceberg that an input names; None for other inputs."""
    name, _, version = url.rpartition("#")
    is_iceberg = url.startswith(_ICEBERG)
    if not version.isdigit() or (not is_iceberg and _is_delta(url)):  # a folder whose name has such an end
        name = url
    if not is_iceberg and not _is_delta(name):
        return None
    refuse_other(url, form)
    return LakeTable(url, name, int(version) if name != url else None)


def _is_delta(name: str) -> bool:
    """Whether a folder, here or on an object store, has the log of Delta Lake."""
    filesystem, inside = locate(name)
    try:
        return bool(filesystem.isdir(f"{inside.rstrip('/')}/_delta_log"))
    except OSError:  # which opening the files reports
        return False


def _copied(table: LakeTable, path: Path) -> int:
    """Write the version as Parquet; how many bytes it had as it came."""
    package = "pyiceberg" if table.name.startswith(_ICEBERG) else "deltalake"
    if find_spec(package) is None:
        raise InputError(f"{table.url} is read by a package that is not installed: pip install 'anonpipe[lake]'")
    broken = f"{table.url} cannot be read: a file of it is missing or damaged; look at it with {package}"
    schema, batches = _opened_iceberg(table) if package == "pyiceberg" else _opened_delta(table)
    size = 0
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer:
        while (batch := call_driver(broken, next, batches, None)) is not None:
            size += batch.nbytes
            writer.write_batch(batch.cast(schema), ROWS)
    return size


def _opened_delta(table: LakeTable) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    delta = import_module("deltalake")
    asked = "its newest version" if table.version is None else f"version {table.version}"
    problem = (
        f"{table.name}: {asked} cannot be read: it is not there, or has deletion vectors or renamed columns, "
        "which the library does not read; rewrite it by DeltaTable.optimize.compact or with Spark"
    )
    dataset = call_driver(problem, lambda: delta.DeltaTable(table.name, version=table.version).to_pyarrow_dataset())
    scanner = dataset.scanner(batch_size=ROWS, batch_readahead=_BATCHES, fragment_readahead=_BATCHES)
    return dataset.schema.remove_metadata(), scanner.to_batches()


def _opened_iceberg(table: LakeTable) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    catalog, _, name = table.name.removeprefix(_ICEBERG).partition("/")
    problem = (
        f"{table.url} cannot be opened: write iceberg://CATALOG/NAMESPACE.TABLE, and describe the catalog in "
        "~/.pyiceberg.yaml, in YAML without braces; of snapshots, those that were not expired can be read"
    )
    catalogs = call_driver(problem, import_module, "pyiceberg.catalog")  # reads its settings
    scan = call_driver(problem, lambda: catalogs.load_catalog(catalog).load_table(name).scan(snapshot_id=table.version))
    reader = call_driver(problem, scan.to_arrow_batch_reader)
    short = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}  # which the library has instead
    return pa.schema([(field.name, short.get(field.type, field.type)) for field in reader.schema]), iter(reader)
