import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.grouping import information_loss
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.methods.grouping.twins import assert_same, assert_same_on_plain_tables, run, whole_numbers
from tests.naive import mdav_family as naive


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=60))
def test_same_as_the_naive_twin_with_ties(problem):
    features, k = problem
    assert_same("mdav_1", naive.mdav_1, whole_numbers(features), k)


def test_same_as_the_naive_twin():
    assert_same_on_plain_tables("mdav_1", naive.mdav_1)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    sizes = np.bincount(run("mdav_1", features, k))
    assert sizes.sum() == len(features)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k or k == 1
    assert len(sizes) == len(features) // k


@pytest.mark.parametrize(("k", "loss"), [(3, 16.93258762), (4, 19.54578612), (5, 22.46128236), (10, 33.19235838)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run("mdav_1", features, k)) == pytest.approx(loss, abs=1e-8)


def test_published_figures():
    features = tarragona()
    for k, published in [(3, 16.93258762), (4, 19.54578612), (5, 22.46128236), (10, 33.19235838)]:
        assert information_loss(features, run("mdav_1", features, k)) == pytest.approx(published, abs=1e-8)


def test_last_records_join_the_nearest_groups():
    # 5 and 12 form the last group; 16 is nearer to 20.5 than to 8.5.
    features = np.array([[0.0], [1.0], [20.0], [21.0], [5.0], [12.0], [16.0]])
    assert run("mdav_1", features, 2).tolist() == [0, 0, 1, 1, 2, 2, 1]
    assert run("mdav", features, 2).tolist() == [0, 0, 1, 1, 2, 2, 2]
