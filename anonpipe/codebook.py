"""Code books: of a release as Data Package, DDI-Codebook, DCAT and CSV; and those of others, which are read.

`describe` takes what recipients see: the manifest, declared columns, and categories of the written rows.

Data Package 2.0 with Table Schema (datapackage.org); DDI-Codebook 2.5 (ddialliance.org, 2012); DCAT 3 (W3C, 2024) with
checksums of SPDX.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET
from xml.parsers import expat
from xml.sax.saxutils import escape

from anonpipe.columns import Column, Kind, Scalar
from anonpipe.errors import InputError, printable
from anonpipe.files import templates

if TYPE_CHECKING:
    import pyarrow as pa

DOCUMENT, SCHEMA = "_datapackage.json", "_tableschema.json"  # In a release; readers of Parquet pass over both
FORMATS = ("datapackage", "ddi", "dcat", "csv")
MOST_LEVELS = 2_000  # Categories of a column that are listed
MOST_BYTES = 4_000_000  # Of all categories together: no code book is much larger than this

_MOST_READ, _MOST_COLUMNS, _DEEPEST = 2**25, 20_000, 60  # Bytes, columns and nesting of a code book that is read
_PROFILE = "https://datapackage.org/profiles/2.0/{}.json"
_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_FILES = 100  # Most files that each variable of a DDI-Codebook refers to
_PARQUET = "application/vnd.apache.parquet"
_TYPES = {"int": "integer", "uint": "integer", "float": "number", "double": "number", "halffloat": "number"}
_TYPES |= {"decimal": "number", "bool": "boolean", "date": "date", "timestamp": "datetime", "time": "time"}
_ORDERED = ("integer", "number", "date", "datetime")
_LISTED = ("string", "integer", "number", "boolean")
_KINDS = {"integer": Kind.INTEGER, "year": Kind.INTEGER, "number": Kind.CONTINUOUS, "boolean": Kind.BINARY}
_KINDS |= {"date": Kind.DATE, "datetime": Kind.DATE}

_UNORDERED = "The order of its categories is not known."
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)

Bound = float | int | str | None


@dataclass(frozen=True)
class BookVariable:
    """A column as a code book describes it."""

    name: str
    type: str = "string"  # Of Table Schema
    kind: Kind | None = None
    label: str = ""
    unit: str = ""
    treatment: str = ""
    weight: bool = False  # Whether it is the survey weight
    bounds: tuple[Bound, Bound] = (None, None)  # Numbers, ISO dates, or None for none
    step: float | None = None
    levels: tuple[Scalar, ...] = ()  # Categories, in their order where they have one
    texts: Mapping[Scalar, str] = field(default_factory=dict)  # Labels of categories
    codes: Mapping[str, float | str] = field(default_factory=dict)  # Of categories, in exports to SPSS and Stata
    missing: tuple[str, ...] = ()  # Codes that mean a missing value
    note: str = ""


@dataclass(frozen=True)
class CodeBook:
    """The columns of a table, and of a release its files."""

    variables: tuple[BookVariable, ...]
    missing: tuple[str, ...] | None = None  # Texts that mean a missing value in all columns; None where nothing is said
    version: str = ""
    created: str = ""
    anonpipe: str = ""
    rows: int = 0
    k: int = 0
    files: tuple[Mapping[str, Any], ...] = ()


def describe(
    manifest: Mapping[str, Any],
    declared: Mapping[str, Column] | None = None,
    counts: Mapping[str, Counter[Any] | None] | None = None,
) -> CodeBook:
    """The code book of a release, by its manifest.

    Of the job's columns in `declared`, bounds, steps and levels are taken where they are released. `counts`, as
    `count_levels` gives them, are the categories of columns without declared levels.
    """
    room, variables = MOST_BYTES, []
    for entry in manifest["schema"]:
        name = entry["name"]
        info, column = manifest["columns"].get(name, {}), (declared or {}).get(name)
        levels, note = _levels(column, (counts or {}).get(name, Counter()))
        size = len(json.dumps(levels)) if levels else 0
        if size > room:
            levels, note, size = (), "Its categories are too many to be listed.", 0
        room -= size
        if info.get("kind") == Kind.ORDINAL and column is None and levels:
            note = _UNORDERED
        numeric = column is not None and not column.kind.coded
        variables.append(
            BookVariable(
                name,
                type=_table_type(entry["type"]),
                kind=Kind(info["kind"]) if info.get("kind") in list(Kind) else None,
                label=info.get("label", ""),
                unit=info.get("unit_of_measure", ""),
                treatment=info.get("treatment", ""),
                weight="survey_weight" in info,
                bounds=(column.bounds or (None, None)) if column is not None and numeric else (None, None),
                step=column.step if column is not None and numeric else None,
                levels=levels,
                codes=info.get("codes", {}),
                note=" ".join(filter(None, (note, f"Recoded: {info['recoding']}." if "recoding" in info else ""))),
            )
        )
    about = {key: manifest.get(key, "") for key in ("version", "created", "anonpipe")}
    return CodeBook(tuple(variables), rows=manifest["rows"], k=manifest["k"], files=tuple(manifest["files"]), **about)


def _levels(column: Column | None, counted: Counter[Any] | None) -> tuple[tuple[Scalar, ...], str]:
    if counted is None or (column is not None and len(column.levels or ()) > MOST_LEVELS):
        return (), f"It has more than {MOST_LEVELS:,} categories, which are not listed."
    if column is not None and column.levels is not None:
        return column.levels, ""
    found = [value for value in counted if value is not None]
    return tuple(sorted(found, key=lambda value: (isinstance(value, str), value))), ""


def count_levels(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> dict[str, Counter[Any] | None]:
    """Released values of columns of categories, nulls as None; None for a column that has too many to be listed."""
    import pyarrow.compute as pc

    counts: dict[str, Counter[Any] | None] = {name: Counter() for name in names}
    for batch in batches:
        for name, counted in counts.items():
            if counted is None:
                continue
            found = pc.value_counts(batch.column(name))
            values, numbers = found.field("values").to_pylist(), found.field("counts").to_pylist()
            for value, number in zip(values, numbers, strict=True):
                counted[value if value is None or isinstance(value, bool | int | float) else str(value)] += number
            if len(counted) > MOST_LEVELS + 1:
                counts[name] = None
    return counts


def coded_names(manifest: Mapping[str, Any]) -> list[str]:
    """The released columns of categories."""
    coded = [kind.value for kind in Kind if kind.coded]
    return [entry["name"] for entry in manifest["schema"] if manifest["columns"][entry["name"]].get("kind") in coded]


def _table_type(arrow: str) -> str:
    """The type of Table Schema for one of Arrow.

    >>> [_table_type(each) for each in ("int16", "date32[day]", "dictionary<values=string, indices=int32, ordered=0>")]
    ['integer', 'date', 'string']
    """
    plain = re.sub(r"^dictionary<values=([^,]+),.*", r"\1", arrow)
    stem = re.match(r"[a-z]*", plain)
    return _TYPES.get(stem[0] if stem else "", "string")


# --- Data Package -----------------------------------------------------------------------------------------------------


def datapackage(book: CodeBook, whole: bool = False) -> dict[str, bytes]:
    """The documents of a Data Package: `_datapackage.json`, and where the table has several files its schema.

    With `whole` there is one document, which repeats the schema for each file.
    """
    schema = {"$schema": _PROFILE.format("tableschema"), "fields": [_field(each) for each in book.variables]}
    schema["missingValues"] = []  # Parquet has nulls, and no text stands for one
    several = len(book.files) > 1 and not whole
    resources = [
        {
            "$schema": _PROFILE.format("dataresource"),
            "name": re.sub(r"[^a-z0-9._-]", "-", file["name"].lower().removesuffix(".parquet")),
            "type": "table",
            "path": file["name"],
            "format": "parquet",
            "mediatype": _PARQUET,
            "bytes": file["bytes"],
            "hash": f"sha256:{file['sha256']}",
            "schema": SCHEMA if several else schema,
        }
        for file in book.files
    ]
    package = {
        "$schema": _PROFILE.format("datapackage"),
        "name": book.version,
        "title": f"Anonymised microdata, version {book.version}",
        "description": _about(book),
        "version": book.version,
        "created": book.created,
        "resources": resources,
    }
    documents = {DOCUMENT: _json(package)}
    return documents | ({SCHEMA: _json(schema)} if several else {})


def _about(book: CodeBook) -> str:
    return (
        f"{book.rows:,} records, anonymised by anonpipe {book.anonpipe} with k = {book.k}. Limits and categories are "
        "declared ones or those of the released records; what was measured is in the report."
    )


def _field(one: BookVariable) -> dict[str, Any]:
    ends = zip(("minimum", "maximum"), one.bounds, strict=True)
    of_day = "T00:00:00" if one.type == "datetime" else ""
    limits = {key: f"{end}{of_day}" if isinstance(end, str) else _plain(end) for key, end in ends if end is not None}
    constraints: dict[str, Any] = limits if one.type in _ORDERED else {}
    levels = one.levels if one.type in _LISTED else ()
    listed = [str(level) if one.type == "string" else level for level in levels]
    constraints |= {"enum": listed} if listed else {}
    own = {"kind": one.kind and one.kind.value, "treatment": one.treatment, "step": one.step}
    content: dict[str, Any] = {
        "name": one.name,
        "type": one.type,
        "title": one.label,
        "description": one.note,
        "unit": one.unit,
        "constraints": constraints,
        "anonpipe": {key: value for key, value in own.items() if value},
    }
    if one.kind is Kind.ORDINAL and listed and one.note != _UNORDERED and one.type in ("string", "integer"):
        content["categories"], content["categoriesOrdered"] = listed, True
    return {key: value for key, value in content.items() if value or key == "name"}


def _plain(bound: Bound) -> Bound:
    """A whole number as such."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() and abs(bound) < 2**53 else bound


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=True) + "\n").encode()


