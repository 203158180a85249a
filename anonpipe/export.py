"""A published release in another form: CSV, Excel, Parquet in folders, Stata or SPSS with labels.

Exports read the verified files again. The release itself stays as it is, and only it is signed.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import errno
import io
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from anonpipe import codebook
from anonpipe.encoding.values import is_number, plain, plain_type
from anonpipe.errors import InputError, JobError, OutputError
from anonpipe.files import drafted, explained, need, sync_path
from anonpipe.job.csv_format import DEFAULT_FORMAT, NULLS, CsvFormat
from anonpipe.source import Spelling, csv_fields, csv_spellings
from anonpipe.storage.versions import OutputPlace

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 65_536
LABELLED = (".dta", ".sav")
WORKBOOK = ".xlsx"
# Of a program what a name is, its most letters, and what no name may be
_NAMES = {
    ".dta": (
        r"[A-Za-z_]\w*",
        32,
        r"_(all|b|coef|cons|n|N|pi|pred|rc|skip)|byte|double|float|if|in|int|long|str(L|\d+)|using|with",
    ),
    ".sav": (r"[^\W\d_]\w*", 64, r"(?i)all|and|by|eq|ge|gt|le|lt|ne|not|or|to|with"),
}

_MOST_VALUES = 100_000_000  # Most values of an export: pyreadstat needs the table in memory (about 3 GB with texts)
_SHEET_ROWS, _SHEET_COLUMNS = 1_048_575, 16_384  # Of Excel, without the line of names
_WHOLE = 1e15  # Largest number of which Excel keeps all digits
_LABEL = 80  # Letters of a column's label that Stata has; SPSS has 256 bytes
_SMALL = 2**31 - 101  # largest integer of Stata's type long


@dataclass(frozen=True)
class Exported:
    """Path of an export, its rows and files, and warnings for readers."""

    path: str
    rows: int
    files: int
    warnings: tuple[str, ...] = ()


def check_target(target: Path) -> None:
    """Refuse a path that exists, or whose folder does not."""
    if target.exists():
        raise InputError(f"{target} exists already; choose another name or delete it")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} does not exist; create it first")


def schema_of(where: OutputPlace, manifest: dict[str, Any]) -> pa.Schema:
    """Schema of the released files, without metadata."""
    with where.filesystem.open(where.path(manifest["files"][0]["name"]), "rb") as handle:
        return pq.ParquetFile(handle).schema_arrow.remove_metadata()


def batches(
    where: OutputPlace, manifest: dict[str, Any], names: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The released rows, of all columns or the named ones."""
    for entry in manifest["files"]:
        with where.filesystem.open(where.path(entry["name"]), "rb") as handle:
            yield from pq.ParquetFile(handle).iter_batches(_ROWS, columns=None if names is None else list(names))


def export_codebook(where: OutputPlace, manifest: dict[str, Any], form: str) -> bytes:
    """The code book of a checked release: `datapackage`, `ddi`, `dcat` or `csv`, with frequencies of released rows."""
    names = codebook.coded_names(manifest)
    counts = codebook.count_levels(batches(where, manifest, names) if names else (), names)
    listed = {entry["name"] for entry in manifest.get("documents", [])}
    book = codebook.describe(manifest, counts=counts)
    for name in (codebook.SCHEMA, codebook.DOCUMENT):  # with a schema of its own the other has none
        if name in listed:
            book = codebook.with_declared(book, where.filesystem.cat_file(where.path(name)))
            break
    if form == "datapackage":
        return codebook.datapackage(book, whole=True)[codebook.DOCUMENT]
    if form == "dcat":
        return codebook.dcat(book)
    return codebook.ddi(book, counts) if form == "ddi" else codebook.as_csv(book, counts)


# --- A release as one CSV file ----------------------------------------------------------------------------------------


