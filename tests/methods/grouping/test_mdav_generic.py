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
    assert_same("mdav_generic", naive.mdav_generic, whole_numbers(features), k)


def test_same_as_the_naive_twin():
    assert_same_on_plain_tables("mdav_generic", naive.mdav_generic)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    sizes = np.bincount(run("mdav_generic", features, k))
    assert sizes.sum() == len(features)
    assert (sizes[:-1] == k).all()
    assert k <= sizes[-1] < 2 * k


@pytest.mark.parametrize(("k", "loss"), [(3, 16.93258762), (4, 19.54596204), (5, 22.46185966), (10, 33.19288477)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run("mdav_generic", features, k)) == pytest.approx(loss, abs=1e-8)
