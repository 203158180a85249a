"""A release as a table of a database or a lakehouse, and as a workbook."""

from __future__ import annotations

import datetime
import sqlite3
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from anonpipe import export, export_tables
from anonpipe.errors import OutputError
from anonpipe.source import opened, read_batches
from anonpipe.storage.release import checked
from tests import runs, small

pytestmark = pytest.mark.secret(runs.SECRET)

adbc = pytest.importorskip("adbc_driver_manager.dbapi")
duckdb = pytest.importorskip("duckdb")
deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog")

COLUMNS = small.COLUMNS | {"day": {"kind": "date"}, "small": {"kind": "integer"}, "group": {"kind": "categorical"}}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A release of two files, with nulls, days, unsigned integers and a dictionary."""
    folder = tmp_path_factory.mktemp("tables")
    table = small.plain_table(1_200)
    days = pa.array([datetime.date(2020, 1, 1) + datetime.timedelta(days=at) for at in range(1_200)])
    values = pa.array([at % 200 for at in range(1_200)], pa.uint8())
    groups = pa.array([["=a", None, "c"][at % 3] for at in range(1_200)]).dictionary_encode()
    for name, column in (("day", days), ("small", values), ("group", groups)):
        table = table.append_column(name, column)
    with small.private_home(folder, runs.SECRET):
        job = small.job(folder, table, COLUMNS, release={"file_rows": 1_000})
        assert small.run(job).version is not None
    return job


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    """A catalog of Iceberg in a file, which pyiceberg finds by its own settings."""
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__WAREHOUSE", f"file://{tmp_path}/warehouse")
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.utils.config import Config

    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read once a process
    made = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("ns")
    return made


@pytest.fixture(params=["sqlite", "duckdb", "postgres", "delta", "iceberg"])
def target(request, tmp_path, monkeypatch):
    """Where a release goes, and how its table and its documents are read back."""
    kind = request.param
    monkeypatch.chdir(tmp_path)
    if kind == "postgres":
        url = request.getfixturevalue("postgres")
        queried(url, "DROP SCHEMA IF EXISTS lab CASCADE", "CREATE SCHEMA lab")
        return SimpleNamespace(url=f"{url}#lab.people", read=partial(in_database, url, "lab.people"))
    if kind == "iceberg":
        made = request.getfixturevalue("catalog")
        return SimpleNamespace(url="iceberg://local/ns.people", read=partial(in_iceberg, made, "ns.people"))
    if kind == "delta":
        return SimpleNamespace(url="delta:///lake", read=partial(in_delta, tmp_path / "lake"))
    return SimpleNamespace(url=f"{kind}:///people.db#people", read=partial(in_database, f"{kind}:people.db", "people"))


def connection(url):
    if url.startswith("postgres"):
        from adbc_driver_postgresql import dbapi

        return dbapi.connect(url)
    return duckdb.connect(url.partition(":")[2]) if url.startswith("duckdb") else sqlite3.connect(url.partition(":")[2])


def queried(url, *texts):
    with connection(url) as made:
        cursor = made.cursor()
        for text in texts:
            cursor.execute(text)
        found = cursor.fetchall() if texts[-1].startswith("SELECT") else []
        made.commit()
        cursor.close()
    made.close()
    return found


def in_database(url, name):
    rows = queried(url, f"SELECT * FROM {name}")
    return rows, {file: bytes(content) for file, content in queried(url, f"SELECT * FROM {name}_manifest")}


def in_delta(path):
    table = deltalake.DeltaTable(path)
    rows = [tuple(row.values()) for row in table.to_pyarrow_table().to_pylist()]
    return rows, {each.name: each.read_bytes() for each in path.glob("_*") if each.is_file()}


def in_iceberg(catalog, name):
    table = catalog.load_table(name)
    answer = {
        key.removeprefix("anonpipe."): text for key, text in table.properties.items() if key.startswith("anonpipe.")
    }
    found = {key: bytes.fromhex(text) if key.endswith(".sig") else text.encode() for key, text in answer.items()}
    return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()], found


def plain_rows(table):
    return sorted(tuple(map(str, row.values())) for row in table.to_pylist())


def documents(job):
    current = Path(job.output) / "versions"
    (version,) = current.iterdir()
    return {each.name: each.read_bytes() for each in version.glob("_*") if "report" not in each.name}


def test_a_table_holds_the_released_rows(published, target, call):
    answer = call("export", published.output, target.url)
    assert answer.code == 0 and answer.out.startswith(f"1,200 rows in 1 table: {target.url}\n")
    rows, found = target.read()
    released = small.released(published)
    ours = sorted(tuple(map(str, row)) for row in rows)
    assert ours == plain_rows(released), "nulls, dates, texts and numbers as they were released"
    assert found == documents(published), "manifest and signature go with the rows"


def test_a_table_that_is_there_stays(published, target, call):
    assert call("export", published.output, target.url).code == 0
    before = target.read()
    answer = call("export", published.output, target.url)
    assert answer.code == 2 and "already" in answer.err and target.read() == before


def lost(reader):
    """Rows that break off after the first batch, with a value in the error."""
    yield next(reader)
    raise ValueError(small.CANARY)


def test_rows_that_break_off_leave_nothing(published, target, monkeypatch, call, tmp_path):
    whole = export_tables._rows

    def broken(where, manifest, schema):
        return pa.RecordBatchReader.from_batches(schema, lost(whole(where, manifest, schema)))

    monkeypatch.setattr(export_tables, "_rows", broken)
    monkeypatch.setattr(export, "_ROWS", 500)
    for name in ("people.db.old", "people.dbx", "lake.old"):  # names that begin alike are of somebody else
        (tmp_path / name).touch()
    there = sorted(tmp_path.iterdir())
    answer = call("export", published.output, target.url)
    assert answer.code == 4 and "nothing was written" in answer.err and small.CANARY not in answer.err
    assert sorted(tmp_path.iterdir()) == there
    with pytest.raises(Exception, match=r"people|lake"):
        target.read()


def test_lost_batches_are_seen(published, tmp_path, monkeypatch):
    """A driver that stops early without an error, as DuckDB's does, must not commit."""
    whole = export_tables._rows
    monkeypatch.setattr(export, "_ROWS", 500)
    monkeypatch.setattr(export_tables, "_rows", lambda *given: pa.Table.from_batches([next(whole(*given))]).to_reader())
    monkeypatch.chdir(tmp_path)
    found = checked(published.output)
    for url in ("sqlite:///p.db#people", "duckdb:///p.db#people", "delta:///lake"):
        with pytest.raises(OutputError, match="did not take the rows"):
            export_tables.export_table(found.where, found.manifest, url)
        assert not (tmp_path / "p.db").exists() and not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///people.db", "names no table"),
        ("duckdb:///nowhere/people.db#people", "nowhere does not exist"),
        ("postgresql://me:secret-word@host/db#people", "holds a password"),
        ("postgresql://me@localhost:1/db#people", "cannot be opened"),
        ("iceberg://nothing/ns.people", "'nothing' cannot be opened"),
        ("iceberg://nothing/people", "names no table"),
    ],
)
def test_targets_that_are_none(published, url, words, call):
    answer = call("export", published.output, url)
    assert answer.code == 2 and words in answer.err and "secret-word" not in answer.err


