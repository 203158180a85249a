from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding.shares import share_out


@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sampled_from(["even", "wild", "absent"]))
@settings(max_examples=200, deadline=None)
def test_both_margins_are_exact_and_no_count_is_negative(partitions, categories, seed, shape):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, partitions)
    totals = np.bincount(rng.integers(0, categories, sizes.sum()), minlength=categories)
    mass = {
        "even": np.ones((partitions, categories)),
        "wild": rng.normal(0.0, 30.0, (partitions, categories)),
        "absent": np.zeros((partitions, categories)),
    }[shape]
    counts = share_out(mass, totals, sizes)
    assert counts.min() >= 0
    assert np.array_equal(counts.sum(axis=0), totals) and np.array_equal(counts.sum(axis=1), sizes)


def test_counts_that_fit_already_stay():
    counts = np.array([[5, 0, 3], [0, 9, 1]])
    assert np.array_equal(share_out(counts.astype(float), counts.sum(axis=0), counts.sum(axis=1)), counts)


def test_odds_of_the_mass_are_kept():
    """Twice the odds of the first category in the first partition, before and after fitting to other totals."""
    mass = np.array([[2.0, 1.0], [1.0, 1.0]]) * 1e6
    counts = share_out(mass, np.array([3_000_000, 3_000_000]), np.array([4_000_000, 2_000_000]))
    assert counts[0, 0] * counts[1, 1] / (counts[0, 1] * counts[1, 0]) == pytest.approx(2.0, rel=1e-4)


def test_every_count_is_near_what_is_wanted():
    rng = np.random.default_rng(1)
    shares, sizes = np.array([0.7, 0.2, 0.1]), np.full(50, 37)
    totals = np.round(shares * sizes.sum()).astype(int)
    counts = share_out(np.outer(sizes, shares) * rng.uniform(0.999, 1.001, (50, 3)), totals, sizes)
    assert np.abs(counts - np.outer(sizes, shares)).max() <= 2


def test_margins_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="add up"):
        share_out(np.ones((1, 2)), np.array([1, 1]), np.array([3]))
