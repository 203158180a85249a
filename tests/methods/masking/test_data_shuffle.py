from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from anonpipe.methods.masking._data_shuffle import normal_correlation
from anonpipe.moments import Moments
from tests.in_memory import mask
from tests.methods.masking.tables import KEY, correlated, run, split_tables, tables
from tests.naive import mask as naive


@pytest.mark.parametrize("tied", [False, True])
def test_shuffling_given_a_column_is_that_of_the_twin(tied):
    features, parts = correlated(40, 2), [13, 27]
    if tied:
        features[:, 0] = np.sign(features[:, 0])
    new = run(features, "data_shuffle", parts, conditioning=(0,))
    draws = naive.shuffled_order(features.tolist(), parts, KEY, 0)
    ranked = sorted(range(40), key=lambda i: draws[i])
    wanted = np.empty(40)
    wanted[ranked] = sorted(features[:, 1])
    assert np.array_equal(new, np.column_stack([features[:, 0], wanted]))


@given(case=split_tables(), data=st.data())
@settings(max_examples=80, deadline=None)
def test_column_keeps_exactly_its_values_kept_one_its_places(case, data):
    features, parts = case
    kept = tuple(data.draw(st.sets(st.integers(0, features.shape[1] - 1), max_size=features.shape[1] - 1)))
    masked = run(features, "data_shuffle", parts, conditioning=kept)
    assert np.array_equal(np.sort(masked, axis=0), np.sort(features, axis=0))
    assert np.array_equal(masked[:, kept], features[:, kept])


def test_rank_correlations_are_kept_and_link_to_record_is_cut():
    features = np.exp(correlated(20_000, 3) / 10)
    masked = mask(features, "data_shuffle", rng=np.random.default_rng(3), partitions=[9_000, 11_000])
    assert np.abs(spearmanr(features)[0] - spearmanr(masked)[0]).max() < 0.04
    own = [abs(spearmanr(features[:, j], masked[:, j])[0]) for j in range(3)]
    assert max(own) < 5.5 / np.sqrt(20_000)


def test_given_kept_columns_new_values_say_nothing_of_old():
    features = correlated(20_000, 3)
    masked = mask(features, "data_shuffle", rng=np.random.default_rng(4), conditioning=(0,))
    old, new = (p[:, 1] - np.polyval(np.polyfit(p[:, 0], p[:, 1], 1), p[:, 0]) for p in (features, masked))
    assert abs(np.corrcoef(old, new)[0, 1]) < 5.5 / np.sqrt(20_000)
    assert abs(spearmanr(features[:, :2])[0] - spearmanr(masked[:, :2])[0]) < 0.04


def test_a_kept_column_with_ties_keeps_its_correlation():
    rng = np.random.default_rng(5)
    hidden, other = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 20_000).T
    features = np.column_stack([np.sign(hidden), other])
    masked = mask(features, "data_shuffle", rng=rng, conditioning=(0,))
    assert abs(spearmanr(features)[0] - spearmanr(masked)[0]) < 0.05


@given(features=tables(least=3))
@settings(max_examples=60, deadline=None)
def test_the_normal_correlation_is_one(features):
    ranks = np.argsort(np.argsort(features, axis=0), axis=0).astype(float)
    found = normal_correlation(Moments.of(ranks).scatter)
    assert np.allclose(np.diag(found), 1) and np.linalg.eigvalsh(found)[0] > -1e-8
    assert np.abs(found).max() <= 1 + 1e-8


def test_an_impossible_matrix_is_repaired():
    """These rank correlations are possible, and their normal ones are not."""
    ranks = np.array([[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1.0]])
    assert np.linalg.eigvalsh(2 * np.sin(np.pi / 6 * ranks) + np.diag([0.0, 0, 0]))[0] < 0
    found = normal_correlation(ranks)
    assert np.allclose(found, 1.5 * np.eye(3) - 0.5) and np.allclose(np.diag(found), 1)