def test_options_of_files_are_refused(published, call):
    assert "--by makes a folder" in call("export", published.output, "delta:///lake", "--by", "place").err
    assert "--delimiter says how a CSV" in call("export", published.output, "delta:///lake", "--delimiter", ";").err


def test_a_workbook_holds_the_released_rows(published, tmp_path, call):
    answer = call("export", published.output, tmp_path / "people.xlsx")
    assert answer.code == 0, answer.err
    with opened(f"{tmp_path}/people.xlsx#data") as source:
        found = pa.Table.from_batches([batch for unit in source.units for _, batch in read_batches(source, unit)])
    released = small.released(published)
    assert found.column_names == released.column_names
    for name in ("income", "small"):
        np.testing.assert_allclose(found[name].to_pylist(), released[name].to_pylist(), rtol=1e-15)
    assert found["day"].cast(pa.date32()).to_pylist() == released["day"].to_pylist()
    assert found["group"].to_pylist() == released["group"].to_pylist(), "a text that begins with = is no formula"
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_path(tmp_path / "people.xlsx").get_sheet_by_name("code book").to_python()
    assert {line[0] for line in book[1:]} == set(released.column_names)


def test_values_that_excel_does_not_have_are_texts():
    day = datetime.date(1899, 12, 31)
    assert export._cells(pa.array([day, datetime.date(1900, 1, 1), None])) == [
        "1899-12-31",
        datetime.date(1900, 1, 1),
        None,
    ]
    assert export._cells(pa.array([2**53 + 1, 7, None])) == [str(2**53 + 1), 7.0, None]
    assert export._cells(pa.array([float("inf"), float("nan"), 0.5])) == ["inf", None, 0.5]
    noon = pa.array([datetime.datetime(2020, 1, 1, 12)], pa.timestamp("us", tz="UTC"))
    assert export._cells(noon)[0].startswith("2020-01-01 12:00:00")
    assert export._cells(pa.array([True, None])) == [True, None]


def test_a_sheet_has_so_many_rows(published, tmp_path, monkeypatch, call):
    monkeypatch.setattr(export, "_SHEET_ROWS", 1_199)
    answer = call("export", published.output, tmp_path / "people.xlsx")
    assert answer.code == 2 and "1,200 rows" in answer.err and not list(tmp_path.glob("*people*"))
