"""No stratum releases a category that fewer than k of its records hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.columns import Column
from anonpipe.encoding.rare import suppress_rare
from anonpipe.encoding.scan import SCAN_RECORDS, merge_scans, scan_batch
from anonpipe.partition.strata import Strata
from anonpipe.storage.records import from_bytes, to_bytes
from tests import small

COLUMNS = {
    "x": {"kind": "continuous"},
    "place": {"kind": "categorical"},
    "area": {"kind": "categorical", "role": "key"},
}
PLACES = ("north", "south", "east", "west")


def _table(rows=600):
    """`west` has 30 records in all, and 2 of them in the area B."""
    rng = np.random.default_rng(1)
    area = np.where(np.arange(rows) < rows // 2, "A", "B")
    place = rng.choice(PLACES[:3], rows)
    place[:28], place[rows // 2 : rows // 2 + 2] = "west", "west"
    return pa.table({"x": rng.normal(size=rows), "place": place, "area": area})


@pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)
@pytest.mark.parametrize(
    "how", [{}, {"mask": {"method": "spectral_swap"}}, {"measure": {"utility": False, "hold_out": 0.1}}]
)
def test_category_rare_in_a_stratum_is_not_released_there(tmp_path, how):
    gates = {"mean": 9, "covariance": 9, "covariance_with_keys": 9, "category_share": 0.1, "unchanged_record_rate": 1}
    job = small.job(tmp_path, _table(), COLUMNS, strata={"by": ["area"]}, gates=gates, **how)
    outcome = small.run(job)
    assert outcome.verdict.passed, [check for check in outcome.verdict.lines if check.outcome == "failed"]
    cells = small.released(job).to_pandas().groupby(["area", "place"], dropna=False).size()
    assert cells.min() >= 5 and ("A", "west") in cells.index and ("B", "west") not in cells.index
    assert any("fewer than k=5 records of a stratum" in warning for warning in outcome.warnings)


def test_counts_inside_strata_ignore_the_cut_and_are_written():
    columns = {name: Column(**given) for name, given in COLUMNS.items()}
    [batch] = _table().to_batches()
    parts = [scan_batch(batch.slice(at, 70), columns, at, ["area"], None, ["area"]) for at in range(0, 600, 70)]
    whole = scan_batch(batch, columns, 0, ["area"], None, ["area"])
    for scan in (merge_scans(parts), from_bytes(to_bytes(whole), SCAN_RECORDS)):
        assert all(np.array_equal(*each) for each in zip(scan.inside["place"], whole.inside["place"], strict=True))


@pytest.mark.parametrize("dropped", [False, True])
def test_the_scan_afterwards_is_that_of_the_changed_cells(dropped):
    columns = {name: Column(**given) for name, given in COLUMNS.items()}
    [batch] = _table().to_batches()
    scan = scan_batch(batch, columns, 0, ["area"], None, ["area"])
    strata = Strata((2,), (2,), (0, -1) if dropped else (0, 1), (0, 1), (300, 300), 300 if dropped else 0)
    after, plan, warnings = suppress_rare(scan, columns, {"place": True}, 5, strata)
    codes = np.array([sorted(PLACES).index(name) for name in batch["place"].to_pylist()], dtype=float)[:, None]
    of = np.array([strata.stratum[name == "B"] for name in batch["area"].to_pylist()])
    plan.apply(codes, ("place",), of)
    counts = np.bincount(codes[:, 0].astype(int), minlength=4)
    assert np.array_equal(after.code_counts("place"), counts) and counts.sum() == 600
    assert plan.largest_share == (0 if dropped else 2 / 600) and len(warnings) == (not dropped)


ALL_MISSING = "missing"
AS_FEW = "the commonest category, as fewer than k=5 would be missing there"
NO_NULLS = "the commonest category, as the input's schema allows no nulls there"
BOTH = "missing or as the commonest category, as fewer than k=5 would be missing there"


@pytest.mark.parametrize(
    ("rare", "nullable", "told"),
    [([6, 0], True, ALL_MISSING), ([2, 0], True, AS_FEW), ([6, 0], False, NO_NULLS), ([6, 2], True, BOTH)],
)
def test_what_rare_categories_are_released_as_is_told(rare, nullable, told):
    rows = [("a", area) for area in "AB" for _ in range(50)]
    rows += [(place, area) for many, area in zip(rare, "AB", strict=True) for place in "bcd"[: -(-many // 2)] * 2]
    place, area = map(list, zip(*rows, strict=True))
    columns = {name: Column(**given) for name, given in COLUMNS.items() if name != "x"}
    [batch] = pa.table({"place": place, "area": area}).to_batches()
    scan = scan_batch(batch, columns, 0, ["area"], None, ["area"])
    strata = Strata((1,), (2,), (0, 1), (0, 1), (50 + rare[0], 50 + rare[1]), 0)
    _, _, warnings = suppress_rare(scan, columns, {"place": nullable}, 5, strata)
    assert warnings == [
        f"column 'place' ({sum(rare)} records): categories, or none, that fewer than k=5 records of a stratum have are "
        f"released as {told}"
    ]


def test_calibrated_categories_are_not_made_null():
    columns = {name: Column(**given) for name, given in COLUMNS.items() if name != "x"}
    place, area = ["a"] * 50 + ["b"] * 50 + ["b", "c", "c", "d"] * 2, ["A"] * 50 + ["B"] * 50 + ["A"] * 8
    [batch] = pa.table({"place": place, "area": area}).to_batches()
    scan = scan_batch(batch, columns, 0, ["area"], None, ["area"])
    strata = Strata((1,), (2,), (0, 1), (0, 1), (58, 50), 0)
    columns["w"] = Column(kind="continuous", role="sampling_weight", calibrate=("place",))
    after, _, warnings = suppress_rare(scan, columns, {"place": True}, 5, strata)
    assert after.code_counts("place").tolist() == [58, 50, 0, 0] and after.columns["place"].nulls == 0
    assert "no released record has 2 values of it" in warnings[0] and "join rare categories" in warnings[0]
    assert warnings[1].endswith("are released as the commonest category, as weights are calibrated by it")
