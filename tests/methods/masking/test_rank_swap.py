"""Rank swapping: who may swap with whom, what stays, and how far records move."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from anonpipe.errors import JobError
from anonpipe.methods.masking._data_shuffle import partners
from anonpipe.methods.masking._draws import averaged_by_rank
from tests.in_memory import mask
from tests.naive import mask as naive


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
