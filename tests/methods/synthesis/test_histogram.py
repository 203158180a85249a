from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anonpipe.methods.synthesis import histogram
from tests.methods.synthesis.grouped import shuffled_groups
from tests.naive import synthesize as naive

CHANCE = 1e-8
"""Smallest p-value that passes; no test here draws more than 30, so each fails by chance under 1e-6."""


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    codes = rng.integers(-1, draw(st.integers(1, 6)), (sum(sizes), draw(st.integers(1, 4))))
    return (codes, *shuffled_groups(sizes, rng))


@pytest.mark.parametrize("counts", ["exact", "expected"])
@given(tables())
@settings(max_examples=60, deadline=None)
def test_codes_are_those_of_the_twin(counts, case):
    new = histogram(*case, rng=np.random.default_rng(1), counts=counts)
    assert np.array_equal(new, naive.histogram(*case, rng=np.random.default_rng(1), counts=counts))


@pytest.mark.parametrize("counts", ["exact", "expected"])
@given(tables())
@settings(max_examples=60, deadline=None)
def test_groups_keep_their_codes(counts, case):
    codes, order, starts = case
    new = histogram(*case, rng=np.random.default_rng(2), counts=counts)
    for members in naive.groups_of(order, starts):
        for j in range(codes.shape[1]):
            if counts == "exact":
                assert sorted(new[members, j]) == sorted(codes[members, j])
            assert set(new[members, j]) <= set(codes[members, j])


@pytest.mark.parametrize("counts", ["exact", "expected"])
def test_records_draw_from_histogram_and_columns_independent(counts):
    """Codes 0, 0, 1, 2, 2 in both columns alike, 20,000 groups: chi-square of each cell and of pairs of them."""
    group = np.repeat([[0, 0], [0, 0], [1, 1], [2, 2], [2, 2]], 1, axis=0)
    times = 20_000
    codes, starts = np.tile(group, (times, 1)), np.arange(0, 5 * times + 1, 5)
    new = histogram(codes, np.arange(5 * times), starts, rng=np.random.default_rng(3), counts=counts)
    new = new.reshape(times, 5, 2)
    shares = np.array([0.4, 0.2, 0.4])
    for place in range(5):
        for j in range(2):
            assert stats.chisquare(np.bincount(new[:, place, j]), shares * times).pvalue > CHANCE
        both = np.bincount(new[:, place, 0] * 3 + new[:, place, 1], minlength=9)
        assert stats.chisquare(both, np.outer(shares, shares).ravel() * times).pvalue > CHANCE
    pair = np.bincount(new[:, 0, 0] * 3 + new[:, 4, 0], minlength=9)
    chances = np.outer(shares, shares)
    if counts == "exact":  # without replacement
        number = 5 * shares
        chances = (np.outer(number, number) - np.diag(number)) / 20
    chances, pair = chances.ravel(), pair
    assert np.all(pair[chances == 0] == 0)
    assert stats.chisquare(pair[chances > 0], chances[chances > 0] * times).pvalue > CHANCE


def test_the_chi_square_sees_a_share_that_is_off_by_a_fiftieth():
    """Power: 0.42 in place of 0.4 gives a p-value below CHANCE with all but certainty (noncentrality 41 at 20,000)."""
    drawn = np.random.default_rng(4).choice(3, 20_000, p=[0.42, 0.2, 0.38])
    assert stats.chisquare(np.bincount(drawn), np.array([0.4, 0.2, 0.4]) * 20_000).pvalue < CHANCE
