"""An attack: values of single persons are planted, and none may come out, whatever the method."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anonpipe import anonymize
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from tests import small

COST, BORN = 98_765_432.11, np.datetime64("1871-03-17")
ROWS = 240
COLUMNS = {
    "cost": {"kind": "continuous"},
    "born": {"kind": "date"},
    "months": {"kind": "continuous", "role": "survival_time", "step": 0.1},
    "status": {"kind": "categorical", "role": "survival_status", "event": ["Dead"]},
}
PLAIN = small.unscored(COLUMNS)
LOOSE = {"mean": 9, "covariance": 99, "covariance_with_keys": 99, "unchanged_record_rate": 1, "rows_under_k": ROWS}
OPTIONS = {"suppression": {"share": 0.5}, "synthesis": {"draw": "quantiles"}}
HANDING_ON = [
    {"mask": {"method": "spectral_swap", "basis": "columns"}},
    {"decode": {"restore_survival_times": True}},
]


@pytest.fixture(autouse=True)
def known_secret(monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "9f3c17a2b85de06441c7f29e8ab350d6" * 2)


def _table():
    rng = np.random.default_rng(0)
    cost = np.round(rng.lognormal(9, 0.6, ROWS), 2)
    born = np.datetime64("1950-01-01") + rng.integers(0, 9_000, ROWS)
    cost[11], born[23] = COST, BORN
    months, status = np.round(rng.exponential(90, ROWS), 1), rng.choice(["Alive", "Dead"], ROWS)
    return pa.table({"cost": cost, "born": pa.array(born.astype("datetime64[D]")), "months": months, "status": status})


def _handed_on(verdict):
    return next(check for check in verdict.lines if "reproduced above chance" in check.name)


@pytest.mark.parametrize(
    "how",
    [
        *({"synthesize": {"method": name}} for name in SYNTHESIZERS if name not in ("histogram", "r_microhybrid")),
        {"synthesize": {"method": "r_microhybrid"}, "k": 10},
        *({"mask": {"method": name, **OPTIONS.get(name, {})}} for name in MASKERS),
        {"decode": {"restore_survival_times": True, "jitter_restored_times": 2.0}},
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [COLUMNS, PLAIN], ids=["normal scores", "as they are"])
def test_no_method_hands_on_a_planted_value(how, columns):
    job = {"k": 5, "columns": columns, "gates": LOOSE, "measure": small.OFF} | how
    released, verdict, _ = anonymize(_table(), job)
    assert released is not None, [check for check in verdict.lines if check.outcome == "failed"]
    assert np.abs(released["cost"].to_numpy() - COST).min() > 1
    assert BORN not in released["born"].to_numpy().astype("datetime64[D]")
    assert _handed_on(verdict).measured == "0"


@pytest.mark.parametrize("how", HANDING_ON, ids=str)
def test_what_hands_on_values_is_not_released(how):
    job = {"k": 5, "columns": PLAIN, "gates": LOOSE, "measure": small.OFF} | how
    released, verdict, _ = anonymize(_table(), job)
    assert released is None and _handed_on(verdict).outcome == "failed"
