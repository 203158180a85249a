import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.grouping import information_loss
from tests.methods.grouping.classed import run
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import spanning_tree as naive


@settings(deadline=None, max_examples=40)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    before = features.copy()
    sizes = np.bincount(run("mst_d", features, k))
    assert sizes.min() >= k
    assert sizes.max() <= max(k, 2 * k - 1)
    assert (features == before).all()


@pytest.mark.parametrize("rows", [1, 2, 5, 9, 10, 15, 60])
@pytest.mark.parametrize("width", [1, 2, 50])
def test_same_as_the_naive_twin(rows, width):
    features = np.random.default_rng(rows).normal(size=(rows, width))
    for k in (1, 2, 3, 5):
        if k <= rows:
            assert (run("mst_d", features, k) == naive.mst_d(features, k)).all()


@pytest.mark.parametrize(("k", "published"), [(3, 16.63), (4, 19.66), (5, 24.50), (10, 38.58)])
def test_published_figures(k, published):
    features = tarragona()
    assert information_loss(features, run("mst_d", features, k)) == pytest.approx(published, rel=0.005)