def export_csv(
    where: OutputPlace,
    manifest: dict[str, Any],
    target: Path,
    quote_formulas: bool = False,
    form: CsvFormat = DEFAULT_FORMAT,
    like: str | None = None,
) -> Exported:
    """Write all rows of a checked release as one CSV, whole or not at all; compressed if the name ends in .gz.

    It is written in `form`: nulls as the first text of `missing`, dates in the first pattern that has all of them.
    Unless this says otherwise, nulls are empty fields, and empty texts are quoted. With `like`, a CSV of the same
    columns, truth values are its words and numbers have no more decimals than there. Timestamps at midnight throughout
    become dates. Texts that a spreadsheet would run as formulas are refused, or with `quote_formulas` begin with an
    apostrophe.
    """
    check_target(target)
    if not target.name.lower().endswith((".csv", ".csv.gz")):
        raise InputError(
            f"{target}: give a file that ends in .csv, .csv.gz, .xlsx, .dta or .sav, or --by COLUMN for a folder"
        )
    like_null: set[str] = set()
    rows = 0
    with explained(f"{target} cannot be written", "give another place"):
        schema = _schema_of_csv(where, manifest)
        names = [f.name for f in schema if pa.types.is_boolean(f.type) or pa.types.is_floating(f.type)]
        spelled = {} if like is None else csv_spellings(like, form, names)
        if not quote_formulas:
            _refuse_formulas(where, manifest, schema, target)
        with (
            drafted(target, private=False) as draft,
            pa.output_stream(str(draft), compression="gzip" if target.suffix.lower() == ".gz" else None) as out,
        ):
            encoder = codecs.getincrementalencoder(form.encoding or "utf-8")()
            out.write(_lines([csv_fields(form, pa.array([name])) for name in schema.names], form, encoder, target))
            for batch in batches(where, manifest):
                rows += batch.num_rows
                columns = [plain(one).cast(field.type) for one, field in zip(batch.columns, schema, strict=True)]
                values = pa.record_batch(columns, schema=schema)
                if quote_formulas:
                    values = _with_quoted_formulas(values)
                like_null |= {name for name in values.schema.names if _like_null(values.column(name), form)}
                named = zip(values.schema.names, values.columns, strict=True)
                fields = [csv_fields(form, column, spelled.get(name, Spelling())) for name, column in named]
                out.write(_lines(fields, form, encoder, target))
    warning = f"{', '.join(map(repr, sorted(like_null)))}: many CSV readers take texts such as NA for missing values"
    return Exported(str(target), rows, 1, (warning,) if like_null else ())


def _schema_of_csv(where: OutputPlace, manifest: dict[str, Any]) -> pa.Schema:
    plainly = pa.schema([(field.name, plain_type(field.type)) for field in schema_of(where, manifest)])
    days = {field.name for field in plainly if pa.types.is_timestamp(field.type) and field.type.tz is None}
    for batch in batches(where, manifest, sorted(days)) if days else ():
        for name in sorted(days & set(batch.schema.names)):
            values = batch.column(name)
            if not pc.all(pc.equal(values, pc.floor_temporal(values, unit="day")), min_count=0).as_py():
                days.discard(name)
    return pa.schema([field.with_type(pa.date32()) if field.name in days else field for field in plainly])


def _formulas(values: pa.Array) -> pa.Array:
    """Which texts a spreadsheet would run; a number with its sign is none, shape (n,)."""
    begins = pc.match_substring_regex(values, "^[=@\t\r+-]")
    signed = pc.match_substring_regex(values, r"^[+-][0-9.,]*$")
    return pc.fill_null(pc.and_not(begins, signed), False)


def _refuse_formulas(where: OutputPlace, manifest: dict[str, Any], schema: pa.Schema, target: Path) -> None:
    """An error where opening the CSV in a spreadsheet would run a text as a formula."""
    names = [field.name for field in schema if pa.types.is_string(field.type)]
    counts = Counter({name: int(pc.sum(_formulas(pa.array([name]))).as_py()) for name in schema.names})
    for batch in batches(where, manifest, names) if names else ():
        for name in names:
            counts[name] += pc.sum(_formulas(plain(batch.column(name)).cast(pa.string()))).as_py() or 0
    if bad := +counts:
        name, count = bad.most_common(1)[0]
        raise InputError(
            f"column {name!r}: {count:,} texts begin with =, +, - or @, and a spreadsheet would run them as formulas; "
            f"{target.name} was not written: add --quote-formulas to put an apostrophe before them, or export to "
            ".dta or .sav"
        )


