import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import cluster, information_loss
from anonpipe.methods.grouping._partitional import furthest_pair, merge_until_large
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import hierarchical as naive


def run(features, k):
    return cluster(features, k, "k_ward", rng=np.random.default_rng(0))


def sets_of(labels):
    return {frozenset(np.flatnonzero(labels == g).tolist()) for g in range(labels.max() + 1)}


@settings(deadline=None, max_examples=80)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    before = features.copy()
    labels = run(features, k)
    sizes = np.bincount(labels)
    assert len(labels) == len(features)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    assert (features == before).all()
    assert (run(features, k) == labels).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 35), st.sampled_from([1, 2, 3, 50]), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_same_as_the_naive_twin(rows, width, k, seed):
    # Without ties, chains of nearest neighbours and the search of all pairs must agree.
    features = np.random.default_rng(seed).normal(size=(max(rows, k), width)) ** 3
    assert sets_of(run(features, k)) == {frozenset(group) for group in naive.k_ward(features, k)}


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_sizes_where_the_number_of_groups_changes(k, times):
    for rows in (times * k, (times + 1) * k - 1):
        features = np.random.default_rng(rows).normal(size=(rows, 3))
        assert sets_of(run(features, k)) == {frozenset(group) for group in naive.k_ward(features, k)}


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=40))
def test_furthest_pair_with_ties(problem):
    features = np.round(problem[0] * 2)
    rows = np.arange(len(features))[:: -1 if len(features) % 2 else 1].copy()
    if len(features) < 2:
        return
    places = furthest_pair(features, rows)
    assert places == naive.furthest_pair([features[i] for i in rows], list(range(len(rows))))


def test_furthest_pair_far_from_zero():
    features = 1e9 + np.random.default_rng(1).normal(size=(300, 2))
    assert furthest_pair(features, np.arange(300)) == naive.furthest_pair(features, list(range(300)))


def test_two_large_groups_are_never_merged():
    # The two pairs at 0 are nearer to each other than the single record is to either.
    centres = np.array([[0.0, 0.1, 50.0]])
    into = np.array([0, 0, 2, 2, 4])
    merge_until_large(centres, np.array([2, 2, 1]), np.array([0, 2, 4]), 2, into)
    assert into.tolist() == [0, 0, 2, 2, 2]


def test_equal_records_form_many_groups():
    labels = run(np.zeros((101, 4)), 5)
    assert len(np.bincount(labels)) >= 12


def test_every_record_alone_at_one():
    assert len(set(run(np.random.default_rng(0).normal(size=(40, 2)), 1).tolist())) == 40


@pytest.mark.parametrize(("k", "loss"), [(3, 16.210911), (4, 20.238125), (5, 21.833512), (10, 36.728001)])
def test_reference_figures(k, loss):
    """Measured, not published."""
    features = tarragona()
    assert information_loss(features, run(features, k)) == pytest.approx(loss, abs=6e-6)