# --- DDI-Codebook, DCAT, CSV ------------------------------------------------------------------------------------------


def ddi(book: CodeBook, counts: Mapping[str, Counter[Any] | None]) -> bytes:
    """DDI-Codebook 2.5: study, files, and variables with the frequencies of their released categories."""
    environment = templates(Path(__file__).parent, finalize=_in_xml, keep_trailing_newline=True)
    environment.filters |= {"plain": _plain, "text": _text}
    files = " ".join(f"F{number}" for number in range(1, len(book.files) + 1)) if len(book.files) <= _FILES else ""
    content = environment.get_template("codebook.ddi.jinja").render(
        book=book, counts=counts, about=_about(book), files=files, media_type=_PARQUET, unordered=_UNORDERED
    )
    return content.encode()


def _in_xml(value: object) -> str:
    """What is filled in, as text or attribute; characters that XML does not have are written as escapes."""
    text = _NO_XML.sub(lambda found: printable(found[0]), str(value))
    return escape(text, {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})


def _text(level: Scalar) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def dcat(book: CodeBook) -> bytes:
    """DCAT 3 as JSON-LD: a dataset, and a distribution with size and checksum for each file."""
    spaces = {"dcat": "http://www.w3.org/ns/dcat#", "dcterms": "http://purl.org/dc/terms/"}
    spaces |= {"spdx": "http://spdx.org/rdf/terms#", "xsd": "http://www.w3.org/2001/XMLSchema#"}
    parts = [
        {
            "@id": file["name"],
            "@type": "dcat:Distribution",
            "dcterms:title": file["name"],
            "dcat:mediaType": {"@id": f"https://www.iana.org/assignments/media-types/{_PARQUET}"},
            "dcat:byteSize": {"@value": str(file["bytes"]), "@type": "xsd:nonNegativeInteger"},
            "spdx:checksum": {
                "@type": "spdx:Checksum",
                "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                "spdx:checksumValue": {"@value": file["sha256"], "@type": "xsd:hexBinary"},
            },
        }
        for file in book.files
    ]
    content = {
        "@context": spaces,
        "@id": f"urn:anonpipe:{book.version}",
        "@type": "dcat:Dataset",
        "dcterms:identifier": book.version,
        "dcterms:title": f"Anonymised microdata, version {book.version}",
        "dcterms:description": _about(book),
        "dcterms:issued": {"@value": book.created, "@type": "xsd:dateTime"},
        "dcat:version": book.version,
        "dcat:keyword": [one.label or one.name for one in book.variables],
        "dcat:distribution": parts,
    }
    return _json(content)


