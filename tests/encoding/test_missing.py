import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding.missing import fill_missing
from anonpipe.kernels.groups import sort_groups
from tests.naive import codec as naive


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0, 1))
def test_filling_equals_its_twin(seed, groups, share):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(groups), rng.integers(0, groups, 3 * groups)])
    cells = rng.normal(size=(len(labels), 3))
    cells[rng.random(cells.shape) < share] = np.nan
    before = cells.copy()
    order, starts = sort_groups(labels)
    filled = fill_missing(cells, [0, 2], order, starts, np.random.default_rng(seed))
    draws = np.random.default_rng(seed)
    members = [np.flatnonzero(labels == g).tolist() for g in range(groups)]
    for column in (0, 2):
        values = [None if np.isnan(value) else value for value in cells[:, column]]
        if any(value is None for value in values) and any(value is not None for value in values):
            expected = naive.fill(values, members, draws.random(groups))
            assert np.allclose(filled[:, column], expected)
    assert np.array_equal(cells, before, equal_nan=True)
    assert np.array_equal(filled[:, 1], cells[:, 1], equal_nan=True)


def test_donors_are_used_evenly():
    cells = np.array([[1.0], [2.0], [3.0], *[[np.nan]] * 7])
    filled = fill_missing(cells, [0], np.arange(10), np.array([0, 10]), np.random.default_rng(0))
    counts = np.unique(filled[3:, 0], return_counts=True)[1]
    assert sorted(counts.tolist()) == [2, 2, 3]


def test_groups_without_donor_take_the_mean_and_empty_columns_stay():
    cells = np.array([[np.nan, np.nan], [np.nan, np.nan], [2.0, np.nan], [6.0, np.nan]])
    filled = fill_missing(cells, [0, 1], np.arange(4), np.array([0, 2, 4]), np.random.default_rng(0))
    assert filled[:, 0].tolist() == [4.0, 4.0, 2.0, 6.0]
    assert np.isnan(filled[:, 1]).all()


def test_same_seed_same_filling():
    cells = np.random.default_rng(1).normal(size=(100, 1))
    cells[::3] = np.nan
    order, starts = sort_groups(np.arange(100) // 5)
    once, again, other = (fill_missing(cells, [0], order, starts, np.random.default_rng(s)) for s in (7, 7, 8))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
