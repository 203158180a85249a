"""A run whose staging no longer holds what was scanned refuses, whatever the method; honest ones pass."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.storage.staging import StagedArray
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

LOST = "staged data differ from the input: rows, nulls, categories"
MOVED = "staged data differ from the input: means and variances"
COLUMNS = {
    "age": {"kind": "integer", "bounds": [0, 120]},
    "cost": {"kind": "continuous"},
    "grade": {"kind": "ordinal", "levels": ["low", "mid", "high"]},
    "place": {"kind": "categorical"},
    "ward": {"kind": "categorical", "role": "key"},
}
LOOSE = {
    "mean": 9,
    "covariance": 9,
    "covariance_with_keys": 9,
    "category_share": 1,
    "null_share": 1,
    "rows_under_k": 500,
}
WAYS = {
    "groups": {},
    "mask": {"mask": {"method": "data_shuffle"}},
}


def table(rows=400):
    rng = np.random.default_rng(4)
    cost = np.where(rng.random(rows) < 0.2, np.nan, rng.lognormal(5, 1, rows))
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "cost": pa.array(cost, from_pandas=True),
            "grade": rng.choice(["low", "mid", "high"], rows),
            "place": np.r_[["rare"] * 3, rng.choice(["north", "south"], rows - 3)],
            "ward": np.r_[["tiny"] * 3, rng.choice(["a", "b"], rows - 3)],
        }
    )


def nulls(cells):
    """The numbers of a fifth of the rows as an absent chunk reads."""
    cells[: len(cells) // 5, :2] = np.nan


def others(cells):
    """Two rows that hold other values."""
    cells[:2, :2] = cells[2:4, :2] + 1.0


def category(cells):
    """One record in another category."""
    cells[0, 3] = 1.0 if cells[0, 3] == 2.0 else 2.0


def grade(cells):
    """One ordinal that is lost."""
    cells[0, 2] = np.nan


@pytest.mark.parametrize(
    ("way", "tamper", "calls", "failing"),
    [
        ("groups", nulls, 1, LOST),
        ("groups", others, 1, MOVED),
        ("groups", category, 1, LOST),
        ("groups", others, 2, MOVED),
        ("mask", grade, 1, LOST),
        ("groups", others, 3, MOVED),
        ("mask", nulls, 2, LOST),
        ("mask", nulls, 3, LOST),
    ],
)
def test_a_tampered_staging_is_refused(tmp_path, monkeypatch, way, tamper, calls, failing):
    """The rows change between routing and the first reading, the first and the second, or that and the last."""
    gather, seen = StagedArray.gather, []

    def tampered(staged, pieces):
        rows = gather(staged, pieces)
        if staged.name == "routed":
            seen.append(len(rows))
            if len(seen) >= calls:
                tamper(rows)
        return rows

    given = small.job(tmp_path, table(), COLUMNS, gates=LOOSE, **WAYS[way])
    monkeypatch.setattr(StagedArray, "gather", tampered)
    outcome = small.run(given)
    told = {check.name: check for check in outcome.verdict.lines}
    assert told[failing].outcome == "failed" and told[failing].mandatory
    assert outcome.version is None and len(seen) == 3


@pytest.mark.parametrize(
    ("way", "small_strata", "hold_out"),
    [("groups", "drop", 0.1), ("groups", "merge", 0.0), ("mask", "drop", 0.0)],
)
def test_drops_merges_hold_outs_and_suppression_are_no_damage(tmp_path, way, small_strata, hold_out):
    change = {"strata": {"by": ["ward"], "small": small_strata}}
    change["measure"] = {"utility": False, "hold_out": hold_out} if hold_out else small.OFF
    given = small.job(tmp_path, table(), COLUMNS, gates={**LOOSE, "unchanged_record_rate": 1}, **WAYS[way], **change)
    outcome = small.run(given)
    told = {check.name: check for check in outcome.verdict.lines}
    assert told[LOST].outcome == told[MOVED].outcome == "passed"
    assert told[LOST].measured == "0"


def test_a_column_of_one_value_in_a_stratum_is_no_alarm(tmp_path):
    """Sums of one value leave a rest of rounding, which is no scale: the year of death of all that died in it."""
    rows = 4_642
    rng = np.random.default_rng(3)
    dead = np.arange(2 * rows) < rows
    year = np.where(dead, 1995.99726027, 1975 + rng.integers(0, 7_300, 2 * rows) / 365.0)
    table = pa.table({"age": rng.integers(20, 90, 2 * rows), "year": year, "status": np.where(dead, "Dead", "Alive")})
    columns = {
        "age": {"kind": "integer", "bounds": [0, 110]},
        "year": {"kind": "continuous"},
        "status": {"kind": "categorical", "role": "survival_status", "event": ["Dead"]},
    }
    assert small.run(small.job(tmp_path, table, columns, strata={"by": ["status"]})).version
