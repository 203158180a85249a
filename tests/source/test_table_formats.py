"""Folders of Delta Lake, Iceberg and Hudi tables, and files of more rows than any bytes can hold."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.errors import InputError
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.preview import preview
from anonpipe.source import open_source
from tests import small


def rows(folder, name, count=10):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"age": list(range(count))}), path)


def delta(folder):
    """Two files, of which the second replaces the first without one person."""
    rows(folder, "a.parquet", 10)
    rows(folder, "b.parquet", 9)
    (folder / "_delta_log").mkdir()
    log = [{"add": {"path": "a.parquet"}}, {"remove": {"path": "a.parquet"}}, {"add": {"path": "b.parquet"}}]
    (folder / "_delta_log" / "00000000000000000000.json").write_text("\n".join(map(json.dumps, log)))
    return ["", "*.parquet", "b.parquet"]


def partitioned_delta(folder):
    rows(folder, "year=2020/a.parquet")
    rows(folder, "year=2021/b.parquet")
    (folder / "_delta_log").mkdir()
    return ["*/*.parquet", "year=2020", "year=2020/a.parquet", "**/*.parquet"]


def iceberg(folder):
    rows(folder, "data/a.parquet")
    (folder / "metadata").mkdir()
    (folder / "metadata" / "v1.metadata.json").write_text("{}")
    return ["data", "data/*.parquet", "data/a.parquet", "*/*.parquet"]


def hudi(folder):
    rows(folder, "a.parquet")
    (folder / ".hoodie").mkdir()
    return ["", "a.parquet"]


@pytest.mark.parametrize(
    ("make", "words"),
    [(delta, "Delta Lake"), (partitioned_delta, "Delta Lake"), (iceberg, "Iceberg"), (hudi, "Hudi")],
    ids=["delta", "partitioned", "iceberg", "hudi"],
)
def test_tables_with_a_log_of_their_own_are_refused(tmp_path, make, words):
    for given in make(tmp_path / "table"):
        with pytest.raises(
            InputError, match=rf"of {words}, whose files .* deleted or replaced; (give|export a snapshot)"
        ):
            open_source(f"{tmp_path}/table/{given}".rstrip("/"))


def test_other_folders_are_read_as_before(tmp_path):
    rows(tmp_path, "table/a.parquet")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.json").write_text("{}")
    (tmp_path / "neighbour" / "_delta_log").mkdir(parents=True)
    for given in ("table", "table/*.parquet", "table/a.parquet"):
        assert open_source(str(tmp_path / given)).rows == 10


@pytest.mark.secret("5e" * 32)
def test_few_bytes_of_billion_rows_are_refused_before_reading(tmp_path, monkeypatch):
    monkeypatch.setattr("anonpipe.source._files._SMALL", 1)
    same = pa.table(
        {"age": np.zeros(200_000, dtype=np.int64), "income": np.ones(200_000), "place": ["north"] * 200_000}
    )
    path = tmp_path / "bomb.parquet"
    pq.write_table(same, path, compression="zstd")
    assert 16 * path.stat().st_size < 200_000
    job = small.job(tmp_path, str(path))
    monkeypatch.setattr("anonpipe.source.read_parquet", None)
    for run in (lambda: pipeline.execute(job, cluster=False), lambda: preview(job)):
        with pytest.raises(
            InputError, match=r"200,000 rows in .* bytes, .* a byte, and 16 are allowed.*max_rows_per_byte"
        ):
            run()
    trusted = job.model_copy(update={"run": job.run.model_copy(update={"max_rows_per_byte": 1e6})})
    with pytest.raises(Exception, match=r"NoneType|TypeError"):  # it goes on to the rows
        pipeline.execute(trusted, cluster=False)
