"""The trained classifier: its signs by loops, nothing where there is nothing, and more than a distance alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._membership import membership, signs, trained_membership
from tests.evaluate.risk.tasks import task
from tests.naive import forest as naive


def crowd(rng, n):
    """Half of the persons close together, half of them a hundred times as far from each other, and a group."""
    wide = rng.random(n) < 0.5
    places = rng.normal(size=(n, 3)) * np.where(wide, 10.0, 0.1)[:, None] + 60.0 * wide[:, None]
    return np.column_stack([places, wide])


def blurred(rng, table):
    """Everybody moved by a tenth of the distance to others of the own half."""
    released = table.copy()
    released[:, :3] += rng.normal(size=(len(table), 3)) * np.where(table[:, 3], 2.0, 0.02)[:, None]
    return released


def test_signs_are_those_of_loops():
    rng = np.random.default_rng(0)
    released, members, controls = (np.column_stack([rng.normal(size=n), rng.integers(0, 3, n)]) for n in (20, 6, 5))
    for table in (released, members, controls):
        table[0] = np.nan
    given, asked = task(released, members, controls, [1]), np.concatenate([members, controls])
    told, found = signs(given), given.found
    deviation = np.nanstd(released[:, 0], ddof=1)
    for row, made in enumerate(told):
        expected = []
        for at in (0, 1):
            own, guess = asked[row, at], found.values[row, at, 0]
            if math.isnan(own) or math.isnan(guess):
                off = float(math.isnan(own) != math.isnan(guess))
            else:
                off = abs(own - guess) / deviation if at == 0 else float(own != guess)
            near, last = (math.sqrt(found.squared[row, at, place]) for place in (0, -1))
            expected += [near, near / last if last else 1.0, off]
        assert made == pytest.approx(expected)


@pytest.mark.parametrize("moved", [0.3, 3.0])
def test_the_forest_is_that_of_the_twin_on_average(moved):
    """Both draw: of six seeds each the mean areas are within three of their standard errors."""
    rng = np.random.default_rng(2)
    members, controls = rng.normal(size=(50, 3)), rng.normal(size=(35, 3))
    released = members + moved * rng.normal(size=members.shape)
    given, inside = task(released, members, controls), [1] * 50 + [0] * 35
    features = signs(given).tolist()
    areas = [trained_membership(given, seed=seed).value for seed in range(6)]
    twin = [naive.area(naive.judged(features, inside, 5, 40, 5, seed), inside) for seed in range(6)]
    error = math.sqrt((np.var(areas, ddof=1) + np.var(twin, ddof=1)) / 6)
    assert abs(np.mean(areas) - np.mean(twin)) < 3 * error + 0.003
    assert moved > 1 or np.mean(twin) > 0.6  # what is compared is no guess


def test_a_release_of_others_tells_nothing():
    """Five releases of other persons: two or more above 0.5 for sure have a chance of 6e-3 (2.5 % each)."""
    missed = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        members, controls, released = (crowd(rng, n) for n in (300, 200, 300))
        one = trained_membership(task(released, members, controls, [3]))
        missed += one.low > 0.5
        assert one.low < one.value < one.high and 0.35 < one.value < 0.65
    assert missed <= 1


def test_a_copy_gives_everybody_away():
    rng = np.random.default_rng(6)
    members, controls = crowd(rng, 200), crowd(rng, 150)
    one = trained_membership(task(members, members, controls, [3]))
    assert one.value > 0.99 and 0.9 < one.low < one.value <= one.high <= 1


def test_it_sees_what_a_single_distance_does_not():
    rng = np.random.default_rng(4)
    members, controls = crowd(rng, 900), crowd(rng, 700)
    released = blurred(rng, members)
    one = trained_membership(task(released, members, controls, [3]), of=9_000)
    scale = released.std(axis=0)
    near = [nearest(released / scale, each / scale, 2).distances[:, 0] for each in (members, controls)]
    plain, *_ = membership(*near)
    assert one.value > plain.value + 0.03 and one.low > 0.55
    assert (one.records, one.of, one.baseline) == (700, 9_000, 0.5)
    again = trained_membership(task(released, members, controls, [3]), of=9_000)
    assert again == one
