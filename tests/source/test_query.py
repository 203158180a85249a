"""Queries of DuckDB, SQLite and Postgres as input, of databases that the tests make."""

from __future__ import annotations

import datetime
import sqlite3
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.compare import compare
from anonpipe.errors import InputError, OutputError
from anonpipe.job.model import load_job
from anonpipe.pipeline import start as opening
from anonpipe.pipeline.preview import preview
from anonpipe.propose.propose import propose_job
from anonpipe.source import _query, find_copied, opened, read_batches
from anonpipe.storage.release import checked
from anonpipe.two_tables import evaluate_release
from tests import runs, small

pytestmark = pytest.mark.secret(runs.SECRET)

duckdb = pytest.importorskip("duckdb")
adbc = pytest.importorskip("adbc_driver_manager.dbapi")

CANARY = small.CANARY
DAY = datetime.date(2020, 1, 31)


def asking(folder: Path, database: str, text: str = "SELECT * FROM patients", name: str = "rows.sql") -> str:
    path = folder / name
    path.write_text(f"-- database: {database}\n{text}\n")
    return str(path)


def of_duckdb(folder: Path, table: pa.Table) -> str:
    path = folder / "registry.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE patients AS SELECT * FROM given")
    return str(path)


def of_sqlite(folder: Path, table: pa.Table) -> str:
    path = folder / "registry of #1?.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE patients ({', '.join(table.column_names)})")
        marks = ", ".join("?" * table.num_columns)
        connection.executemany(f"INSERT INTO patients VALUES ({marks})", zip(*table.to_pydict().values(), strict=True))
    connection.close()
    return str(path)


