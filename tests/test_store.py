from __future__ import annotations

import errno
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe import store
from anonpipe.errors import BusyError, EngineError, InputError, OutputError


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 9))
def test_shelf_returns_what_was_written(tmp_path_factory, region_rows, width, pieces):
    path = tmp_path_factory.mktemp("shelf") / "a"
    shelf = store.create_shelf(path, region_rows, width, "float64", pieces)
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(count, width)) for count in region_rows]
    for region, values in reversed(list(enumerate(rows))):
        shelf.write(region, values)
        shelf.write(region, values)  # a retry
    wanted = [(region, len(values) // 3, len(values)) for region, values in enumerate(rows)]
    expected = np.concatenate([values[len(values) // 3 :] for values in rows])
    assert np.array_equal(shelf.gather(wanted), expected)


def test_shelf_regions_never_share_a_chunk(tmp_path):
    shelf = store.create_shelf(tmp_path / "a", [10, 3000, 7], 2, "float64")
    chunk = store.zarr.open_array(str(tmp_path / "a")).chunks[0]
    assert all(start % chunk == 0 for start in shelf.starts) and len(set(shelf.starts)) == 3


def _write_column(path, lengths, place, values):
    store.create_shelf(path, lengths, 4, "float64", by_column=True).write_column(place, lengths, values)


def test_columns_written_side_by_side_lose_no_row(tmp_path):
    """Four processes write a column each, of regions that share no chunk; then a partition's rows are rewritten."""
    from concurrent.futures import ProcessPoolExecutor

    path, lengths = tmp_path / "a", [10, 3000, 1, 2048]
    shelf = store.create_shelf(path, lengths, 4, "float64", by_column=True)
    table = np.random.default_rng(0).normal(size=(sum(lengths), 4))
    with ProcessPoolExecutor(4) as pool:
        jobs = [pool.submit(_write_column, path, lengths, place, table[:, place]) for place in range(4)]
        assert [job.result() for job in jobs] == [None] * 4
    shelf.write(1, table[10:3010])
    assert np.array_equal(shelf.gather([(at, 0, rows) for at, rows in enumerate(lengths)]), table)
    for place in range(4):
        assert np.array_equal(shelf.read_column(place, lengths), table[:, place])


def test_columns_that_share_chunks_cannot_be_written_alone(tmp_path):
    shelf = store.create_shelf(tmp_path / "a", [10], 2, "float64")
    with pytest.raises(ValueError, match="by_column"):
        shelf.write_column(0, [10], np.zeros(10))


def test_a_flipped_bit_is_noticed(tmp_path):
    shelf = store.create_shelf(tmp_path / "a", [2000], 1, "float64")
    shelf.write(0, np.random.default_rng(0).normal(size=(2000, 1)))
    victim = max((tmp_path / "a" / "c").rglob("*"), key=lambda p: p.stat().st_size if p.is_file() else 0)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    with pytest.raises(Exception, match="checksum"):
        shelf.read(0, 0, 2000)


def test_label_shelf_is_one_column(tmp_path):
    shelf = store.create_shelf(tmp_path / "a", [5, 6], None, "int64")
    shelf.write(1, np.arange(6))
    assert shelf.read(1, 2, 6).tolist() == [2, 3, 4, 5]


def test_receipts(tmp_path):
    receipts = store.Receipts(tmp_path / "stage")
    receipts.write(2, {"rows": 1, "value": 0.1 + 0.2})
    receipts.write(0, {"rows": 2})
    assert receipts.done(3) == {0, 2}
    assert receipts.read(2)["value"] == 0.1 + 0.2
    assert stat.S_IMODE((tmp_path / "stage").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "stage" / "2.json").stat().st_mode) == 0o600


def test_lock_keeps_others_out_and_dies_with_its_process(tmp_path):
    staging = store.Staging(tmp_path / "run")
    with store.lock(staging), pytest.raises(BusyError), store.lock(staging):
        pass
    code = (
        "import os, pathlib; from anonpipe import store\n"
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


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (errno.ENOSPC, OutputError, "disk is full"),
        (errno.EACCES, OutputError, "no permission"),
        (errno.ENOENT, InputError, "disappeared"),
        (errno.EIO, EngineError, "while testing"),
    ],
)
def test_disk_errors_are_told_apart(code, kind, words):
    with pytest.raises(kind, match=words), store.disk_errors("testing"):
        raise OSError(code, "text", "file")


def test_unusable_staging_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be made"):
        store.make_private(tmp_path / "file" / "below")
