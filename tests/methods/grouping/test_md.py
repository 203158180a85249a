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
    assert_same("md", naive.md, whole_numbers(features), k)


def test_same_as_the_naive_twin():
    assert_same_on_plain_tables("md", naive.md)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    sizes = np.bincount(run("md", features, k))
    assert sizes.sum() == len(features)
    # At most one group is larger than k.
    assert sizes.min() >= k
    assert (sizes > k).sum() <= 1
    assert sizes.max() < 2 * k or k == 1


@pytest.mark.parametrize(("k", "loss"), [(3, 16.98336107), (4, 19.53640728), (5, 22.52724449), (10, 33.18343058)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run("md", features, k)) == pytest.approx(loss, abs=1e-8)


def test_the_record_further_out_chooses_first():
    # Both ends want the record in the middle; the mean lies to the left.
    features = np.array([[0.0], [4.0], [0.0], [8.0], [0.0]])
    assert run("md", features[[0, 1, 3]], 2).tolist() == [0, 0, 0]
    features = np.array([[0.0, 0.0], [4.0, 0.0], [8.0, 0.0], [1.0, 3.0]])
    assert run("md", features, 2).tolist() == [1, 0, 0, 1]
    assert run("md", features * [-1.0, 1.0] + [8.0, 0.0], 2).tolist() == [1, 0, 0, 1]


def test_a_larger_table_ends():
    features = np.random.default_rng(0).normal(size=(5_000, 3))
    sizes = np.bincount(run("md", features, 7))
    assert (np.sort(sizes)[:-1] == 7).all()