def of_postgres(url: str, table: pa.Table) -> str:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS patients")
        cursor.adbc_ingest("patients", table, mode="create")
        connection.commit()
    return url


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def database(request, tmp_path):
    """Where a table can be asked for, and the function that puts it there."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        return lambda table: of_postgres(url, table)
    make = of_duckdb if request.param == "duckdb" else of_sqlite
    return lambda table: make(tmp_path, table)


def read(url: str) -> pa.Table:
    with opened(url) as source:
        parts = [batch for unit in source.units for _, batch in read_batches(source, unit)]
        assert source.rows == sum(part.num_rows for part in parts) and source.paths == (url,)
        return pa.Table.from_batches(parts)


def refused(url: str) -> str:
    """The text of the error, after looking for data and queries in all that would be logged."""
    with pytest.raises(InputError) as caught:
        read(url)
    assert caught.value.__context__ is None
    told = "".join(traceback.format_exception(caught.value))
    assert CANARY not in told and "patients" not in str(caught.value)
    return str(caught.value)


def test_rows_and_types_come_as_the_database_has_them(database, tmp_path, monkeypatch):
    monkeypatch.setattr(_query, "ROWS", 100)
    table = small.plain_table(1_000)
    assert read(asking(tmp_path, database(table))).sort_by("income").equals(table.sort_by("income"))
    assert not list((tmp_path / "staging").iterdir()), "what was asked for is deleted at the end"


def test_types_of_duckdb_and_postgres(tmp_path, postgres):
    table = pa.table(
        {
            "day": pa.array([DAY, None] * 20),
            "sick": pa.array([True, None] * 20),
            "at": pa.array([datetime.datetime(2020, 1, 1, 12)] * 40, pa.timestamp("us")),
            "small": pa.array([1, None] * 20, pa.int16()),
        }
    )
    for where in (of_duckdb(tmp_path, table), of_postgres(postgres, table)):
        assert read(asking(tmp_path, where)).equals(table)
    where = asking(tmp_path, of_duckdb(tmp_path / "..", table), "SELECT 1.5::DECIMAL(9, 2) AS x, uuid() AS u")
    assert read(where).schema.types == [pa.decimal128(9, 2), pa.string()]
    where = asking(tmp_path, postgres, "SELECT 1.5::numeric AS x, 'n'::\"char\" AS c, '{}'::jsonb AS j -- with notes")
    assert read(where).column("x").to_pylist() == ["1.5"], "cast it: its digits have no end"


def test_a_release_of_a_query_is_that_of_the_file(database, tmp_path):
    table = small.plain_table(400)
    url = asking(tmp_path, database(table))
    jobs = [small.job(tmp_path / "one", table), small.job(tmp_path / "two", url)]
    outcomes = [small.run(job) for job in jobs]
    first, second = (small.released(job) for job in jobs)
    assert second.equals(first)
    assert outcomes[1].version is not None
    for path in filter(Path.is_file, (tmp_path / "two").rglob("*")):
        told = path.read_bytes()
        assert not any(word in told for word in (b"SELECT", b"registry", b"host=", b"steward@")), path
    assert not checked(jobs[1].output).problems
    assert not [path for path in (tmp_path / "staging").rglob("*") if path.is_file()]


def test_init_plan_evaluate_and_compare_ask_too(tmp_path):
    table = small.plain_table(400)
    url = asking(tmp_path, of_duckdb(tmp_path, table))
    (tmp_path / "job.yaml").write_text(propose_job(url, str(tmp_path / "out"), 5))
    job = load_job(tmp_path / "job.yaml", {})
    assert set(job.columns) == set(table.column_names) and CANARY not in (tmp_path / "job.yaml").read_text()
    assert "400 rows" in "\n".join(preview(job).lines())
    found = evaluate_release(url, small.write_table(tmp_path, table), small.job(tmp_path, url))
    assert found.rows == (400, 400)
    assert compare(small.job(tmp_path, url, measure={}), ["mdav+centroid"], [5], cluster=False).rows
    assert not list((tmp_path / "staging").rglob("*.parquet"))


def test_rows_are_of_one_moment_and_resumed_run_asks_no_more(tmp_path, monkeypatch):
    table = small.plain_table(400)
    url = asking(tmp_path, of_duckdb(tmp_path, table))
    job = small.job(tmp_path / "two", url)
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(opening.Run, "mark", lambda *_: (_ for _ in ()).throw(RuntimeError()))
        with opening.open_run(job) as run:
            run.mark("lost")
    (copy,) = (tmp_path / "staging").rglob("rows.parquet")
    assert copy.stat().st_mode & 0o077 == 0 or copy.parent.stat().st_mode & 0o077 == 0
    (tmp_path / "registry.duckdb").unlink()
    assert small.run(job, resume=True).version is not None
    same = small.job(tmp_path / "one", table)
    small.run(same)
    assert small.released(job).equals(small.released(same))


def test_another_query_begins_anew(tmp_path):
    table = small.plain_table(400)
    where = of_duckdb(tmp_path, table)
    job = small.job(tmp_path, asking(tmp_path, where))
    with pytest.raises(RuntimeError), opening.open_run(job):
        raise RuntimeError
    asking(tmp_path, where, "SELECT * FROM patients WHERE age < 60")
    outcome = small.run(job, resume=True)
    assert any("the input" in warning and "changed" in warning for warning in outcome.warnings)
    assert outcome.rows < 400


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM patients",
        "INSERT INTO patients SELECT * FROM patients",
        "DELETE FROM patients RETURNING age",
        "WITH gone AS (DELETE FROM patients RETURNING *) SELECT * FROM gone",
        "SELECT 1 AS a; DELETE FROM patients",
        "DROP TABLE patients",
        "COPY patients TO '/tmp/deploy-never.csv'",
        "SELECT * FROM canary83741_no_such_table",
        "SELECT canary83741 FROM patients",
        "SELEC",
    ],
)
def test_a_query_that_writes_or_makes_no_sense_is_refused(database, tmp_path, text):
    table = small.plain_table(50)
    where = database(table)
    assert "refuses the query" in refused(asking(tmp_path, where, text))
    assert read(asking(tmp_path, where)).num_rows == 50
    assert not Path("/tmp/deploy-never.csv").exists()


def test_a_parenthesis_opens_no_way_to_write(database, tmp_path):
    where = database(small.plain_table(50))
    try:
        read(asking(tmp_path, where, "SELECT 1 AS one) AS a; DELETE FROM patients; SELECT * FROM (SELECT 1 AS one"))
    except InputError:
        pass
    assert read(asking(tmp_path, where)).num_rows == 50


def test_values_of_several_types_are_no_column(tmp_path, monkeypatch):
    monkeypatch.setattr(_query, "ROWS", 20)
    mixed = pa.table({"age": [str(at) for at in range(50)]})
    where = of_sqlite(tmp_path, mixed)
    with sqlite3.connect(where) as connection:
        connection.execute("UPDATE patients SET age = CAST(age AS INTEGER)")
        connection.execute("INSERT INTO patients VALUES (?)", [CANARY])
    connection.close()
    assert "CAST" in refused(asking(tmp_path, where))
    as_text = asking(tmp_path, where, "SELECT CAST(age AS TEXT) AS age FROM patients")
    assert read(as_text).schema.types == [pa.string()]


def test_errors_while_the_answer_comes_quote_nothing(tmp_path, postgres):
    table = pa.table({"place": ["1"] * 5_000 + [CANARY]})
    for where in (of_duckdb(tmp_path, table), of_postgres(postgres, table)):
        told = refused(asking(tmp_path, where, "SELECT CAST(place AS INTEGER) AS x FROM patients"))
        assert "refuses the query" in told or "broke off" in told


def test_what_cannot_be_asked_is_one_clear_error(tmp_path, monkeypatch):
    table = small.plain_table(50)
    where = of_duckdb(tmp_path, table)
    assert "has no rows" in refused(asking(tmp_path, where, "SELECT * FROM patients WHERE age > 500"))
    assert read(asking(tmp_path, where, "SELECT 1 AS a, 2 AS a")).column_names[0] == "a"  # DuckDB renames the other
    assert "type that no file keeps" in refused(asking(tmp_path, where, "SELECT INTERVAL 1 DAY AS x"))
    assert "does not exist" in refused(asking(tmp_path, str(tmp_path / "gone.duckdb")))
    (tmp_path / "text.duckdb").write_text("no database at all\n")
    assert "none of DuckDB or SQLite" in refused(asking(tmp_path, str(tmp_path / "text.duckdb")))
    assert "no database that is known" in refused(asking(tmp_path, "oracle://host/x"))
    assert "cannot be opened" in refused(asking(tmp_path, "postgresql://127.0.0.1:1/x?connect_timeout=2"))
    (tmp_path / "none.sql").write_text("SELECT 1")
    assert "first line must be" in refused(str(tmp_path / "none.sql"))
    assert "holds no query" in refused(asking(tmp_path, where, " ; "))
    assert "does not exist" in refused(str(tmp_path / "gone.sql"))
    assert "longer than a query" in refused(asking(tmp_path, where, "SELECT 1 -- " + "x" * 2**20))
    monkeypatch.setattr("anonpipe.files.find_spec", lambda _: None)
    assert "pip install 'anonpipe[sql]'" in refused(asking(tmp_path, where))


@pytest.mark.parametrize(
    "database", ["postgresql://me:{}@host/x", "postgres://host/x?password={}", "postgresql://me:@host/x"]
)
def test_passwords_are_refused_unread(tmp_path, database):
    told = refused(asking(tmp_path, database.format(CANARY)))
    assert "password" in told and "PGPASSFILE" in told and "host" not in told


def test_the_urls_of_sqlalchemy_name_files_too(tmp_path):
    table = small.plain_table(20)
    assert read(asking(tmp_path, f"duckdb:///{of_duckdb(tmp_path, table)}")).num_rows == 20
    assert read(asking(tmp_path, f"sqlite:///{of_sqlite(tmp_path, table)}")).num_rows == 20


def test_duckdb_spills_into_the_private_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(_query, "_DUCKDB_MEMORY", "60MB")
    where = of_duckdb(tmp_path, small.plain_table(20))
    query = find_copied(asking(tmp_path, where, "SELECT i FROM range(3_000_000) AS r(i) ORDER BY hash(i)"))
    source = query.read(tmp_path / "answer")
    assert source.rows == 3_000_000 and not list(tmp_path.glob("*.tmp"))
    assert pq.read_metadata(source.units[0].path).num_row_groups > 20


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        (
            "failed to offload data block of size 256.0 KiB (35.9 MiB/35.9 MiB used)",
            OutputError,
            "the disk is full while",
        ),
        ("failed to pin block of size 256.0 KiB (22.8 MiB/22.8 MiB used)", InputError, "needs more memory than it is"),
    ],
)
def test_what_a_database_sorts_finds_no_room(words, error, told, tmp_path, monkeypatch):
    """In DuckDB's words, as it said them on a disk of 40 MB, and with 24 MB of memory."""

    def cramped(*_):
        raise OSError(f"Out of Memory Error: {words}")

    monkeypatch.setattr(_query, "_gathered", lambda broken, reader: _query.call_driver(broken, cramped))
    query = find_copied(asking(tmp_path, of_duckdb(tmp_path, pa.table({"age": [1]}))))
    with pytest.raises(error, match=told):
        query.read(tmp_path / "staging")
