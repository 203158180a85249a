from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError, JobError
from anonpipe.methods.synthesis import restore_by_rank
from tests.methods.synthesis.grouped import shuffled_groups
from tests.naive import synthesize as naive


@given(st.lists(st.integers(1, 8), min_size=1, max_size=8), st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=100, deadline=None)
def test_restored_values_are_those_of_the_twin(sizes, seed, null_share):
    rng = np.random.default_rng(seed)
    order, starts = shuffled_groups(sizes, rng)
    synthetic = rng.integers(-3, 4, len(order)) / 2
    original = rng.integers(0, 5, len(order)).astype(float)
    synthetic[rng.random(len(order)) < null_share] = np.nan
    original[rng.random(len(order)) < null_share] = np.nan
    restored = restore_by_rank(synthetic, original, order, starts)
    assert np.array_equal(restored, naive.restore_by_rank(synthetic, original, order, starts), equal_nan=True)
    for members in naive.groups_of(order, starts):
        assert np.array_equal(np.sort(restored[members]), np.sort(original[members]), equal_nan=True)


def test_nulls_return_to_synthetic_nulls_where_numbers_agree():
    synthetic, original = np.array([2.0, np.nan, 1.0]), np.array([np.nan, 8.0, 9.0])
    restored = restore_by_rank(synthetic, original, np.arange(3), np.array([0, 3]))
    assert np.array_equal(restored, [9.0, np.nan, 8.0], equal_nan=True)


def test_jitter_keeps_its_width_its_limits_and_its_mean():
    """400,000 uniform shifts: their mean lies within 7 standard errors (fails by chance under 1e-11)."""
    rng = np.random.default_rng(1)
    original = rng.integers(0, 60, 400_000).astype(float)
    groups = np.arange(400_000), np.arange(0, 400_001, 5)
    exact = restore_by_rank(rng.normal(size=400_000), original, *groups)
    rng = np.random.default_rng(1)
    rng.integers(0, 60, 400_000)
    shifted = restore_by_rank(rng.normal(size=400_000), original, *groups, rng=rng, jitter=3.0, limits=(0.0, np.inf))
    shift = shifted - exact
    assert np.all(np.abs(shift) <= np.minimum(3.0, exact)) and np.all(shifted >= 0)
    assert np.all(shift[exact == 0] == 0)
    assert np.abs(shift).max() > 2.9
    assert abs(shift.mean()) < 7 * np.sqrt(3 / 400_000)


def test_without_jitter_nothing_is_drawn():
    rng = np.random.default_rng(2)
    restore_by_rank(np.ones(2), np.ones(2), np.arange(2), np.array([0, 2]), rng=rng)
    assert rng.random() == np.random.default_rng(2).random()


@pytest.mark.parametrize("jitter", [-1.0, np.nan, np.inf])
def test_impossible_jitter_is_refused(jitter):
    with pytest.raises(JobError, match="0 or more"):
        restore_by_rank(
            np.ones(1), np.ones(1), np.arange(1), np.array([0, 1]), rng=np.random.default_rng(), jitter=jitter
        )


def test_jitter_needs_a_generator_and_columns_one_length():
    with pytest.raises(JobError, match="pass rng"):
        restore_by_rank(np.ones(1), np.ones(1), np.arange(1), np.array([0, 1]), jitter=1.0)
    with pytest.raises(InputError, match="differ in length"):
        restore_by_rank(np.ones(1), np.ones(2), np.arange(1), np.array([0, 1]))
