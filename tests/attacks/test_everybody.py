"""The attack of who knows everybody on a small table: it finds more than the nearest record, and the gate holds it."""

from __future__ import annotations

import pytest

from tests.attacks import everybody


@pytest.mark.secret("5e" * 32)
def test_assignment_finds_more_than_the_nearest_and_is_held(tmp_path):
    noise = {"method": "noise", "amount": 0.5}
    found = everybody.attack(everybody.setting(tmp_path, 1_200, ("region", "sex"), mask=noise))
    assert found.held == found.assigned > found.whitened > found.nearest > 0.1
