"""Workbooks of Excel and OpenDocument, one sheet a table.

The library holds a sheet in memory, which has 1,048,576 rows at most. It reads errors of formulas as empty cells, so
they are counted in the file itself; in the format before Excel 2007 they cannot be, and it is refused.
"""

from __future__ import annotations

import datetime
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from anonpipe.errors import InputError
from anonpipe.files import need
from anonpipe.source._files import File, Unit, guarded, open_bytes, split_sheet, units_of

_DAMAGED_BOOK = "is no readable workbook: it is damaged or has a password; save it again as .xlsx"
_OLD = "is of the format before Excel 2007, in which errors of formulas cannot be seen; save it as .xlsx"
_LARGEST_WHOLE = 2.0**53
_EMPTY = ""
_SPREADSHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_VALUE_TYPE = "{urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0}value-type"

Row = list[Any]


def open_workbook(file: File) -> tuple[list[Unit], pa.Schema]:
    """The sheet as one unit, and its columns; all that is wrong with it in one error."""
    book, sheet = _sheet(file.path)
    rows: Iterator[Row] = sheet.iter_rows()
    header = [str(name).strip() for name in next(rows, [])]
    problems = _header_problems(header, sheet.merged_cell_ranges or [], sheet.start or (0, 0))
    kinds: list[Counter[str]] = [Counter() for _ in header]
    count = 0
    for row in rows:
        count += 1
        for kind, value in zip(kinds, row, strict=False):
            if value != _EMPTY:
                kind[_kind(value)] += 1
    for name, kind in zip(header, kinds, strict=True):
        dates = kind["date"] + kind["time"]
        if 0 < dates < kind.total():
            others = f"{kind.total() - dates:,}"
            problems.append(
                f"column {name!r} has dates in {dates:,} rows and other values in {others}; make them alike"
            )
    problems += _formula_errors(file.path, sheet.name)
    book.close()
    if problems:
        raise InputError(f"{file.path}: " + "\n".join(problems))
    schema = pa.schema([(name, _type(set(kind))) for name, kind in zip(header, kinds, strict=True)])
    return units_of("workbook", [(file.path, (), count)]), schema


