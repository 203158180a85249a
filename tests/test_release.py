from __future__ import annotations

import json
import os
import stat

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.errors import InputError, OutputError
from anonpipe.storage import release
from tests.faults import publishing as faults


@pytest.fixture
def staged(tmp_path):
    folder = tmp_path / "staged"
    folder.mkdir(mode=0o700)
    paths = []
    for at in range(2):
        path = folder / f"part-{at:05d}.parquet"
        pq.write_table(pa.table({"a": [1 + at, 2, 3]}), path)
        path.chmod(0o600)
        paths.append(path)
    files = [{"name": p.name, "rows": 3, "bytes": p.stat().st_size, "sha256": release.sha256(p)} for p in paths]
    schema = release.describe_schema(pa.schema([("a", pa.int64())]))
    return paths, {"rows": 6, "schema": schema, "files": files}


def test_publish_then_check_then_publish_again(staged, where):
    url, place = where
    first = release.publish(*staged, place).path
    assert release.check(url) == []
    second = release.publish(*staged, place).path
    assert first != second
    assert release.resolve(url).root.endswith(second.rsplit("/", 1)[-1])
    assert release.check(first if place.local else f"memory://{first}") == []
    release.check_writable(place)
    deleted = release.prune(url, keep=1)
    assert deleted == [first.rsplit("/", 1)[-1]]
    assert release.check(url) == []


def test_local_pointer_is_relative_link_leaving_nothing_behind(staged, tmp_path):
    place = release.place(str(tmp_path / "out"))
    version = release.publish(*staged, place).path
    assert os.readlink(tmp_path / "out" / "release").startswith("versions/")
    assert sorted(os.listdir(tmp_path / "out")) == ["CURRENT", "release", "versions"]
    assert pq.read_table(tmp_path / "out" / "release" / "part-00000.parquet").num_rows == 3
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(os.stat(f"{version}/part-00000.parquet").st_mode) == 0o666 & ~mask


def test_damage_is_found(staged, tmp_path):
    url = str(tmp_path / "out")
    version = release.publish(*staged, release.place(url)).path
    target = f"{version}/part-00001.parquet"
    content = bytearray(open(target, "rb").read())
    content[10] ^= 1
    open(target, "wb").write(content)
    open(f"{version}/stray.txt", "w").close()
    os.remove(f"{version}/part-00000.parquet")
    problems = release.check(url)
    assert [p.split(":")[0] for p in problems] == ["stray.txt", "part-00000.parquet", "part-00001.parquet"]


def test_a_changed_manifest_is_found(staged, tmp_path):
    url = str(tmp_path / "out")
    version = release.publish(*staged, release.place(url)).path
    manifest = json.load(open(f"{version}/_manifest.json"))
    manifest["schema"][0]["type"] = "int32"
    manifest["files"][0]["rows"] = 4
    json.dump(manifest, open(f"{version}/_manifest.json", "w"))
    problems = release.check(url)
    assert any("schema" in p for p in problems) and any("the manifest says 4" in p for p in problems)


def test_failed_copy_publishes_nothing_and_keeps_old_release(staged, where):
    url, place = where
    files, manifest = staged
    old = release.publish(files, manifest, place).path
    broken = {**manifest, "files": [{**manifest["files"][0], "sha256": "0" * 64}, manifest["files"][1]]}
    with pytest.raises(OutputError, match="nothing was published"):
        release.publish(files, broken, place)
    assert release.resolve(url).root.endswith(old.rsplit("/", 1)[-1])
    assert len(place.filesystem.ls(place.path("versions"), detail=False)) == 1


@pytest.mark.parametrize("error", [OSError(28, "no space"), KeyboardInterrupt(), ValueError("of a driver")])
@pytest.mark.parametrize("step", ["_copy_version", "_open_to_readers", "symlink"])
def test_whatever_stops_publication_leaves_old_release_alone(staged, tmp_path, monkeypatch, step, error):
    place = release.place(str(tmp_path / "out"))
    old = release.publish(*staged, place).path
    before = sorted(path.name for path in (tmp_path / "out").rglob("*"))

    def fails(*_):
        raise error

    monkeypatch.setattr(*((release.Path, "symlink_to") if step == "symlink" else (release, step)), fails)
    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        release.publish(*staged, place)
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == before
    assert release.resolve(place.root).root == old and release.check(place.root) == []


