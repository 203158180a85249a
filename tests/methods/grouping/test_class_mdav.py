import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import class_disclosure, information_loss
from tests.methods.grouping.classed import class_problems, diabetes, run
from tests.methods.grouping.data import standardized
from tests.naive import classes as naive


@settings(deadline=None)
@given(class_problems())
def test_sizes(problem):
    features, k, classes, shares = problem
    sizes = np.bincount(run("class_mdav", features, k, classes, shares))
    assert (sizes[:-1] == k).all()
    assert k <= sizes[-1] < 2 * k


@settings(deadline=None, max_examples=80)
@given(class_problems(), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_same_as_the_naive_twin_with_ties(problem, alpha):
    features, k, classes, shares = problem
    features = np.round(features * 4)
    expected = naive.class_mdav(features, k, classes, shares, alpha)
    assert (run("class_mdav", features, k, classes, shares, alpha=alpha) == expected).all()


@pytest.mark.parametrize("rows", [1, 3, 5, 9, 10, 80])
@pytest.mark.parametrize("width", [1, 4, 50])
def test_same_as_the_naive_twin(rows, width):
    rng = np.random.default_rng(rows)
    features, classes = rng.normal(size=(rows, width)), rng.integers(0, 3, rows)
    shares = np.array([0.2, 0.3, 0.5])
    for k in (1, 2, 3, 5):
        if k <= rows:
            expected = naive.class_mdav(features, k, classes, shares, 0.5)
            assert (run("class_mdav", features, k, classes, shares) == expected).all()


def test_distance_alone_is_mdav_generic():
    rng = np.random.default_rng(3)
    features, classes = rng.normal(size=(100, 4)), rng.integers(0, 3, 100)
    assert (run("class_mdav", features, 4, classes, alpha=1.0) == run("mdav_generic", features, 4)).all()


def test_diabetes_classes_mix_at_a_price():
    features, classes = diabetes()
    features = standardized(features)
    plain, mixed = run("mdav", features, 5), run("class_mdav", features, 5, classes)
    assert class_disclosure(plain, classes).homogeneous_share > 0.3
    assert class_disclosure(mixed, classes).homogeneous_share < 0.15
    assert class_disclosure(mixed, classes).chi_square < 0.3 * class_disclosure(plain, classes).chi_square
    assert information_loss(features, plain) < information_loss(features, mixed) < 40


def test_wrong_alpha_is_refused():
    with pytest.raises(ValueError, match=r"alpha is 1\.5"):
        run("class_mdav", np.zeros((4, 1)), 2, np.zeros(4, dtype=int), alpha=1.5)
