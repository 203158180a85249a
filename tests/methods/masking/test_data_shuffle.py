"""Data shuffling and rank swapping."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, spearmanr

from anonpipe.errors import JobError
from anonpipe.methods.masking._data_shuffle import normal_correlation, partners
from anonpipe.methods.masking._draws import averaged_by_rank
from anonpipe.moments import Moments
from tests.in_memory import mask
from tests.methods.masking.tables import KEY, correlated, run, split_tables, tables
from tests.naive import mask as naive


@pytest.mark.parametrize("tied", [False, True])
def test_shuffling_given_a_column_is_that_of_the_twin(tied):
    features, parts = correlated(40, 2), [13, 27]
    if tied:
        features[:, 0] = np.sign(features[:, 0])
    new = run(features, "data_shuffle", parts, conditioning=(0,))
    draws = naive.shuffled_order(features.tolist(), parts, KEY, 0)
    ranked = sorted(range(40), key=lambda i: draws[i])
    wanted = np.empty(40)
    wanted[ranked] = sorted(features[:, 1])
    assert np.array_equal(new, np.column_stack([features[:, 0], wanted]))


@given(case=split_tables(), data=st.data())
@settings(max_examples=80, deadline=None)
def test_column_keeps_exactly_its_values_kept_one_its_places(case, data):
    features, parts = case
    kept = tuple(data.draw(st.sets(st.integers(0, features.shape[1] - 1), max_size=features.shape[1] - 1)))
    masked = run(features, "data_shuffle", parts, conditioning=kept)
    assert np.array_equal(np.sort(masked, axis=0), np.sort(features, axis=0))
    assert np.array_equal(masked[:, kept], features[:, kept])


def test_rank_correlations_are_kept_and_link_to_record_is_cut():
    features = np.exp(correlated(20_000, 3) / 10)
    masked = mask(features, "data_shuffle", rng=np.random.default_rng(3), partitions=[9_000, 11_000])
    assert np.abs(spearmanr(features)[0] - spearmanr(masked)[0]).max() < 0.04
    own = [abs(spearmanr(features[:, j], masked[:, j])[0]) for j in range(3)]
    assert max(own) < 5.5 / np.sqrt(20_000)


def test_given_kept_columns_new_values_say_nothing_of_old():
    features = correlated(20_000, 3)
    masked = mask(features, "data_shuffle", rng=np.random.default_rng(4), conditioning=(0,))
    old, new = (p[:, 1] - np.polyval(np.polyfit(p[:, 0], p[:, 1], 1), p[:, 0]) for p in (features, masked))
    assert abs(np.corrcoef(old, new)[0, 1]) < 5.5 / np.sqrt(20_000)
    assert abs(spearmanr(features[:, :2])[0] - spearmanr(masked[:, :2])[0]) < 0.04


def test_a_kept_column_with_ties_keeps_its_correlation():
    rng = np.random.default_rng(5)
    hidden, other = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 20_000).T
    features = np.column_stack([np.sign(hidden), other])
    masked = mask(features, "data_shuffle", rng=rng, conditioning=(0,))
    assert abs(spearmanr(features)[0] - spearmanr(masked)[0]) < 0.05


@given(features=tables(least=3))
@settings(max_examples=60, deadline=None)
def test_the_normal_correlation_is_one(features):
    ranks = np.argsort(np.argsort(features, axis=0), axis=0).astype(float)
    found = normal_correlation(Moments.of(ranks).scatter)
    assert np.allclose(np.diag(found), 1) and np.linalg.eigvalsh(found)[0] > -1e-8
    assert np.abs(found).max() <= 1 + 1e-8


def test_an_impossible_matrix_is_repaired():
    """These rank correlations are possible, and their normal ones are not."""
    ranks = np.array([[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1.0]])
    assert np.linalg.eigvalsh(2 * np.sin(np.pi / 6 * ranks) + np.diag([0.0, 0, 0]))[0] < 0
    found = normal_correlation(ranks)
    assert np.allclose(found, 1.5 * np.eye(3) - 0.5) and np.allclose(np.diag(found), 1)


@given(st.integers(0, 60), st.integers(1, 70), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_partners_are_those_of_the_twin(n, reach, seed):
    draws = np.random.default_rng(seed).random(n)
    made = partners(draws, reach)
    assert made.tolist() == naive.swap_partners(draws.tolist(), reach)
    assert (made[made] == np.arange(n)).all()
    assert n == 0 or np.abs(made - np.arange(n)).max() <= reach
    alone = np.flatnonzero(made == np.arange(n))
    assert (np.diff(alone) > reach).all()  # two within reach of each other would have swapped


def test_partners_are_drawn_by_the_law_of_the_algorithm():
    """Four ranks, reach 2: rank 0 takes 1 or 2; of what is left each next one takes one of those in reach.

    (0 1)(2 3) has 1/2; (0 2)(1 3) has 1/2: rank 1 reaches 3 alone. Reach 3 gives each pairing a third.
    """
    rng, times = np.random.default_rng(0), 30_000
    for reach, law in ((2, {(1, 0, 3, 2): 1 / 2, (2, 3, 0, 1): 1 / 2}), (3, None)):
        seen = Counter(tuple(partners(rng.random(4), reach).tolist()) for _ in range(times))
        law = law or dict.fromkeys([(1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)], 1 / 3)
        assert set(seen) == set(law)
        assert chisquare([seen[key] for key in law], [times * share for share in law.values()]).pvalue > 1e-9


@pytest.mark.parametrize("percent", [1.0, 10.0, 100.0])
def test_values_stay_and_ranks_move_no_further_than_asked(percent):
    features = np.random.default_rng(1).normal(size=(2_000, 3))
    masked = mask(features, "rank_swap", rng=np.random.default_rng(2), percent=percent)
    assert np.array_equal(np.sort(masked, axis=0), np.sort(features, axis=0))
    ranks = [np.argsort(np.argsort(table, axis=0), axis=0) for table in (features, masked)]
    moved = np.abs(ranks[1] - ranks[0])
    assert moved.max() <= 20 * percent and moved.mean() > 5 * percent
    assert (moved == 0).mean() < 0.02


def test_covariances_shrink_with_the_reach():
    """Correlation 0.9: hardly less at 2 %, and none where any rank may swap with any other (fails under 1e-9)."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(20_000, 2)) @ np.array([[1.0, 0.9], [0.0, np.sqrt(1 - 0.81)]])
    kept = [
        np.corrcoef(mask(features, "rank_swap", rng=np.random.default_rng(4), percent=percent).T)[0, 1]
        for percent in (2.0, 20.0, 100.0)
    ]
    assert 0.88 < kept[0] < 0.9 + 6 / np.sqrt(20_000)
    assert kept[0] > kept[1] + 0.1 and abs(kept[2]) < 6.2 / np.sqrt(20_000)