def test_pointer_left_behind_warns_and_next_run_sets_it_right(staged, tmp_path, monkeypatch):
    place = release.place(str(tmp_path / "out"))
    old = release.publish(*staged, place).path
    replace = os.replace

    def not_the_pointer(source, target):
        if os.path.basename(target) == "CURRENT":
            raise OSError(5, "input/output error")
        replace(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(release.os, "replace", not_the_pointer)
        published = release.publish(*staged, place)
    assert "not all of" in published.warnings[0] and release.resolve(place.root).root == published.path
    assert (tmp_path / "out" / "CURRENT").read_text() == os.path.basename(old)
    assert release.check(place.root) == [] and faults.leftovers(tmp_path / "out") == []
    release.prune(place.root, keep=9)
    assert (tmp_path / "out" / "CURRENT").read_text() == os.path.basename(published.path)


def test_store_that_moves_pointer_and_fails_keeps_version(staged, tmp_path, monkeypatch):
    url = f"memory://{tmp_path.name}/out"
    place = release.place(url)
    put = place.filesystem.pipe_file

    def put_and_fail(path, content, **how):
        put(path, content, **how)
        if path.endswith("CURRENT"):
            raise OSError(110, "timed out")

    monkeypatch.setattr(place.filesystem, "pipe_file", put_and_fail)
    published = release.publish(*staged, place)
    assert "timed out" in published.warnings[0] and release.resolve(url).url() == published.path
    assert release.check(url) == []


def test_foreign_folder_and_unwritable_output_are_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.docx").write_text("")
    with pytest.raises(OutputError, match="other files"):
        release.check_writable(release.place(str(tmp_path / "out")))
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        release.check_writable(release.place(str(tmp_path / "file" / "out")))
    with pytest.raises(OutputError, match="protocol"):
        release.place("nosuch://bucket/out")


def test_no_release_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="no release"):
        release.resolve(str(tmp_path))


def test_memory_pointer_is_the_version_name(staged):
    place = release.place("memory://pointer/out")
    version = release.publish(*staged, place).path
    assert fsspec.filesystem("memory").cat_file("/pointer/out/CURRENT").decode() == version.rsplit("/", 1)[-1]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["part-00000.parquet", "_manifest.json"])
def test_a_pipe_in_place_of_a_file_is_told(staged, tmp_path, name):
    """Reading it would never end."""
    url = str(tmp_path / "out")
    version = release.publish(*staged, release.place(url)).path
    os.remove(f"{version}/{name}")
    os.mkfifo(f"{version}/{name}")
    if name.endswith(".parquet"):
        assert release.check(url) == [f"{name}: not a regular file"]
        return
    with pytest.raises(InputError, match=r"manifest of .* cannot be read"):
        release.check(url)


@pytest.mark.parametrize("content", ["[" * 200_000, "{" * 200_000, '{"rows": 1e999, "schema": [], "files": 1}'])
def test_a_hostile_manifest_is_told(staged, tmp_path, content):
    url = str(tmp_path / "out")
    version = release.publish(*staged, release.place(url)).path
    with open(f"{version}/_manifest.json", "w") as file:
        file.write(content)
    with pytest.raises(InputError, match=r"manifest of .* cannot be read"):
        release.check(url)


def test_an_oversized_manifest_is_not_read(staged, tmp_path, monkeypatch):
    url = str(tmp_path / "out")
    version = release.publish(*staged, release.place(url)).path
    monkeypatch.setattr(release, "MAX_MANIFEST_BYTES", os.path.getsize(f"{version}/_manifest.json") - 1)
    with pytest.raises(InputError, match=r"manifest of .* cannot be read"):
        release.check(url)
