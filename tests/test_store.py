from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe import files
from anonpipe.engine import account
from anonpipe.errors import BusyError, DamagedError, EngineError, InputError, OutputError
from anonpipe.files import write_atomic
from anonpipe.storage import sealed
from anonpipe.storage import staging as store
from tests import small
from tests.faults.staging import FAULTS


def staging_at(folder, start="first"):
    """A staging that a start may write to."""
    folder.mkdir(exist_ok=True)
    (folder / sealed.KEY).write_bytes(sealed.make_key(folder, b"s" * 32))
    (folder / sealed.START).write_text(start)
    return store.Staging(folder, start)


@pytest.fixture
def staging(tmp_path):
    return staging_at(tmp_path / "run")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 9))
def test_shelf_returns_what_was_written(tmp_path_factory, region_rows, width, pieces):
    staging = staging_at(tmp_path_factory.mktemp("shelf"))
    staged = store.create_staged_array(staging, "a", region_rows, width, "float64", pieces)
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(count, width)) for count in region_rows]
    for region, values in reversed(list(enumerate(rows))):
        staged.write(region, values)
        staged.write(region, values)  # a retry
    wanted = [(region, len(values) // 3, len(values)) for region, values in enumerate(rows)]
    expected = np.concatenate([values[len(values) // 3 :] for values in rows])
    assert np.array_equal(staged.gather(wanted), expected)


def test_shelf_regions_never_share_a_chunk(staging):
    staged = store.create_staged_array(staging, "a", [10, 3000, 7], 2, "float64")
    chunk = store.zarr.open_array(store.SealedChunks(staging, "a")).chunks[0]
    assert all(start % chunk == 0 for start in staged.starts) and len(set(staged.starts)) == 3


def _write_column(staging, lengths, place, values):
    store.create_staged_array(staging, "a", lengths, 4, "float64", by_column=True).write_column(place, lengths, values)


def test_columns_written_side_by_side_lose_no_row(staging):
    """Four processes write a column each, of regions that share no chunk; then a partition's rows are rewritten."""
    from concurrent.futures import ProcessPoolExecutor

    lengths = [10, 3000, 1, 2048]
    staged = store.create_staged_array(staging, "a", lengths, 4, "float64", by_column=True)
    table = np.random.default_rng(0).normal(size=(sum(lengths), 4))
    with ProcessPoolExecutor(4) as pool:
        jobs = [pool.submit(_write_column, staging, lengths, place, table[:, place]) for place in range(4)]
        assert [job.result() for job in jobs] == [None] * 4
    staged.write(1, table[10:3010])
    assert np.array_equal(staged.gather([(at, 0, rows) for at, rows in enumerate(lengths)]), table)
    for place in range(4):
        assert np.array_equal(staged.read_column(place, lengths), table[:, place])


def test_columns_that_share_chunks_cannot_be_written_alone(staging):
    staged = store.create_staged_array(staging, "a", [10], 2, "float64")
    with pytest.raises(ValueError, match="by_column"):
        staged.write_column(0, [10], np.zeros(10))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_damaged_or_missing_chunk_is_error_and_no_fill_value(staging, fault):
    staged = store.create_staged_array(staging, "a", [1024, 1024], 1, "float64", pieces=1)
    rows = np.random.default_rng(0).normal(size=(1024, 1))
    staged.write(0, rows)
    staged.write(1, np.full((1024, 1), np.nan))  # a chunk of nothing but the fill value is written, too
    assert np.isnan(staged.read(1, 0, 1024)).all()
    for region in (0, 1):
        fault(staging.root / "a" / "c" / str(region) / "0", np.random.default_rng(1))
        if fault is FAULTS["swapped"]:
            (staging.root / "a" / "c" / str(region) / "0").write_bytes(b"")
        for read in (lambda at=region: staged.read(at, 0, 1), lambda at=region: staged.gather([(at, 3, 9)])):
            with pytest.raises(DamagedError, match=rf"damaged: a/c/{region}/0 is .*; run again"):
                read()


def test_a_chunk_in_the_place_of_another_is_an_error(staging):
    staged = store.create_staged_array(staging, "a", [1024, 1024], 1, "float64")
    for region in (0, 1):
        staged.write(region, np.full((1024, 1), float(region)))
    chunks = staging.root / "a" / "c"
    (chunks / "0" / "0").write_bytes((chunks / "1" / "0").read_bytes())
    with pytest.raises(DamagedError, match="a/c/0/0 is not what was written"):
        staged.read_column(0, [1024, 1024])


def test_lost_metadata_are_written_again_and_lose_no_row(staging):
    rows = np.random.default_rng(0).normal(size=(1024, 2))
    store.create_staged_array(staging, "a", [1024], 2, "float64").write(0, rows)
    (staging.root / "a" / "zarr.json").unlink()
    assert np.array_equal(store.create_staged_array(staging, "a", [1024], 2, "float64").read(0, 0, 1024), rows)


def test_a_start_that_is_over_writes_nothing(staging):
    """Neither under a newer start, nor into a folder that was removed; and it does not make that folder again."""
    staged = store.create_staged_array(staging, "a", [1024], 1, "float64")
    staged.write(0, np.zeros((1024, 1)))
    (staging.root / sealed.START).write_text("second")
    before = {path: path.read_bytes() for path in staging.root.rglob("*") if path.is_file()}
    acts = (
        lambda: staged.write(0, np.ones((1024, 1))),
        lambda: staging.write_json("x.json", 1),
        lambda: staging.results("route").write(0, {"rows": 1}),
        lambda: store.create_staged_array(staging, "b", [3], 1, "float64"),
    )
    for act in acts:
        with pytest.raises(EngineError, match="writes nothing more"):
            act()
    assert {path: path.read_bytes() for path in staging.root.rglob("*") if path.is_file()} == before
    store.remove(staging)
    for act in acts:
        with pytest.raises(EngineError):
            act()
    assert list(staging.root.parent.iterdir()) == []


def test_files_that_a_task_seals_are_in_its_receipt(staging):
    with sealed.recorded() as files:
        store.create_staged_array(staging, "a", [10], 1, "float64").write(0, np.zeros((10, 1)))
        staging.write_record("deep/er/b.record", {"x": np.arange(3)})
    staging.results("stage").write(0, {"rows": 10}, files)
    assert set(staging.results("stage").read(0)["files"]) == {"a/zarr.json", "a/c/0/0", "deep/er/b.record"}
    assert sealed.digests(staging.root, {sealed.KEY, sealed.START}).items() > files.items()
    assert staging.read_record("deep/er/b.record")["x"].tolist() == [0, 1, 2]


def test_what_receipts_tell_of_has_reached_the_disk_before(staging, monkeypatch):
    """Every file is synced before it is renamed, and its folder before the task result is written."""
    synced = []

    def noted(handle):
        synced.append(os.path.realpath(f"/proc/self/fd/{handle}"))

    monkeypatch.setattr("os.fsync", noted)
    with sealed.recorded() as files:
        staged = store.create_staged_array(staging, "a", [10], 1, "float64")
        staged.write(0, np.zeros((10, 1)))
    drafts = [path for path in synced if path.endswith(".draft")]
    assert len(drafts) == len(files) == 2
    before = len(synced)
    staging.results("stage").write(0, {"rows": 10}, files)
    result = next(at for at in range(before, len(synced)) if synced[at].endswith(".draft"))
    assert {str(staging.root / place) for place in ("", "a", "a/c", "a/c/0")} <= set(synced[:result])
    assert {str(staging.root / place) for place in ("a", "a/c/0")} <= set(synced[before:result])
    assert synced[-1] == str(staging.root / "results" / "stage")


def test_label_shelf_is_one_column(staging):
    staged = store.create_staged_array(staging, "a", [5, 6], None, "int64")
    staged.write(1, np.arange(6))
    assert staged.read(1, 2, 6).tolist() == [2, 3, 4, 5]


def test_receipts(staging):
    results = staging.results("stage")
    results.write(2, {"rows": 1, "value": 0.1 + 0.2})
    results.write(0, {"rows": 2})
    assert results.done(3) == {0, 2}
    assert results.read(2)["value"] == 0.1 + 0.2
    assert stat.S_IMODE((staging.root / "results" / "stage").stat().st_mode) == 0o700
    assert stat.S_IMODE((staging.root / "results" / "stage" / "2.record").stat().st_mode) == 0o600


def test_lock_keeps_others_out_and_dies_with_its_process(tmp_path):
    staging = store.Staging(tmp_path / "run")
    with store.lock(staging), pytest.raises(BusyError), store.lock(staging):
        pass
    code = (
        "import os, pathlib; from anonpipe.storage import staging as store\n"
        f"with store.lock(store.Staging(pathlib.Path({str(staging.root)!r}))): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with store.lock(staging):
        pass


def test_purge_deletes_crashed_runs_and_spares_live_ones(tmp_path):
    for name in ("crashed", "live", "foreign"):
        (tmp_path / name).mkdir()
    for name in ("crashed", "live"):
        (tmp_path / name / "run.json").write_text("{}")
    with store.lock(store.Staging(tmp_path / "live")):
        assert store.purge(tmp_path, dry_run=True) == [tmp_path / "crashed"]
        assert (tmp_path / "crashed").exists()
        assert store.purge(tmp_path) == [tmp_path / "crashed"]
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"live", "foreign"}


def test_purge_finds_all_that_runs_leave(tmp_path):
    """Interrupted removals, folders that a late task made again, and locks that nobody holds."""
    names = ("0123456789abcdef.00ff", "0123456789abcdef.00ff.11aa.gone", "memory-0123456789abcdef", "fedcba9876543210")
    for name in names:
        (tmp_path / name / "dask" / "dask-scratch-space").mkdir(parents=True)
        (tmp_path / name / "dask" / ".half.draft").write_text("")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "aaaaaaaaaaaaaaaa.lock").write_text("")
    assert store.purge(tmp_path) == sorted(tmp_path / name for name in names)
    assert [path.name for path in tmp_path.iterdir()] == ["foreign"]


def test_a_removal_that_is_interrupted_leaves_no_run(tmp_path, monkeypatch):
    """From its first step on, what is left is found by purge alone."""
    staging = staging_at(tmp_path / "0123456789abcdef.00ff")
    staging.write_json("run.json", {})

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("shutil.rmtree", interrupt)
        store.remove(staging)
    assert [store.is_gone(root) for root in store.roots_of(tmp_path, "0123456789abcdef")] == [True]
    assert len(store.purge(tmp_path)) == 1 and list(tmp_path.iterdir()) == []


def test_an_error_of_the_disk_that_only_its_text_tells_of():
    assert isinstance(files.disk_error(OSError("writing failed. Detail: [errno 28] No space"), "x"), OutputError)
    assert isinstance(files.disk_error(OSError("writing failed"), "x"), EngineError)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (errno.ENOSPC, OutputError, "disk is full"),
        (errno.EACCES, OutputError, "no permission"),
        (errno.ENOENT, InputError, "disappeared"),
        (errno.EFBIG, OutputError, "ulimit -f"),
        (errno.ENAMETOOLONG, OutputError, "too long"),
        (errno.EMFILE, OutputError, "too many files"),
        (errno.EIO, EngineError, "while testing"),
    ],
)
def test_disk_errors_are_told_apart(code, kind, words):
    with pytest.raises(kind, match=words), files.disk_errors("testing"):
        raise OSError(code, "text", "file")


def _caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"),  # as Arrow words it
        _caused(OSError("could not write"), OSError(errno.ENOSPC, "text")),
        _caused(RuntimeError("a chunk"), _caused(OSError("could not write"), OSError(errno.ENOSPC, "text"))),
    ],
    ids=["text", "cause", "cause of a cause"],
)
def test_a_full_disk_is_known_whatever_tells_of_it(error):
    failure = account(error, "stage scan")
    assert failure.kind == "OutputError" and "disk is full" in failure.message
    assert account(RuntimeError("x"), "stage scan").kind == "EngineError"
    assert account(FileNotFoundError("gone"), "stage scan").message == "a file disappeared while running stage scan"


