import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from anonpipe.methods.grouping import information_loss
from anonpipe.methods.grouping._spanning_tree import shortest_tree
from tests.methods.grouping.classed import run
from tests.methods.grouping.data import grouping_problems
from tests.naive import spanning_tree as naive


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    before = features.copy()
    labels = run("mst", features, k)
    assert np.bincount(labels).min() >= k
    assert (features == before).all()
    assert (np.unique(labels, return_index=True)[1] == np.sort(np.unique(labels, return_index=True)[1])).all()


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=30))
def test_same_as_the_naive_twin_with_ties(problem):
    features, k = problem
    features = np.round(features * 4)
    assert (run("mst", features, k) == naive.mst(features, k)).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 10, 35])
@pytest.mark.parametrize("width", [1, 2, 50])
def test_same_as_the_naive_twin(rows, width):
    features = np.random.default_rng(rows).normal(size=(rows, width))
    for k in (1, 2, 3, 5):
        if k <= rows:
            assert (run("mst", features, k) == naive.mst(features, k)).all()


@settings(deadline=None, max_examples=60)
@given(grouping_problems())
def test_the_tree_is_as_short_as_that_of_another_library(problem):
    features, _ = problem
    parent, length, joined = shortest_tree(features)
    place = np.argsort(joined)
    assert parent[0] == -1
    assert joined[0] == 0
    assert (place[parent[joined[1:]]] < place[joined[1:]]).all()
    assert length[joined[1:]] == pytest.approx(np.linalg.norm(features - features[parent], axis=1)[joined[1:]])
    distances = cdist(features, features)
    # The other library takes 0 for "no edge".
    expected = minimum_spanning_tree(distances + 1e-3).sum() - 1e-3 * (len(features) - 1)
    assert length.sum() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_single_records_are_all_cut_apart():
    features = np.random.default_rng(0).normal(size=(40, 3))
    assert run("mst", features, 1).tolist() == list(range(40))


def test_clear_clusters_are_found_and_a_star_is_not_divided():
    rng = np.random.default_rng(1)
    centres = 100 * rng.normal(size=(6, 4))
    home = np.repeat(np.arange(6), [5, 6, 7, 8, 9, 10])
    features = centres[home] + rng.normal(size=(45, 4))
    labels = run("mst", features, 5)
    assert len(np.unique(np.column_stack([home, labels]), axis=0)) == labels.max() + 1 == 6
    # Every edge hangs at the centre, so that no part but the centre's has two records.
    star = np.vstack([np.zeros(8), np.eye(8), -np.eye(8)])
    assert run("mst", star, 2).max() == 0


def test_groups_have_no_upper_limit():
    features = np.random.default_rng(2).normal(size=(3_000, 5))
    labels = run("mst", features, 5)
    assert np.bincount(labels).max() > 9
    assert information_loss(features, labels) < 60
