"""Principal components and smoothed weights of a mixture."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.methods.mixture import principal_components, smoothed
from anonpipe.moments import Moments
from tests.methods.mixture.data import table
from tests.methods.mixture.in_memory import gaussian_mixture
from tests.naive import mixture as naive


def test_as_few_components_as_hold_the_share():
    rng = np.random.default_rng(0)
    features = (
        rng.normal(size=(500, 30)) * np.r_[5.0, 3.0, 2.0, np.full(27, 0.1)] @ np.linalg.qr(rng.normal(size=(30, 30)))[0]
    )
    for share in (0.5, 0.9, 0.99, 1.0):
        found = principal_components(Moments.of(features), share)
        scores = found.scores(features)
        variances = np.sort(np.linalg.eigvalsh(np.cov(features.T, ddof=0)))[::-1]
        number = scores.shape[1]
        assert variances[:number].sum() / variances.sum() >= share - 1e-9
        assert number == 1 or variances[: number - 1].sum() / variances.sum() < share
        assert np.atleast_2d(np.cov(scores.T, ddof=0)) == pytest.approx(np.diag(found.variances), abs=1e-9)
        assert found.variances.sum() == pytest.approx(scores.var(axis=0).sum())
        assert np.abs(scores.mean(axis=0)).max() < 1e-12


def test_collinear_and_constant_columns():
    features = table(100, 4, seed=1, kind="collinear")
    assert principal_components(Moments.of(features), 1.0).axes.shape == (4, 3)
    flat = principal_components(Moments.of(np.ones((10, 3))), 0.9)
    assert flat.scores(np.ones((10, 3))).tolist() == [[0.0]] * 10


def test_groups_of_the_scores():
    rng = np.random.default_rng(1)
    cluster = np.repeat([0, 1, 2], 100)
    directions = np.linalg.qr(rng.normal(size=(40, 3)))[0].T
    features = 15 * directions[cluster] + 0.3 * rng.normal(size=(300, 40))
    found = principal_components(Moments.of(features), 0.9)
    assert found.axes.shape[1] < 5
    labels = gaussian_mixture(found.scores(features), 50, rng=rng, most_groups=5)
    assert len(set(zip(labels.tolist(), cluster.tolist(), strict=True))) == 3


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
