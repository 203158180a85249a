"""CSV files: types from the job and the whole file, read as a stream of batches."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from anonpipe.columns import Column, Kind, Role
from anonpipe.encoding.values import is_date
from anonpipe.errors import InputError
from anonpipe.job.csv_format import DELIMITERS, TRUTHS, CsvFormat, number_pattern
from anonpipe.source._files import File, Unit, guarded, open_bytes, units_of
from anonpipe.source._format import Spelling, decoded, fits, own_types, pattern_of, reads, type_of, typed_batch

_BLOCK_BYTES = 4 * 2**20
_HEADER_BYTES = 2**20
_GZIP = b"\x1f\x8b"
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_READ_AS_WHOLE = r"^\s*-?[0-9]{1,18}\s*$"  # By the library
_TRUTH = [text for each in TRUTHS for text in each]
_NO_TEXT = re.compile("[\udc80-\udcff\0]")  # What is read in place of bytes that are not of the encoding
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_FEW_ROWS = 5  # Fewer rows than this tell nothing of what a column's values are
_UNREADABLE = "is no readable CSV: check its encoding, quotes and delimiter"


def open_csv(
    files: Sequence[File], columns: Mapping[str, Column] | None, form: CsvFormat
) -> tuple[list[Unit], pa.Schema, CsvFormat]:
    """One unit a file, the schema of all, and the format with its delimiter and encoding."""
    # The whole of every file is read once: this counts the rows, finds ragged lines, and settles the types. Text in a
    # numeric column is an error; a coded column is whole numbers or truth values if all of its values are (codes with
    # leading zeros are text), else text.
    form = completed(files[0].path, form)
    first = _inferred(files[0].path, form)
    _check_header(files[0].path, first.names, columns)
    if _like_a_row(files[0].path, form, first):
        raise InputError(
            f"{files[0].path}: the first line looks like a row of data and not like the names of the columns; add a "
            "header line (columns whose names are numbers or dates need other names, such as y2020)"
        )
    for file in files[1:]:
        if _inferred(file.path, form).names != first.names:
            raise InputError(f"{file.path}: its header differs from the first file's; give files of one table")
    types = {name: _declared_type(kind, columns, name) for name, kind in zip(first.names, first.types, strict=True)}
    while True:
        passes = [_Pass(file.path, form, types, columns) for file in files]
        failed = next((name for one in passes if (name := one.run()) is not None), None)
        if failed is None:
            break
        types[failed] = pa.string()  # nothing was declared for it, and the first block misled
    units = units_of("csv", [(one.path, (), one.rows) for one in passes])
    narrowed = {
        name: _narrowed(kind, [one.texts[name] for one in passes if name in one.texts]) for name, kind in types.items()
    }
    return units, pa.schema(list(narrowed.items())), form


def completed(path: str, form: CsvFormat) -> CsvFormat:
    """The format with what a file's first bytes and header tell: its encoding and delimiter."""
    if form.encoding is None:
        with _plain_bytes(path) as handle:
            marked = guarded(path, _UNREADABLE, handle.read, 2) in _MARKS
        form = form.model_copy(update={"encoding": "utf-16" if marked else "utf-8"})
    return form if form.delimiter else form.model_copy(update={"delimiter": _delimiter(path, form)})


def _delimiter(path: str, form: CsvFormat) -> str:
    """Tab for .tsv; else the comma, unless the header holds none but other marks."""
    if path.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    header = head(path, form.encoding).split("\n", 1)[0]
    return next((mark for mark in DELIMITERS if mark in header), ",")


def head(path: str, encoding: str | None) -> str:
    """The first lines of a file as text, whatever is no text in them replaced."""
    with _plain_bytes(path) as handle:
        begin: bytes = guarded(path, _UNREADABLE, handle.read, _HEADER_BYTES)
    return begin.decode(encoding or "utf-8-sig", errors="replace")


def _plain_bytes(path: str) -> Any:
    """The file's bytes, uncompressed."""
    handle = open_bytes(path)
    begin = guarded(path, _UNREADABLE, handle.read, 2)
    handle.seek(0)
    return pa.CompressedInputStream(pa.PythonFile(handle, mode="r"), "gzip") if begin == _GZIP else handle


def _stream(source: Any, form: CsvFormat, convert: pcsv.ConvertOptions, handler: Any = None) -> Any:
    """Arrow's streaming reader; what it raises quotes data."""
    parse = pcsv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=handler)
    return pcsv.open_csv(source, pcsv.ReadOptions(block_size=_BLOCK_BYTES), parse, convert)


