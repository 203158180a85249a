"""An input that is replaced while a run reads it: refused, or released as one of the two tables alone would be."""

from __future__ import annotations

import os
import shutil
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.errors import InputError
from anonpipe.pipeline.run import execute
from anonpipe.pipeline.tasks import route, scan
from anonpipe.storage import release
from tests import small

COLUMNS = {
    "person": {"kind": "integer", "role": "identifier"},
    "age": {"kind": "integer", "transform": "none"},
    "income": {"kind": "continuous", "transform": "none"},
    "place": {"kind": "categorical"},
}
WAYS = ("rename", "in place")
ROWS = 3_000


def table(seed):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "person": np.arange(ROWS) + 10_000 * seed,
            "age": rng.integers(18, 24, ROWS),  # ties, which the order of the contents breaks
            "income": rng.integers(0, 5, ROWS).astype(float),
            "place": rng.choice(["north", "south"], ROWS),
        }
    )


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "ab" * 32)
    for name, seed in (("old", 1), ("new", 2)):
        # Without compression and dictionaries both files have the same size
        pq.write_table(table(seed), tmp_path / name, compression="none", use_dictionary=False)
    assert (tmp_path / "old").stat().st_size == (tmp_path / "new").stat().st_size
    return tmp_path


def replace(world, name, way):
    """Put a table where the job reads, with the size and the time of change of the other."""
    to, times = world / "input.parquet", (1_700_000_000, 1_700_000_000)
    if way == "rename" or not to.exists():
        shutil.copy(world / name, world / "coming")
        os.utime(world / "coming", times)
        (world / "coming").replace(to)
        return
    with to.open("r+b") as handle:
        handle.write((world / name).read_bytes())
    os.utime(to, times)


def job(world):
    gates = {"mean": 9, "covariance": 9, "category_share": 1, "unchanged_record_rate": 1}
    return small.job(
        world,
        table(1),
        COLUMNS,
        input=str(world / "input.parquet"),
        cluster={"method": "kd_tree", "refine": False},
        synthesize={"method": "centroid"},
        gates=gates,
        partition={"rows": 1_000, "sample_rows": 500},  # the sample is drawn by the contents of the first reading
        repeat={"allow": "both tables are invented"},
    )


def released_sums(world):
    """The sums of the released files, or None where the run refused its input."""
    try:
        outcome = small.run(job(world))
    except InputError as error:
        assert "changed while it was read" in str(error)
        return None
    assert outcome.version is not None
    return [file["sha256"] for file in release.read_manifest(release.resolve(job(world).output))["files"]]


_OF_ONE_TABLE: list[list[str] | None] = []  # Released sums of either table alone; they do not depend on the folder


def allowed(world):
    if not _OF_ONE_TABLE:
        for name in ("old", "new"):
            replace(world, name, "rename")
            _OF_ONE_TABLE.append(released_sums(world))
        assert None not in _OF_ONE_TABLE and _OF_ONE_TABLE[0] != _OF_ONE_TABLE[1]
    return [*_OF_ONE_TABLE, None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reading", [0, 1, 2])
@pytest.mark.parametrize("batches", [0, 1, 2])
def test_replacement_in_any_reading_is_noticed(world, monkeypatch, way, reading, batches):
    """Two readings of the scan and one of the routing; the table is replaced before a reading or in it."""
    expected = allowed(world)
    replace(world, "old", "rename")
    count = 0

    def replacing(read):
        def batches_of(*given):
            nonlocal count
            count, own = count + 1, count
            if own == reading and batches == 0:
                replace(world, "new", way)
            for at, batch in enumerate(read(*given, rows=1_000)):
                if own == reading and batches == at + 1:
                    replace(world, "new", way)
                yield batch

        return batches_of

    for module in (scan, route):
        monkeypatch.setattr(module, "read_batches", replacing(module.read_batches))
    assert released_sums(world) in expected
    assert count >= reading + 1


def test_identifiers_alone_are_compared_too(world, monkeypatch):
    """A table with other persons behind the same records: their sketches would be of one, their units of the other."""
    other = table(1).set_column(0, "person", pa.array(np.arange(ROWS) + 77_000))
    pq.write_table(other, world / "new", compression="none", use_dictionary=False)
    replace(world, "old", "rename")
    first_pass = scan._first_pass

    def then_replaced(*given):
        result = first_pass(*given)
        replace(world, "new", "rename")
        return result

    monkeypatch.setattr(scan, "_first_pass", then_replaced)
    assert released_sums(world) is None


@pytest.mark.parametrize("way", WAYS)
def test_replacement_at_many_moments(world, way):
    """From the start until a little after the last reading, after which no run looks at its input."""
    expected, read = allowed(world), []
    replace(world, "old", "rename")
    begin = time.perf_counter()
    execute(job(world), cluster=False, on_progress=lambda now: read.append((now.stage, time.perf_counter() - begin)))
    length = max(seconds for stage, seconds in read if stage == "route")
    for moment in range(14):
        replace(world, "old", "rename")
        timer = threading.Timer(1.15 * length * moment / 13, replace, (world, "new", way))
        timer.start()
        assert released_sums(world) in expected, moment
        timer.join()
