"""Disclosure scenarios: figures of the original against dictionaries, links against loops, risk against its series."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Audience, Reason
from anonpipe.evaluate.risk import MEASURES, AttackScenario, Ordered, ScenarioRisk, around, key_matches
from anonpipe.evaluate.risk._scenario import individual_risk
from tests.naive import scenario as naive


def judged(knows, sizes, k, **given):
    return ScenarioRisk("a", k, AttackScenario(knows, np.array(sizes), **given))


MEASURE = next(each for each in MEASURES if each.key == "scenarios")


@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.5, 0.99, 1.0])
def test_individual_risk_is_the_mean_of_a_negative_binomial(fraction):
    sizes = [1, 2, 3, 7, 40]
    expected = [naive.individual_risk(size, fraction) for size in sizes]
    assert individual_risk(sizes, fraction) == pytest.approx(expected, rel=1e-8)


def test_individual_risk_is_that_of_samples_drawn():
    """1/F is the chance to be right, here of 200,000 classes of a population drawn as the model has it."""
    rng = np.random.default_rng(2)
    population = 3 + rng.negative_binomial(3, 0.2, 200_000)
    assert individual_risk(3, 0.2) == pytest.approx((1 / population).mean(), abs=4 * (1 / population).std() / 447)


def test_individual_risk_of_large_classes_stays_in_range():
    risks = individual_risk([*range(1, 60), 10_000, 1_000_000], 0.001)
    assert (np.diff(risks) < 0).all() and risks[-2:] == pytest.approx([1e-7, 1e-9], rel=0.001)


cells = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, math.nan])), min_size=1, max_size=40)


@given(cells, st.integers(2, 6), st.sampled_from([None, 0.1, 1.0]))
@settings(max_examples=60, deadline=None)
def test_figures_of_the_original_are_those_of_counted_classes(rows, k, fraction):
    classes = naive.class_sizes(rows)
    found = judged(["x", "y"], list(classes.values()), k, sampling_fraction=fraction)
    each = [classes[naive._held(row)] for row in rows]
    for size in (2, 3, k):
        assert found.below(size) == pytest.approx(sum(own < size for own in each) / len(rows))
    assert found.average == pytest.approx(sum(1 / size for size in each) / len(rows))
    assert found.counted == len(rows) and found.measurements()[3].value == min(each)
    if fraction is not None:
        risks = [naive.individual_risk(size, fraction) for size in each]
        expected = max(risks), sum(risks) / len(rows), each.count(1) * fraction / len(rows)
        assert found.journalist == pytest.approx(expected)
        assert found.journalist[1] <= found.average + 1e-12


@given(st.integers(0, 2**32 - 1), st.integers(0, 2), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_links_are_those_of_loops_and_of_parts_merged(seed, width, blocks):
    rng = np.random.default_rng(seed)
    points, queries = rng.integers(0, 4, (30, width)) / 3, rng.integers(0, 4, (12, width)) / 3
    of_points, of_queries = rng.integers(0, blocks, 30), rng.integers(0, blocks + 1, 12)
    told = rng.integers(0, 5, 30)
    weights = [{int(place): float(rng.random()) for place in rng.permutation(5)[: rng.integers(0, 3)]} for _ in queries]
    starts = np.cumsum([0, *(len(each) for each in weights)])
    places = np.array([place for each in weights for place in each], dtype=np.int64)
    own = starts, places, np.array([weight for each in weights for weight in each.values()], dtype=np.float64)
    expected = naive.key_links(points, of_points, told, queries, of_queries, weights)
    whole = key_matches(points, of_points, told, queries, of_queries, own)
    parts = [slice(0, 13), slice(13, 30)]
    first, second = (key_matches(points[part], of_points[part], told[part], queries, of_queries, own) for part in parts)
    for found in (whole, first.merge(second)):
        assert found.squared == pytest.approx([one[0] for one in expected])
        assert found.ties.tolist() == [one[1] for one in expected]
        assert found.own == pytest.approx([one[2] for one in expected])
        assert (found.chances <= 1 + 1e-12).all() or any(sum(each.values()) > 1 for each in weights)


def test_points_that_rounding_alone_tells_apart_are_equally_near():
    """Of two that lie on the query one may be off by the last digit of its standard deviations."""
    points, query = np.array([[1 / 3], [np.nextafter(1 / 3, 1)], [0.5]]), np.array([[1 / 3]])
    told, one = np.array([7, 8, 9]), np.zeros(1, dtype=np.int64)
    own = np.array([0, 1]), np.array([7]), np.array([1.0])

    def found(rows):
        return key_matches(points[rows], np.zeros(len(rows), dtype=np.int64), told[rows], query, one, own)

    for each in (found([0, 1, 2]), found([1, 2, 0]), found([0]).merge(found([1, 2])), found([1]).merge(found([2, 0]))):
        assert (each.ties.tolist(), each.own.tolist(), each.chances.tolist()) == ([2], [1.0], [0.5])


def test_all_is_stewards_and_held_against_agency_threshold():
    looked_for = {"own": np.array([1, 2, 0]), "chances": np.array([0.5, 0.25, 0.0])}
    risk = judged(["x"], [1, 2, 9], 5, **looked_for, sampling_fraction=0.1, of=900)
    found = risk.measurements()
    named = {one.name.rpartition(".")[2]: one for one in found}
    assert all(one.audience is Audience.STEWARD for one in found)
    assert named["prosecutor_max"].baseline == named["journalist_max"].baseline == 0.09
    linked, single = named["linked"], named["linked_uniques"]
    assert (linked.value, single.value, single.records) == (0.25, 0.5, 1) and linked.baseline == 3 / 12
    assert linked.low < linked.value < linked.high and "'x'" in linked.note
    assert named["original_smallest"].unit == "persons" and "share of the classes" in named["marketer"].note


def test_without_links_the_original_is_measured_alone():
    known = SimpleNamespace(
        k=3, scenarios={"a": AttackScenario(["x"], np.array([1, 4]), None, np.array([1]), Reason.NO_LINK, None, 5)}
    )
    names = [one.name for one in MEASURE.of(known)]
    assert names == [
        "scenarios.a.original_uniques", "scenarios.a.original_below_3", "scenarios.a.original_below_k",
        "scenarios.a.original_smallest", "scenarios.a.prosecutor_max", "scenarios.a.marketer",
    ]  # fmt: skip


def test_no_class_is_refused():
    with pytest.raises(JobError, match="no class was counted"):
        judged(["x"], [], 5)


amounts = st.lists(st.tuples(st.integers(-4, 4).map(float), st.sampled_from([1.0, 2.0, math.nan])), min_size=1)


@given(amounts, st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 1.0]))
@settings(max_examples=80, deadline=None)
def test_who_could_be_meant_is_who_is_near_enough(rows, far, part, other):
    table, tolerances = np.array(rows), [(far, part), (other, 0.0)]
    found = around(table, [0, 1], tolerances).matches(Ordered.of(table), len(table)).counts
    expected = [naive.near_enough(row, rows, tolerances) for row in rows]
    assert found.tolist() == expected
    risk = judged(["x"], found, 3, persons=np.ones_like(found), sampling_fraction=0.5)
    for size in (2, 3):
        assert risk.below(size) == pytest.approx(sum(own < size for own in expected) / len(rows))
    assert risk.average == pytest.approx(sum(1 / size for size in expected) / len(rows))
    assert risk.counted == len(rows) and risk.measurements()[3].value == min(expected)
    risks = [naive.individual_risk(size, 0.5) for size in expected]
    assert risk.journalist == pytest.approx((max(risks), sum(risks) / len(rows), expected.count(1) * 0.5 / len(rows)))


# Key variables and weights of Capobianchi, Polettini & Lucarelli's example, and the frequencies and risks that
# sdcMicro's documentation computes of it (freqCalc and indivRisk of its data set francdat)
FRANCDAT = [
    ((1, 2, 5, 1), 18.0), ((1, 2, 1, 1), 45.5), ((1, 2, 1, 1), 39.0), ((3, 3, 1, 5), 17.0), ((4, 3, 1, 4), 541.0),
    ((4, 3, 1, 1), 8.0), ((6, 2, 1, 5), 5.0), ((1, 2, 5, 1), 92.0),
]  # fmt: skip
PUBLISHED = [0.01714426, 0.02204233, 0.02204233, 0.17707583, 0.01165448, 0.29706308, 0.40235948, 0.01714426]


def test_individual_risks_by_weights_are_those_published():
    keys, weights = [key for key, _ in FRANCDAT], np.array([weight for _, weight in FRANCDAT])
    sizes = np.array([keys.count(key) for key in keys])
    sums = np.array([weights[[other == key for other in keys]].sum() for key in keys])
    assert sums.tolist() == [110.0, 84.5, 84.5, 17.0, 541.0, 8.0, 5.0, 110.0]
    assert individual_risk(sizes, sizes / sums) == pytest.approx(PUBLISHED, rel=1e-6)
    classes = sorted(set(keys))
    places = [keys.index(key) for key in classes]
    risk = judged(["a"], sizes[places], 3, weights=sums[places])
    assert risk.individual == pytest.approx((max(PUBLISHED), sum(PUBLISHED) / 8), rel=1e-6)


@pytest.mark.parametrize("fraction", [0.5, 0.05, 0.002])
def test_individual_risk_is_as_in_sdcmicro(fraction):
    """Its formulas for one and two records, and its approximation for more, which is a little higher."""
    odds, log = fraction / (1 - fraction), np.log(1 / fraction)
    assert individual_risk([1, 2], fraction) == pytest.approx([odds * log, odds - odds**2 * log])
    sizes = np.array([3, 4, 10, 50, 1000])
    approximated = fraction / (sizes - (1 - fraction))
    found = individual_risk(sizes, fraction)
    assert (np.abs(approximated / found - 1) < [0.12, 0.07, 0.02, 0.002, 1e-4]).all()


def test_weights_below_one_count_as_one_person_each():
    risk = judged(["a"], [1, 4], 2, weights=np.array([0.2, 0.0]))
    assert risk.individual == pytest.approx((1.0, 0.4))
