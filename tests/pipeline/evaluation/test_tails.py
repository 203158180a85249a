"""The most extreme records through whole runs: they are counted apart, and a gate stops the release."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.evaluate.measurement import Reason
from anonpipe.pipeline.evaluation.measures import load_assessment
from tests import small
from tests.pipeline.evaluation.test_assess import LOOSE, RISK, looked

pytestmark = pytest.mark.secret("5e" * 32)

COLUMNS = {"income": {"kind": "continuous", "transform": "none"}, "age": {"kind": "integer", "transform": "none"}}


def table(rows=900):
    """Ages by which nobody is found, and incomes of which some stand out."""
    rng = np.random.default_rng(4)
    income = rng.normal(100.0, 1.0, rows)
    income[:10] = 10.0 ** np.arange(3.0, 8.0).repeat(2)
    return pa.table({"income": income[rng.permutation(rows)], "age": rng.integers(20, 80, rows)})


def job(folder, **changes):
    changes = {"measure": RISK | {"queries": 900}, "gates": LOOSE, **changes}
    return small.job(folder, table(), COLUMNS, cluster={"method": "mdav"}, **changes)


def assessed(monkeypatch, given):
    seen = {}
    looked(monkeypatch, lambda run: seen.update(found=load_assessment(run.context.work)))
    small.run(given)
    return seen["found"], {one.name: one for one in seen["found"].risk if one.name.startswith("tails.")}


def test_who_stands_out_is_counted_apart(tmp_path, monkeypatch):
    _, found = assessed(monkeypatch, job(tmp_path))
    assert list(found) == ["tails.columns_1", "tails.together_1", "tails.columns_5", "tails.together_5"]
    assert sorted(name for name, _ in found["tails.columns_5"].parts) == ["age", "income"]
    one = found["tails.columns_1"]
    assert [name for name, _ in one.parts] == ["income"]  # fifteen of an age are no extreme
    assert 0 <= one.value <= 1 and 0 < one.baseline < 1 and one.low is None and one.of == 900


def test_a_gate_holds_the_worst_of_them(tmp_path, monkeypatch):
    _, found = assessed(monkeypatch, job(tmp_path / "a"))
    worst = max(one.value for one in found.values())
    for limit, released in ((worst * 0.99, False), (min(1.0, worst * 1.01), True)):
        outcome = small.run(job(tmp_path / f"b{released}", gates=LOOSE | {"tail_linkage": limit}))
        (line,) = [each for each in outcome.verdict.checks if each.key == "risk.tail_linkage"]
        assert line.measured == worst and (outcome.version is not None) is released


def test_equal_incomes_have_no_extremes(tmp_path, monkeypatch):
    data = pa.table({"income": np.where(np.arange(300) % 2, 1.0, 2.0), "age": np.repeat([30, 40], 150)})
    whole, found = assessed(monkeypatch, small.job(tmp_path, data, COLUMNS, measure=RISK, gates=LOOSE))
    assert not found and Reason.NO_TAILS in [each.reason for each in whole.not_checked]
