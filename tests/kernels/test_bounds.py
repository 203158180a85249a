from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding.features import keep_group_sums, variance_inside
from tests.methods.synthesis.grouped import shuffled_groups
from tests.naive import synthesize as naive

LIMITS = [(-1.0, 1.0), (0.0, np.inf), (-np.inf, 0.5), (-np.inf, np.inf), (0.25, 0.25), (0.0, 1e6)]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(0, 2**32),
    st.sampled_from(LIMITS),
    st.sampled_from([0.1, 1.0, 50.0]),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_values_are_held_and_sums_kept(sizes, seed, limits, scale, null_share, whole):
    rng = np.random.default_rng(seed)
    order, starts = shuffled_groups(sizes, rng)
    values = rng.normal(0.3, scale, len(order))
    values = np.rint(values) if whole else values
    values[rng.random(len(order)) < null_share] = np.nan
    before, (low, high) = values.copy(), limits
    held = keep_group_sums(values, order, starts, low, high)
    assert np.array_equal(values, before, equal_nan=True)
    assert np.array_equal(np.isnan(held), np.isnan(values))
    assert np.nanmin(held, initial=low) >= low and np.nanmax(held, initial=high) <= high
    assert np.allclose(held, naive.keep_group_sums(values, order, starts, low, high), atol=1e-9 * scale, equal_nan=True)
    for members in naive.groups_of(order, starts):
        x, y = (v[members][~np.isnan(values[members])] for v in (values, held))
        if len(x) * low <= x.sum() <= len(x) * high:
            assert abs(y.sum() - x.sum()) <= 1e-13 * len(x) * np.abs(x).max(initial=1.0)
        else:
            assert np.array_equal(y, np.clip(x, low, high))
        if len(x) and x.min() >= low and x.max() <= high:
            assert np.array_equal(x, y)
        ranks = np.argsort(x, kind="stable")
        assert np.all(np.diff(y[ranks]) >= 0)


@pytest.mark.parametrize(
    ("values", "limits", "held"),
    [
        ([-3.0, 1.0, 2.0], (0.0, 10.0), [0.0, 0.0, 0.0]),
        ([-3.0, 1.0, 5.0], (0.0, 10.0), [0.0, 0.0, 3.0]),
        ([-4.0, 1.0, 2.0], (0.0, 10.0), [0.0, 1.0, 2.0]),
        ([14.0, 9.0, 1.0], (0.0, 10.0), [10.0, 10.0, 4.0]),
        ([14.0, -2.0, 6.0], (0.0, 10.0), [10.0, 0.0, 8.0]),
        ([np.nan, -1.0, 3.0], (0.0, 10.0), [np.nan, 0.0, 2.0]),
        ([np.nan, np.nan, np.nan], (0.0, 10.0), [np.nan, np.nan, np.nan]),
    ],
)
def test_worked_examples(values, limits, held):
    """Sum 0 at the bound; one shift; infeasible: clipped only; mirrored; both bounds (shift +2); nulls."""
    result = keep_group_sums(np.array(values), np.arange(3), np.array([0, 3]), *limits)
    assert np.allclose(result, held, equal_nan=True)


def test_no_other_point_of_the_box_with_that_sum_is_nearer():
    rng = np.random.default_rng(1)
    x = rng.normal(0, 2, 8)
    held = keep_group_sums(x, np.arange(8), np.array([0, 8]), -1.0, 1.0)
    for _ in range(500):
        step = rng.normal(size=8) * 0.1
        other = keep_group_sums(held + step - step.mean(), np.arange(8), np.array([0, 8]), -1.0, 1.0)
        assert np.sum((other - x) ** 2) >= np.sum((held - x) ** 2) - 1e-12


@pytest.mark.parametrize("limits", [(-1.0, 1.0), (0.0, np.inf), (-np.inf, 0.2), (-np.inf, np.inf), (5.0, 6.0)])
@pytest.mark.parametrize("n", [1, 2, 7, 500])
def test_variance_of_sorted_values_is_that_of_the_held_ones(limits, n):
    """Also where no shift keeps the sum, and for values that are all alike."""
    rng = np.random.default_rng(n)
    for values in (rng.normal(size=n), rng.exponential(size=n) * 3, np.full(n, 0.7), np.round(rng.normal(size=n))):
        held = keep_group_sums(values, np.arange(n), np.array([0, n]), *limits)
        assert variance_inside(np.sort(values), *limits) == pytest.approx(held.var(), abs=1e-12)