def read_workbook(unit: Unit, schema: pa.Schema, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `rows` rows of the named columns."""
    book, sheet = _sheet(unit.path)
    cells: Iterator[Row] = sheet.iter_rows()
    header = [str(name).strip() for name in next(cells, [])]
    wanted = [(header.index(name), schema.field(name).type) for name in names]
    while piece := list(islice(cells, rows)):
        columns = [pa.array([_value(row[at], kind) for row in piece], kind) for at, kind in wanted]
        yield pa.record_batch(columns, names=list(names))
    book.close()


def _sheet(path: str) -> tuple[Any, Any]:
    """The workbook, and the sheet that is named or the only one that is seen."""
    plain, wanted = split_sheet(path)
    need(f"{plain} is read", "excel", "python_calamine")
    if plain.lower().endswith(".xls"):
        raise InputError(f"{plain} {_OLD}")
    book: Any = guarded(plain, _DAMAGED_BOOK, import_module("python_calamine").load_workbook, open_bytes(plain))
    seen = [each.name for each in book.sheets_metadata if str(each.visible).endswith(".Visible")]
    name = wanted or (seen[0] if len(seen) == 1 else "")
    if name not in book.sheet_names:
        what = f"has no sheet {wanted!r}" if wanted else f"has {len(seen)} sheets"
        raise InputError(f"{plain} {what}; say which by {plain}#SHEET: {', '.join(map(repr, seen))}")
    return book, guarded(plain, _DAMAGED_BOOK, book.get_sheet_by_name, name)


def _header_problems(header: Sequence[str], merged: Sequence[Any], start: tuple[int, int]) -> list[str]:
    found = [] if header else ["the sheet is empty"]
    first = [each for each in merged if each[0][0] <= start[0] + 1]
    if first:
        what = "range of cells is" if len(first) == 1 else "ranges of cells are"
        found.append(f"{len(first)} {what} merged in the first two rows; give every column one name, in the first row")
    if unnamed := [_letter(start[1] + at) for at, name in enumerate(header) if not name]:
        found.append(f"columns {', '.join(unnamed)} have no name in the first row; name them, or delete them")
    if twice := [name for name, count in Counter(filter(None, header)).items() if count > 1]:
        found.append(f"several columns are named {', '.join(map(repr, twice))}; rename them")
    return found


def _letter(at: int) -> str:
    """The letters of a column, counted from 0."""
    return (_letter(at // 26 - 1) if at >= 26 else "") + chr(ord("A") + at % 26)


def _kind(value: Any) -> str:
    """What a cell is; `time`: a date with a time of day."""
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int | float):
        return "whole" if float(value).is_integer() and abs(value) < _LARGEST_WHOLE else "number"
    if isinstance(value, datetime.date):
        return "time" if isinstance(value, datetime.datetime) and value.time() != datetime.time() else "date"
    return "text"


def _type(kinds: set[str]) -> pa.DataType:
    """The type of cells of these kinds: of numbers and texts together, text."""
    if "time" in kinds and kinds <= {"date", "time"}:
        return pa.timestamp("ms")
    if "number" in kinds and kinds <= {"whole", "number"}:
        return pa.float64()
    types = {"date": pa.date32(), "truth": pa.bool_(), "whole": pa.int64()}
    return types.get(next(iter(kinds)), pa.string()) if len(kinds) == 1 else pa.string()


def _value(value: Any, kind: pa.DataType) -> Any:
    """A cell as a value of the type of its column."""
    if value == _EMPTY:
        return None
    if pa.types.is_date32(kind):
        return value.date() if isinstance(value, datetime.datetime) else value
    if pa.types.is_timestamp(kind):
        return value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
    if pa.types.is_string(kind):
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    return int(value) if pa.types.is_int64(kind) else value


def _formula_errors(path: str, sheet: str) -> list[str]:
    """A line where cells of the sheet hold errors such as #DIV/0!."""
    plain = split_sheet(path)[0]
    count = _errors_of_ods if plain.lower().endswith(".ods") else _errors_of_xlsx
    with zipfile.ZipFile(open_bytes(plain)) as parts:
        found: int = guarded(plain, _DAMAGED_BOOK, count, parts, sheet)
    what = "1 cell is an error" if found == 1 else f"{found:,} cells are errors"
    return [f"{what} of a formula (#DIV/0!, #N/A); correct the formulas, or empty the cells"] if found else []


def _errors_of_xlsx(parts: zipfile.ZipFile, sheet: str) -> int:
    book = ElementTree.fromstring(parts.read("xl/workbook.xml"))
    key = next(each.get(_RELATION) for each in book.iter(f"{_SPREADSHEET}sheet") if each.get("name") == sheet)
    links = ElementTree.fromstring(parts.read("xl/_rels/workbook.xml.rels"))
    target = str(next(each.get("Target") for each in links if each.get("Id") == key))
    count = 0
    with parts.open(target.lstrip("/") if target.startswith("/") else f"xl/{target}") as content:
        for _, each in ElementTree.iterparse(content):
            count += each.tag == f"{_SPREADSHEET}c" and each.get("t") == "e"
            if each.tag == f"{_SPREADSHEET}row":
                each.clear()
    return count


def _errors_of_ods(parts: zipfile.ZipFile, sheet: str) -> int:
    count, here = 0, False
    with parts.open("content.xml") as content:
        for event, each in ElementTree.iterparse(content, ("start", "end")):
            if each.tag == f"{_TABLE}table" and event == "start":
                here = each.get(f"{_TABLE}name") == sheet
            elif event == "end":
                count += here and each.get(_VALUE_TYPE) == "error"
                if each.tag == f"{_TABLE}table-row":
                    each.clear()
    return count
