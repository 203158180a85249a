import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.cluster import cluster, information_loss
from anonpipe.partition.blocks import principal_blocks
from tests.cluster.data import grouping_problems, tarragona
from tests.naive import cluster as naive


def run(points, k, block_rows=None):
    return cluster(points, k, "mdav", rng=np.random.default_rng(0), block_rows=block_rows)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    points, k = problem
    sizes = np.bincount(run(points, k))
    assert sizes.sum() == len(points)
    assert (sizes[:-1] == k).all()
    assert k <= sizes[-1] < 2 * k


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=60))
def test_same_as_the_naive_twin_with_ties(problem):
    points, k = problem
    # Sums of whole numbers are exact in any order, so that both see the same ties.
    points = np.round(points * 4)
    assert (run(points, k) == naive.mdav(points, k)).all()


@pytest.mark.parametrize("rows", [2, 3, 5, 6, 9, 10, 50, 123])
@pytest.mark.parametrize("width", [1, 2, 10])
def test_same_as_the_naive_twin(rows, width):
    points = np.random.default_rng(rows).normal(size=(rows, width))
    for k in (2, 3, 5):
        if k <= rows:
            assert (run(points, k) == naive.mdav(points, k)).all()


def test_ties_go_to_the_lower_row():
    points = np.array([[1.0], [-1.0], [1.0], [-1.0], [0.0], [0.0]])
    assert run(points, 2).tolist() == [0, 1, 0, 1, 2, 2]
    assert run(np.zeros((7, 2)), 3).tolist() == [0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(("k", "loss"), [(3, 16.932588), (4, 19.545962), (5, 22.46186), (10, 33.192885)])
def test_reference_figures(k, loss):
    points = tarragona()
    assert information_loss(points, run(points, k)) == pytest.approx(loss, abs=6e-6)


def test_the_older_variant_gives_other_figures():
    points = np.random.default_rng(3).normal(size=(44, 2))
    old, new = naive.mdav(points, 5, threshold=2), naive.mdav(points, 5)
    assert (run(points, 5) == new).all()
    assert (old != new).any()


def test_blocks_are_grouped_each_by_itself():
    points = np.random.default_rng(1).normal(size=(1003, 4))
    labels = run(points, 5, block_rows=100)
    blocks = principal_blocks(points, 100)
    for block in range(blocks.max() + 1):
        inside = np.flatnonzero(blocks == block)
        own = labels[inside]
        assert (own - own.min() == run(points[inside], 5)).all()
        assert not np.isin(labels[blocks != block], own).any()


def test_many_columns_and_large_offset():
    points = np.random.default_rng(2).normal(size=(60, 80))
    assert (run(points, 4) == naive.mdav(points, 4)).all()
    assert (run(points + 1e6, 4) == run(points, 4)).all()


def test_blocks_under_k_are_refused():
    with pytest.raises(ValueError, match="at least 10"):
        cluster(np.zeros((20, 1)), 5, "mdav", rng=np.random.default_rng(0), block_rows=4)
