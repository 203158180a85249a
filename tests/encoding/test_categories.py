import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding.categories import calibrated, calibrated_groups, probabilities, sampled
from anonpipe.kernels.points import sort_groups
from tests.naive import encoder as naive


@st.composite
def grouped_categories(draw):
    """Labels with every group occupied, original codes, and scores with many ties."""
    sizes = draw(st.lists(st.integers(1, 90), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    categories = draw(st.integers(2, 5))
    codes = rng.integers(0, categories, len(labels))
    scores = rng.integers(0, draw(st.sampled_from([2, 5, 1000])), (len(labels), categories)).astype(float)
    return labels, codes, scores


def targets_of(labels, codes, categories):
    targets = np.zeros((labels.max() + 1, categories), dtype=np.int64)
    np.add.at(targets, (labels, codes), 1)
    return targets


@settings(deadline=None)
@given(grouped_categories())
def test_calibrated_keeps_every_count_and_equals_its_twin(case):
    labels, codes, scores = case
    order, starts = sort_groups(labels)
    targets = targets_of(labels, codes, scores.shape[1])
    before = scores.copy()
    chosen = calibrated(scores, order, starts, targets)
    assert np.array_equal(targets_of(labels, chosen, scores.shape[1]), targets)
    groups = [np.flatnonzero(labels == g).tolist() for g in range(labels.max() + 1)]
    assert chosen.tolist() == naive.calibrated(scores.tolist(), groups, targets.tolist())
    assert np.array_equal(scores, before)


@settings(deadline=None)
@given(grouped_categories())
def test_unmasked_dummies_come_back_as_they_were(case):
    labels, codes, scores = case
    order, starts = sort_groups(labels)
    dummies = np.where(codes[:, None] == np.arange(scores.shape[1]), 1.0, -1.0)
    chosen = calibrated(probabilities(dummies), order, starts, targets_of(labels, codes, scores.shape[1]))
    assert np.array_equal(chosen, codes)


def test_targets_that_do_not_fit_the_groups_are_refused():
    scores, order, starts = np.zeros((3, 2)), np.arange(3), np.array([0, 3])
    for targets in ([[1, 1]], [[4, -1]]):
        with pytest.raises(ValueError, match="add up"):
            calibrated(scores, order, starts, np.array(targets))


@settings(deadline=None)
@given(st.data())
def test_calibrated_groups_equal_their_twin(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    groups, categories = data.draw(st.integers(1, 30)), data.draw(st.integers(2, 5))
    sizes = rng.integers(3, 7, groups)
    totals = rng.multinomial(sizes.sum(), rng.dirichlet(np.ones(categories)))
    chances = rng.integers(0, 5, (groups, categories)) / 5.0
    chosen = calibrated_groups(chances, sizes, totals)
    assert chosen.tolist() == naive.calibrated_groups(chances.tolist(), sizes.tolist(), totals.tolist())
    assert chosen.min() >= 0 and chosen.max() < categories


def test_two_categories_of_groups_are_off_by_half_a_group():
    rng = np.random.default_rng(3)
    for _ in range(200):
        sizes = rng.integers(5, 10, 50)
        totals = rng.multinomial(sizes.sum(), [0.93, 0.07])
        chances = probabilities(rng.normal(size=(50, 1)))
        chosen = calibrated_groups(chances, sizes, totals)
        assert abs(sizes[chosen == 1].sum() - totals[1]) <= sizes.max() / 2


def test_five_per_cent_stay_five_per_cent():
    """Design 4.14: argmax of means of five loses a rare category, sampling inflates it, calibration keeps it."""
    rng = np.random.default_rng(11)
    codes = (rng.random(20_000) < 0.05).astype(int)
    labels = rng.permutation(np.repeat(np.arange(4_000), 5))
    order, starts = sort_groups(labels)
    dummy = np.where(codes == 1, 1.0, -1.0)
    means = np.bincount(labels, weights=dummy) / 5.0
    share = codes.mean()
    assert probabilities(means[labels][:, None]).argmax(axis=1).mean() < 0.005
    assert sampled(probabilities(dummy[:, None]), rng).mean() == pytest.approx(0.29, abs=0.02)
    kept = calibrated_groups(probabilities(means[:, None]), np.full(4_000, 5), np.bincount(codes))
    assert kept[labels].mean() == pytest.approx(share, abs=2.5 / 20_000)
    noisy = (means[labels] + rng.normal(size=20_000))[:, None]
    exact = calibrated(probabilities(noisy), order, starts, targets_of(labels, codes, 2))
    assert exact.mean() == share


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6))
def test_probabilities_are_distributions_for_any_large_points(row):
    chances = probabilities(np.array([row]))
    assert np.isfinite(chances).all() and chances.min() >= 0
    assert chances.sum() == pytest.approx(1.0)
    if len(row) > 1:
        assert chances[0, int(np.argmax(row))] == chances.max()


def test_sampling_follows_the_distribution():
    chances = np.tile([0.088, 0.212, 0.7], (200_000, 1))
    counts = np.bincount(sampled(chances, np.random.default_rng(5)), minlength=3) / 200_000
    # five standard errors of a share: fails by chance once in 10^6
    assert np.allclose(counts, chances[0], atol=5 * 0.5 / np.sqrt(200_000))


def test_the_papers_example_of_masked_dummies():
    found = probabilities(np.array([[-2.5, -1.5, 0.41]]))[0]
    assert np.allclose(found, [0.088, 0.212, 0.700], atol=1e-3)