def _with_quoted_formulas(values: pa.RecordBatch) -> pa.RecordBatch:
    """Texts that a spreadsheet would run begin with an apostrophe."""
    columns = [
        pc.if_else(_formulas(column), pc.binary_join_element_wise("'", column, ""), column)
        if pa.types.is_string(column.type)
        else column
        for column in values.columns
    ]
    return pa.record_batch(columns, schema=values.schema)


def _lines(fields: Sequence[pa.Array], form: CsvFormat, encoder: codecs.IncrementalEncoder, target: Path) -> bytes:
    """The fields of some rows, an array for each column, as lines in the encoding of a format."""
    lines = pc.binary_join_element_wise(*fields, form.delimiter_or_comma)
    try:
        return encoder.encode("\n".join([*lines.to_pylist(), ""]))
    except UnicodeEncodeError:
        raise InputError(
            f"{target.name} was not written: {form.encoding} has no letters for some texts; give --encoding utf-8"
        ) from None


def _like_null(values: pa.Array, form: CsvFormat) -> bool:
    """Whether some texts look like missing values to CSV readers."""
    if not pa.types.is_string(values.type):
        return False
    texts = pa.array([text for text in {*NULLS, *form.nulls} if text], pa.string())
    return bool(pc.any(pc.is_in(values, texts), min_count=0).as_py())


# --- A release as a workbook of Excel ---------------------------------------------------------------------------------


def export_workbook(where: OutputPlace, manifest: dict[str, Any], target: Path) -> Exported:
    """Write all rows of a checked release as one sheet, whole or not at all; a second one has the code book.

    Texts stay texts, also those that begin with `=`; numbers keep 15 digits. Dates before 1900, times with a zone,
    infinite numbers and whole numbers of more than 15 digits are texts, as Excel has none of them.
    """
    check_target(target)
    need(f"{target} is written", "excel", "xlsxwriter")
    schema, rows = schema_of(where, manifest), sum(entry["rows"] for entry in manifest["files"])
    if rows > _SHEET_ROWS or len(schema) > _SHEET_COLUMNS:
        limit = f"{_SHEET_ROWS:,} rows of {_SHEET_COLUMNS:,} columns"
        raise InputError(f"{rows:,} rows of {len(schema):,} columns are too many for a sheet ({limit}); export as CSV")
    book = csv.reader(io.StringIO(export_codebook(where, manifest, "csv").decode()))
    with explained(f"{target} cannot be written", "give another place"), drafted(target, private=False) as draft:
        _write_sheets(draft, schema, batches(where, manifest), list(book))
    return Exported(str(target), rows, 1)


def _write_sheets(draft: Path, schema: pa.Schema, parts: Iterator[pa.RecordBatch], book: list[list[str]]) -> None:
    """The library takes cell by cell; with constant memory it keeps one row."""
    library = import_module("xlsxwriter")
    plainly = dict.fromkeys((f"strings_to_{what}" for what in ("formulas", "urls", "numbers")), False)
    try:
        with library.Workbook(str(draft), {"constant_memory": True} | plainly) as workbook:
            bold = workbook.add_format({"bold": True})
            days, times = (workbook.add_format({"num_format": each}) for each in ("yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss"))
            sheet, at = workbook.add_worksheet("data"), 1
            sheet.freeze_panes(1, 0)
            for column, name in enumerate(schema.names):
                sheet.write_string(0, column, name, bold)
            for part in parts:
                for row in zip(*(_cells(values) for values in part.columns), strict=True):
                    for column, value in enumerate(row):
                        if isinstance(value, datetime.datetime):
                            sheet.write_datetime(at, column, value, times)
                        elif isinstance(value, datetime.date):
                            sheet.write_datetime(at, column, value, days)
                        elif value is not None:
                            sheet.write(at, column, value)
                    at += 1
            listed = workbook.add_worksheet("code book")
            for line, texts in enumerate(book):
                listed.write_row(line, 0, texts, bold if line == 0 else None)
    except library.exceptions.FileCreateError as error:
        raise OSError(errno.EIO, "the disk is full or may not be written") from error


