"""Invariant post-randomisation: its matrix, its draws, and the covariance that is expected of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.methods.masking import MASKERS
from anonpipe.methods.masking._pram import transition_matrix
from anonpipe.moments import Moments
from tests.methods.masking.tables import run
from tests.naive import disclosure as naive

CATEGORIES = ((1,), (2, 3, 4))


@given(counts=st.lists(st.integers(1, 50), min_size=2, max_size=6), retain=st.floats(0.0, 0.99))
def test_the_matrix_keeps_frequencies_and_is_that_of_two_draws(counts, retain):
    shares = np.array(counts) / sum(counts)
    matrix = transition_matrix(shares, retain)
    assert np.allclose(matrix, naive.transition_matrix(shares.tolist(), retain))
    assert np.allclose(matrix.sum(axis=1), 1) and np.allclose(shares @ matrix, shares)
    assert (matrix >= 0).all()


def test_nobody_gets_a_category_that_nobody_has():
    matrix = transition_matrix(np.array([0.6, 0.4, 0.0]), 0.7)
    assert (matrix[:2, 2] == 0).all() and np.allclose(matrix[:2].sum(axis=1), 1)
    assert transition_matrix(np.ones(1), 0.5).tolist() == [[1.0]]


def _table(rows=3_000):
    rng = np.random.default_rng(4)
    number = rng.normal(size=rows)
    yes = np.where(rng.random(rows) < 0.3 + 0.3 * (number > 0), 1.0, -1.0)
    code = np.minimum(rng.integers(0, 5, rows), 2) * (yes > 0)
    three = np.where(np.arange(3) == code[:, None], 1.0, -1.0)
    return np.column_stack([number, yes, three])


@pytest.mark.parametrize("retain", [0.3, 0.8])
def test_draws_have_the_matrix_and_the_expected_moments(retain):
    features, times = _table(), 60
    expected = MASKERS["pram"].expect(Moments.of(features), retain=retain, categories=CATEGORIES)
    keys = (f"{at:032d}".encode() for at in range(times))
    tables = [run(features, "pram", [1_000, 2_000], key=key, retain=retain, categories=CATEGORIES) for key in keys]
    before = features[:, 2:].argmax(axis=1)
    shares = np.bincount(before) / len(before)
    found = np.zeros((3, 3))
    for made in tables:
        assert (np.abs(made[:, 1:]) == 1).all() and (made[:, 2:].sum(axis=1) == -1).all()
        np.add.at(found, (before, made[:, 2:].argmax(axis=1)), 1)
    matrix = transition_matrix(shares, retain)
    records = found.sum(axis=1, keepdims=True)
    assert (np.abs(found / records - matrix) <= 4.5 * np.sqrt(matrix * (1 - matrix) / records) + 1e-9).all()
    means = np.array([made.mean(axis=0) for made in tables])
    covariances = np.array([np.cov(made.T) for made in tables])
    for drawn, wanted, error in (
        (means, features.mean(axis=0), expected.mean_error),
        (covariances, expected.covariance, expected.covariance_error),
    ):
        assert (np.abs(drawn.mean(axis=0) - wanted) <= 5 * drawn.std(axis=0) / np.sqrt(times) + 1e-9).all()
        assert (drawn.std(axis=0) <= 1.25 * error).all()
