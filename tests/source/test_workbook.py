"""Sheets of Excel and LibreOffice: types and dates as they are, and what is wrong with a sheet in one error."""

from __future__ import annotations

import datetime
import zipfile
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest

from anonpipe.errors import InputError
from anonpipe.propose.propose import propose_job
from anonpipe.source import open_source, read_batches

HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
EPOCH = datetime.datetime(1899, 12, 30)
ERROR = object()


def _cell(ref, value):
    if value is None:
        return ""
    if value is ERROR:
        return f'<c r="{ref}" t="e"><v>#DIV/0!</v></c>'
    if isinstance(value, bool):
        return f'<c r="{ref}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime.date):
        at = value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
        style = 2 if isinstance(value, datetime.datetime) else 1
        return f'<c r="{ref}" s="{style}"><v>{(at - EPOCH) / datetime.timedelta(days=1)}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{ref}"><v>{value}</v></c>'
    return f'<c r="{ref}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'


def write(path, sheets, merged="", hidden=()):
    """A workbook of some sheets, each a list of rows."""
    names = list(sheets)
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{at}.xml" ContentType="application/vnd.openxmlformats-officedocument'
        '.spreadsheetml.worksheet+xml"/>'
        for at in range(len(names))
    )
    state = {name: ' state="hidden"' if name in hidden else "" for name in names}
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{at + 1}" r:id="rId{at}"{state[name]}/>'
        for at, name in enumerate(names)
    )
    links = "".join(
        f'<Relationship Id="rId{at}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{at}.xml"/>'
        for at in range(len(names))
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>' + kinds + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="rId1" Type="{OFFICE}/'
        'officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{links}<Relationship Id="s" '
        f'Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14" '
        'applyNumberFormat="1"/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>',
    }
    for at, rows in enumerate(sheets.values()):
        lines = []
        for r, row in enumerate(rows, 1):
            cells = "".join(_cell(f"{chr(65 + c)}{r}", each) for c, each in enumerate(row))
            lines.append(f'<row r="{r}">{cells}</row>')
        ranges = f'<mergeCells><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
        parts[f"xl/worksheets/sheet{at}.xml"] = (
            f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData>{ranges}</worksheet>'
        )
    with zipfile.ZipFile(path, "w") as out:
        for name, content in parts.items():
            out.writestr(name, HEAD + content)
    return str(path)


def write_ods(path, cells):
    """A sheet `One` of one column."""
    office = "urn:oasis:names:tc:opendocument:xmlns"
    rows = "".join(f"<table:table-row>{each}</table:table-row>" for each in cells)
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        manifest = f'<m:manifest xmlns:m="{office}:manifest:1.0"><m:file-entry m:full-path="/"/></m:manifest>'
        out.writestr("META-INF/manifest.xml", HEAD + manifest)
        out.writestr(
            "content.xml",
            f'{HEAD}<office:document-content xmlns:office="{office}:office:1.0" xmlns:table="{office}:table:1.0" '
            f'xmlns:text="{office}:text:1.0" xmlns:calcext="urn:org:documentfoundation:names:experimental:calc:xmlns:'
            'calcext:1.0"><office:body><office:spreadsheet><table:table table:name="One">'
            f"{rows}</table:table></office:spreadsheet></office:body></office:document-content>",
        )
    return str(path)


DAY = datetime.date(2020, 2, 29)
ROWS = [
    ["id", "weight", "day", "at", "smoker", "code", "note"],
    [1, 72.5, DAY, datetime.datetime(2020, 1, 1, 12, 30), True, 250, "Müller"],
    [2, None, DAY + datetime.timedelta(1), datetime.datetime(2020, 1, 2), False, "V25", None],
    [3, 80, None, None, None, 401.5, "a & b"],
]


def read(path):
    source = open_source(path)
    return pa.Table.from_batches([batch for _, batch in read_batches(source, source.units[0], rows=2)])


