import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import class_disclosure
from tests.methods.grouping.classed import class_problems, run
from tests.naive import spanning_tree as naive


@settings(deadline=None)
@given(class_problems(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))
def test_groups_keep_both_limits_or_nothing_was_cut(problem, t):
    features, k, classes, shares = problem
    labels = run("mst_t_close", features, k, classes, shares, t=t)
    assert np.bincount(labels).min() >= k
    if labels.max() > 0:
        assert class_disclosure(labels, classes, shares).largest_total_variation <= t + 1e-9


@settings(deadline=None, max_examples=80)
@given(class_problems(most_rows=25), st.sampled_from([0.0, 0.1, 0.2, 0.25, 1 / 3, 0.5, 1.0]), st.booleans())
def test_same_as_the_naive_twin(problem, t, tied):
    features, k, classes, shares = problem
    features = np.round(features * 4) if tied else features
    expected = naive.mst_t_close(features, k, classes, shares, t)
    assert (run("mst_t_close", features, k, classes, shares, t=t) == expected).all()


@settings(deadline=None, max_examples=40)
@given(class_problems())
def test_any_t_is_mst(problem):
    features, k, classes, shares = problem
    assert (run("mst_t_close", features, k, classes, shares, t=1.0) == run("mst", features, k)).all()


def test_nothing_is_cut_where_the_whole_is_too_far():
    features = np.arange(20.0)[:, None]
    classes = np.arange(20) % 2
    assert run("mst_t_close", features, 2, classes, np.array([0.9, 0.1]), t=0.3).max() == 0
    assert run("mst_t_close", features, 2, classes, np.array([0.5, 0.5]), t=0.3).max() > 0


@pytest.mark.parametrize("t", [-0.1, 1.1, np.nan])
def test_wrong_t_is_refused(t):
    with pytest.raises(ValueError, match="give a number from 0 to 1"):
        run("mst_t_close", np.zeros((4, 1)), 2, np.zeros(4, dtype=int), t=t)
