import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.methods.mixture import RULES, constrained, smoothed
from tests.naive import mixture as naive


@st.composite
def bounded_weights(draw):
    groups = draw(st.integers(1, 12))
    raw = np.array(draw(st.lists(st.floats(0, 1), min_size=groups, max_size=groups)))
    weights = (raw + 1e-12) / (raw + 1e-12).sum()
    return weights, draw(st.floats(0, 0.99)) / groups


@given(bounded_weights(), st.sampled_from(sorted(RULES)))
def test_laws(problem, rule):
    weights, least = problem
    before = weights.copy()
    new = RULES[rule](weights, least)
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


@given(bounded_weights(), st.integers(0, 2**32 - 1))
def test_constrained_weights_are_the_most_likely(problem, seed):
    weights, least = problem
    best = constrained(weights, least)
    other = np.random.default_rng(seed).dirichlet(np.ones(len(weights)))
    other = least + (1 - least * len(weights)) * other

    def likelihood(w):
        return float((weights * np.log(np.maximum(w, 1e-300))).sum())

    assert likelihood(best) >= likelihood(other) - 1e-12
    assert likelihood(best) >= likelihood(smoothed(weights, least)) - 1e-12


def test_a_weight_of_one_g_th_stays():
    weights = np.array([0.01, 0.25, 0.34, 0.4])
    assert smoothed(weights, 0.1)[1] == pytest.approx(0.25, abs=1e-15)
    assert constrained(weights, 0.1)[1] < 0.24