_HEADINGS = (
    *("name", "label", "type", "kind", "unit", "minimum", "maximum", "step", "treatment", "note"),
    *("category", "code", "released records"),
)


def as_csv(book: CodeBook, counts: Mapping[str, Counter[Any] | None]) -> bytes:
    """A table with a row for each column, or for each category of one."""
    # An apostrophe stands before texts that a spreadsheet would run as formulas.
    table: list[tuple[Any, ...]] = [_HEADINGS]
    for one in book.variables:
        kind, ends = one.kind.value if one.kind else "", [_plain(end) for end in one.bounds]
        about = (one.name, one.label, one.type, kind, one.unit, *ends, one.step, one.treatment, one.note)
        numbers = counts.get(one.name) or Counter[Any]()
        lines: list[tuple[Any, ...]] = [(_text(each), one.codes.get(str(each)), numbers[each]) for each in one.levels]
        table += [(*about, *line) for line in lines or [(None, None, None)]]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_unrun(cell) for cell in row] for row in table)
    return out.getvalue().encode("utf-8", "backslashreplace")


def _unrun(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and re.match(r"[=@\t\r+-]", cell) else cell


# --- Code books that are read: small files, nothing of the network, no entities ---------------------------------------


def read_codebook(path: str | Path, names: Sequence[str] = ()) -> CodeBook:
    """Read `datapackage.json`, a Table Schema or DDI-Codebook; of several tables that with most of these names.

    An InputError where the file is none of them, larger than 32 MiB, or an XML with a document type.
    """
    content = _content(Path(path))
    try:
        if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
            root = _tree(content)
            found = tuple(_of_var(each) for each in list(root.iter("var"))[:_MOST_COLUMNS])
            if not found or root.tag != "codeBook":
                raise ValueError
            return CodeBook(found)
        return _of_package(json.loads(content), Path(path), names)
    except (*_MALFORMED, ET.ParseError, expat.ExpatError):
        pass
    raise InputError(f"{path} is no datapackage.json, Table Schema or DDI-Codebook that can be read; give one of these")


def with_declared(book: CodeBook, document: bytes) -> CodeBook:
    """A release's code book with bounds, steps and levels of its `_datapackage.json` or `_tableschema.json`."""
    try:
        content = json.loads(document)
        known = {
            each.name: each for each in _of_package(content, Path(), [one.name for one in book.variables]).variables
        }
    except _MALFORMED:
        raise InputError("the code book in the release cannot be read; it is of another version of anonpipe") from None
    kept = ("bounds", "step", "levels", "note")
    found = [(one, known[one.name]) for one in book.variables if one.name in known]
    changed = {one.name: replace(one, **{key: getattr(own, key) for key in kept}) for one, own in found}
    return replace(book, variables=tuple(changed.get(one.name, one) for one in book.variables))


def _content(path: Path) -> bytes:
    if "://" in str(path) or not path.is_file():
        raise InputError(
            f"the code book {path} is no file on this machine; give a datapackage.json or DDI-Codebook (.xml)"
        )
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_READ + 1)
    except OSError:
        raise InputError(f"the code book {path} cannot be read; correct its permissions") from None
    if len(content) > _MOST_READ:
        raise InputError(f"the code book {path} is larger than {_MOST_READ // 2**20} MiB; give one of this table alone")
    return content


