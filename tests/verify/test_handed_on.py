from __future__ import annotations

import numpy as np
import pytest

from anonpipe import handed_on
from anonpipe.handed_on import ranges
from anonpipe.verify.handed_on import Fineness, chances, coarsest_grid


def _beyond(original, released, step=0.0, k=5):
    values, rows = np.unique(original, return_counts=True)
    grid = coarsest_grid(lambda: [values], step)
    return chances(values[rows < k], np.unique(released), Fineness(float(np.std(original)), step, grid)).beyond


def _noisy(values, step, rng):
    return np.rint((values + rng.normal(size=len(values)) * values.std() / 4) / step) * step


@pytest.mark.parametrize("step", [0.01, 1.0])
def test_one_value_far_off_is_found_among_many_that_chance_explains(step):
    rng = np.random.default_rng(1)
    original = np.rint(rng.normal(1_000, 300, 2_000) / step) * step
    original[5] = 9_876_543.0
    released = _noisy(original[original < 9e6], step, rng)
    assert len(np.intersect1d(np.round(original, 6), np.round(released, 6))) > 5
    assert _beyond(original, released, step) == 0
    assert _beyond(original, np.append(released, 9_876_543.0), step) >= 1


@pytest.mark.parametrize("spread", [30.0, 300.0, 30_000.0])
def test_noise_on_a_step_is_no_handing_on_whatever_the_density(spread):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        original = np.rint(rng.normal(0, spread, 1_000))
        assert _beyond(original, _noisy(original, 1.0, rng), 1.0) == 0


def test_a_shuffled_column_is_found_where_its_grid_has_room():
    rng = np.random.default_rng(2)
    for spread, found in ((5.0, False), (3_000.0, True)):
        original = np.rint(rng.normal(0, spread, 1_000))
        assert (_beyond(original, rng.permutation(original), 1.0) > 0) is found


def test_without_a_step_one_coincidence_is_enough_rounding_included():
    rng = np.random.default_rng(3)
    original, released = rng.normal(size=(2, 1_000))
    assert _beyond(original, released) == 0
    assert _beyond(original, np.append(released, original[7] + 1e-14)) == 1


def test_means_of_whole_numbers_that_no_step_was_declared_for_are_chance():
    rng = np.random.default_rng(4)
    original = np.rint(rng.normal(50, 20, 1_000))
    means = np.sort(original).reshape(-1, 5)[rng.permutation(200)].mean(axis=1)
    assert _beyond(original, means) == 0
    original[3] = 5_000.5  # off the grid of all others
    assert _beyond(original, np.append(means, 5_000.5)) == 1


def test_what_k_records_hold_may_be_released():
    original = np.repeat(np.random.default_rng(5).normal(size=100), 5)
    assert _beyond(original, original) == 0 < _beyond(original, original, k=6)


def test_any_cut_of_the_values_gives_them_all_and_what_lies_around(monkeypatch):
    monkeypatch.setattr(handed_on, "RANGE_ENTRIES", 20)
    rng = np.random.default_rng(6)
    runs = []
    for values in rng.integers(0, 300, (2, 4, 60)).astype(float):
        made = [np.unique(part, return_counts=True) for part in values]
        runs.append([np.rec.fromarrays(run, dtype=handed_on._ENTRY) for run in made])
    originals, released = (np.concatenate([np.repeat(r["value"], r["rows"]) for r in part]) for part in runs)
    found = list(ranges(*runs))
    assert len(found) > 4
    values, rows = (np.concatenate([part[at] for part in found]) for at in (0, 1))
    wanted = np.unique(originals, return_counts=True)
    assert np.array_equal(values, wanted[0]) and np.array_equal(rows, wanted[1])
    every = np.unique(released)
    for inside, _, around in found:
        for value in inside:
            nearest = every[np.argsort(np.abs(every - value), kind="stable")[: handed_on.NEIGHBOURS]]
            assert np.isin(nearest, around).all()
