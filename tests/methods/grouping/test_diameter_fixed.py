import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.grouping import information_loss
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.methods.grouping.twins import assert_same, assert_same_on_plain_tables, run, whole_numbers
from tests.naive import mdav_family as naive


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=40))
def test_same_as_the_naive_twin_with_ties(problem):
    features, k = problem
    assert_same("diameter_fixed", naive.diameter_fixed, whole_numbers(features), k)


def test_same_as_the_naive_twin():
    assert_same_on_plain_tables("diameter_fixed", naive.diameter_fixed)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    sizes = np.bincount(run("diameter_fixed", features, k))
    assert sizes.sum() == len(features)
    assert k <= sizes.min()
    assert sizes.max() < 2 * k or k == 1


@pytest.mark.parametrize(("k", "loss"), [(3, 16.98336107), (4, 19.53624759), (5, 22.52711396), (10, 33.18343058)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run("diameter_fixed", features, k)) == pytest.approx(loss, abs=1e-8)


def test_last_records_join_one_by_one():
    features = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0], [3.5], [7.0]])
    assert run("diameter_fixed", features, 3).tolist() == [1, 1, 1, 0, 0, 0, 1, 0]
    assert run("md", features, 3).tolist() == [1, 1, 1, 0, 0, 0, 1, 1]