def test_types_are_those_of_the_cells(tmp_path):
    table = read(write(tmp_path / "t.xlsx", {"One": ROWS}))
    assert [str(kind) for kind in table.schema.types] == [
        *("int64", "double", "date32[day]", "timestamp[ms]", "bool", "string", "string")
    ]
    assert table.to_pylist()[0] == dict(zip(ROWS[0], [1, 72.5, DAY, ROWS[1][3], True, "250", "Müller"], strict=True))
    assert table.column("code").to_pylist() == ["250", "V25", "401.5"] and table.column("day").null_count == 1


def test_a_sheet_is_named_where_there_are_several(tmp_path):
    path = write(tmp_path / "t.xlsx", {"One": ROWS, "Two #2": [["x"], [1], [2]]})
    with pytest.raises(InputError, match=r"has 2 sheets; say which by .*#SHEET: 'One', 'Two #2'"):
        read(path)
    with pytest.raises(InputError, match="has no sheet 'Three'"):
        read(f"{path}#Three")
    assert read(f"{path}#Two #2").to_pydict() == {"x": [1, 2]}
    assert read(write(tmp_path / "h.xlsx", {"One": ROWS, "Lists": [["x"]]}, hidden={"Lists"})).num_rows == 3


def test_all_that_is_wrong_is_one_error_without_values(tmp_path):
    rows = [["a", "a", None, "d"], [1, ERROR, 7, DAY], [2, 4711, 8, "secret"], [ERROR, 3, 9, DAY]]
    with pytest.raises(InputError) as refused:
        read(write(tmp_path / "t.xlsx", {"One": rows}, merged="A1:B1"))
    told = str(refused.value)
    for words in (
        "1 range of cells is merged in the first two rows",
        "columns C have no name",
        "several columns are named 'a'",
        "column 'd' has dates in 2 rows and other values in 1",
        "2 cells are errors of a formula",
    ):
        assert words in told, told
    assert "secret" not in told and "4711" not in told
    assert read(write(tmp_path / "m.xlsx", {"One": ROWS}, merged="A3:A4")).num_rows == 3  # below the names


def test_sheets_of_libreoffice(tmp_path):
    number = '<table:table-cell office:value-type="float" office:value="{}"><text:p>{}</text:p></table:table-cell>'
    name = '<table:table-cell office:value-type="string"><text:p>x</text:p></table:table-cell>'
    wrong = (
        '<table:table-cell table:formula="of:=1/0" office:value-type="string" office:string-value="" '
        'calcext:value-type="error"><text:p>#DIV/0!</text:p></table:table-cell>'
    )
    good = [name, number.format(1.5, 1.5), number.format(2, 2)]
    assert read(write_ods(tmp_path / "t.ods", good)).to_pydict() == {"x": [1.5, 2.0]}
    with pytest.raises(InputError, match="1 cell is an error of a formula"):
        read(write_ods(tmp_path / "e.ods", [*good, wrong]))


def test_what_is_no_workbook(tmp_path, monkeypatch):
    for name, words in (("t.xlsx", "is no readable workbook"), ("t.xls", "format before Excel 2007")):
        (tmp_path / name).write_bytes(b"a;b\n1;2\n")
        with pytest.raises(InputError, match=words):
            read(str(tmp_path / name))
    with pytest.raises(InputError, match="the sheet is empty"):
        read(write(tmp_path / "e.xlsx", {"One": []}))
    monkeypatch.setattr("anonpipe.files.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"anonpipe\[excel\]"):
        read(write(tmp_path / "t.xlsx", {"One": ROWS}))


def test_init_proposes_a_job_for_a_sheet(tmp_path):
    rows = [["age", "day"], *([20 + at % 60, DAY + datetime.timedelta(at % 90)] for at in range(300))]
    path = write(tmp_path / "t.xlsx", {"One": rows, "Two": rows})
    text = propose_job(f"{path}#One", "out", 5)
    assert f'input: "{path}#One"' in text and "kind: date" in text
