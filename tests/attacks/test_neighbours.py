"""The attack of neighbours on a small table: keys that are released unchanged lead to persons, masked ones hardly."""

from __future__ import annotations

import pytest

from tests.attacks import neighbours


@pytest.mark.secret("5e" * 32)
def test_neighbours_find_persons_by_unchanged_not_masked_keys(tmp_path):
    plain = neighbours.attack(neighbours.setting(tmp_path / "a", 1_200, neighbours.KNOWN))
    drawn = neighbours.attack(neighbours.setting(tmp_path / "b", 1_200, mask={"method": "local_synthesis"}))
    assert plain.uniques == drawn.uniques > 0.2 and plain.original == drawn.original > 0.4
    assert plain.linked > 5 * drawn.linked and plain.linked_uniques > plain.linked > 0.3
    assert drawn.linked_uniques < 0.05