def _of_package(package: Any, path: Path, names: Sequence[str]) -> CodeBook:
    tables = [package] if "fields" in package else [_schema(each, path) for each in package["resources"]]
    wanted = set(names)
    table = max(tables, key=lambda each: len(wanted & {str(one["name"]) for one in _fields(each)}))
    found = tuple(_of_field(each) for each in _fields(table))
    if not found:
        raise ValueError
    return CodeBook(found, missing=_missing(table["missingValues"]) if "missingValues" in table else None)


def _fields(table: Any) -> list[Any]:
    fields: list[Any] = table.get("fields", [])
    return fields[:_MOST_COLUMNS]


def _schema(resource: Any, path: Path) -> Any:
    """The schema of a resource: inside, or in a file of the same folder."""
    schema = resource.get("schema", {})
    if not isinstance(schema, str):
        return schema
    if not re.fullmatch(r"\w[\w.-]*", schema):  # no other folder, and nothing of the network
        return {}
    return json.loads(_content(path.parent / schema))


def _missing(given: Any) -> tuple[str, ...]:
    return tuple(str(each["value"] if isinstance(each, dict) else each) for each in given)


def _of_field(content: Any) -> BookVariable:
    own, limits, type_ = content.get("anonpipe", {}), content.get("constraints", {}), str(content.get("type", "string"))
    categories = content.get("categories", limits.get("enum", ()))
    pairs = [(each["value"], each.get("label", "")) if isinstance(each, dict) else (each, "") for each in categories]
    levels = tuple(value for value, _ in pairs if isinstance(value, bool | int | float | str))
    kind = _KINDS.get(type_)
    if content.get("categoriesOrdered") is True:
        kind = Kind.ORDINAL
    elif levels:
        kind = Kind.BINARY if len(levels) == 2 else Kind.CATEGORICAL
    step = _bound(own.get("step"), None)
    return BookVariable(
        str(content["name"]),
        type=type_,
        kind=Kind(own["kind"]) if own.get("kind") in list(Kind) else kind,
        label=str(content.get("title", "")),
        treatment=str(own.get("treatment", "")),
        note=str(content.get("description", "")),
        unit=str(content.get("unit", "")),
        bounds=(_bound(limits.get("minimum"), kind), _bound(limits.get("maximum"), kind)),
        step=float(step) if isinstance(step, int | float) and step > 0 else None,
        levels=levels,
        texts={value: str(text) for value, text in pairs if text and isinstance(value, bool | int | float | str)},
        missing=_missing(content.get("missingValues", ())),
    )


