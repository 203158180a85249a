from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.kernels.points import ascending, largest, largest_group

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
