import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.partition.tree import Tree, fit_tree, route
from anonpipe.storage.records import from_bytes, to_bytes
from tests.methods.grouping.data import grouping_problems
from tests.naive import cluster as naive


def keys_for(rows, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, size=rows, dtype=np.uint64)


@settings(deadline=None)
@given(grouping_problems(), st.integers(1, 12))
def test_like_the_naive_twin_and_balanced_on_the_sample(problem, leaves):
    features, _ = problem
    leaves = min(leaves, len(features))
    keys = keys_for(len(features))
    tree = fit_tree(features, keys, leaves)
    found = route(tree, features, keys)
    assert tree.leaves == leaves
    assert (found == naive.route(tree, features, keys)).all()
    sizes = np.bincount(found, minlength=leaves)
    assert sizes.min() >= 1
    assert sizes.max() <= len(features) / leaves + np.ceil(np.log2(leaves)) + 1


@settings(deadline=None, max_examples=30)
@given(grouping_problems(), st.integers(1, 12), st.integers(0, 120), st.integers(1, 50))
def test_a_batch_gives_what_the_whole_gives(problem, leaves, first, count):
    features, _ = problem
    keys = keys_for(len(features))
    tree = fit_tree(features, keys, min(leaves, len(features)))
    part = slice(first, first + count)
    assert (route(tree, features[part], keys[part]) == route(tree, features, keys)[part]).all()
    assert (route(tree, features[::-1], keys[::-1]) == route(tree, features, keys)[::-1]).all()


@settings(deadline=None, max_examples=30)
@given(grouping_problems(), st.integers(1, 12))
def test_json_keeps_every_bit(problem, leaves):
    features, _ = problem
    keys = keys_for(len(features))
    tree = fit_tree(features, keys, min(leaves, len(features)))
    again = from_bytes(to_bytes(tree), [Tree])
    for name in Tree._fields:
        mine, theirs = getattr(tree, name), getattr(again, name)
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert (mine == theirs).all()
    assert (route(again, features, keys) == route(tree, features, keys)).all()


@pytest.mark.parametrize("values", ["constant", "two values", "many"])
def test_unseen_rows_are_divided_in_proportion(values):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40_000, 2))
    if values == "constant":
        features[:] = 1.0
    elif values == "two values":
        features = (features > 0.5).astype(float)
    sample = rng.permutation(40_000)[:8000]
    keys = keys_for(40_000)
    tree = fit_tree(features[sample], keys[sample], 10)
    sizes = np.bincount(route(tree, features, keys), minlength=10)
    assert sizes.min() > 3400
    assert sizes.max() < 4600


def test_wrong_input_is_refused():
    features, keys = np.zeros((4, 2)), keys_for(4)
    for leaves in (0, 5):
        with pytest.raises(ValueError, match=f"{leaves} leaves from a sample of 4"):
            fit_tree(features, keys, leaves)
    with pytest.raises(ValueError, match="uint64"):
        fit_tree(features, keys.astype(np.int64), 2)
    with pytest.raises(ValueError, match="shape"):
        fit_tree(features, keys[:3], 2)
    with pytest.raises(ValueError, match="NaN"):
        route(fit_tree(features, keys, 2), np.full((4, 2), np.nan), keys)
    with pytest.raises(ValueError, match="fitted on 2"):
        route(fit_tree(features, keys, 2), features[:, :1], keys)
