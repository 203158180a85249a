"""Tables of Delta Lake and Iceberg as input: one version of them, and what was deleted stays out."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from anonpipe.errors import InputError
from anonpipe.propose.propose import propose_job
from anonpipe.source import _query, opened, read_batches
from tests import runs, small

pytestmark = pytest.mark.secret(runs.SECRET)

deltalake = pytest.importorskip("deltalake")
Config = pytest.importorskip("pyiceberg.utils.config").Config


def in_delta(folder, tables):
    for at, table in enumerate(tables):
        deltalake.write_deltalake(folder / "lake", table, mode="overwrite" if at else "error")
    return f"{folder}/lake", list(range(len(tables)))


def in_iceberg(folder, tables):
    from pyiceberg.catalog.sql import SqlCatalog

    (folder / "warehouse").mkdir()
    made = SqlCatalog("local", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    made.create_namespace("ns")
    made.create_table("ns.people", tables[0].schema)
    versions = []
    for table in tables:
        made.load_table("ns.people").overwrite(table)
        versions.append(made.load_table("ns.people").current_snapshot().snapshot_id)
    return "iceberg://local/ns.people", versions


@pytest.fixture(params=[in_delta, in_iceberg])
def lake(request, tmp_path, monkeypatch):
    """A function that writes tables, one over the other: the URL and the versions."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read once a process
    return lambda *tables: request.param(tmp_path, tables)


def read(url):
    with opened(url) as source:
        parts = [batch for unit in source.units for _, batch in read_batches(source, unit)]
        assert source.rows == sum(part.num_rows for part in parts)
        return pa.Table.from_batches(parts)


def test_the_newest_version_or_the_one_that_is_asked_for(lake, tmp_path, monkeypatch):
    monkeypatch.setattr(_query, "ROWS", 100)
    old, new = small.plain_table(450, 1), small.plain_table(350, 2)
    url, versions = lake(old, new)
    for asked, table in ((url, new), (f"{url}#{versions[0]}", old), (f"{url}#{versions[1]}", new)):
        assert read(asked).sort_by("income").equals(table.sort_by("income").cast(read(asked).schema))
    assert not list((tmp_path / "staging").iterdir()), "the copy is deleted at the end"


def test_a_release_of_a_lake_is_that_of_the_file(lake, tmp_path):
    table = small.plain_table(400)
    url, _ = lake(table)
    jobs = [small.job(tmp_path / "one", table), small.job(tmp_path / "two", url)]
    assert all(small.run(job).version for job in jobs)
    first, second = (small.released(job) for job in jobs)
    assert first.equals(second)
    assert f'input: "{url}"' in propose_job(url, "out", 5)


def test_versions_that_are_not_there(lake):
    url, _ = lake(small.plain_table(40))
    with pytest.raises(InputError, match=r"cannot be (read|opened)") as caught:
        read(f"{url}#77")
    assert caught.value.__context__ is None


def test_a_file_of_the_table_that_was_taken_away(tmp_path):
    url, _ = in_delta(tmp_path, [small.plain_table(40)])
    next((tmp_path / "lake").glob("*.parquet")).unlink()
    with pytest.raises(InputError, match="missing or damaged"):
        read(url)


def test_a_name_with_a_mark_is_no_version(tmp_path):
    """Of `lake#2`, a folder, the newest version is read."""
    table = small.plain_table(40)
    deltalake.write_deltalake(tmp_path / "lake#x", table)
    assert read(f"{tmp_path}/lake#x").num_rows == 40
    os.rename(tmp_path / "lake#x", tmp_path / "lake#2")
    assert read(f"{tmp_path}/lake#2").num_rows == 40
