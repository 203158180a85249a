"""A small form of `python -m tests.unseen`, and the attacks on releases of known worth."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unseen import attacks
from tests.unseen.__main__ import LIMITS, look_at
from tests.unseen.tables import drawn


@pytest.mark.parametrize(("name", "size"), [("laboratory", 700), ("panel", 300), ("tiny_strata", 800)])
def test_a_small_table_is_released_and_withstands_attacks_from_outside(name, size):
    row = look_at(name, size=size, with_anonymeter=False)
    assert row.made.last.passed, row.made.last.texts
    assert row.survival_kept in (True, None)
    assert row.unit_kept in (True, None)
    assert len(row.made.edits) <= len(row.book.levels) + bool(row.book.event)
    for risk, figure in row.figures.items():
        assert figure.low < LIMITS[risk], f"{risk} {figure}"
    assert row.findings == [] or np.isfinite(row.figures["membership"].value)


def test_attacks_find_copies_and_not_another_sample():
    original, control = drawn("households", size=300)
    another = drawn("households", seed=2, size=300).original
    copied = attacks.comparable(original, control, original.drop(columns="household_id"), "household_id")
    assert attacks.membership(copied).value > 0.95
    assert attacks.linkage(copied).low > 0.9
    honest = attacks.comparable(original, control, another.drop(columns="household_id"), "household_id")
    area = attacks.membership(honest)
    assert area.low < 0.5 < area.high
    assert abs(attacks.linkage(honest).value) < 0.15
