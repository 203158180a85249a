import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import cluster
from anonpipe.methods.grouping._partitional import fill_small
from tests.methods.grouping.data import grouping_problems
from tests.naive import cluster as naive


def run(features, k, seed=0, **options):
    return cluster(features, k, "kmeans", rng=np.random.default_rng(seed), **options)


@settings(deadline=None, max_examples=40)
@given(grouping_problems(), st.integers(0, 3))
def test_sizes(problem, seed):
    features, k = problem
    before = features.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = run(features, k, seed)
    sizes = np.bincount(labels)
    assert sizes.sum() == len(features)
    assert sizes.min() >= k
    assert len(sizes) == len(features) // k
    assert (features == before).all()


@settings(deadline=None, max_examples=100)
@given(grouping_problems(most_rows=40), st.integers(0, 2**32 - 1))
def test_fill_like_the_naive_twin(problem, seed):
    features, k = problem
    rng = np.random.default_rng(seed)
    clusters = len(features) // k
    # Skewed sizes, some clusters empty.
    assigned = (rng.random(len(features)) ** 3 * clusters).astype(np.int64)
    centres = rng.normal(size=(clusters, features.shape[1]))
    # Noise keeps ties out, which the means' last bits would decide.
    features = features + rng.normal(size=features.shape)
    expected = naive.fill_small(features, k, assigned, centres)
    fill_small(features, np.arange(len(features)), k, assigned, centres.copy())
    assert (assigned == expected).all()


def test_fill_breaks_ties_by_row():
    features = np.array([[1.0], [1.0], [1.0], [0.0], [1.0]])
    rows = np.array([4, 2, 0, 3, 1])
    assigned = np.array([0, 0, 0, 1, 0])
    fill_small(features, rows, 2, assigned, np.zeros((2, 1)))
    assert assigned.tolist() == [0, 0, 1, 1, 0]


def test_seed_decides():
    features = np.random.default_rng(0).normal(size=(500, 3))
    assert (run(features, 5, seed=1) == run(features, 5, seed=1)).all()
    assert (run(features, 5, seed=1) != run(features, 5, seed=2)).any()


def test_blocks_do_not_mix():
    features = np.random.default_rng(0).normal(size=(1000, 3))
    labels = run(features, 5, block_rows=100)
    sizes = np.bincount(labels)
    assert sizes.min() >= 5
    assert len(sizes) == 200


def test_iterations_are_checked():
    with pytest.raises(ValueError, match="iterations is 0"):
        run(np.zeros((4, 1)), 2, iterations=0)
