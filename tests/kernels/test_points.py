"""Kernels on points: groups, largest values, order and turning."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import ascending, largest, largest_group, sort_groups, turn_rows

numbers = st.lists(st.floats(-3, 3).map(lambda x: round(x, 1)) | st.just(math.inf), max_size=70)


@given(numbers)
def test_ascending_is_a_stable_sort(values):
    for found in (np.array(values), np.array(values, dtype=np.float64) > 0):
        typed = found.astype(np.int64) if found.dtype == bool else found
        assert (ascending(typed) == np.argsort(typed, kind="stable")).all()


@given(numbers.filter(len), st.booleans())
def test_largest_is_that_of_numpy_even_with_nan(values, with_nan):
    typed = np.array([*values, math.nan, 9.0] if with_nan else values)
    np.testing.assert_equal(largest(typed) + 0.0, typed.max() + 0.0)  # zeros of either sign are equal


@given(st.lists(st.integers(1, 9), max_size=12))
def test_the_largest_group(sizes):
    assert largest_group(np.cumsum([0, *sizes])) == max(sizes, default=0)


@given(st.lists(st.integers(-2, 9), max_size=20))
def test_places_from_the_highest_down(places):
    found = np.array(places, dtype=np.int64)
    assert found[ascending(-found)].tolist() == sorted(places, reverse=True)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=60))
def test_like_a_stable_sort(labels):
    labels = np.array(labels, dtype=np.int64)
    order, starts = sort_groups(labels)
    assert order.dtype == starts.dtype == np.int64
    assert (order == np.argsort(labels, kind="stable")).all()
    assert (np.diff(starts) == np.bincount(labels)).all()
    assert starts[0] == 0
    assert starts[-1] == len(labels)


def test_records_are_turned_in_the_same_bits_in_any_part():
    rng = np.random.default_rng(1)
    features, before, matrix, after = (
        rng.normal(size=(50, 7)),
        rng.normal(size=7),
        rng.normal(size=(7, 4)),
        rng.normal(size=4),
    )
    whole = turn_rows(features, matrix, before=before, after=after)
    parts = [
        turn_rows(features[a:b], matrix, before=before, after=after) for a, b in ((0, 0), (0, 1), (1, 34), (34, 50))
    ]
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.allclose(whole, (features - before) @ matrix + after, rtol=0, atol=1e-13)


def test_no_columns_in_or_out():
    assert turn_rows(np.zeros((3, 0)), np.zeros((0, 2)), after=np.ones(2)).tolist() == [[1, 1]] * 3
    assert turn_rows(np.zeros((3, 2)), np.zeros((2, 0))).shape == (3, 0)
