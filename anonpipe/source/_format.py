"""Texts of a CSV as values and values as texts, where the library knows one way of writing them alone."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.encoding.values import is_date, is_number
from anonpipe.errors import InputError
from anonpipe.job.csv_format import NULLS, TRUTHS, CsvFormat, date_pattern, number_pattern

_ISO_DATE = r"^\s*\d{4}-\d{2}-\d{2}\s*$"
_ISO_TIME = r"^\s*\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?\s*$"


class Misfit(Exception):
    """A column holds texts of another form than its type is written in."""


def refuse_other(url: str, form: CsvFormat | None) -> None:
    """Refuse what is said of CSVs for an input that is none."""
    if form is not None and (given := form.given()):
        raise InputError(f"{url} is no CSV, and input.{next(iter(given))} says how one is written; leave it out")


def decoded(stream: Any, form: CsvFormat) -> Any:
    """A stream of bytes in UTF-8, block by block, whatever the encoding."""
    if form.encoding is None or codecs.lookup(form.encoding).name == "utf-8":
        return stream
    inner = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
    return pa.transcoding_input_stream(inner, form.encoding, "utf-8")


# --- Reading ----------------------------------------------------------------------------------------------------------


def own_types(form: CsvFormat) -> bool:
    """Whether some texts are values that the library does not read."""
    return bool(form.dates) or form.thousands is not None


def reads(form: CsvFormat, kind: pa.DataType) -> bool:
    """Whether values of a type are read as texts first, by `typed`, and not by the library."""
    if is_date(kind):
        return bool(form.dates)
    return form.thousands is not None and is_number(kind)


def pattern_of(form: CsvFormat, kind: pa.DataType) -> str:
    """A regular expression of the texts of a type."""
    if is_date(kind):
        iso = _ISO_TIME if pa.types.is_timestamp(kind) else _ISO_DATE
        return "|".join([iso, *(date_pattern(each) for each in _dates(form, kind))])
    return number_pattern(form.decimal, form.thousands, whole=pa.types.is_integer(kind))


def _dates(form: CsvFormat, kind: pa.DataType) -> list[str]:
    """How values of a type of dates are written: a day has no time."""
    return [each for each in form.dates if pa.types.is_timestamp(kind) or "%H" not in each]


def typed(form: CsvFormat, texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; a Misfit where one is of another form, or of no day of the calendar."""
    if pc.any(pc.invert(pc.match_substring_regex(texts, pattern_of(form, kind))), min_count=0).as_py():
        raise Misfit
    texts = pc.utf8_trim_whitespace(texts)
    if is_date(kind):
        for each in _dates(form, kind):
            texts = pc.coalesce(_as_iso(texts, each), texts)
    else:
        texts = pc.replace_substring(pc.utf8_ltrim(texts, "+"), str(form.thousands), "")
        texts = pc.replace_substring(texts, form.decimal, ".")
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        raise Misfit from None


def _as_iso(texts: pa.Array, pattern: str) -> pa.Array:
    """Texts of a pattern as ISO writes them; null for others."""
    found = pc.extract_regex(texts, date_pattern(pattern, named=True))
    parts = {field.name: pc.utf8_lpad(pc.struct_field(found, field.name), 2, "0") for field in found.type}
    days = pc.binary_join_element_wise(*(parts[name] for name in "Ymd"), "-")
    times = [part for name, part in parts.items() if name in "HMS"]
    return pc.binary_join_element_wise(days, pc.binary_join_element_wise(*times, ":"), "T") if times else days


def fits(form: CsvFormat, texts: pa.Array, kind: pa.DataType) -> bool:
    """Whether all texts are written as values of a type."""
    try:
        typed(form, texts, kind)
    except Misfit:
        return False
    return True


def type_of(form: CsvFormat, texts: pa.Array) -> pa.DataType:
    """The type that all of some texts are written in; text for none."""
    texts = texts.drop_null()
    kinds = [pa.date32(), pa.timestamp("ms"), pa.int64(), pa.float64()]
    asked = (kind for kind in kinds if len(texts) and reads(form, kind))
    return next((kind for kind in asked if fits(form, texts, kind)), pa.string())


def typed_batch(form: CsvFormat, batch: pa.RecordBatch, types: Sequence[pa.DataType]) -> pa.RecordBatch:
    """A batch whose columns that `typed` reads are values of their types."""
    columns = [
        typed(form, column, kind) if reads(form, kind) else column
        for column, kind in zip(batch.columns, types, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


# --- Writing ----------------------------------------------------------------------------------------------------------


_MOST_DECIMALS = 9  # More are those of no decimal number


@dataclass(frozen=True)
class Spelling:
    """How a CSV writes the values of a column."""

    truths: tuple[str, str] = TRUTHS[0]
    decimals: int | None = None  # At most; None for all that a number has

    def joined(self, texts: pa.Array, decimal: str) -> Spelling:
        """What more texts tell."""
        texts = texts.unique().drop_null()
        truths = next((each for each in TRUTHS if pc.any(pc.is_in(texts, pa.array(each)), min_count=0).as_py()), None)
        after = pc.struct_field(pc.extract_regex(texts, rf"{re.escape(decimal)}(?P<digits>\d+)\s*$"), "digits")
        other = pc.any(pc.match_substring(texts, "e", ignore_case=True), min_count=0).as_py()
        digits = _MOST_DECIMALS + 1 if other else pc.max(pc.utf8_length(after)).as_py() or 0
        return Spelling(truths or self.truths, max(digits, self.decimals or 0))


def fields(form: CsvFormat, values: pa.Array, spelling: Spelling = Spelling()) -> pa.Array:
    """Values as fields of a line, in quotes where they must be; nulls as the first text for them."""
    texts = written(form, values, spelling)
    special = pc.match_substring_regex(texts, f'^$|^\\s|\\s$|["\r\n]|{re.escape(form.delimiter_or_comma)}')
    if pa.types.is_string(values.type):  # a text that readers take for null
        special = pc.or_(special, pc.is_in(texts, pa.array([*NULLS, *form.nulls])))
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.fill_null(pc.if_else(special, quoted, texts), form.nulls[0] if form.nulls else "")


def written(form: CsvFormat, values: pa.Array, spelling: Spelling) -> pa.Array:
    """Numbers, dates and truth values as texts; others as the library writes them."""
    if is_date(values.type) and (patterns := _dates(form, values.type)):
        times = [each for each in patterns if "%H" in each]
        if times or not pa.types.is_timestamp(values.type):
            return pc.strftime(values, (times or patterns)[0])
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, *reversed(spelling.truths))
    if spelling.decimals is not None and spelling.decimals <= _MOST_DECIMALS and pa.types.is_floating(values.type):
        values = pc.round(values, spelling.decimals)
    texts = values.cast(pa.string())
    if not is_number(values.type):
        return texts
    texts = pc.replace_substring(texts, ".", form.decimal)
    while form.thousands is not None:
        more = pc.replace_substring_regex(texts, r"^(-?\d+)(\d{3})(\D|$)", rf"\1{form.thousands}\2\3")
        if more.equals(texts):
            break
        texts = more
    return texts
