import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import block_order
from tests.methods.grouping.data import grouping_problems, principal_blocks


@settings(deadline=None)
@given(grouping_problems(), st.integers(1, 40), st.booleans())
def test_balanced_whatever_the_ties(problem, rows, turned):
    features, _ = problem
    before = features.copy()
    labels = principal_blocks(features, rows, turned=turned)
    sizes = np.bincount(labels)
    assert len(sizes) == -(-len(features) // rows)
    assert sizes.max() <= rows
    assert sizes.max() - sizes.min() <= 1
    assert (features == before).all()
    order, starts = block_order(features, rows, turned=turned)
    assert (np.sort(order) == np.arange(len(features))).all()
    assert (np.diff(starts) == sizes).all()
    assert (labels[order] == np.repeat(np.arange(len(sizes)), sizes)).all()


def test_cut_by_rank_along_the_widest_direction():
    features = np.random.default_rng(0).permutation(100)[:, None] * [1.0, 1.0] + [0.0, 5.0]
    assert (principal_blocks(features, 25) == features[:, 0] // 25).all()


def test_constant_points_are_cut_in_row_order():
    assert principal_blocks(np.ones((7, 2)), 2).tolist() == [0, 0, 1, 1, 2, 2, 3]


def test_turned_borders_cross_the_plain_ones():
    features = np.random.default_rng(0).normal(size=(4000, 5)) * [5, 4, 3, 2, 1]
    plain, turned = principal_blocks(features, 500), principal_blocks(features, 500, turned=True)
    # Blocks of one cut that a block of the other meets.
    assert len(set(zip(plain.tolist(), turned.tolist(), strict=True))) > 2 * 8


def test_empty():
    assert principal_blocks(np.empty((0, 3)), 5).tolist() == []


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="rows of a block is 0"):
        principal_blocks(np.zeros((3, 1)), 0)
    with pytest.raises(ValueError, match="3 dimensions"):
        principal_blocks(np.zeros((3, 1, 1)), 1)
    with pytest.raises(ValueError, match="NaN"):
        principal_blocks(np.full((3, 1), np.nan), 1)
