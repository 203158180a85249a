"""The attacks on small tables: what they find in releases of little worth, what they do not in others, what is held."""

from __future__ import annotations

import re

import pytest

from anonpipe.pipeline.preview import preview
from tests import small
from tests.attacks import everybody, extremes, members, neighbours, pair_tables, surest

pytestmark = pytest.mark.secret("5e" * 32)


def test_assignment_finds_more_than_the_nearest_and_is_held(tmp_path):
    noise = {"method": "noise", "amount": 0.5}
    found = everybody.attack(everybody.setting(tmp_path, 1_200, ("region", "sex"), mask=noise))
    assert found.held == found.assigned > found.whitened > found.nearest > 0.1


def test_extremes_are_found_in_groups_and_not_by_local_synthesis(tmp_path):
    table = extremes.incomes(1_500)
    plain = extremes.attack(
        extremes.setting(tmp_path / "a", table, "none", synthesize={"method": "micro_perturbation"})
    )
    assert max(plain.outer, plain.furthest) > plain.everyone > 0.01 and plain.known_off > 0.9
    drawn = extremes.attack(extremes.setting(tmp_path / "b", table, mask={"method": "local_synthesis"}))
    assert drawn.outer < 0.03 and drawn.furthest < 0.03 and drawn.known_off > 0.9


def test_sum_of_three_alike_is_told_if_extremes_kept_alone(tmp_path):
    table = extremes.incomes(1_500, known=extremes.ALIKE)
    for at, transform in enumerate((None, "none", "none keep")):
        method = "micro_perturbation" if transform is None else "centroid"
        job = extremes.setting(tmp_path / str(at), table, transform, synthesize={"method": method}, measure=small.OFF)
        assert (extremes.together(job) > 0.9) == (transform != "none keep")
        told = " ".join(preview(job).warnings)
        apart = re.search(r"'income'[^;:]*: values of fewer than 5 records that stand apart are top-coded", told)
        assert (apart is not None) == (transform == "none")
        kept = re.search(r"'income'[^;:]*: extremes: keep", told)
        assert (kept is not None) == (transform == "none keep")


def test_a_trained_classifier_tells_more_of_members_and_is_held(tmp_path):
    table = members.persons(2_000)
    found = members.attack(members.setting(tmp_path, table, "none", synthesize={"method": "centroid"}))
    assert found.trained > found.distance + 0.02 and found.held > found.trained > 0.6


def test_neighbours_find_persons_by_unchanged_not_masked_keys(tmp_path):
    plain = neighbours.attack(neighbours.setting(tmp_path / "a", 1_200, neighbours.KNOWN))
    drawn = neighbours.attack(neighbours.setting(tmp_path / "b", 1_200, mask={"method": "local_synthesis"}))
    assert plain.uniques == drawn.uniques > 0.2 and plain.original == drawn.original > 0.4
    assert plain.linked > 5 * drawn.linked and plain.linked_uniques > plain.linked > 0.3
    assert drawn.linked_uniques < 0.05


@pytest.mark.parametrize("method", ["local_synthesis", "data_shuffle"])
def test_small_cells_of_two_columns_are_not_released_as_they_are(tmp_path, method):
    table = pair_tables.registry(3_000)
    released = pair_tables.run(pair_tables.setting(tmp_path, table, mask={"method": method}))
    found = pair_tables.attack(table, released)
    assert found.cells > 50  # a copy would have all of them, and all of its ones would be true
    assert found.exact < 0.45 * found.cells  # by chance a cell of one person is exact in 37 of 100 samples
    assert found.true_ones < 0.6 * found.ones
    copy = pair_tables.attack(table, table)
    assert copy.exact == copy.cells == found.cells and copy.true_ones == copy.ones


@pytest.mark.secret("4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a")
def test_surest_guesses_are_reported_where_they_reveal_more(tmp_path):
    plain = surest.attack(surest.setting(tmp_path / "a", surest.registry(6_000), synthesize={"method": "centroid"}))
    assert plain.reported >= plain.surest > plain.every > 0.05
    usual = surest.attack(surest.setting(tmp_path / "c", surest.registry(4_000)))
    assert usual.surest_links > usual.links  # of centroids, who are all as near, the surest link no more than others
    drawn = surest.attack(surest.setting(tmp_path / "b", surest.registry(3_000), mask={"method": "local_synthesis"}))
    assert drawn.reported <= drawn.every < 0.15


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
