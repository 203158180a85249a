"""A storage elsewhere that fails at any question: a whole release or nothing, and one clear error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from anonpipe.errors import AnonpipeError, BusyError, InputError, OutputError
from anonpipe.files import StorageError
from anonpipe.source import open_source
from anonpipe.storage import release, release_log, versions
from anonpipe.storage import versions as remote
from tests import small
from tests.faults import publishing

ASKED = ("cat_file", "pipe_file", "ls", "rm_file", "open", "rm", "makedirs")


class LibraryError(Exception):
    """What drivers raise of a connection: no OSError, and its text holds an address with a key."""


class Line:
    """Counts what is asked of the storage, and fails at some of it: before it is carried out, or the answer is lost."""

    def __init__(self, monkeypatch):
        self.count, self.failing, self.lost = 0, range(0), False
        for name in ASKED:
            monkeypatch.setattr(MemoryFileSystem, name, self.over(getattr(MemoryFileSystem, name)))

    def over(self, function):
        def call(*args, **kwargs):
            self.count += 1
            if self.count not in self.failing:
                return function(*args, **kwargs)
            if self.lost:
                function(*args, **kwargs)
            raise LibraryError("https://store/?key=secret")

        return call

    def breaks(self, at, times, lost):
        self.count, self.failing, self.lost = 0, range(at, at + times), lost


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("times", [1, 2, 10_000])
def test_a_connection_that_breaks_at_any_step_of_a_publication(tmp_path, monkeypatch, times, lost):
    files = publishing.staged(tmp_path / "stage")
    url = f"memory://{tmp_path.name}/out"
    line = Line(monkeypatch)
    monkeypatch.setattr(versions, "SILENCE", 0.0)
    release.publish(*files, release.place(url))
    first = line.count
    assert first > 20
    outcomes = set()
    for at in range(1, first + 1):
        line.breaks(at, times, lost)
        try:
            version = os.path.basename(release.publish(*files, release.place(url)).path)
        except AnonpipeError as error:
            assert "secret" not in str(error) and "LibraryError" in str(error) and url.split("://")[1] in str(error)
            version = None
            outcomes.add(str(error).split(url.split("://")[1])[-1][:30])
        line.breaks(0, 0, False)
        where = release.place(url)
        assert release.check(url) == []  # readers are led to a whole version, whatever happened
        assert version is None or versions.current_version(where) == version
        with versions.exclusive_lock(where):
            assert versions.list_names(where, "versions") == set(versions.list_versions(where))  # nothing half
        release.prune(url)
    assert {" cannot be written: the storag", ": the storage does not answer,"} <= outcomes


def test_pointer_moved_without_answer_is_not_taken_away(tmp_path, monkeypatch):
    url = f"memory://{tmp_path.name}/out"
    where = release.place(url)
    put = MemoryFileSystem.pipe_file
    ask = MemoryFileSystem.cat_file
    moved = []

    def put_unheard(self, path, value, **options):
        put(self, path, value, **options)
        if path.endswith("CURRENT"):
            moved.append(path)
            raise LibraryError("reset")

    def no_answer(self, path, **options):
        if moved and path.endswith("CURRENT"):
            raise LibraryError("reset")
        return ask(self, path, **options)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", put_unheard)
    monkeypatch.setattr(MemoryFileSystem, "cat_file", no_answer)
    with pytest.raises(OutputError, match=r"whether v000001-.* is out is not known"):
        release.publish(*publishing.staged(tmp_path / "stage"), where)
    monkeypatch.undo()
    assert release.check(url) == [] and versions.current_version(where) is not None


def test_who_lost_the_lease_moves_no_pointer(tmp_path):
    url = f"memory://{tmp_path.name}/out"
    where = release.place(url)
    release.publish(*publishing.staged(tmp_path / "one"), where)
    before = versions.current_version(where)

    def taken_over():
        where.filesystem.pipe_file(where.path(".lease"), b"another 3")

    with pytest.raises(BusyError, match="another run has taken over"):
        release.publish(*publishing.staged(tmp_path / "two"), where, before_switch=taken_over)
    assert versions.current_version(where) == before
    assert where.filesystem.cat_file(where.path(".lease")) == b"another 3"  # it is the other's


def test_a_log_that_cannot_be_asked_for_is_not_replaced(tmp_path, monkeypatch):
    where = release.place(f"memory://{tmp_path.name}/out")
    log = where.steward.path(release_log.LOG)
    where.filesystem.pipe_file(log, b'{"anonpipe_log": 1}\n')

    def unheard(self, path, **options):
        raise LibraryError("reset")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileSystem, "cat_file", unheard)
        patched.setattr(MemoryFileSystem, "exists", lambda self, path, **options: False)  # as fsspec's own says then
        assert not release_log._read_output(where).readable
        with pytest.raises(StorageError):
            release_log._append_to_output(where, {"version": "v000001-00000000"})
    assert where.filesystem.cat_file(log) == b'{"anonpipe_log": 1}\n'


def test_an_input_that_cannot_be_reached_is_not_called_damaged(tmp_path, monkeypatch):
    path = small.write_table(tmp_path, small.plain_table(50))
    memory = MemoryFileSystem()
    memory.pipe_file(f"/{tmp_path.name}/t.parquet", Path(path).read_bytes())
    opened = MemoryFileSystem._open

    def breaking(self, path, mode="rb", **options):
        handle = opened(self, path, mode, **options)

        def read(*_):
            raise LibraryError("reset")

        handle.read = read
        return handle

    monkeypatch.setattr(MemoryFileSystem, "_open", breaking)
    with pytest.raises(InputError, match=r"cannot be read: the storage does not answer, or refuses \(LibraryError\)"):
        open_source(f"memory://{tmp_path.name}/t.parquet")


def test_no_bucket_is_made_by_writing_into_one():
    made = []

    class Buckets(MemoryFileSystem):
        protocol = ("s3", "s3a")

        def makedirs(self, path, exist_ok=False):
            made.append(path)

    remote.Remote(Buckets()).makedirs("nobucket/out", exist_ok=True)
    assert made == []
    remote.Remote(MemoryFileSystem()).makedirs("/folder/out", exist_ok=True)
