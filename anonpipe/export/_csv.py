"""A release as one CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from anonpipe.encoding.values import plain, plain_type
from anonpipe.errors import InputError, OutputError
from anonpipe.export._released import Exported, batches, check_target, schema_of
from anonpipe.files import drafted, why
from anonpipe.source import NULLS
from anonpipe.storage.versions import Place


def export_csv(where: Place, manifest: dict[str, Any], target: Path) -> Exported:
    """Write all rows of a checked release as one CSV, whole or not at all; compressed where it is called .gz.

    Nulls are empty fields, empty texts stand in quotes, and timestamps that are all of whole days are dates.
    """
    check_target(target)
    if not target.name.lower().endswith((".csv", ".csv.gz")):
        raise InputError(f"{target}: give a file that ends in .csv, .csv.gz, .dta or .sav, or --by COLUMN for a folder")
    like_null: set[str] = set()
    rows = 0
    try:
        schema = _schema_of_csv(where, manifest)
        with (
            drafted(target, private=False) as draft,
            pa.output_stream(str(draft), compression="gzip" if target.suffix.lower() == ".gz" else None) as out,
            pcsv.CSVWriter(out, schema) as writer,
        ):
            for batch in batches(where, manifest):
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


def _schema_of_csv(where: Place, manifest: dict[str, Any]) -> pa.Schema:
    plainly = pa.schema([(field.name, plain_type(field.type)) for field in schema_of(where, manifest)])
    days = {field.name for field in plainly if pa.types.is_timestamp(field.type) and field.type.tz is None}
    for batch in batches(where, manifest, sorted(days)) if days else ():
        for name in sorted(days & set(batch.schema.names)):
            values = batch.column(name)
            if not pc.all(pc.equal(values, pc.floor_temporal(values, unit="day")), min_count=0).as_py():
                days.discard(name)
    return pa.schema([field.with_type(pa.date32()) if field.name in days else field for field in plainly])


def _like_null(values: pa.Array) -> bool:
    """Whether it holds texts that readers of CSV take for missing."""
    if not pa.types.is_string(values.type):
        return False
    texts = pa.array([text for text in NULLS if text], pa.string())
    return bool(pc.any(pc.is_in(values, texts), min_count=0).as_py())
