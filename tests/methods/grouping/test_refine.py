from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import AnonpipeError
from anonpipe.methods.grouping import cluster, information_loss, refine
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import cluster as naive
from tests.naive import refine as steps


def mdav(features, k, **options):
    return cluster(features, k, "mdav", rng=np.random.default_rng(0), **options)


def arbitrary_labels(rng, rows, k):
    """Groups of k to many records, in no order that has to do with the points."""
    cuts = [0]
    while rows - cuts[-1] >= 2 * k:
        cuts.append(cuts[-1] + int(rng.integers(k, min(4 * k, rows - cuts[-1] - k) + 1)))
    labels = np.searchsorted(cuts, np.arange(rows), side="right").astype(np.int64) - 1
    return labels[rng.permutation(rows)]


@settings(deadline=None, max_examples=150)
@given(
    grouping_problems(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["quick", "normal"]),
    st.sampled_from([1, 30, 4000]),
)
def test_never_worse_and_never_under_k(problem, seed, effort, block_rows):
    features, k = problem
    labels = arbitrary_labels(np.random.default_rng(seed), len(features), k)
    before, given_labels = features.copy(), labels.copy()
    refined = refine(features, labels, k, effort=effort, block_rows=block_rows)
    sizes = np.bincount(refined)
    assert sizes.sum() == len(features)
    assert k <= sizes.min() <= sizes.max() < 2 * k
    worst = naive.within_scatter(features, labels)
    assert naive.within_scatter(features, refined) <= worst * (1 + 1e-9) + 1e-12
    assert (features == before).all()
    assert (labels == given_labels).all()
    assert (refine(features, labels, k, effort=effort, block_rows=block_rows) == refined).all()


def test_finds_the_obvious():
    features = np.repeat([[0.0], [10.0], [20.0]], 4, axis=0) + np.arange(12)[:, None] * 0.01
    labels = np.tile([0, 1, 2], 4)
    refined = refine(features, labels, 4)
    assert len(set(refined[:4])) == len(set(refined[4:8])) == len(set(refined[8:])) == 1
    assert refined.max() == 2


def test_dissolves_a_group_between_two():
    features = np.array([[-10.0], [-10.0], [10.0], [10.0], [-9.0], [9.0]])
    refined = refine(features, np.array([0, 0, 1, 1, 2, 2]), 2)
    assert refined.tolist() == [0, 0, 1, 1, 0, 1]


def test_splits_what_is_large_enough_for_two():
    features = np.random.default_rng(0).normal(size=(600, 3))
    one = refine(features, np.zeros(600, np.int64), 4)
    assert np.bincount(one).max() < 8
    assert information_loss(features, one) < information_loss(features, mdav(features, 4))


def test_begins_a_group_of_records_to_spare():
    features = np.array([[0.0], [0.1], [5.0], [10.0], [10.1], [5.1]])
    assert refine(features, np.array([0, 0, 0, 1, 1, 1]), 2).tolist() == [0, 0, 1, 2, 2, 1]


def test_every_record_alone_where_k_is_one():
    assert refine(np.array([[1.0], [1.0], [2.0]]), np.zeros(3, np.int64), 1).tolist() == [0, 1, 2]


@settings(deadline=None, max_examples=40)
@given(grouping_problems(most_rows=60), st.integers(0, 2**32 - 1))
def test_ends_where_no_step_lowers_the_scatter(problem, seed):
    """Of the tables drawn here, all groups but of the largest are near each other: every pair is a candidate."""
    features, k = problem
    k = max(k, 5)
    if len(features) < 2 * k:
        return
    labels = refine(features, arbitrary_labels(np.random.default_rng(seed), len(features), k), k)
    groups = [np.flatnonzero(labels == g).tolist() for g in range(labels.max() + 1)]
    slack = 1e-9 * naive.within_scatter(features, np.zeros(len(features), np.int64)) + 1e-12
    for a, b in combinations(range(len(groups)), 2):
        assert min(steps.all_steps(features, groups, k, a, b))[0] > -slack


def test_more_effort_is_worth_it():
    features = np.random.default_rng(0).normal(size=(500, 5)) ** 3
    labels = mdav(features, 5)
    quick, normal = (information_loss(features, refine(features, labels, 5, effort)) for effort in ("quick", "normal"))
    assert normal < quick < 0.95 * information_loss(features, labels)


@pytest.mark.parametrize(("k", "loss"), [(3, 14.95), (4, 17.51), (5, 20.60), (10, 30.80)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, refine(features, mdav(features, k), k)) <= loss


def test_better_than_mdav_over_the_whole_table():
    features = np.random.default_rng(0).normal(size=(6000, 6)) ** 3
    whole = information_loss(features, mdav(features, 5))
    refined = information_loss(features, refine(features, mdav(features, 5, block_rows=1000), 5))
    assert refined < 0.95 * whole


def test_large_groups_cost_no_quadratic_time():
    features = np.random.default_rng(0).normal(size=(40_000, 2))
    labels = np.r_[np.zeros(20_000, np.int64), np.ones(19_995, np.int64), np.full(5, 2)]
    sizes = np.bincount(refine(features, labels, 5))
    assert sizes.min() >= 5


def test_no_records():
    assert refine(np.empty((0, 3)), np.empty(0, np.int64), 5).tolist() == []


def test_wrong_input_is_refused():
    features = np.zeros((6, 1))
    with pytest.raises(AnonpipeError, match=r"1 of 2 groups under k=3"):
        refine(features, np.array([0, 0, 1, 1, 1, 1]), 3)
    with pytest.raises(AnonpipeError, match="without a group"):
        refine(features, np.array([0, 0, -1, 0, 0, 0]), 3)
    with pytest.raises(AnonpipeError, match="shape"):
        refine(features, np.zeros(5, np.int64), 3)
    with pytest.raises(ValueError, match=r"quick, normal$"):
        refine(features, np.zeros(6, np.int64), 3, effort="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NaN"):
        refine(np.full((6, 1), np.nan), np.zeros(6, np.int64), 3)
    with pytest.raises(ValueError, match="block_rows 0"):
        refine(features, np.zeros(6, np.int64), 3, block_rows=0)