def _bound(given: Any, kind: Kind | None) -> Bound:
    """A bound as a number or an ISO date; None where it is neither."""
    if given is None or isinstance(given, bool):
        return None
    if kind is Kind.DATE:
        found = re.match(r"\d{4}-\d{2}-\d{2}", str(given))
        return found[0] if found else None
    try:
        value = float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    return _plain(value) if math.isfinite(value) else None


def _tree(content: bytes) -> ET.Element:
    """The tree of an XML without a document type, which alone can declare entities, and not nested deeply."""
    depth = 0

    def refuse(*_: Any) -> None:
        raise ValueError

    def enter(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise ValueError

    def leave(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = refuse, enter, leave
    parser.Parse(content, True)
    root = ET.fromstring(content)
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]
    return root


def _of_var(var: ET.Element) -> BookVariable:
    form = var.find("varFormat")
    about = {} if form is None else form.attrib
    numeric = form is not None and about.get("type", "numeric") == "numeric"
    pairs, missing = [], [each.get("VALUE", "") for each in var.findall("invalrng/item")]
    for each in var.findall("catgry"):
        value, text = (each.findtext("catValu") or "").strip(), (each.findtext("labl") or "").strip()
        if each.get("missing") == "Y":
            missing.append(value)
        elif value and value not in missing:
            pairs.append((value, text))
    whole = about.get("formatname") == "integer" or var.get("dcml") == "0"
    if numeric and "nature" not in var.attrib and not any(text for _, text in pairs):
        pairs = []  # frequencies of numbers
    kind: Kind | None = None
    if about.get("category") == "date" or about.get("formatname") in ("date", "datetime"):
        kind = Kind.DATE
    elif pairs and var.get("intrvl") != "contin":
        kind = Kind.ORDINAL if var.get("nature") == "ordinal" else Kind.BINARY if len(pairs) == 2 else Kind.CATEGORICAL
    elif numeric:
        kind = Kind.INTEGER if whole or var.get("intrvl") == "discrete" else Kind.CONTINUOUS
    limits = var.find("valrng/range")
    ends = {} if limits is None else limits.attrib
    coded = kind is not None and kind.coded
    return BookVariable(
        var.get("name") or var.attrib["ID"],
        type="number" if numeric else "string",
        kind=kind,
        label=(var.findtext("labl") or "").strip(),
        unit=var.get("measUnit", ""),
        bounds=(None, None) if coded else (_bound(ends.get("min"), kind), _bound(ends.get("max"), kind)),
        levels=tuple(value for value, _ in pairs) if coded else (),
        texts={value: text for value, text in pairs if text},
        missing=tuple(dict.fromkeys(filter(None, missing))),
    )