def _convert(form: CsvFormat, types: Mapping[str, pa.DataType], names: Sequence[str] = ()) -> pcsv.ConvertOptions:
    return pcsv.ConvertOptions(
        column_types={name: pa.string() if reads(form, kind) else kind for name, kind in types.items()},
        include_columns=list(names),
        null_values=form.nulls,
        strings_can_be_null=True,
        decimal_point=form.decimal,
    )


def _inferred(path: str, form: CsvFormat) -> pa.Schema:
    """The header, and the types of the first block."""
    with _plain_bytes(path) as source:
        watched = _Watched(decoded(source, form))
        try:
            file = pa.PythonFile(watched, mode="r")
            opened = guarded(path, _UNREADABLE, _stream, file, form, _convert(form, {}), lambda _: "skip")
            batch = guarded(path, _UNREADABLE, next, opened, None) if own_types(form) else None
            schema: pa.Schema = guarded(path, _UNREADABLE, lambda: opened.schema)
        except InputError:
            if watched.foreign:
                raise InputError(_foreign_text(path, form)) from None
            raise
    if batch is None:
        return schema
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    own = {name: type_of(form, batch.column(name)) for name in texts}  # which the format reads as other types
    return pa.schema([field.with_type(own.get(field.name, field.type)) for field in schema])


def _check_header(path: str, names: Sequence[str], columns: Mapping[str, Column] | None) -> None:
    repeated = [at + 1 for at, name in enumerate(names) if name in names[:at]]
    if repeated:
        raise InputError(
            f"{path}: the header gives column {', '.join(map(str, repeated))} (counted from 1) a name that an earlier "
            "column has; make the names different (and check that the file has a header line)"
        )
    if columns is not None and not set(columns) & set(names):
        raise InputError(f"{path}: none of the job's columns is in the header; check that the file has a header line")


def _like_a_row(path: str, form: CsvFormat, header: pa.Schema) -> bool:
    """Whether the names are values: numbers, dates and truth values, or, where all is text, texts of their columns."""
    given = [(name, kind) for name, kind in zip(header.names, header.types, strict=True) if name not in form.nulls]
    written = [(name, pattern) for name, kind in given if (pattern := _written(kind, form)) is not None]
    if written or not given:
        return bool(written) and all(re.search(pattern, name) for name, pattern in written)
    batch = guarded(path, _UNREADABLE, next, text_batches(path, form, header.names), None)
    if batch is None or batch.num_rows < _FEW_ROWS:
        return False
    return all(pc.any(pc.equal(batch.column(name), name), min_count=0).as_py() for name, _ in given)


def _written(kind: pa.DataType, form: CsvFormat) -> str | None:
    """How a value of a type is written; None for texts."""
    if reads(form, kind):
        return pattern_of(form, kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return number_pattern(form.decimal, None)
    if is_date(kind):
        return r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]|$)"
    if pa.types.is_time(kind):
        return r"^[0-9]{1,2}:[0-9]{2}"
    return f"^({'|'.join(_TRUTH)})$" if pa.types.is_boolean(kind) else None


def _declared_type(inferred: pa.DataType, columns: Mapping[str, Column] | None, name: str) -> pa.DataType:
    if pa.types.is_timestamp(inferred):
        inferred = pa.timestamp("ms" if inferred.unit == "s" else inferred.unit, inferred.tz)
    known = not (pa.types.is_null(inferred) or pa.types.is_time(inferred) or pa.types.is_binary(inferred))
    if columns is None:
        return inferred if known else pa.string()
    column, no_codes = columns.get(name), pa.types.is_floating(inferred) or is_date(inferred)
    if column is not None and column.role is Role.DROPPED and known and (no_codes or not column.kind.coded):
        return inferred  # as it would be if it were released: records are held against those of earlier releases
    if column is None or not column.role.released or column.kind.coded:
        return pa.string()
    if column.kind is Kind.DATE:
        return inferred if pa.types.is_timestamp(inferred) else pa.date32()
    whole = column.kind is Kind.INTEGER and not pa.types.is_floating(inferred)
    return pa.int64() if whole else pa.float64()


def _narrowed(kind: pa.DataType, texts: Sequence[_Texts]) -> pa.DataType:
    """The type of a coded column: whole numbers or truth values if all its texts are, in every file."""
    if not texts or not any(text.seen for text in texts):
        return kind
    if all(text.whole for text in texts):
        return pa.int64()
    return pa.bool_() if all(text.truth for text in texts) else kind