def test_with_k_no_value_of_fewer_records_is_handed_on():
    rng = np.random.default_rng(5)
    features = np.round(rng.normal(size=(300, 2)), 2)
    masked = mask(features, "rank_swap", rng=rng, k=5)
    for column in range(2):
        assert np.array_equal(np.sort(masked[:, column]), averaged_by_rank(features[:, column], 5))
        assert min(Counter(masked[:, column].tolist()).values()) >= 5


def test_the_columns_of_a_category_stay_together():
    rng = np.random.default_rng(6)
    codes, sex = rng.integers(0, 3, 500), rng.integers(0, 2, 500)
    features = np.column_stack([rng.normal(size=500), *(2.0 * (codes == at) - 1 for at in range(3)), 2.0 * sex - 1])
    masked = mask(features, "rank_swap", rng=rng, k=3, percent=40.0, categories=((1, 2, 3), (4,)))
    assert ((masked[:, 1:4] > 0).sum(axis=1) == 1).all() and (np.abs(masked[:, 1:]) == 1).all()
    assert np.array_equal(masked[:, 1:4].sum(axis=0), features[:, 1:4].sum(axis=0))
    assert 0.05 < (masked[:, 1:4] != features[:, 1:4]).any(axis=1).mean() < 0.9


@pytest.mark.parametrize("options", [{"percent": 0.0}, {"percent": 101.0}, {"k": 0}])
def test_what_cannot_be_is_told(options):
    with pytest.raises(JobError, match="rank_swap was given"):
        mask(np.zeros((5, 1)), "rank_swap", rng=np.random.default_rng(0), **options)
