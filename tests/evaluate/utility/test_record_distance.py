import math

import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.evaluate.utility._moments import eigenvalue_change, il1s
from tests.evaluate.utility.tables import pairs
from tests.naive import utility as naive
from tests.naive.measure import columns_of


@settings(deadline=None, max_examples=20)
@given(pairs(least_rows=12, most_rows=12))
def test_as_the_twin_and_as_numpy(tables):
    old, new = tables
    expected = [naive.il1s(a, b) for a, b in zip(columns_of(old), columns_of(new), strict=True)]
    assert il1s(old, new) == pytest.approx(expected)
    assert il1s(old * 3 + 1, new * 3 + 1) == pytest.approx(expected)
    values = [np.sort(np.linalg.eigvals(np.atleast_2d(np.corrcoef(t.T))).real)[::-1] for t in tables]
    assert eigenvalue_change(old, new) == pytest.approx((abs(values[1] - values[0]) / values[0]).sum(), abs=1e-9)
    assert eigenvalue_change(old, old[::-1] * 2 - 7) == pytest.approx(0, abs=1e-9)


def test_shuffling_a_normal_column_comes_to_080():
    rng = np.random.default_rng(0)
    old = rng.normal(50, 7, size=(20_000, 1))
    assert il1s(old, rng.permutation(old))[0] == pytest.approx(math.sqrt(2 / math.pi), abs=0.02)


def test_nulls_and_constant_columns():
    nan = np.nan
    old = np.array([[1.0, 5.0, nan], [3.0, 5.0, nan], [nan, 5.0, 1.0], [5.0, 5.0, 2.0]])
    new = np.array([[2.0, 6.0, 1.0], [nan, 6.0, 1.0], [7.0, 6.0, nan], [5.0, 6.0, nan]])
    found = il1s(old, new)
    assert found[0] == pytest.approx(0.5 / (math.sqrt(2) * 2))
    assert np.isnan(found[1:]).all()
    assert eigenvalue_change(old[:, :1], new[:, :1]) == 0
    assert math.isnan(eigenvalue_change(old[:, 1:2], new[:, 1:2]))
    # Columns 0 and 2 vary, but no two records have both: one is left.
    assert eigenvalue_change(old[:, [0, 2]], old[:, [0, 2]]) == 0


def test_columns_that_add_up_do_not_divide_by_zero():
    rng = np.random.default_rng(1)
    old = rng.normal(size=(50, 2))
    old = np.column_stack([old, old.sum(axis=1)])
    assert eigenvalue_change(old, old + 0.1 * rng.normal(size=old.shape)) < 1


@pytest.mark.filterwarnings("error")
def test_differences_whose_squares_vanish_have_no_figure():
    tiny = np.array([[1e-170], [2e-170]])
    assert np.isnan(il1s(tiny, tiny)).all() and np.isnan(il1s(tiny, np.ones((2, 1)))).all()