@dataclass
class _Texts:
    """What the texts of a coded column have in common so far."""

    seen: bool = False
    whole: bool = True
    truth: bool = True

    def note(self, values: pa.Array) -> None:
        values = values.unique().drop_null()
        self.seen = self.seen or len(values) > 0
        if self.whole:
            self.whole = bool(pc.all(pc.match_substring_regex(values, _WHOLE), min_count=0).as_py())
        if self.truth:
            self.truth = bool(pc.all(pc.is_in(values, pa.array(_TRUTH)), min_count=0).as_py())


@dataclass
class _Pass:
    """One reading of one whole file, to count its rows and to know its texts."""

    path: str
    form: CsvFormat
    types: dict[str, pa.DataType]
    columns: Mapping[str, Column] | None
    rows: int = 0
    ragged: int = 0
    texts: dict[str, _Texts] = field(default_factory=dict)

    def run(self) -> str | None:
        """Read the file; the name of a column that does not fit the type guessed for it, or None."""
        with _plain_bytes(self.path) as source:
            watched = _Watched(decoded(source, self.form))
            failed = self._read(watched)
        if self.ragged:
            raise InputError(self._ragged_text())
        if failed is None and watched.quotes % 2:
            raise InputError(
                f"{self.path}: the number of double quotes is odd, so that a quoted field does not end and would "
                "swallow the lines after it; close the quote (a quote inside a quoted field is written twice)"
            )
        if failed is not None:
            # Where nothing was declared of a column's values, the first block may have misled
            undeclared = self.columns is None or (failed in self.columns and self.columns[failed].role is Role.DROPPED)
            if not undeclared or pa.types.is_string(self.types[failed]):
                raise InputError(self._misfit_text(failed))
        return failed

    def _read(self, source: _Watched) -> str | None:
        column, file = None, pa.PythonFile(source, mode="r")
        try:
            for batch in _stream(file, self.form, _convert(self.form, self.types), self._skip):
                self._note(batch)
                if (misfit := self._misfit(batch)) is not None:
                    return misfit
            return None
        except pa.ArrowException as error:
            column = re.search(r"In CSV column #(\d+)", str(error))
        except _Foreign:
            pass
        if source.foreign:
            raise InputError(_foreign_text(self.path, self.form))
        if column is None:
            raise InputError(f"{self.path} {_UNREADABLE}")
        return list(self.types)[int(column[1])]

    def _note(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for name, column in (self.columns or {}).items():
            declared = column.role.released or column.role is Role.DROPPED
            if declared and column.kind.coded and name in self.types and pa.types.is_string(self.types[name]):
                self.texts.setdefault(name, _Texts()).note(batch.column(name))

    def _misfit(self, batch: pa.RecordBatch) -> str | None:
        """The first column that `form` reads and that has texts of another form."""
        own = [name for name, kind in self.types.items() if reads(self.form, kind)]
        return next((name for name in own if not fits(self.form, batch.column(name), self.types[name])), None)

    def _skip(self, _: Any) -> str:
        self.ragged += 1
        return "skip"

    def _ragged_text(self) -> str:
        fields = len(self.types)
        where = _first_line(self.path, self.form, lambda row: len(row) != fields)
        many = "1 line has" if self.ragged == 1 else f"{self.ragged:,} lines have"
        return f"{self.path}: {many} another number of fields than the header's {fields}{where}; correct the file"

    def _misfit_text(self, name: str) -> str:
        kind = self.types[name]
        wanted = {pa.int64(): "whole numbers", pa.float64(): "numbers"}.get(kind, "ISO dates such as 1990-01-31")
        if is_date(kind) and self.form.dates:
            wanted = f"dates (1990-01-31, or as {', '.join(self.form.dates)})"
        pattern = _READ_AS_WHOLE if kind == pa.int64() and not self.form.thousands else pattern_of(self.form, kind)
        at, right = list(self.types).index(name), re.compile(pattern)

        def wrong(row: list[str]) -> bool:
            return len(row) > at and row[at] not in self.form.nulls and right.search(row[at]) is None

        where = _first_line(self.path, self.form, wrong)
        count = guarded(self.path, _UNREADABLE, _count_misfits, self.path, self.form, name, pattern)
        many = {0: "days that no month has", 1: "1 row of another form"}.get(count, f"{count:,} rows of another form")
        return (
            f"{self.path}: column {name!r} is declared {wanted} and holds {many}{where}; "
            "correct the file, or declare another kind (missing values are empty fields or NA; other texts for them "
            "are listed in input.missing, and input.decimal, input.thousands and input.dates say how values are "
            "written: anonpipe init finds these)"
        )


class _Foreign(Exception):
    """Bytes that are not of the encoding; the library would print their line."""


class _Watched(io.RawIOBase):
    """A file object that counts the double quotes that pass, and stops at bytes that are no text in the encoding."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.source = source
        self.quotes = 0
        self.foreign = False
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = b""
        try:
            block = self.source.read(size)
            self.decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            self.foreign = True
        self.quotes += block.count(b'"')
        self.foreign = self.foreign or b"\0" in block
        if self.foreign:
            raise _Foreign
        return block


def _foreign_text(path: str, form: CsvFormat) -> str:
    encoding = codecs.lookup(form.encoding or "utf-8").name
    with _plain_bytes(path) as source:
        lines = io.TextIOWrapper(source, encoding=encoding, errors="surrogateescape", newline="\n")
        found = ((at, text[0]) for at, line in enumerate(lines, 1) if (text := _NO_TEXT.search(line)))
        number, foreign = guarded(path, _UNREADABLE, next, found, (1, ""))
    if foreign == "\0":
        return (
            f"{path}: line {number} holds NUL bytes, which are no text: the file is damaged, or its encoding another "
            "(utf-16-le?); copy or save it again, or give input.encoding"
        )
    return (
        f"{path}: line {number} holds bytes that are not {encoding.upper()}; save the file as UTF-8, or give "
        "input.encoding, such as windows-1252 (anonpipe init finds it)"
    )


def _first_line(path: str, form: CsvFormat, wrong: Callable[[list[str]], bool]) -> str:
    """The first line of data that is wrong, in words; empty for none."""
    with _plain_bytes(path) as source:
        text = io.TextIOWrapper(source, encoding=form.encoding, newline="")
        lines = csv.reader(text, delimiter=str(form.delimiter))
        found = (lines.line_num for at, row in enumerate(filter(None, lines)) if at and wrong(row))
        number = guarded(path, _UNREADABLE, next, found, None)
    return f", the first is line {number:,}" if number else ""


def _count_misfits(path: str, form: CsvFormat, name: str, pattern: str) -> int:
    count = 0
    for batch in text_batches(path, form, [name]):
        values = batch.column(0).drop_null()
        count += len(values) - int(pc.sum(pc.match_substring_regex(values, pattern), min_count=0).as_py())
    return count


def raw_blocks(path: str) -> Iterator[bytes]:
    """The bytes of a file, uncompressed, a block at a time."""
    with _plain_bytes(path) as source:
        while block := guarded(path, _UNREADABLE, source.read, _BLOCK_BYTES):
            yield block


def text_batches(path: str, form: CsvFormat, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The named columns as texts, all unless some are named, a block at a time; ragged lines are left out."""
    names = _inferred(path, form).names if names is None else names
    with _plain_bytes(path) as source:
        convert = _convert(form, dict.fromkeys(names, pa.string()), names)
        file = pa.PythonFile(_Watched(decoded(source, form)), mode="r")
        yield from _stream(file, form, convert, lambda _: "skip")


def spellings(paths: Sequence[str], form: CsvFormat, names: Sequence[str]) -> dict[str, Spelling]:
    """How files write the values of those of the named columns that they have."""
    form = completed(paths[0], form)
    names = [name for name in _inferred(paths[0], form).names if name in names]
    found = dict.fromkeys(names, Spelling())
    for batch in itertools.chain.from_iterable(text_batches(path, form, names) for path in paths if names):
        found = {name: one.joined(batch.column(name), form.decimal) for name, one in found.items()}
    return found


def read_csv(unit: Unit, schema: pa.Schema, form: CsvFormat, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of a unit, of the named columns."""
    types = {name: schema.field(name).type for name in names}
    with _plain_bytes(unit.path) as source:
        text = decoded(source, form)
        batches = guarded(unit.path, _UNREADABLE, _stream, text, form, _convert(form, types, names))
        while (batch := guarded(unit.path, _UNREADABLE, next, batches, None)) is not None:
            yield guarded(unit.path, _UNREADABLE, typed_batch, form, batch, list(types.values()))
