"""The attack on membership on a small table: a classifier tells more than a distance, and the gate holds it."""

from __future__ import annotations

import pytest

from tests.attacks import members


@pytest.mark.secret("5e" * 32)
def test_a_trained_classifier_tells_more_and_is_held(tmp_path):
    table = members.persons(2_000)
    found = members.attack(members.setting(tmp_path, table, "none", synthesize={"method": "centroid"}))
    assert found.trained > found.distance + 0.02 and found.held > found.trained > 0.6