def _cells(values: pa.Array) -> list[Any]:
    """Values that cells of Excel hold; texts where it has none like them."""
    values = plain(values)
    kind = values.type
    cells: list[Any] = values.to_pylist()
    if pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return cells
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        cells = values.cast(pa.timestamp("us")).to_pylist() if pa.types.is_timestamp(kind) else cells
        return [text if day is None or day.year < 1900 else day for day, text in zip(cells, texts, strict=True)]
    if is_number(kind):
        cells = values.cast(pa.float64(), safe=False).to_pylist()
        return [
            value if value is not None and abs(value) <= _WHOLE else text
            for value, text in zip(cells, texts, strict=True)
        ]
    return texts


# --- A release as Parquet in folders of columns that are released unchanged -------------------------------------------


def export_folders(where: OutputPlace, manifest: dict[str, Any], target: Path, by: Sequence[str]) -> Exported:
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
    whole = pa.schema([field if field.name not in by else keys.field(field.name) for field in schema])
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.draft")
    try:
        with explained(f"{target} cannot be written", "give another place"):
            draft.mkdir()
            ds.write_dataset(
                (_with_plain(batch, by, whole) for batch in batches(where, manifest)),
                draft,
                schema=whole,
                format="parquet",
                partitioning=ds.partitioning(keys, flavor="hive"),
                max_partitions=len(sizes) + 1,
                max_open_files=256,
                use_threads=False,
                file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
            )
            files = list(draft.rglob("*.parquet"))
            for path in files:
                sync_path(path)
            os.rename(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Exported(str(target), sum(sizes.values()), len(files))


def _check_keys(manifest: dict[str, Any], by: Sequence[str]) -> None:
    kept = [name for name, column in manifest["columns"].items() if column["treatment"] == "unchanged"]
    for name in by:
        if name not in kept:
            raise InputError(
                f"column {name!r} is not released unchanged, which --by needs; use one of: {', '.join(kept) or 'none'}"
            )
    if (twice := len(set(by)) < len(by)) or len(by) == len(manifest["columns"]):
        raise JobError(f"--by names {'a column twice' if twice else 'all columns'}; name fewer, each once")
    if manifest.get("k_counts", "rows") != "rows":
        raise InputError(
            "k counts units of several rows, and a release has no unit column: folder sizes cannot be checked"
        )


def _with_plain(batch: pa.RecordBatch, by: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [plain(batch.column(name)) if name in by else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sizes(where: OutputPlace, manifest: dict[str, Any], by: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """Records of each combination of the keys."""
    sizes: Counter[tuple[Any, ...]] = Counter()
    for batch in batches(where, manifest, by):
        table = pa.table([plain(batch.column(name)) for name in by], names=list(by))
        counts = table.group_by(list(by)).aggregate([([], "count_all")])
        for *key, count in zip(*(counts[name].to_pylist() for name in (*by, "count_all")), strict=True):
            sizes[tuple(key)] += count
    return sizes


# --- A release as one file of Stata or SPSS, with the labels of columns and values that the original had --------------


Codes = dict[str, float | str]


def export_labelled(where: OutputPlace, manifest: dict[str, Any], target: Path) -> Exported:
    """Write all rows of a checked release as one file of Stata or SPSS, whole or not at all.

    Labelled values are written as codes with labels, and columns keep their labels. Names that the program does not
    take are changed, and are the label of a column that has none. Timestamps at midnight throughout become dates. The
    table must fit into memory.
    """
    import pandas as pd

    check_target(target)
    schema = schema_of(where, manifest)
    _check(schema, manifest, target)
    names = _names_for(target.suffix.lower(), schema.names)
    other = {name: new for name, new in names.items() if name != new}
    table = pa.Table.from_batches(list(batches(where, manifest)), schema)
    described = manifest["columns"]
    given = {name: described[name]["codes"] for name in table.column_names if described[name].get("codes")}
    codes = _ordered(table) | given
    write = getattr(import_module("pyreadstat"), {".dta": "write_dta", ".sav": "write_sav"}[target.suffix.lower()])
    try:
        with drafted(target, private=False) as draft:
            write(
                pd.DataFrame(
                    {new: _column(_coded(table.column(name), codes.get(name))) for name, new in names.items()}
                ),
                str(draft),
                column_labels={
                    new: (described[name].get("label") or (name if name in other else ""))[:_LABEL]
                    for name, new in names.items()
                },
                variable_value_labels={
                    names[name]: {at: text for text, at in of.items()} for name, of in codes.items()
                },
            )
    except Exception:  # errors of the library may quote values
        problem = f"{target} cannot be written: the disk is full, or a text is too long for it; try CSV"
        raise OutputError(problem) from None
    changed = ", ".join(f"{name!r} is {new}" for name, new in other.items())
    warnings = (f"names that the program does not take are changed: {changed}",) if other else ()
    return Exported(str(target), table.num_rows, 1, warnings)


def _names_for(suffix: str, names: Sequence[str]) -> dict[str, str]:
    """Each column's name in Stata or SPSS, with _ for other signs; of equal ones later end in a number."""
    (pattern, most, reserved), found = _NAMES[suffix], dict[str, str]()
    alike, taken = str.lower if suffix == ".sav" else str, set[str]()

    def fits(name: str) -> bool:
        valid = re.fullmatch(pattern, name) is not None and re.fullmatch(reserved, name) is None
        return valid and len(name) <= most and alike(name) not in taken

    for name in names:
        if fits(name):
            found[name] = name
            taken.add(alike(name))
    for name in (name for name in names if name not in found):
        plainly = re.sub(r"\W+", "_", name).strip("_")[: most - 2] or "column"
        plainly = plainly if re.fullmatch(pattern, plainly) and not re.fullmatch(reserved, plainly) else f"v_{plainly}"
        tails = ("", *(f"_{at}" for at in range(2, len(names) + 2)))
        found[name] = next(new for tail in tails if fits(new := plainly[: most - len(tail)] + tail))
        taken.add(alike(found[name]))
    return {name: found[name] for name in names}


def _ordered(table: pa.Table) -> dict[str, Codes]:
    """Codes of ordered categories: their ranks."""
    kinds = {field.name: field.type for field in table.schema if pa.types.is_dictionary(field.type)}
    unified = table.unify_dictionaries()
    levels = {
        name: unified.column(name).chunk(0).dictionary.to_pylist()
        for name, kind in kinds.items()
        if kind.ordered and pa.types.is_string(kind.value_type) and table.num_rows
    }
    return {name: {str(value): float(at) for at, value in enumerate(own, 1)} for name, own in levels.items()}


def _check(schema: pa.Schema, manifest: dict[str, Any], target: Path) -> None:
    need(f"{target} is written", "statistics", "pyreadstat")
    rows = sum(entry["rows"] for entry in manifest["files"])
    if rows * len(schema) > _MOST_VALUES:
        raise InputError(f"{rows:,} rows of {len(schema)} columns are too many for {target.suffix}; export as CSV")


def _coded(column: pa.ChunkedArray, codes: Codes | None) -> pa.Array:
    """Plain values, labels replaced by their codes."""
    values = plain(column.combine_chunks())
    if codes is None:
        return values
    at = pc.index_in(values, pa.array(list(codes), values.type))
    return pa.array(list(codes.values())).take(at)


def _column(values: pa.Array) -> pd.Series[Any]:
    """The values in a type that Stata and SPSS both have."""
    import pandas as pd

    kind = values.type
    if pa.types.is_boolean(kind):
        return pd.Series(values.cast(pa.int8())).astype("Int8")
    if pa.types.is_integer(kind):
        largest = pc.max(pc.abs(values.cast(pa.float64()))).as_py() or 0
        return pd.Series(values.cast(pa.float64())).astype("Int32" if largest <= _SMALL else "float64")
    if is_number(kind):
        return pd.Series(values.cast(pa.float64()))
    if pa.types.is_timestamp(kind):
        days = pc.floor_temporal(values, unit="day")
        if pc.all(pc.equal(values, days), min_count=0).as_py():
            return _column(values.cast(pa.date32()))
        return pd.Series(np.asarray(values.cast(pa.timestamp("us"))))
    return pd.Series(values.to_pylist(), dtype=object)
