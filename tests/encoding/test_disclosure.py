"""Frequencies of key variables, levels of hierarchies and local suppression, against literal twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding import disclosure
from anonpipe.errors import InputError
from tests.naive import disclosure as naive

FRANCDAT = [
    [1, 2, 5, 1], [1, 2, 1, 1], [1, 2, 1, 1], [3, 3, 1, 5], [4, 3, 1, 4], [4, 3, 1, 1], [6, 2, 1, 5], [1, 2, 5, 1]
]  # fmt: skip


@st.composite
def tables(draw):
    """Rows of a few keys, some null."""
    width = draw(st.integers(1, 4))
    row = st.tuples(*[st.integers(-1, draw(st.integers(0, 3))) for _ in range(width)])
    return sorted(draw(st.lists(row, min_size=1, max_size=30)))


def combined(rows):
    """Distinct combinations, their records, and the place of each row among them."""
    codes, which, records = np.unique(np.array(rows), axis=0, return_inverse=True, return_counts=True)
    return codes, records.astype(np.float64), which.reshape(-1)


@given(rows=tables(), wildcard=st.booleans())
def test_frequencies_are_those_of_a_literal_count(rows, wildcard):
    codes, records, which = combined(rows)
    counted = disclosure.key_frequencies(codes, records, wildcard)[which]
    assert counted.tolist() == naive.key_frequencies(rows, wildcard)


def test_the_published_example_of_sdcmicro():
    """Records and weights of `francdat` have the frequencies that the documentation of `freqCalc` prints."""
    weights = np.array([18, 45.5, 39, 17, 541, 8, 5, 92])
    codes, records, which = combined(FRANCDAT)
    population = np.bincount(which, weights)
    assert disclosure.key_frequencies(codes, records)[which].tolist() == [2, 2, 2, 1, 1, 1, 1, 2]
    assert disclosure.key_frequencies(codes, population)[which].tolist() == [110, 84.5, 84.5, 17, 541, 8, 5, 110]


@given(rows=tables(), k=st.integers(2, 5), wildcard=st.booleans(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_suppression_leaves_k_records_as_described(rows, k, wildcard, data):
    codes, records, which = combined(rows)
    cost = data.draw(st.lists(st.sampled_from([1.0, 2.0, 2.5]), min_size=codes.shape[1], max_size=codes.shape[1]))
    if len(rows) < k:
        with pytest.raises(InputError, match=f"fewer than k={k} records"):
            disclosure.suppress(codes, records, k, cost, wildcard)
        return
    hidden = disclosure.suppress(codes, records, k, cost, wildcard)
    released = np.where(hidden, disclosure.NULL, codes)[which]
    assert min(naive.key_frequencies(released.tolist(), wildcard)) >= k
    assert list(map(tuple, released.tolist())) == naive.suppress(rows, k, cost, wildcard)


@given(rows=tables(), k=st.integers(2, 5))
def test_all_keys_find_k_records_if_nulls_are_a_category(rows, k):
    rows, k = [tuple(map(abs, row)) for row in rows], min(k, len(rows))
    codes, records, which = combined(rows)
    hidden = disclosure.suppress(codes, records, k, [1.0] * codes.shape[1])
    released = np.where(hidden, disclosure.NULL, codes)[which]
    for row in np.array(rows):
        assert ((released == row) | (released == disclosure.NULL)).all(axis=1).sum() >= k


def test_few_that_are_left_join_the_class_that_loses_least():
    codes, records = np.array([[0, 0], [1, 0], [1, 1]]), np.array([77.0, 6.0, 2.0])
    hidden = disclosure.suppress(codes, records, 5, [1.0, 1.0])
    assert hidden.tolist() == [[False, False], [False, True], [False, True]]


def test_more_sets_of_keys_than_can_be_tried_are_refused():
    codes = np.unique(np.random.default_rng(0).integers(0, 9, (130_000, 12)), axis=0)
    with pytest.raises(InputError, match="name fewer, or recode"):
        disclosure.suppress(codes, np.ones(len(codes)), 5, [1.0] * 12)


def test_a_dear_key_stays_and_one_of_many_categories_goes_first():
    codes = np.array([[0, 0], [0, 1], [1, 2], [1, 3]])
    assert disclosure.suppress(codes, np.ones(4), 2, [1.0, 1.0]).tolist() == [[False, True]] * 4
    crossed = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert disclosure.suppress(crossed, np.ones(4), 2, [1.0, 5.0]).tolist() == [[True, False]] * 4


@st.composite
def hierarchies(draw, size):
    """Codes of values at nested levels, shape (size, n_levels)."""
    levels = [list(range(size))]
    for _ in range(draw(st.integers(0, 2))):
        parents = draw(st.lists(st.integers(0, 2), min_size=max(3, size), max_size=max(3, size)))
        levels.append([parents[own] for own in levels[-1]])
    return np.array([np.unique(level, return_inverse=True)[1] for level in levels]).T


@given(rows=tables(), k=st.integers(2, 4), most=st.sampled_from([0.0, 0.2]), wildcard=st.booleans(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_levels_have_the_least_loss_of_the_whole_lattice(rows, k, most, wildcard, data):
    codes, records, _ = combined(rows)
    ancestors = [data.draw(hierarchies(max(1, int(column.max()) + 1))) for column in codes.T]
    good = naive.best_levels(rows, [each.tolist() for each in ancestors], k, most, wildcard)
    if not good:
        with pytest.raises(InputError, match="no level of the hierarchies"):
            disclosure.best_levels(codes, records, ancestors, k, most, wildcard)
        return
    node = disclosure.best_levels(codes, records, ancestors, k, most, wildcard)
    losses = {at: found for found, at in good}
    assert losses[node] <= good[0][0] + 1e-9


@given(data=st.data(), size=st.integers(1, 8), least=st.sampled_from([1.0, 3.0, 6.0]))
def test_areas_are_raised_with_their_siblings(data, size, least):
    ancestors = data.draw(hierarchies(size))
    population = np.array(data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)), dtype=np.float64)
    wanted = naive.populated_levels(ancestors.tolist(), population.tolist(), least)
    if wanted is None:
        with pytest.raises(InputError, match="areas of the highest level"):
            disclosure.populated_levels(ancestors, population, least)
        return
    level = disclosure.populated_levels(ancestors, population, least)
    assert level.tolist() == wanted
    for at in np.unique(level):
        for own in np.unique(ancestors[level == at, at]):
            assert population[ancestors[:, at] == own].sum() >= least


def test_too_many_nodes_are_refused():
    ancestors = [np.zeros((1, 11), dtype=np.int64)] * 5
    with pytest.raises(InputError, match="give some columns a level"):
        disclosure.best_levels(np.zeros((1, 5), dtype=np.int64), np.ones(1), ancestors, 2, 0.0)
    many = np.lib.stride_tricks.as_strided(np.zeros((1, 5), dtype=np.int64), (10**6, 5), (0, 8))  # takes no memory
    with pytest.raises(InputError, match="1,000,000 combinations of values, are too many to try"):
        disclosure.best_levels(many, np.ones(10**6), [each[:, :8] for each in ancestors], 2, 0.0)


def test_few_nodes_of_a_large_lattice_are_tried(monkeypatch):
    """In the order of loss alone all nodes would be."""
    rng, tried = np.random.default_rng(0), []
    codes, ancestors = rng.integers(0, 64, (400, 5)), [np.arange(64)[:, None] >> np.arange(0, 7, 2)] * 5
    count = disclosure.key_frequencies
    monkeypatch.setattr(disclosure, "key_frequencies", lambda *given: tried.append(1) or count(*given))
    with pytest.raises(InputError, match="no level"):
        disclosure.best_levels(codes, np.ones(400), ancestors, 401, 0.0)
    assert len(tried) == 1
    tried.clear()
    node = disclosure.best_levels(codes, np.ones(400), ancestors, 4, 0.1)
    assert max(node) > 0 and len(tried) < 150 < 4**5
