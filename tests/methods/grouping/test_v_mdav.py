import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import information_loss
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.methods.grouping.twins import assert_same, assert_same_on_plain_tables, run, whole_numbers
from tests.naive import mdav_family as naive

GAMMAS = st.sampled_from([0.0, 0.2, 0.5, 1.1, 3.0])


@settings(deadline=None, max_examples=80)
@given(grouping_problems(most_rows=40), GAMMAS)
def test_same_as_the_naive_twin_with_ties(problem, gamma):
    features, k = problem
    assert_same("v_mdav", naive.v_mdav, whole_numbers(features), k, gamma=gamma)


@pytest.mark.parametrize("gamma", [0.2, 1.1])
def test_same_as_the_naive_twin(gamma):
    assert_same_on_plain_tables("v_mdav", naive.v_mdav, gamma=gamma)


@settings(deadline=None)
@given(grouping_problems(), GAMMAS)
def test_sizes(problem, gamma):
    features, k = problem
    sizes = np.bincount(run("v_mdav", features, k, gamma=gamma))
    assert sizes.sum() == len(features)
    assert sizes.min() >= k
    assert sizes.max() <= max(k, 3 * k - 2)
    if gamma == 0.0:
        assert sizes.max() < 2 * k or k == 1
        assert len(sizes) == len(features) // k


def test_groups_grow_where_a_record_is_near_them_and_far_from_others():
    rng = np.random.default_rng(0)
    centres = np.repeat(100.0 * np.arange(6), 4)
    features = np.column_stack([centres, np.zeros(24)]) + rng.normal(size=(24, 2))
    grown = run("v_mdav", features, 3, gamma=1.1)
    assert (np.bincount(grown) == 4).all()
    assert (np.bincount(run("v_mdav", features, 3, gamma=0.0)) == 3).all()
    assert information_loss(features, grown) < 0.1 * information_loss(features, run("v_mdav", features, 3, gamma=0.0))


def test_default_gamma():
    features = np.random.default_rng(1).normal(size=(200, 2))
    assert (run("v_mdav", features, 3) == run("v_mdav", features, 3, gamma=0.2)).all()


def test_a_record_as_near_as_gamma_allows_stays_out():
    features = np.array([0.0, 0.0, 1.0, 6.0, 6.0, 9.0, 9.0])[:, None]  # 1 is 1 from the group and 5 from the next
    labels = run("v_mdav", features, 2, gamma=0.2)
    assert (labels == naive.v_mdav(features, 2, gamma=0.2)).all()
    assert labels[2] != labels[0] == labels[1]


@pytest.mark.parametrize("gamma", [-0.1, np.inf, np.nan])
def test_wrong_gamma_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma is"):
        run("v_mdav", np.zeros((6, 1)), 2, gamma=gamma)


@pytest.mark.parametrize(("k", "loss"), [(3, 16.96295884), (4, 19.69400506), (5, 22.87783061), (10, 33.25267324)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run("v_mdav", features, k)) == pytest.approx(loss, abs=1e-8)
