import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.grouping import information_loss
from tests.methods.grouping.data import grouping_problems
from tests.naive import cluster as naive


@settings(deadline=None, max_examples=50)
@given(grouping_problems())
def test_share_of_the_scatter(problem):
    features, k = problem
    labels = np.arange(len(features)) // k
    total = naive.within_scatter(features, np.zeros(len(features), int))
    expected = 100 * naive.within_scatter(features, labels) / total if total > 1e-20 else 0.0
    assert information_loss(features, labels) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_ends():
    features = np.array([[1e9], [1e9 + 1], [1e9 + 2]])
    assert information_loss(features, np.zeros(3, int)) == pytest.approx(100)
    assert information_loss(features, np.arange(3)) == 0
    assert information_loss(np.ones((4, 2)), np.zeros(4, int)) == 0
    assert information_loss(np.empty((0, 2)), np.empty(0, int)) == 0


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="shape"):
        information_loss(np.zeros((3, 1)), np.zeros(2, int))
    with pytest.raises(ValueError, match="negative"):
        information_loss(np.zeros((3, 1)), np.array([0, -1, 0]))
