"""The attack on two-way tables: small cells of a release are exact no more often than by chance."""

from __future__ import annotations

import pytest

from tests.attacks import pair_tables


@pytest.mark.parametrize("method", ["local_synthesis", "data_shuffle"])
def test_small_cells_are_not_released_as_they_are(tmp_path, method):
    table = pair_tables.registry(3_000)
    released = pair_tables.run(pair_tables.setting(tmp_path, table, mask={"method": method}))
    found = pair_tables.attack(table, released)
    assert found.cells > 50  # a copy would have all of them, and all of its ones would be true
    assert found.exact < 0.45 * found.cells  # by chance a cell of one person is exact in 37 of 100 samples
    assert found.true_ones < 0.6 * found.ones
    copy = pair_tables.attack(table, table)
    assert copy.exact == copy.cells == found.cells and copy.true_ones == copy.ones


@pytest.mark.parametrize("method", ["local_synthesis", "spectral_swap"])
def test_rare_pairs_of_a_release_tell_of_nobody(tmp_path, method):
    original, other = (pair_tables.two_columns(4_000, (40, 27), seed) for seed in (1, 2))
    columns = {name: pair_tables.COLUMNS[name] for name in ("age", "cost", "diagnosis")}
    columns["region"] = {"kind": "categorical"}
    job = pair_tables.setting(tmp_path, original, columns, mask={"method": method})
    told = pair_tables.told_by_pairs(original, other, pair_tables.run(job))
    assert told.members < 0.57 and told.rare_members < 0.55 and told.true_pairs < told.by_chance + 0.1
    copy = pair_tables.told_by_pairs(original, other, original)
    assert copy.members > 0.6 and copy.rare_members > 0.7 and copy.true_pairs == 1.0
