import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.methods.mixture import smoothed
from tests.naive import mixture as naive


@st.composite
def bounded_weights(draw):
    groups = draw(st.integers(1, 12))
    raw = np.array(draw(st.lists(st.floats(0, 1), min_size=groups, max_size=groups)))
    weights = (raw + 1e-12) / (raw + 1e-12).sum()
    return weights, draw(st.floats(0, 0.99)) / groups


@given(bounded_weights())
def test_laws(problem):
    weights, least = problem
    before = weights.copy()
    new = smoothed(weights, least)
    assert (weights == before).all()
    assert new.sum() == pytest.approx(1, abs=1e-12)
    assert (new >= least).all()
    if (weights >= least).all():
        assert new == pytest.approx(weights, abs=1e-15)
    else:
        assert new.min() == pytest.approx(least, abs=1e-12)
    order = np.argsort(weights, kind="stable")
    assert (np.diff(new[order]) >= -1e-15).all()


@given(bounded_weights())
def test_published_rule_is_the_printed_one(problem):
    weights, least = problem
    assert smoothed(weights, least) == pytest.approx(np.array(naive.bounded(weights, least * 1000, 1000)), abs=1e-12)


def test_a_weight_of_one_g_th_stays():
    weights = np.array([0.01, 0.25, 0.34, 0.4])
    assert smoothed(weights, 0.1)[1] == pytest.approx(0.25, abs=1e-15)
