"""Folders named key=value, as Hive, Spark and pyarrow write them: each key is a column of the table."""

from __future__ import annotations

import datetime
import shutil

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from anonpipe.errors import InputError
from anonpipe.source import open_source, read_batches
from tests import runs, small

pytestmark = pytest.mark.secret(runs.SECRET)

CANARY = "canary4711"


def partitioned(folder, table, *names):
    """The table in folders, as pyarrow writes them."""
    parts = ds.partitioning(pa.schema([table.schema.field(name) for name in names]), flavor="hive")
    ds.write_dataset(table, folder, format="parquet", partitioning=parts)
    return str(folder)


def read(source, columns=None):
    """All rows."""
    batches = [batch for unit in source.units for _, batch in read_batches(source, unit, columns, 7)]
    return pa.Table.from_batches(batches)


def rows_of(table):
    """Its rows in an order of their own."""
    return sorted(map(repr, table.select(sorted(table.schema.names)).to_pylist()))


def people():
    """Keys of all types: a null, a blank, a slash and an equals sign in a text."""
    return pa.table(
        {
            "age": pa.array(range(40), pa.int64()),
            "year": pa.array([2019, 2020] * 20, pa.int64()),
            "place": pa.array(["St Ives", None, "a/b=c", "Ely"] * 10),
            "code": pa.array(["01", "10"] * 20),
            "day": pa.array([datetime.date(2020, 1, 31), datetime.date(1999, 12, 1)] * 20),
        }
    )


@pytest.mark.parametrize("pattern", ["", "/", "/**/*.parquet", "/year=*/*/*/*/*.parquet"])
def test_keys_are_columns_with_their_types(pattern, tmp_path):
    given = partitioned(tmp_path / "in", people(), "year", "place", "code", "day")
    (tmp_path / "in" / "_SUCCESS").write_text("")
    shutil.copytree(tmp_path / "in" / "year=2019", tmp_path / "in" / "_temporary" / "year=2019")
    source = open_source(given + pattern)
    types = {"age": pa.int64(), "year": pa.int64(), "place": pa.string(), "code": pa.string(), "day": pa.date32()}
    assert dict(zip(source.schema.names, source.schema.types, strict=True)) == types
    assert source.rows == 40 and rows_of(read(source)) == rows_of(people())
    assert rows_of(read(source, ["day", "place"])) == rows_of(people().select(["place", "day"]))


def test_keys_above_what_was_given_are_none(tmp_path):
    given = partitioned(tmp_path / "in", people(), "year")
    for url in (f"{given}/year=2020", f"{given}/year=2020/*.parquet", f"{given}/year=2020/part-0.parquet"):
        source = open_source(url)
        assert source.rows == 20 and "year" not in source.schema.names


def test_csv_files_lie_in_folders_too(tmp_path):
    for year in (2019, 2020):
        (tmp_path / f"year={year}").mkdir()
        part = people().filter(pa.compute.equal(people()["year"], year)).select(["age", "code"])
        pcsv.write_csv(part, tmp_path / f"year={year}" / "part.csv")
    job = small.job(tmp_path, str(tmp_path), {"age": {"kind": "integer"}, "code": {"kind": "categorical"}})
    source = open_source(str(tmp_path), job.columns)
    assert rows_of(read(source)) == rows_of(people().select(["age", "year", "code"]))


def test_a_release_of_folders_is_that_of_one_file(tmp_path):
    table = small.plain_table(400).append_column("year", pa.array([2019, 2020, 2020, 2021] * 100))
    columns = small.COLUMNS | {"year": {"kind": "categorical", "role": "key"}}
    jobs = [
        small.job(tmp_path / "one", table, columns),
        small.job(tmp_path / "two", partitioned(tmp_path / "in", table, "year"), columns),
    ]
    for job in jobs:
        assert small.run(job).version is not None
    first, second = (small.released(job) for job in jobs)
    assert second.select(first.schema.names).equals(first)


def _with_a_file_above(folder):
    pq.write_table(pa.table({"age": [1]}), folder / "more.parquet")


def _with_the_key_inside(folder):
    pq.write_table(pa.table({"age": [1], "place": ["x"]}), folder / f"place={CANARY}" / "part-0.parquet")


def _empty(folder):
    (folder / f"place={CANARY}" / "part-0.parquet").write_bytes(b"")


def _of_another_key(folder):
    (folder / f"place={CANARY}").rename(folder / f"site={CANARY}")


def _twice(folder):
    inner = folder / f"place={CANARY}" / f"place={CANARY}"
    inner.mkdir()
    (folder / f"place={CANARY}" / "part-0.parquet").rename(inner / "part.parquet")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_with_a_file_above, r"different keys \(no key and place\)"),
        (_with_the_key_inside, "column 'place' stands in the files and in the names"),
        (_empty, "place=…/part-0.parquet is empty"),
        (_of_another_key, r"different keys \(place and site\)"),
        (_twice, "a key stands twice|different keys"),
    ],
)
def test_what_is_no_table_is_refused_without_folder_values(change, words, tmp_path):
    table = pa.table({"age": [1, 2], "place": [CANARY, CANARY]})
    given = partitioned(tmp_path / "in", table if change is not _of_another_key else _of_two(table), "place")
    change(tmp_path / "in")
    with pytest.raises(InputError, match=words) as caught:
        open_source(given)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def _of_two(table):
    return pa.concat_tables([table, pa.table({"age": [3], "place": ["Ely"]})])


def test_what_goes_wrong_later_hides_the_values_too(tmp_path):
    given = partitioned(tmp_path / "in", pa.table({"age": [1, 2], "place": [CANARY, CANARY]}), "place")
    source = open_source(given)
    (tmp_path / "in" / f"place={CANARY}" / "part-0.parquet").write_bytes(b"PAR1 damaged PAR1")
    with pytest.raises(InputError, match=r"place=…/part-0.parquet: is no readable Parquet") as caught:
        read(source)
    assert CANARY not in str(caught.value)
