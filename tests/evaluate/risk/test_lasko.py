import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from anonpipe.errors import InputError
from anonpipe.evaluate.risk import NearestMatches, nearest
from anonpipe.evaluate.risk._lasko import MEASURE, excess, excesses, predictions, telling
from tests.in_memory import mask
from tests.methods.grouping.data import grouping_problems
from tests.naive import finding as naive


def passes(found):
    """Whether the test lets all three measures pass at 5 %."""
    return all(each.p >= 0.05 for each in found)


def searched(original, released, asked=None):
    """The nearest of some records in the release, and in the original without themselves."""
    rows = np.arange(len(original)) if asked is None else asked
    near = nearest(original, original[rows], 5, without=rows, values=True)
    return nearest(released, original[rows], 5, values=True), near


def figures(found, reference, rows, own_row=None, own_group=None, groups=None):
    """By their names."""
    data = SimpleNamespace(
        released=NearestMatches(found, groups), original=NearestMatches(reference), rows=rows, own_row=own_row,
        own_group=own_group,
    )  # fmt: skip
    return {one.name: one for one in MEASURE.of(data)}


@settings(deadline=None, max_examples=25)
@given(grouping_problems(most_rows=40), st.integers(2, 6))
def test_predictions_as_the_twin(problem, k):
    features, _ = problem
    queries = features[:4] + 0.25
    found = nearest(features, queries, k, values=True)
    if len(features) < k:
        with pytest.raises(InputError, match="fewer than"):
            predictions(found, k)
        return
    expected = [naive.predictions(features, query, k) for query in queries]
    assert np.column_stack(predictions(found, k)) == pytest.approx(np.array(expected), rel=1e-9, abs=1e-12)


def test_predictions_by_hand():
    """Records 1, 3 and 5 off in the first of two columns: variance (4 + 0 + 4) / 3 there and 0 in the second."""
    found = nearest([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0], [99.0, 0.0]], [[0.0, 0.0]], 3, values=True)
    at = predictions(found, 3)
    assert at.distance[0] == pytest.approx(1 / math.sqrt(2))
    assert at.ambiguity[0] == pytest.approx(1 / 5)
    assert at.uncertainty[0] == pytest.approx(8 / 3 / 2)


def test_ambiguity_is_1_in_a_tie_and_0_for_a_single_copy():
    tied = nearest([[0.0]] * 3 + [[9.0]], [[0.0], [4.0]], 3, values=True)
    assert predictions(tied, 3).ambiguity.tolist() == [1.0, 1.0]
    assert predictions(tied, 3).uncertainty.tolist() == [0.0, 0.0]
    same = nearest([[0.1, 0.7, 1 / 3]] * 5, [[0.0, 0.0, 0.0]], 5, values=True)
    assert predictions(same, 5).uncertainty.tolist() == [0.0] and predictions(same, 5).ambiguity.tolist() == [1.0]
    single = nearest([[0.0], [1.0], [2.0]], [[0.0]], 3, values=True)
    assert predictions(single, 3).ambiguity.tolist() == [0.0]


@settings(deadline=None, max_examples=25)
@given(*[st.lists(st.integers(0, 9).map(float), min_size=1, max_size=12)] * 2)
def test_excess_as_the_twin_and_as_scipy(values, reference):
    found = excess(np.array(values), np.array(reference), 0.0)
    assert found.value == pytest.approx(naive.excess(values, reference))
    assert found.value == pytest.approx(ks_2samp(values, reference, alternative="greater").statistic)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_a_curve_counts_values_at_its_points():
    curve = excess(np.ones(3), np.array([1.0, 1.0, 0.5, 0.0]), 0.05).curve
    assert (curve.x[0], curve.x[-1]) == (0.0, 1.0)
    assert (curve.y[0], curve.y[-2], curve.y[-1]) == (0.0, 0.0, 1.0)
    assert (curve.baseline[0], curve.baseline[50], curve.baseline[-1]) == (0.25, 0.5, 1.0)


def test_the_p_value_is_that_of_scipy_without_a_margin():
    rng = np.random.default_rng(0)
    values, reference = rng.normal(size=1_000), rng.normal(0.1, 1.0, 1_200)
    there = ks_2samp(values, reference, alternative="greater", method="asymp").pvalue
    assert excess(values, reference, 0.0).p == pytest.approx(there, rel=0.1)
    assert excess(values, reference, 0.05).p > there
    assert excess(values, reference + 9, 0.05).p < 1e-100


