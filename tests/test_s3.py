"""Input and output on an S3 server (moto) by s3fs, and tables of Delta Lake there."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from anonpipe import export_tables
from anonpipe.errors import InputError, OutputError
from anonpipe.export import export_csv
from anonpipe.export_tables import export_table
from anonpipe.job.model import parse_job
from anonpipe.pipeline import run as pipeline
from anonpipe.source import opened, read_batches
from anonpipe.storage import release, versions
from tests import small

s3fs = pytest.importorskip("s3fs")
moto = pytest.importorskip("moto.server")
deltalake = pytest.importorskip("deltalake")


class Server:
    """An S3 server of this process, whose connections break where `breaks` says so of a method and a path."""

    def __init__(self):
        from werkzeug.serving import WSGIRequestHandler, make_server

        quiet = type("Quiet", (WSGIRequestHandler,), {"log": lambda *_: None})
        self.store = moto.DomainDispatcherApplication(moto.create_backend_app)
        self.breaks = lambda _method, _path: False
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True, request_handler=quiet)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, environ, start):
        if self.breaks(environ["REQUEST_METHOD"], environ["PATH_INFO"]):
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        return self.store(environ, start)


@pytest.fixture(scope="module")
def server():
    one = Server()
    yield one
    one.server.shutdown()


@pytest.fixture
def store(server, monkeypatch):
    """The file system of s3fs, with one bucket for releases and one for the steward."""
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server.port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_ALLOW_HTTP": "true",  # of the library of Delta Lake
        "AWS_REGION": "us-east-1",
        "ANONPIPE_SECRET": "5e" * 32,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    for bucket in ("bucket", "private"):
        if store.exists(bucket):
            store.rm(f"{bucket}/", recursive=True)
        store.mkdir(bucket)
    yield store
    server.breaks = lambda _method, _path: False


def job(tmp_path, store, **changes):
    Path(tmp_path / "in").mkdir(exist_ok=True)
    path = small.write_table(tmp_path / "in", small.plain_table())
    store.put(path, "bucket/in/data.parquet")
    places = {"output": "s3://bucket/of/nobody/yet", "report": {"internal": "s3://private/reports"}}
    return parse_job(small.content(tmp_path, "s3://bucket/in/*.parquet", **(places | changes)))


def listed(store, bucket):
    store.invalidate_cache()
    return {path.removeprefix(f"{bucket}/") for path in store.find(bucket)}


def test_from_one_bucket_to_two_others(tmp_path, store):
    given = job(tmp_path, store)
    first, second = (pipeline.execute(given, cluster=False).version for _ in range(2))
    assert first.startswith("s3://bucket/of/nobody/yet/versions/v000001-")
    assert release.check(given.output) == [] and release.resolve(given.output).url() == second
    checked = release.checked(given.output)
    assert export_csv(checked.where, checked.manifest, tmp_path / "out.csv").rows == 300
    name = second.rsplit("/", 1)[-1]
    assert listed(store, "private") >= {"reports/releases.jsonl", f"reports/{name}-report.html"}
    assert not [path for path in listed(store, "bucket") if "steward" in path or path.endswith((".lease", ".pending"))]
    assert release.prune(given.output, 1, given.report.internal) == [first.rsplit("/", 1)[-1]]
    assert not [path for path in listed(store, "bucket") | listed(store, "private") if "v000001" in path]


def test_a_table_of_delta_lake_comes_whole_and_goes_by_version(tmp_path, server, store):
    given = job(tmp_path, store)
    pipeline.execute(given, cluster=False)
    found = release.checked(given.output)
    server.breaks = lambda method, path: method == "PUT" and "_delta_log" in path
    with pytest.raises(OutputError, match="nothing was written"):
        export_table(found.where, found.manifest, "delta+s3://bucket/lake/people")
    server.breaks = lambda _method, _path: False
    assert not [path for path in listed(store, "bucket") if path.startswith("lake/")]
    assert export_table(found.where, found.manifest, "delta+s3://bucket/lake/people").rows == 300
    assert {"lake/people/_manifest.json", "lake/people/_manifest.json.sig"} <= listed(store, "bucket")
    with pytest.raises(InputError, match="exists already"):
        export_table(found.where, found.manifest, "delta+s3://bucket/lake/people")
    deltalake.DeltaTable("s3://bucket/lake/people").delete("age > 60")
    for url, rows in (("s3://bucket/lake/people", None), ("s3://bucket/lake/people#0", 300)):
        with opened(url) as source:
            read = sum(batch.num_rows for unit in source.units for _, batch in read_batches(source, unit))
            assert read == source.rows and (read == rows if rows else 0 < read < 300)


def test_another_table_of_delta_lake_stays(tmp_path, store, monkeypatch):
    """What another program commits while an export is at work, and an export that began before, stay."""
    given, url, other = job(tmp_path, store), "delta+s3://bucket/lake/other", pa.table({"a": [1, 2]})
    pipeline.execute(given, cluster=False)
    found, whole = release.checked(given.output), export_tables._commit_delta

    def late(*about):
        deltalake.write_deltalake("s3://bucket/lake/other", other)
        whole(*about)

    monkeypatch.setattr(export_tables, "_commit_delta", late)
    with pytest.raises(OutputError, match="nothing was written"):
        export_table(found.where, found.manifest, url)
    assert deltalake.DeltaTable("s3://bucket/lake/other").to_pyarrow_table().equals(other)
    assert not [path for path in listed(store, "bucket") if path.startswith("lake/other/_manifest")]
    store.rm("bucket/lake/other", recursive=True)

    def second(*about):
        with pytest.raises(InputError, match="exists already"):
            export_table(found.where, found.manifest, url)
        whole(*about)

    monkeypatch.setattr(export_tables, "_commit_delta", second)
    exists = s3fs.S3FileSystem.exists  # both look before either begins
    early = lambda self, path, **options: "lake" not in path and exists(self, path, **options)  # noqa: E731
    monkeypatch.setattr(s3fs.S3FileSystem, "exists", early)
    assert export_table(found.where, found.manifest, url).rows == 300


def test_a_bucket_that_is_not_there_is_not_made(tmp_path, store):
    with pytest.raises(OutputError, match=r"s3://buckte/out cannot be written: there is no such folder or bucket"):
        pipeline.execute(job(tmp_path, store, output="s3://buckte/out"), cluster=False)
    store.invalidate_cache()
    assert not store.exists("buckte")


def test_a_connection_that_breaks_while_it_is_published(tmp_path, server, store, monkeypatch):
    monkeypatch.setattr(versions, "SILENCE", 0.2)
    given = job(tmp_path, store)
    before = pipeline.execute(given, cluster=False).version
    for k, place in enumerate(("part-00000.parquet", "CURRENT", "releases.jsonl"), 6):
        server.breaks = lambda method, path, place=place: path.endswith(place) and method in ("PUT", "DELETE")
        other = parse_job(given.model_dump(mode="json") | {"k": k})
        refused = pytest.raises(OutputError, match=r"the storage does not answer, or refuses")
        with refused as told:
            pipeline.execute(other, cluster=False)
        assert "127.0.0.1" not in str(told.value)
        server.breaks = lambda _method, _path: False
        assert release.check(given.output) == [] and release.resolve(given.output).url() == before
        before = pipeline.execute(other, resume=True, cluster=False).version
        assert release.resolve(given.output).url() == before
        assert not [path for path in listed(store, "bucket") if path.endswith((".lease", ".pending"))]


def test_an_input_whose_server_is_gone_is_not_called_damaged(tmp_path, server, store):
    given = job(tmp_path, store)
    server.breaks = lambda method, path: path.endswith("data.parquet") and method == "GET"
    with pytest.raises(InputError, match="the storage does not answer"):
        pipeline.execute(given, cluster=False)
