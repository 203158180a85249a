"""Files of SPSS, Stata and SAS, read by pyreadstat in pieces; labels of values become texts where all values have one.

Declared missing values and blank texts are nulls. SPSS and SAS know one type of number, so that whole numbers come as
floating ones.
"""

from __future__ import annotations

import datetime
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from anonpipe.errors import InputError
from anonpipe.source._files import File, Labels, Unit, guarded, local_path, open_bytes, split_sheet, units_of
from anonpipe.source._parquet import check_same

_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
SUFFIXES = tuple(_READERS)

_CELLS = 4_000_000  # Values of a piece: some 130 MB as the library hands them on
_UNREADABLE = "is no readable file of SPSS, Stata or SAS: it is cut short, damaged or encrypted; copy it again"

Columns = dict[str, list[Any]]


def open_statistics(files: Sequence[File]) -> tuple[list[Unit], pa.Schema, dict[str, Labels]]:
    """One unit a file, the schema of all, and the labels of the first.

    Each file is read once as a whole: this counts the rows, and tells types and which columns have a label for each
    value.
    """
    first, pieces = files[0].path, []
    rows, schema = _scanned(first)
    for file in files:
        if file.path != first:
            rows, found = _scanned(file.path)
            check_same(first, schema, file.path, found)
        pieces.append((file.path, (), rows))
    return units_of("statistics", pieces), schema, _labels(first, schema)


def _labels(path: str, schema: pa.Schema) -> dict[str, Labels]:
    """What the file says of its columns; codes of those alone that are read as their labels."""
    about = guarded(path, _UNREADABLE, _reader(path), local_path(path), metadataonly=True)[1]
    described: dict[str, Labels] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        values = about.variable_value_labels.get(name, {}) if pa.types.is_string(kind) else {}
        found = Labels(about.column_names_to_labels.get(name) or "", {label: code for code, label in values.items()})
        if found != Labels():
            described[name] = found
    return described


def _scanned(path: str) -> tuple[int, pa.Schema]:
    """Rows and columns of a file: texts where each value has a label of its own; what is all null is a number."""
    rows = 0
    types: dict[str, pa.DataType] = {}
    labels: dict[str, dict[Any, str]] = {}
    for columns, described in _pieces(path, None):
        rows += len(next(iter(columns.values()), []))
        if not types:
            labels = {name: texts for name, texts in described.items() if len(set(texts.values())) == len(texts)}
        for name, values in columns.items():
            found = pa.array(values).type
            if pa.types.is_null(types.setdefault(name, found)):
                types[name] = found
            if name in labels and any(each not in labels[name] for each in set(values) - {None}):
                del labels[name]
    plain = {name: pa.float64() if pa.types.is_null(kind) else kind for name, kind in types.items()}
    return rows, pa.schema([(name, pa.string() if name in labels else kind) for name, kind in plain.items()])


def read_statistics(unit: Unit, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of a file, of the named columns."""
    for columns, labels in _pieces(unit.path, names):
        arrays = [
            guarded(unit.path, _CHANGED, _array, columns[name], schema.field(name).type, labels.get(name, {}))
            for name in names
        ]
        yield pa.record_batch(arrays, names=list(names))


_CHANGED = "changed while it was read; run again when nobody writes to it"


def _array(values: list[Any], kind: pa.DataType, labels: dict[Any, str]) -> pa.Array:
    if pa.types.is_string(kind) and labels:
        values = [None if value is None else labels[value] for value in values]
    return pa.array(values, kind)


def _pieces(path: str, names: Sequence[str] | None) -> Iterator[tuple[Columns, dict[str, dict[Any, str]]]]:
    """Values and labels of some columns, all if not given, piece by piece."""
    read, where = _reader(path), local_path(path)
    if where is None:
        raise InputError(f"{path}: files of SPSS, Stata and SAS are read from a disk; copy it to this machine first")
    _, about = guarded(path, _UNREADABLE, read, where, metadataonly=True)
    wanted = list(about.column_names) if names is None else list(names)
    size, done = max(1, _CELLS // max(1, len(wanted))), 0
    while True:
        given = {"usecols": wanted, "row_offset": done, "row_limit": size, "output_format": "dict"}
        found, described = guarded(path, _UNREADABLE, read, where, **given)
        # These files have no other missing text than a blank one
        columns = {name: [None if each == "" or each != each else each for each in found[name]] for name in wanted}
        rows = len(columns[wanted[0]]) if wanted else 0
        if rows or not done:
            yield columns, described.variable_value_labels
        done += rows
        if rows < size:
            return


def _reader(path: str) -> Callable[..., Any]:
    if find_spec("pyreadstat") is None:
        raise InputError(f"{path} is read by pyreadstat, which is not installed: pip install 'anonpipe[statistics]'")
    suffix = next(suffix for suffix in SUFFIXES if path.lower().endswith(suffix))
    reader: Callable[..., Any] = getattr(import_module("pyreadstat"), _READERS[suffix])
    return reader


# --- Workbooks --------------------------------------------------------------------------------------------------------
# The library holds a sheet in memory, which has 1,048,576 rows at most. It reads errors of formulas as empty cells, so
# they are counted in the file itself; in the format before Excel 2007 they cannot be, and it is refused.

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
    if find_spec("python_calamine") is None:
        raise InputError(f"{plain} is read by python-calamine, which is not installed: pip install 'anonpipe[excel]'")
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
