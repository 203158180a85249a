import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import cluster
from anonpipe.methods.grouping._fill_kernel import fill_small
from tests.methods.grouping.data import grouping_problems
from tests.naive import cluster as naive


def run(points, k, seed=0, **options):
    return cluster(points, k, "kmeans", rng=np.random.default_rng(seed), **options)


@settings(deadline=None, max_examples=40)
@given(grouping_problems(), st.integers(0, 3))
def test_sizes(problem, seed):
    points, k = problem
    before = points.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = run(points, k, seed)
    sizes = np.bincount(labels)
    assert sizes.sum() == len(points)
    assert sizes.min() >= k
    assert len(sizes) == len(points) // k
    assert (points == before).all()


@settings(deadline=None, max_examples=100)
@given(grouping_problems(most_rows=40), st.integers(0, 2**32 - 1))
def test_fill_like_the_naive_twin(problem, seed):
    points, k = problem
    rng = np.random.default_rng(seed)
    clusters = len(points) // k
    # Skewed sizes, some clusters empty.
    assigned = (rng.random(len(points)) ** 3 * clusters).astype(np.int64)
    centres = rng.normal(size=(clusters, points.shape[1]))
    # Noise keeps ties out, which the means' last bits would decide.
    points = points + rng.normal(size=points.shape)
    expected = naive.fill_small(points, k, assigned, centres)
    fill_small(points, np.arange(len(points)), k, assigned, centres.copy())
    assert (assigned == expected).all()


def test_fill_breaks_ties_by_row():
    points = np.array([[1.0], [1.0], [1.0], [0.0], [1.0]])
    rows = np.array([4, 2, 0, 3, 1])
    assigned = np.array([0, 0, 0, 1, 0])
    fill_small(points, rows, 2, assigned, np.zeros((2, 1)))
    assert assigned.tolist() == [0, 0, 1, 1, 0]


def test_seed_decides():
    points = np.random.default_rng(0).normal(size=(500, 3))
    assert (run(points, 5, seed=1) == run(points, 5, seed=1)).all()
    assert (run(points, 5, seed=1) != run(points, 5, seed=2)).any()


def test_blocks_do_not_mix():
    points = np.random.default_rng(0).normal(size=(1000, 3))
    labels = run(points, 5, block_rows=100)
    sizes = np.bincount(labels)
    assert sizes.min() >= 5
    assert len(sizes) == 200


def test_iterations_are_checked():
    with pytest.raises(ValueError, match="iterations is 0"):
        run(np.zeros((4, 1)), 2, iterations=0)
