import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._lasko import excess, lasko_measures, predictions
from tests.in_memory import mask
from tests.methods.grouping.data import grouping_problems
from tests.naive import finding as naive


def passes(measures):
    """Whether the test lets all three measures pass at 5 %."""
    return all(found.p >= 0.05 for found in measures.excesses)


def measured(original, released, k=5, **options):
    rows = np.arange(len(original))
    found = nearest(released, original, k, values=True)
    reference = nearest(original, original, k, without=rows, values=True)
    return lasko_measures(found, reference, records=len(original), k=k, **options)


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
    copy = measured(original, original + 1e-9 * rng.normal(size=original.shape), own_row=np.arange(800))
    assert [round(at.value, 2) for at in copy.excesses[:2]] == [1.0, 1.0] and not passes(copy)
    assert copy.right == 800 and np.isnan(copy.telling[0].value)
    sample = measured(original, other)
    assert passes(sample) and sample.right is None and sample.telling == ()
    assert all(at.p > 0.3 for at in sample.excesses)
    assert [m.name for m in sample.measurements()] == ["lasko.distance", "lasko.ambiguity", "lasko.uncertainty"]


def test_right_matches_told_under_noise_not_in_shuffled_table():
    """The paper's contrast: noise leaves right matches that stand out, swapping in the spectral basis does not."""
    rng = np.random.default_rng(3)
    original = rng.normal(size=(600, 8)) @ rng.normal(size=(8, 8))
    original = (original - original.mean(axis=0)) / original.std(axis=0)
    noisy = measured(original, original + 0.25 * rng.normal(size=original.shape), own_row=np.arange(600))
    assert 400 < noisy.right < 600 and noisy.telling[1].value > 0.8
    assert noisy.telling[3].value >= noisy.telling[1].value - 0.05
    swapped = measured(original, mask(original, "spectral_swap", rng=rng, partitions=[600]))
    assert passes(swapped) and noisy.excesses[0].value > 0.5


def test_three_measures_together_say_nothing_of_nothing():
    rng = np.random.default_rng(4)
    original, released = rng.normal(size=(2, 2_000, 3))
    found = nearest(released, original, 5, values=True)
    groups = rng.integers(0, 4, 2_000)
    blind = measured(original, released, own_group=groups, group_of_found=rng.integers(0, 4, found.rows.shape))
    assert blind.by_group and 400 < blind.right < 600
    assert all(0.44 < at.value < 0.56 for at in blind.telling)
    constant = measured(np.repeat(original[:40], 5, axis=0), np.zeros((200, 3)), own_group=np.arange(200) % 2,
                        group_of_found=np.tile([0], (200, 5)))  # fmt: skip
    assert constant.telling[1].value == 0.5


def test_measurements_of_a_sample():
    rng = np.random.default_rng(5)
    original = rng.normal(size=(500, 4))
    released = original + 0.4 * rng.normal(size=original.shape)
    asked = np.arange(0, 500, 5)
    found = nearest(released, original[asked], 5, values=True)
    reference = nearest(original, original[asked], 5, without=asked, values=True)
    by_name = {
        m.name: m for m in lasko_measures(found, reference, records=500, own_row=asked).measurements()
    }  # fmt: skip
    distance = by_name["lasko.distance"]
    assert (distance.records, distance.of) == (100, 500) and distance.low < distance.value < distance.high
    (curve,) = distance.curves
    assert len(curve.x) == len(curve.y) == len(curve.baseline)
    for shares in (curve.y, curve.baseline):
        assert list(shares) == sorted(shares) and shares[0] >= 0 and 0.9 < shares[-1] <= 1
    rate, auc_all = by_name["lasko.match_rate"], by_name["lasko.match_auc_together"]
    assert rate.low < rate.value == (found.rows[:, 0] == asked).mean() < rate.high
    assert auc_all.low < auc_all.value < auc_all.high and auc_all.baseline == 0.5
    everyone = measured(original, released).measurements()[0]
    assert everyone.low is None and not everyone.sampled


def test_refusals():
    features = np.arange(6.0)[:, None]
    found = nearest(features, features, 3, values=True)
    for options, error, words in (
        ({"k": 1}, JobError, "k is 1"),
        ({"k": 4}, InputError, "search 4 with values"),
        ({"margin": 1.5}, JobError, "margin is 1.5"),
        ({"records": 5}, JobError, "6 records of 5"),
        ({"own_group": np.zeros(6)}, JobError, "without group_of_found"),
        ({"own_row": [1, 2]}, JobError, "do not fit"),
    ):
        with pytest.raises(error, match=words):
            lasko_measures(found, found, **{"records": 6, "k": 3, **options})
    without_values = nearest(features, features, 3)
    with pytest.raises(InputError, match="with values"):
        predictions(without_values, 3)