def test_unusable_staging_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be made"):
        store.make_private(tmp_path / "file" / "below")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_rights_of_a_folder_that_others_use_are_not_changed(tmp_path, monkeypatch):
    shared, link = tmp_path / "shared", f"anonpipe-{os.getuid()}"
    shared.mkdir(mode=0o755)
    shared.chmod(0o1777)
    root = store.make_private(store.staging_root(str(shared)))
    assert root == shared / link and mode(root) == 0o700 and mode(shared) == 0o1777
    assert store.staging_root(str(shared)) == root and store.staging_root(str(root)) == root
    root.rmdir()
    (shared / link).symlink_to(tmp_path)
    with pytest.raises(OutputError, match="is a link"):
        store.staging_root(str(shared))
    assert store.staging_root(str(tmp_path / "new")) == tmp_path / "new"
    mine = store.make_private(tmp_path / "new")
    monkeypatch.setattr(os, "getuid", lambda: mine.stat().st_uid + 1)
    assert store.staging_root(str(mine)).parent == mine  # of another user, whatever its rights


def test_old_stagings_are_purged_young_and_own_ones_are_not(tmp_path):
    hours = 3_600.0
    for name, age in (("a" * 16, 200), ("b" * 16, 20), ("c" * 16, 200), ("memory-" + "d" * 16, 200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
        for path in (tmp_path / name / "run.json", tmp_path / name):
            os.utime(path, (time.time() - age * hours,) * 2)
    gone = store.purge(tmp_path, days=7, but="c" * 16)
    assert [path.name for path in gone] == ["a" * 16, "memory-" + "d" * 16]
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"b" * 16, "c" * 16}


@pytest.mark.secret("5e" * 32)
def test_a_run_deletes_what_crashed_runs_left_long_ago(tmp_path):
    left = store.make_private(store.staging_root(None)) / ("a" * 16)
    left.mkdir()
    (left / "raw").write_text("rows")
    for path in (left / "raw", left):
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    job = small.job(tmp_path, small.plain_table())
    small.run(job.model_copy(update={"run": job.run.model_copy(update={"keep_days": 30.0})}))
    assert left.exists()
    small.run(job)
    assert not left.exists()


def test_a_link_laid_where_a_draft_will_be_is_not_followed(tmp_path):
    trap = tmp_path / "trap"
    (tmp_path / f".name.{os.getpid()}").symlink_to(trap)
    write_atomic(tmp_path / "name", b"rows")
    assert not trap.exists() and (tmp_path / "name").read_bytes() == b"rows" and mode(tmp_path / "name") == 0o600


def test_a_device_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, b"rows")
    assert os.read(reader, 9) == b"rows" and [path.name for path in tmp_path.iterdir()] == ["pipe"]
    os.close(reader)


@pytest.mark.parametrize("private", [True, False])
def test_rights_of_a_written_file(tmp_path, private):
    path = tmp_path / "file"
    path.write_bytes(b"older")
    path.chmod(0o666)
    write_atomic(path, b"rows", private)
    before = os.umask(0)
    os.umask(before)
    assert mode(path) == (0o600 if private else 0o666 & ~before) and path.read_bytes() == b"rows"
