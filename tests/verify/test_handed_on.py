from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from anonpipe.pipeline.tasks import write as handed_on
from anonpipe.pipeline.tasks.write import ranges
from anonpipe.verify.original_values import (
    FALSE_ALARM,
    LEEWAY,
    Chances,
    Fineness,
    _allowed,
    chances,
    coarsest_grid,
    means_lie_on,
)


def _beyond(original, released, step=0.0, k=5, columns=5):
    values, rows = np.unique(original, return_counts=True)
    grid = coarsest_grid(lambda: [values], step)
    meets = bool(step) or not grid or means_lie_on(grid, released)
    return chances(
        values[rows < k], np.unique(released), Fineness(float(np.std(original)), step, grid, 0.0, meets)
    ).beyond(columns)


def _noisy(values, step, rng):
    return np.rint((values + rng.normal(size=len(values)) * values.std() / 4) / step) * step


@pytest.mark.parametrize("step", [0.01, 1.0])
def test_one_value_far_off_is_found_among_many_due_to_chance(step):
    rng = np.random.default_rng(1)
    original = np.rint(rng.normal(1_000, 300, 2_000) / step) * step
    original[5] = 9_876_543.0
    released = _noisy(original[original < 9e6], step, rng)
    assert len(np.intersect1d(np.round(original, 6), np.round(released, 6))) > 5
    assert _beyond(original, released, step) == 0
    assert _beyond(original, np.append(released, 9_876_543.0), step) >= 1


@pytest.mark.parametrize("columns", [1, 5])
def test_the_only_date_for_decades_is_found_alone(columns):
    """Its neighbours are 79 years off: half a value in 158 years of days, a chance of one in 115,000."""
    rng = np.random.default_rng(0)
    days = rng.integers(-7_305, 1_695, (2, 240)).astype(float)
    assert _beyond(np.append(days[0], -36_085.0), days[1], 1.0, columns=columns) == 0
    assert _beyond(np.append(days[0], -36_085.0), np.append(days[1], -36_085.0), 1.0, columns=columns) == 1
    days[:, 7] = -7_400.0  # three months off: this may be chance
    assert _beyond(days[0], days[1], 1.0, columns=columns) == 0


@pytest.mark.parametrize("size", [2, 5, 61])
def test_values_on_grid_of_originals_are_means_or_handed_on(size):
    """Without a step: among rotated values those on the grid are originals, among means it is chance."""
    rng = np.random.default_rng(8)
    original = np.rint(rng.normal(0, 3_000, 610 * size))
    means = rng.permutation(original).reshape(-1, size).mean(axis=1)
    assert (means == np.rint(means)).any()
    assert _beyond(original, means) == 0
    rotated = original + rng.normal(size=len(original))
    assert _beyond(original, rotated) == 0
    some = len(original) // 10
    rotated[:some] = original[:some]
    assert _beyond(original, rotated) > 0


def test_single_precision_draw_may_meet_grid_of_originals():
    """One number of 24 bits on tenths is no evidence, though no other is on them."""
    values = np.arange(1, 500) / 10
    original = np.sort(values.astype(np.float32).astype(float))
    released = (original + 0.05 + 0.03 * np.sin(np.arange(499))).astype(np.float32).astype(float)
    released = np.append(released, original[300])
    single = Fineness(30.0, 0.0, 0.1, float(np.finfo(np.float32).eps), False)
    assert chances(original, np.unique(released), single).met.sum() == 1
    assert chances(original, np.unique(released), single).beyond(5) == 0
    released = np.append(released, original[::10])
    assert chances(original, np.unique(released), single).beyond(5) > 0


@pytest.mark.parametrize("columns", [1, 10])
def test_all_limits_together_keep_false_alarms_as_said(columns):
    """Values whose chances are known, in every bin: the whole release is refused less often than one in 5,000."""
    rng = np.random.default_rng(7)
    chance = 2.0 ** -rng.uniform(0, 20, 400)
    draws = 2_000  # releases times columns; at 1e-3 at every point of the order three are refused
    alarms = sum(Chances.of(chance, rng.random(400) < chance * LEEWAY).beyond(columns) > 0 for _ in range(draws))
    assert alarms <= 5 * FALSE_ALARM * draws


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


