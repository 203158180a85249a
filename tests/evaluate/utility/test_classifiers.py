import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from anonpipe.errors import InputError
from anonpipe.evaluate.utility import auc
from anonpipe.evaluate.utility._two_sample import discriminator, tree_propensity
from tests.naive import utility as naive

scores = st.lists(st.integers(0, 6), min_size=2, max_size=9)


@settings(deadline=None, max_examples=25)
@given(scores, scores)
def test_auc_and_its_interval_as_the_twins(high, low):
    found = auc(high, low)
    assert found.value == pytest.approx(naive.auc(high, low))
    assert 0 <= found.low <= found.value <= found.high <= 1
    variance = naive.delong_variance(high, low)
    if variance > 1e-12 and 0 < found.value < 1:
        reach = 1.959964 * math.sqrt(variance) / (found.value * (1 - found.value))
        assert logit(found.high) - logit(found.value) == pytest.approx(reach, rel=1e-6)
    opposite = auc(low, high)
    assert opposite.value == pytest.approx(1 - found.value)
    assert (opposite.low, opposite.high) == pytest.approx((1 - found.high, 1 - found.low))


def test_auc_as_sklearn_and_its_interval_covers():
    rng = np.random.default_rng(0)
    labels, given_scores = rng.random(500) < 0.4, rng.normal(size=500).round(1)
    expected = roc_auc_score(labels, given_scores)
    assert auc(given_scores[labels], given_scores[~labels]).value == pytest.approx(expected)
    truth = 0.760250  # of normal scores one standard deviation apart: Φ(1/√2)
    covered = 0
    for _ in range(300):
        found = auc(rng.normal(1, size=40), rng.normal(size=60))
        covered += found.low <= truth <= found.high
    assert 0.91 < covered / 300 < 0.985


def test_auc_without_overlap_has_an_interval():
    found = auc([3.0] * 30, [1.0] * 60)
    assert (found.value, found.low, found.high) == (1, pytest.approx(0.9), 1)
    with pytest.raises(InputError, match="0 positive"):
        auc([], [1.0])
    with pytest.raises(InputError, match="not finite"):
        auc([np.nan], [1.0])


def test_tree_as_the_twin():
    rng = np.random.default_rng(1)
    old, new = rng.normal(size=(60, 2)), rng.normal(0.4, size=(80, 2))
    found = tree_propensity(old, new, rng=np.random.default_rng(2))
    both, ones = np.concatenate([old, new]), [False] * 60 + [True] * 80
    tree = DecisionTreeClassifier(min_samples_leaf=20, max_leaf_nodes=100, random_state=0).fit(both, ones)
    assert found.value == pytest.approx(naive.tree_pmse(tree.apply(both).tolist(), ones))
    assert found.ratio == pytest.approx(found.value / found.expected)
    assert found.low < found.ratio < found.high
    # Only the order of the values matters, also where float32 would not tell them apart.
    other = tree_propensity(1 + 1e-12 * old, 1 + 1e-12 * new, rng=np.random.default_rng(2))
    assert other == found


def test_tree_ratio_is_one_for_two_samples_large_for_repeats():
    rng = np.random.default_rng(3)
    old = rng.normal(size=(1500, 3))
    assert tree_propensity(old, rng.normal(size=(1500, 3)), rng=rng).ratio == pytest.approx(1, abs=0.25)
    assert tree_propensity(old, np.repeat(old[::5], 5, axis=0), rng=rng).ratio > 1.5
    assert tree_propensity(old, old[::-1], rng=rng).value == 0
    constant = tree_propensity(np.ones((50, 1)), np.ones((50, 1)), rng=rng)
    assert constant.value == 0 and math.isnan(constant.ratio)
    # All is told apart: the share of either is certain.
    assert tree_propensity(old, old + 100, rng=rng).value == pytest.approx(0.25)


def test_discriminator():
    rng = np.random.default_rng(4)
    old = rng.normal(size=(400, 2))
    chance = discriminator(old, rng.normal(size=(300, 2)), rng=rng)
    assert chance.low < 0.5 < chance.high
    # The same mean and variance, another shape: a logistic regression on the columns would not see it.
    assert discriminator(old, rng.choice([-1.0, 1.0], size=(400, 2)), rng=rng).low > 0.9
    assert discriminator(old, old, rng=rng, paired=True).value == 0.5
    codes = rng.integers(0, 5, size=(400, 1))
    others = np.where(codes == 4, 1, codes)
    found = [discriminator(codes, others, rng=np.random.default_rng(5), categories=[0]) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].low > 0.5
