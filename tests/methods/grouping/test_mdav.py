import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.grouping import cluster, information_loss
from tests.methods.grouping.data import grouping_problems, principal_blocks, tarragona
from tests.naive import mdav_family as naive


def run(features, k, block_rows=None):
    return cluster(features, k, "mdav", rng=np.random.default_rng(0), block_rows=block_rows)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    sizes = np.bincount(run(features, k))
    assert sizes.sum() == len(features)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k or k == 1
    if len(features) % (2 * k) >= k:
        assert (sizes[:-1] == k).all()


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=60))
def test_same_as_the_naive_twin_with_ties(problem):
    features, k = problem
    # Sums of whole numbers are exact in any order, so that both see the same ties.
    features = np.round(features * 4)
    assert (run(features, k) == naive.mdav(features, k)).all()


@pytest.mark.parametrize("rows", [2, 3, 5, 6, 9, 10, 50, 123])
@pytest.mark.parametrize("width", [1, 2, 10])
def test_same_as_the_naive_twin(rows, width):
    features = np.random.default_rng(rows).normal(size=(rows, width))
    for k in (2, 3, 5):
        if k <= rows:
            assert (run(features, k) == naive.mdav(features, k)).all()


def test_ties_go_to_the_lower_row():
    features = np.array([[1.0], [-1.0], [1.0], [-1.0], [0.0], [0.0]])
    assert run(features, 2).tolist() == [0, 1, 0, 1, 2, 2]
    assert run(np.zeros((7, 2)), 3).tolist() == [0, 0, 0, 1, 1, 1, 0]


def test_last_records():
    near, far = np.array([[0.0], [1.0], [20.0], [21.0]]), np.array([[2.0]])
    assert run(np.vstack([near, far]), 2).tolist() == [1, 1, 0, 0, 1]
    assert run(np.vstack([near, far, far]), 2).tolist() == [1, 1, 0, 0, 2, 2]


@pytest.mark.parametrize(("k", "loss"), [(3, 16.93258762), (4, 19.54578612), (5, 22.46128236), (10, 33.19288477)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run(features, k)) == pytest.approx(loss, abs=1e-8)


def test_the_threshold_is_not_that_of_mdav_generic():
    features = np.random.default_rng(3).normal(size=(44, 2))
    generic = naive.mdav_generic(features, 5)
    assert (cluster(features, 5, "mdav_generic", rng=np.random.default_rng(0)) == generic).all()
    assert (run(features, 5) != generic).any()


@pytest.mark.parametrize("seed", range(3))
def test_rows_may_come_in_any_order(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(5_003, 4))
    order = rng.permutation(len(features))
    labels, shuffled = run(features, 4), run(features[order], 4)
    assert (labels[order] == shuffled).all()


def test_blocks_are_grouped_each_by_itself():
    features = np.random.default_rng(1).normal(size=(1003, 4))
    labels = run(features, 5, block_rows=100)
    blocks = principal_blocks(features, 100)
    for block in range(blocks.max() + 1):
        inside = np.flatnonzero(blocks == block)
        own = labels[inside]
        assert (own - own.min() == run(features[inside], 5)).all()
        assert not np.isin(labels[blocks != block], own).any()


def test_many_columns_and_large_offset():
    features = np.random.default_rng(2).normal(size=(60, 80))
    assert (run(features, 4) == naive.mdav(features, 4)).all()
    assert (run(features + 1e6, 4) == run(features, 4)).all()


def test_blocks_under_k_are_refused():
    with pytest.raises(ValueError, match="at least 10"):
        cluster(np.zeros((20, 1)), 5, "mdav", rng=np.random.default_rng(0), block_rows=4)
