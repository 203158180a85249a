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
    assert_same("cbfs", naive.cbfs, whole_numbers(features), k)


def test_same_as_the_naive_twin():
    assert_same_on_plain_tables("cbfs", naive.cbfs)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    sizes = np.bincount(run("cbfs", features, k))
    assert sizes.sum() == len(features)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k or k == 1
    assert len(sizes) == len(features) // k


@pytest.mark.parametrize(("k", "loss"), [(3, 16.96606768), (4, 19.73002464), (5, 22.81849636), (10, 33.21542203)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run("cbfs", features, k)) == pytest.approx(loss, abs=1e-8)