def test_the_p_value_is_rarely_small_at_the_margin():
    """True excess exactly the margin: 5 % of the reference lies above all, and of the values none."""
    rng = np.random.default_rng(1)
    small = 0
    for _ in range(400):
        values, reference = rng.random(300), rng.random(300)
        reference[rng.random(300) < 0.05] += 2.0
        small += excess(values, reference, 0.05).p < 0.05
    # The binomial with 5 % exceeds 40 with a chance of 1e-5.
    assert small <= 40


def test_a_copy_is_found_out_and_another_sample_is_not():
    rng = np.random.default_rng(2)
    original, other = rng.normal(size=(2, 800, 6))
    copy = searched(original, original + 1e-9 * rng.normal(size=original.shape))
    assert [round(at.value, 2) for at in excesses(*copy)[:2]] == [1.0, 1.0] and not passes(excesses(*copy))
    found = figures(*copy, 800, np.arange(800))
    assert found["lasko.match_rate"].value == 1 and np.isnan(found["lasko.match_auc_distance"].value)
    assert "800 of 800 matches are right" in found["lasko.match_auc_distance"].note
    sample = searched(original, other)
    assert passes(excesses(*sample)) and all(at.p > 0.3 for at in excesses(*sample))
    assert list(figures(*sample, 800)) == ["lasko.distance", "lasko.ambiguity", "lasko.uncertainty"]


def test_right_matches_told_under_noise_not_in_shuffled_table():
    """The paper's contrast: noise leaves right matches that stand out, swapping in the spectral basis does not."""
    rng = np.random.default_rng(3)
    original = rng.normal(size=(600, 8)) @ rng.normal(size=(8, 8))
    original = (original - original.mean(axis=0)) / original.std(axis=0)
    noisy = searched(original, original + 0.25 * rng.normal(size=original.shape))
    right = noisy[0].rows[:, 0] == np.arange(600)
    areas = telling(noisy[0], right)
    assert 400 < right.sum() < 600 and areas[1].value > 0.8
    assert areas[3].value >= areas[1].value - 0.05
    swapped = searched(original, mask(original, "spectral_swap", rng=rng, partitions=[600]))
    assert passes(excesses(*swapped)) and excesses(*noisy)[0].value > 0.5


def test_three_measures_together_say_nothing_of_nothing():
    rng = np.random.default_rng(4)
    original, released = rng.normal(size=(2, 2_000, 3))
    blind = searched(original, released)
    groups, of_found = rng.integers(0, 4, 2_000), rng.integers(0, 4, blind[0].rows.shape)
    found = figures(*blind, 2_000, own_group=groups, groups=of_found)
    assert "own group" in found["lasko.match_rate"].title and 0.2 < found["lasko.match_rate"].value < 0.3
    assert all(0.44 < found[name].value < 0.56 for name in found if "auc" in name)
    constant, _ = searched(np.repeat(original[:40], 5, axis=0), np.zeros((200, 3)))
    assert telling(constant, np.arange(200) % 2 == 0)[1].value == 0.5


def test_measurements_of_a_sample():
    rng = np.random.default_rng(5)
    original = rng.normal(size=(500, 4))
    released = original + 0.4 * rng.normal(size=original.shape)
    asked = np.arange(0, 500, 5)
    found, reference = searched(original, released, asked)
    by_name = figures(found, reference, 500, asked)
    distance = by_name["lasko.distance"]
    assert (distance.records, distance.of) == (100, 500) and distance.low < distance.value < distance.high
    (curve,) = distance.curves
    assert len(curve.x) == len(curve.y) == len(curve.baseline)
    for shares in (curve.y, curve.baseline):
        assert list(shares) == sorted(shares) and shares[0] >= 0 and 0.9 < shares[-1] <= 1
    rate, auc_all = by_name["lasko.match_rate"], by_name["lasko.match_auc_together"]
    assert rate.low < rate.value == (found.rows[:, 0] == asked).mean() < rate.high
    assert auc_all.low < auc_all.value < auc_all.high and auc_all.baseline == 0.5
    everyone = figures(*searched(original, released), 500)["lasko.distance"]
    assert everyone.low is None and not everyone.sampled


def test_too_few_records_are_refused():
    features = np.arange(3.0)[:, None]
    with pytest.raises(InputError, match="fewer than 5 records"):
        figures(*searched(features, features), 3)