def test_without_step_one_coincidence_is_enough_with_rounding():
    rng = np.random.default_rng(3)
    original, released = rng.normal(size=(2, 1_000))
    assert _beyond(original, released) == 0
    assert _beyond(original, np.append(released, original[7] + 1e-14)) == 1


def test_means_of_whole_numbers_without_declared_step_chance():
    rng = np.random.default_rng(4)
    original = np.rint(rng.normal(50, 20, 1_000))
    means = np.sort(original).reshape(-1, 5)[rng.permutation(200)].mean(axis=1)
    assert _beyond(original, means) == 0
    original[3] = 5_000.5  # off the grid of all others
    assert _beyond(original, np.append(means, 5_000.5)) == 1


def test_what_k_records_hold_may_be_released():
    original = np.repeat(np.random.default_rng(5).normal(size=100), 5)
    assert _beyond(original, original) == 0 < _beyond(original, original, k=6)


def test_any_cut_of_values_gives_all_and_what_lies_around(monkeypatch):
    monkeypatch.setattr(handed_on, "RANGE_ENTRIES", 20)
    rng = np.random.default_rng(6)
    runs = []
    for values in rng.integers(0, 300, (2, 4, 60)).astype(float):
        made = [np.unique(part, return_counts=True) for part in values]
        runs.append([np.rec.fromarrays([run[0], 0 * run[0], run[1]], dtype=handed_on._ENTRY) for run in made])
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


def test_rows_of_a_unit_count_once(tmp_path, monkeypatch):
    monkeypatch.setattr(handed_on, "RUN_ROWS", 100)
    rng = np.random.default_rng(3)
    values, units = rng.integers(0, 9, 900).astype(float), rng.integers(0, 30, 900).astype(float)  # 0: of no unit
    values[::7] = np.nan
    parts = (handed_on._entries(*part) for part in zip(np.split(values, 30), np.split(units, 30), strict=True))
    originals = handed_on._write_runs(parts, tmp_path, "original")
    assert len(originals) > 5
    ((found, rows, _),) = ranges(originals, [])
    wanted = [len(set(units[(values == at) & (units > 0)])) + ((values == at) & (units == 0)).sum() for at in found]
    assert found.tolist() == list(range(9)) and rows.tolist() == wanted


def test_evenly_spread_means_are_no_alarm():
    """Days that one person each has, and their means by fives: near a mean the next ones are further than elsewhere."""
    rng = np.random.default_rng(5)
    days = np.unique(rng.integers(10_957, 18_262, 2_900)).astype(float)
    means = np.unique(np.rint(np.sort(days)[: len(days) // 5 * 5].reshape(-1, 5).mean(axis=1)))
    assert chances(days, means, Fineness(100.0, step=1.0)).beyond(5) == 0


def test_what_chance_allows_is_poisson_law_for_any_small_alarm():
    rng = np.random.default_rng(0)
    met, expected, alarm = (
        rng.integers(0, 500, 5_000),
        10 ** rng.uniform(-8, 3, 5_000),
        10 ** rng.uniform(-12, -2, 5_000),
    )
    allowed = poisson.isf(alarm, expected)
    assert (np.maximum(met - _allowed(met, expected, alarm), 0) == np.maximum(met - allowed, 0)).all()
    assert (_allowed(met, np.zeros(5_000), alarm)[met > 0] == 0).all()
    millions = np.array([3_000_000])
    assert (
        _allowed(millions, np.array([0.5]), np.array([1e-18])) == 15
    )  # exp(-1/2) / 2^16 / 16! (1 + 1/34 + ...) = 4.6e-19


def test_millions_of_handed_on_values_are_beyond_chance():
    count = 3_000_000
    assert Chances.of(np.full(count, 1e-7), np.ones(count, dtype=bool)).beyond(20) > 0.99 * count
