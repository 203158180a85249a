"""Code books: what a release says of its columns, and what `init` takes from such a file."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from anonpipe import codebook
from anonpipe.columns import Column
from anonpipe.errors import InputError
from anonpipe.job.model import parse_job
from anonpipe.propose.propose import propose_job
from anonpipe.report.board import board_file
from anonpipe.storage import release
from tests import runs, small

ROWS = 1_800
PLANTED = 98_765_432.25
RARE = "rare83741"
GRADES = ["low", "middle", "high"]
COLUMNS = {
    "age": {"kind": "integer", "bounds": [0, 120], "label": 'Age, "at" <entry>', "unit_of_measure": "years"},
    "cost": {"kind": "continuous", "bounds": [0, PLANTED], "step": 0.25},
    "grade": {"kind": "ordinal", "levels": GRADES},
    "smoker": {"kind": "binary", "levels": [False, True]},
    "seen": {"kind": "date", "bounds": ["1990-01-01", "2030-12-31"]},
    "place": {"kind": "categorical"},
}
# Of DDI-Codebook 2.5: the parts of a variable, of a category and of the whole in their order
VAR = (
    "location labl imputation security embargo respUnit anlysUnit qstn valrng invalrng undocCod universe TotlResp "
    "sumStat txt stdCatgry catgryGrp catgry codInstr verStmt concept derivation varFormat geoMap catLevel notes"
)
ORDER = {
    "codeBook": ["docDscr", "stdyDscr", "fileDscr", "dataDscr", "otherMat"],
    "citation": ["titlStmt", "rspStmt", "prodStmt", "distStmt", "serStmt", "verStmt", "biblCit", "holdings", "notes"],
    "var": VAR.split(),
    "catgry": ["catValu", "labl", "txt", "catStat", "mrow"],
}  # fmt: skip
FIELD = {
    "type": "object",
    "required": ["name", "type"],
    "properties": {
        "name": {"type": "string"},
        "type": {"enum": ["string", "number", "integer", "boolean", "date", "time", "datetime"]},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "constraints": {
            "additionalProperties": False,
            "properties": {"minimum": {}, "maximum": {}, "enum": {"type": "array", "minItems": 1, "uniqueItems": True}},
        },
        "categories": {"type": "array", "minItems": 1},
        "categoriesOrdered": {"type": "boolean"},
    },
}
PACKAGE = {
    "type": "object",
    "required": ["$schema", "name", "resources"],
    "properties": {
        "name": {"pattern": r"^[-a-z0-9._/]+$"},
        "created": {"pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"},
        "resources": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["name", "path", "schema"],
                "properties": {
                    "name": {"pattern": r"^[-a-z0-9._/]+$"},
                    "path": {"pattern": r"^(?=^[^./~])(^((?!\.{2}).)*$).*$"},
                    "type": {"const": "table"},
                    "bytes": {"type": "integer"},
                    "hash": {"pattern": "^sha256:[0-9a-f]{64}$"},
                    "schema": {
                        "anyOf": [
                            {"type": "string"},
                            {"type": "object", "required": ["fields"], "properties": {"fields": {"items": FIELD}}},
                        ]
                    },
                },
            },
        },
    },
}


def table() -> pa.Table:
    """Six columns; one cost is a person's and stands in the job as a bound, and two persons have a rare place."""
    rng = np.random.default_rng(4)
    cost = np.round(rng.gamma(2, 900, ROWS) * 4) / 4
    cost[7] = PLANTED
    place = rng.choice(["north", "south"], ROWS).astype(object)
    place[[3, 9]] = RARE
    days = pa.array(rng.integers(10_000, 20_000, ROWS), pa.int32()).cast(pa.date32())
    grade = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, ROWS), pa.int32()), GRADES)
    return pa.table(
        {
            "age": rng.integers(18, 90, ROWS),
            "cost": cost,
            "grade": grade,
            "smoker": pa.array(rng.random(ROWS) < 0.3, mask=rng.random(ROWS) < 0.1),
            "seen": days,
            "place": pa.array(place, pa.string()),
        }
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A release in two files."""
    folder = tmp_path_factory.mktemp("codebook")
    with small.private_home(folder, runs.SECRET):
        job = small.job(folder, table(), COLUMNS, mask=small.QUICK, release={"file_rows": 1_000})
        assert small.run(job).version is not None
    return job


@pytest.fixture(autouse=True)
def same_secret(monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", runs.SECRET)


def book_of(call, published, folder, form):
    """The file of a code book."""
    path = folder / f"book.{form}"
    answer = call("codebook", published.output, "--format", form, "--out", path)
    assert answer.code == 0, answer.err
    return path


def test_a_release_has_its_code_book(published):
    jsonschema = pytest.importorskip("jsonschema")
    where = release.resolve(published.output)
    manifest, package = (
        release.read_manifest(where),
        json.loads(where.filesystem.cat_file(where.path(codebook.DOCUMENT))),
    )
    assert {codebook.DOCUMENT, codebook.SCHEMA} <= {entry["name"] for entry in manifest["documents"]}
    assert release.check(published.output) == []
    jsonschema.validate(package, PACKAGE)
    assert [each["hash"] for each in package["resources"]] == [f"sha256:{each['sha256']}" for each in manifest["files"]]
    assert {each["schema"] for each in package["resources"]} == {codebook.SCHEMA} and len(package["resources"]) == 2
    schema = json.loads(where.filesystem.cat_file(where.path(codebook.SCHEMA)))
    jsonschema.validate(schema, {"properties": {"fields": {"items": FIELD}}})
    fields = {each["name"]: each for each in schema["fields"]}
    assert list(fields) == list(COLUMNS) and fields["age"]["title"] == 'Age, "at" <entry>'
    assert fields["age"]["unit"] == "years" and fields["age"]["constraints"] == {"minimum": 0, "maximum": 120}
    assert fields["grade"]["categories"] == GRADES and fields["grade"]["categoriesOrdered"] is True
    assert fields["place"]["constraints"] == {"enum": ["north", "south"]}
    assert pq.read_table(where.root).num_rows == ROWS, "readers of Parquet folders pass over it"


def test_no_planted_value_is_in_a_code_book(published, call, tmp_path):
    """Neither the rare category nor the bound that was copied from one person's value; nor in the board's file."""
    where = release.resolve(published.output)
    texts = [where.filesystem.cat_file(where.path(name)).decode() for name in (codebook.DOCUMENT, codebook.SCHEMA)]
    texts += [book_of(call, published, tmp_path, form).read_text() for form in codebook.FORMATS]
    texts += [content.decode() for content in board_file(published.output).values()]
    for text in texts:
        assert RARE not in text and "98765432" not in text
    assert not any(published.source.path in text for text in texts[:-2])


@pytest.mark.parametrize(
    ("last", "published_bound"),
    [(999.0, 999.0), (3_000.0, None), (1_001.0, 1_001.0)],
    ids=["many near by", "alone", "within 1 %"],
)
def test_bounds_are_published_where_many_are_as_far_out(last, published_bound, tmp_path):
    """All are the outermost value of the original; the column's extremes stay as they are."""
    values = np.append(np.linspace(0, 999, 1_000), last)
    columns = {"x": {"kind": "continuous", "bounds": [0, last], "transform": "none"}, "y": {"kind": "continuous"}}
    data = pa.table({"x": values, "y": np.random.default_rng(1).normal(size=1_001)})
    loose = {"covariance": 9, "mean": 9}
    path = Path(small.run(small.job(tmp_path, data, columns, gates=loose)).version or "") / codebook.DOCUMENT
    field = json.loads(path.read_text())["resources"][0]["schema"]["fields"][0]
    assert field["constraints"].get("maximum") == published_bound


def test_ddi_has_the_order_of_the_standard_and_released_counts(published, call, tmp_path):
    root = ET.fromstring(book_of(call, published, tmp_path, "ddi").read_bytes())
    space = "{ddi:codebook:2_5}"
    assert root.tag == f"{space}codeBook"
    for parent in root.iter():
        order = ORDER.get(parent.tag.removeprefix(space))
        places = [] if order is None else [order.index(each.tag.removeprefix(space)) for each in parent]
        assert places == sorted(places)
    released = small.released(published)
    for var in root.iter(f"{space}var"):
        counts = Counter(str(value).lower() for value in released[var.get("name")].to_pylist() if value is not None)
        for each in var.iter(f"{space}catgry"):
            assert int(each.findtext(f"{space}catStat")) == counts[each.findtext(f"{space}catValu").lower()]
    shown = {var.get("name"): var for var in root.iter(f"{space}var")}
    assert shown["age"].get("measUnit") == "years" and shown["grade"].get("nature") == "ordinal"
    assert int(shown["smoker"].findtext(f"{space}sumStat[@type='invd']")) == released["smoker"].null_count > 0


def test_ddi_says_which_column_is_the_survey_weight(published):
    manifest = json.loads(json.dumps(release.read_manifest(release.resolve(published.output))))
    manifest["columns"]["age"]["survey_weight"] = {"by": [], "calibrated": []}
    root = ET.fromstring(codebook.ddi(codebook.describe(manifest), {}))
    assert [var.get("name") for var in root.iter("{ddi:codebook:2_5}var") if var.get("wgt") == "wgt"] == ["age"]


def test_dcat_and_csv(published, call, tmp_path):
    dataset = json.loads(book_of(call, published, tmp_path, "dcat").read_text())
    files = release.read_manifest(release.resolve(published.output))["files"]
    sums = [each["spdx:checksum"]["spdx:checksumValue"]["@value"] for each in dataset["dcat:distribution"]]
    assert dataset["@type"] == "dcat:Dataset" and sums == [each["sha256"] for each in files]
    rows = list(csv.DictReader(io.StringIO(book_of(call, published, tmp_path, "csv").read_text())))
    assert [row["category"] for row in rows if row["name"] == "grade"] == GRADES
    assert sum(int(row["released records"]) for row in rows if row["name"] == "place") == ROWS


@pytest.mark.parametrize("form", ["datapackage", "ddi"])
def test_a_proposal_has_kinds_bounds_and_levels_of_a_code_book(form, published, call, tmp_path):
    """Round trip; the rare place has no category in the release, and is asked about."""
    book = book_of(call, published, tmp_path, form)
    answer = call("init", published.source.path, "--codebook", book, "--k", 5)
    assert answer.code == 0 and "From the code book: kinds of" in answer.err
    columns = yaml.safe_load(answer.out)["columns"]
    for name in ("age", "grade", "smoker", "seen"):
        expected, found = Column(**COLUMNS[name]), Column(**columns[name])
        assert (found.kind, found.bounds, found.levels) == (expected.kind, expected.bounds, expected.levels)
    assert columns["age"]["label"] == 'Age, "at" <entry>' and columns["age"]["unit_of_measure"] == "years"
    assert columns["cost"]["bounds"] == [0, None] and "levels" not in columns["place"]
    assert "CHECK: 1 distinct values of the sample are no categories of the code book" in answer.out
    assert RARE not in answer.out and parse_job(yaml.safe_load(answer.out)).columns["grade"].levels == tuple(GRADES)


def test_ddi_of_others(tmp_path):
    """Codes with labels where the table has the labels; missing codes; frequencies that are no categories."""
    (tmp_path / "book.xml").write_text(
        """<codeBook xmlns="http://www.icpsr.umich.edu/DDI"><dataDscr>
        <var name="sex" intrvl="discrete"><labl>Sex: #1</labl>
          <catgry><catValu>1</catValu><labl>Male</labl></catgry><catgry><catValu>2</catValu><labl>Female</labl></catgry>
          <catgry missing="Y"><catValu>9</catValu><labl>No answer</labl></catgry><varFormat type="numeric"/></var>
        <var name="score" intrvl="discrete" dcml="0"><valrng><range min="0" max="50"/></valrng>
          <invalrng><item VALUE="99"/></invalrng>
          <catgry><catValu>3</catValu></catgry><catgry><catValu>4</catValu></catgry><varFormat type="numeric"/></var>
        <var name="elsewhere"><varFormat type="character"/></var></dataDscr></codeBook>"""
    )
    rows = np.arange(400)
    data = pa.table({"sex": np.where(rows % 2, "Male", "Female"), "score": rows % 41, "more": rows / 7})
    text = propose_job(small.write_table(tmp_path, data), "out", 5, codebook=tmp_path / "book.xml")
    columns = yaml.safe_load(text)["columns"]
    assert columns["sex"]["kind"] == "binary" and columns["sex"]["levels"] == ["Male", "Female"]
    assert columns["sex"]["label"] == "Sex: #1"
    assert columns["score"]["kind"] == "integer" and columns["score"]["bounds"] == [0, 50]
    assert 'codes for missing values of "sex", "score"' in " ".join(text.split("\n  # ")).replace("  # ", " ")
    assert "it does not have 1 column of the table; 1 column of it are not in the table" in text


def test_missing_values_of_a_data_package_are_those_of_the_csv(tmp_path):
    (tmp_path / "data.csv").write_text(
        "x,y\n" + "".join(f"{at % 37},{'-9' if at % 9 else at / 7}\n" for at in range(300))
    )
    fields = [{"name": "x", "type": "integer"}, {"name": "y", "type": "number", "constraints": {"minimum": 0}}]
    book = {"resources": [{"schema": {"fields": fields, "missingValues": ["", "-9"]}}]}
    (tmp_path / "book.json").write_text(json.dumps(book))
    job = yaml.safe_load(propose_job(str(tmp_path / "data.csv"), "out", 5, codebook=tmp_path / "book.json"))
    assert job["input"]["missing"] == ["", "-9"] and job["columns"]["y"]["bounds"] == [0, None]


BOMB = "<!DOCTYPE a [<!ENTITY b 'cc'><!ENTITY d '&b;&b;'>]><codeBook><var name='&d;'/></codeBook>"
FILE = "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><codeBook><var name='x'/>&b;</codeBook>"


@pytest.mark.parametrize(
    "content",
    [
        *(
            BOMB,
            FILE,
            BOMB.encode("utf-16"),
            "<codeBook/>",
            "<a>" * 5_000,
            "{",
            "[" * 100_000,
            '{"resources": 3}',
            "[]",
        ),
        *("", '{"fields": [{"type": "integer"}]}', '{"fields": [3]}', '{"resources": [{"schema": "../other.json"}]}'),
    ],
    ids=range(13),
)
def test_hostile_code_books_are_refused(content, tmp_path):
    path = tmp_path / "book.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path.parent / "other.json").write_text('{"fields": [{"name": "x"}]}')
    with pytest.raises(InputError, match=r"is no datapackage\.json, Table Schema or DDI-Codebook that can be read"):
        codebook.read_codebook(path)


def test_absurd_numbers_of_a_code_book_are_left_out(tmp_path):
    limits = {"minimum": 10**400, "maximum": "1e999"}
    levels = [{"name": "y", "type": "string", "constraints": {"enum": [f"c{at}" for at in range(50_000)]}}]
    fields = [{"name": "x", "type": "number", "constraints": limits, "anonpipe": {"step": 1e999, "kind": 3}}, *levels]
    (tmp_path / "book.json").write_text(json.dumps({"fields": fields}))
    data = pa.table({"x": np.arange(300) / 7, "y": [f"c{at % 4}" for at in range(300)]})
    path = small.write_table(tmp_path, data)
    columns = yaml.safe_load(propose_job(path, "out", 5, codebook=tmp_path / "book.json"))["columns"]
    assert not {"bounds", "step"} & set(columns["x"]) and len(columns["y"]["levels"]) == codebook.MOST_LEVELS


@pytest.mark.parametrize(
    ("limits", "remark"),
    [
        ({"minimum": 10, "maximum": 89}, "80 values of the sample lie outside of the code book's bounds"),
        ({"minimum": 50, "maximum": 10}, "the bounds of the code book are not two ends in their order"),
        ({"minimum": 0, "maximum": 99}, None),
    ],
)
def test_bounds_that_disagree_with_the_table_are_asked(limits, remark, tmp_path):
    fields = [{"name": "age", "type": "integer", "constraints": limits}]
    (tmp_path / "book.json").write_text(json.dumps({"fields": fields}))
    path = small.write_table(tmp_path, pa.table({"age": np.arange(400) % 100}))
    text = propose_job(path, "out", 5, codebook=tmp_path / "book.json")
    text = " ".join(text.split("\n    # "))
    assert remark in text if remark else "lie outside" not in text


def test_code_books_that_are_no_files_are_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none", "https://example.org/datapackage.json"):
        with pytest.raises(InputError, match="is no file on this machine"):
            codebook.read_codebook(path)
    monkeypatch.setattr(codebook, "_MOST_READ", 9)
    (tmp_path / "large.json").write_text(" " * 10)
    with pytest.raises(InputError, match="is larger than"):
        codebook.read_codebook(tmp_path / "large.json")


STRANGE = ["a\nb", "=1+1", "<script>alert(1)</script>", "c\x00\u202e", '"], x: y', "{{ 7 * 7 }}"]


def test_strange_names_and_categories(tmp_path, call):
    """They stay data in each form, and in the job that is proposed from it."""
    rng = np.random.default_rng(2)
    texts = ["<b>&", "=cmd", "- x: [", "\n# y"]
    data = pa.table({name: rng.choice(texts, 2_000) for name in STRANGE} | {"n": rng.normal(0, 1, 2_000)})
    columns = {name: {"kind": "categorical", "label": f"{name}\n: x"} for name in STRANGE}
    columns["n"] = {"kind": "continuous"}
    job = small.job(tmp_path, data, columns, mask={"method": "local_synthesis"})
    assert small.run(job).version is not None
    paths = {form: book_of(call, job, tmp_path, form) for form in codebook.FORMATS}
    package = json.loads(paths["datapackage"].read_text())
    assert [each["name"] for each in package["resources"][0]["schema"]["fields"]] == [*STRANGE, "n"]
    assert len(list(ET.fromstring(paths["ddi"].read_bytes()).iter("{ddi:codebook:2_5}var"))) == len(STRANGE) + 1
    cells = [cell for row in csv.reader(io.StringIO(paths["csv"].read_text())) for cell in row]
    assert "'=1+1" in cells and "'=cmd" in cells and not any(cell.startswith("=") for cell in cells)
    proposed = yaml.safe_load(propose_job(job.source.path, "out", 5, codebook=paths["datapackage"]))
    assert list(proposed["columns"]) == [*STRANGE, "n"] and set(proposed) <= set(
        yaml.safe_load(propose_job(job.source.path, "o", 5))
    )
    assert {tuple(sorted(proposed["columns"][name]["levels"])) for name in STRANGE} == {tuple(sorted(texts))}


def test_many_columns_of_many_categories_stay_bounded(monkeypatch):
    names = [f"column {at}" for at in range(300)]
    levels = tuple(f"category {at} of a thousand" for at in range(1_000))
    manifest = {
        "schema": [{"name": name, "type": "string"} for name in names],
        "columns": {name: {"kind": "categorical", "treatment": "synthetic"} for name in names},
        "rows": 10, "k": 5, "files": [{"name": "part-0.parquet", "rows": 10, "bytes": 3, "sha256": "0" * 64}],
    }  # fmt: skip
    declared = {name: Column(kind="categorical", levels=levels) for name in names}
    book = codebook.describe(manifest, declared)
    listed = [one for one in book.variables if one.levels]
    assert 100 < len(listed) < 300 and all("too many" in one.note for one in book.variables if not one.levels)
    assert all(len(content) < 4 * codebook.MOST_BYTES for content in codebook.datapackage(book).values())
    numbers = {names[-1]: Column(kind="integer")}
    with_number = manifest | {"columns": manifest["columns"] | {names[-1]: {"kind": "integer"}}}
    assert codebook.describe(with_number, declared | numbers).variables[-1].note == ""
    one = codebook.describe(manifest, {names[0]: Column(kind="categorical", levels=tuple(range(3_000)))}).variables[0]
    assert one.levels == () and "more than 2,000 categories" in one.note
    counted = codebook.count_levels([pa.record_batch({"x": [str(at) for at in range(3_000)]})], ["x"])
    assert counted == {"x": None}


def test_a_damaged_or_foreign_release_has_no_code_book(published, call, tmp_path):
    (tmp_path / "foreign.pub").write_bytes(release.public_pem(release.signing_key(b"other" * 8).public_key()))
    answer = call("codebook", published.output, "--key", tmp_path / "foreign.pub")
    assert answer.code == 2 and "is not shown to be signed" in answer.err and not answer.out
    shutil.copytree(release.resolve(published.output).root, tmp_path / "copy")
    (tmp_path / "copy" / codebook.SCHEMA).write_text('{"fields": []}')
    answer = call("codebook", tmp_path / "copy")
    assert answer.code == 2 and "SHA-256 differs" in answer.err


def test_a_release_without_a_code_book_has_one_of_its_rows(published, call, tmp_path):
    """As those of earlier versions: kinds of the manifest, and released categories."""
    shutil.copytree(release.resolve(published.output).root, tmp_path / "copy")
    manifest = json.loads((tmp_path / "copy" / "_manifest.json").read_text())
    own = {codebook.DOCUMENT, codebook.SCHEMA}
    manifest["documents"] = [each for each in manifest["documents"] if each["name"] not in own]
    (tmp_path / "copy" / "_manifest.json").write_text(json.dumps(manifest))
    for name in own:
        (tmp_path / "copy" / name).unlink()
    answer = call("codebook", tmp_path / "copy")
    fields = {each["name"]: each for each in json.loads(answer.out)["resources"][0]["schema"]["fields"]}
    assert fields["place"]["constraints"] == {"enum": ["north", "south"]} and "constraints" not in fields["age"]
    assert fields["age"]["title"] == COLUMNS["age"]["label"]
    assert set(fields["grade"]["constraints"]["enum"]) == set(GRADES) and "categories" not in fields["grade"]


def test_points_in_time_and_intervals():
    """Limits in the form of their type; none of a type without an order, and no list of days."""
    schema = {"at": "timestamp[us]", "day": "date32[day]", "interval": "string", "when": "date32[day]"}
    kinds = {"at": "date", "day": "date", "interval": "continuous", "when": "categorical"}
    manifest = {
        "schema": [{"name": name, "type": type_} for name, type_ in schema.items()],
        "columns": {name: {"kind": kind} for name, kind in kinds.items()},
        "rows": 9, "k": 5, "files": [{"name": "part-0.parquet", "rows": 9, "bytes": 3, "sha256": "0" * 64}],
    }  # fmt: skip
    days = {"kind": "date", "bounds": ("2000-01-31", None)}
    declared = {name: Column(**days) for name in ("at", "day")}
    declared["interval"] = Column(kind="continuous", bounds=(0, 9))
    counts = {"when": Counter({"2000-01-01": 9})}
    book = codebook.describe(manifest, declared, counts)
    fields = json.loads(codebook.datapackage(book)[codebook.DOCUMENT])["resources"][0]["schema"]["fields"]
    limits = [each.get("constraints") for each in fields]
    assert limits == [{"minimum": "2000-01-31T00:00:00"}, {"minimum": "2000-01-31"}, None, None]


def test_labels_decide_no_value(published):
    """The digest of a job keys its draws."""
    content = {"input": "x.parquet", "output": "out", "k": 5, "columns": COLUMNS}
    plain = {
        key: {one: each for one, each in column.items() if one not in ("label", "unit_of_measure")}
        for key, column in COLUMNS.items()
    }
    with_words, without = parse_job(content), parse_job(content | {"columns": plain})
    assert with_words.digest() == without.digest() and with_words.run_digest() != without.run_digest()


def test_the_commands_of_the_pages_run(published, call, tmp_path, monkeypatch):
    """Those on code books and boards, with the names of these files."""
    docs = Path(__file__).resolve().parent.parent / "docs"
    texts = "".join((docs / name).read_text() for name in ("your-own-data.md", "steward.md"))
    lines = re.findall(r"^(anonpipe (?:init .*--codebook|codebook|board) .*)$", texts, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    os.symlink(published.output, "registry-release")
    os.symlink(published.source.path, "registry.parquet")
    book_of(call, published, tmp_path, "ddi").rename("codebook.xml")
    for line in lines:
        command, _, target = line.split("#")[0].partition(">")
        answer = call(*command.split()[1:])
        assert answer.code == 0, answer.err
        if target.strip():
            Path(target.strip()).write_text(answer.out)
    assert len(lines) == 3 and ET.parse("release.xml") and yaml.safe_load(Path("job.yaml").read_text())["columns"]
    assert sorted(path.name for path in Path("board").iterdir()) == ["board.html", "board.md"]
