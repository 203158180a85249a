"""An input that is replaced while a run reads it: refused, or released as one of the two tables alone would be."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
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
FORMS: dict[str, dict[str, Any]] = {
    "parquet": {"cluster": {"method": "kd_tree", "refine": False}, "synthesize": {"method": "centroid"}},
    "csv": {"mask": small.QUICK},
}
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
        pq.write_table(table(seed), tmp_path / f"{name}.parquet", compression="none", use_dictionary=False)
        pc.write_csv(table(seed), tmp_path / f"{name}.csv")
    for form in FORMS:
        assert (tmp_path / f"old.{form}").stat().st_size == (tmp_path / f"new.{form}").stat().st_size
    return tmp_path


def replace(world, name, way, form="parquet"):
    """Put a table where the job reads, with the size and the time of change of the other."""
    to, times = world / f"input.{form}", (1_700_000_000, 1_700_000_000)
    if way == "rename" or not to.exists():
        shutil.copy(world / f"{name}.{form}", world / "coming")
        os.utime(world / "coming", times)
        (world / "coming").replace(to)
        return
    with to.open("r+b") as handle:
        handle.write((world / f"{name}.{form}").read_bytes())
    os.utime(to, times)


def job(world, form="parquet"):
    gates = {"mean": 9, "covariance": 9, "category_share": 1, "unchanged_record_rate": 1}
    return small.job(
        world,
        str(world / f"input.{form}"),
        COLUMNS,
        gates=gates,
        partition={"rows": 1_000, "sample_rows": 500},  # the sample is drawn by the contents of the first reading
        repeat={"allow": "both tables are invented"},
        **FORMS[form],
    )


def released_sums(world, form="parquet"):
    """The sums of the released files, or None where the run refused its input."""
    try:
        outcome = small.run(job(world, form))
    except InputError as error:
        assert "changed while it was read" in str(error)
        return None
    assert outcome.version is not None
    return [file["sha256"] for file in release.read_manifest(release.resolve(job(world, form).output))["files"]]


_OF_ONE_TABLE: dict[str, list[list[str] | None]] = {}  # Released sums of either table alone, whatever the folder


def allowed(world, form="parquet"):
    if form not in _OF_ONE_TABLE:
        found = []
        for name in ("old", "new"):
            replace(world, name, "rename", form)
            found.append(released_sums(world, form))
        assert None not in found and found[0] != found[1]
        _OF_ONE_TABLE[form] = found
    return [*_OF_ONE_TABLE[form], None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reading", [0, 1, 2])
@pytest.mark.parametrize(("form", "batches"), [*(("parquet", batches) for batches in (0, 1, 2)), ("csv", 1)])
def test_replacement_in_any_reading_is_noticed(world, monkeypatch, way, reading, form, batches):
    """Two readings of the scan and one of the routing; the table is replaced before a reading or in it."""
    expected = allowed(world, form)
    replace(world, "old", "rename", form)
    count = 0

    def replacing(read):
        def batches_of(*given):
            nonlocal count
            count, own = count + 1, count
            if own == reading and batches == 0:
                replace(world, "new", way, form)
            for at, batch in enumerate(read(*given, rows=1_000)):
                if own == reading and batches == at + 1:
                    replace(world, "new", way, form)
                yield batch

        return batches_of

    for module in (scan, route):
        monkeypatch.setattr(module, "read_batches", replacing(module.read_batches))
    assert released_sums(world, form) in expected
    assert count >= reading + 1


def test_identifiers_alone_are_compared_too(world, monkeypatch):
    """A table with other persons behind the same records: their sketches would be of one, their units of the other."""
    other = table(1).set_column(0, "person", pa.array(np.arange(ROWS) + 77_000))
    pq.write_table(other, world / "new.parquet", compression="none", use_dictionary=False)
    replace(world, "old", "rename")
    first_pass = scan._first_pass

    def then_replaced(*given):
        result = first_pass(*given)
        replace(world, "new", "rename")
        return result

    monkeypatch.setattr(scan, "_first_pass", then_replaced)
    assert released_sums(world) is None


@pytest.mark.parametrize("way", WAYS)
def test_replacement_at_many_moments(world, monkeypatch, way):
    """From the first reading until a little after the last, after which no run looks at its input."""
    expected, read, waiting, scanned = allowed(world), [], [], scan.read_batches

    def starting(*given, **options):
        while waiting:
            waiting.pop().start()
        return scanned(*given, **options)

    monkeypatch.setattr(scan, "read_batches", starting)
    replace(world, "old", "rename")
    waiting.append(threading.Timer(0.0, lambda: read.append(("begin", time.perf_counter()))))
    execute(job(world), cluster=False, on_progress=lambda now: read.append((now.stage, time.perf_counter())))
    begin, end = (max(moment for stage, moment in read if stage == name) for name in ("begin", "route"))
    for moment in range(14):
        replace(world, "old", "rename")
        timer = threading.Timer(1.15 * (end - begin) * moment / 13, replace, (world, "new", way))
        waiting.append(timer)
        assert released_sums(world) in expected, moment
        timer.join()
