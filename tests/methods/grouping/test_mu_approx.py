import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import cluster
from anonpipe.methods.grouping._spanning_tree import cut_trees, grow_forest
from tests.methods.grouping.data import grouping_problems
from tests.methods.grouping.test_partitional import sets_of
from tests.naive import hierarchical as naive


def run(features, k):
    return cluster(features, k, "mu_approx", rng=np.random.default_rng(0))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.sampled_from([1, 2, 3, 50]), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_same_as_the_naive_twin(rows, width, k, seed):
    features = np.random.default_rng(seed).normal(size=(max(rows, k), width)) ** 3
    assert sets_of(run(features, k)) == {frozenset(group) for group in naive.mu_approx(features, k)}


@settings(deadline=None, max_examples=80)
@given(grouping_problems(), st.integers(0, 2**32 - 1))
def test_the_order_of_the_rows_does_not_matter(problem, seed):
    """As many groups of the same records, equal records being the same."""
    features, k = problem
    mixed = np.random.default_rng(seed).permutation(len(features))

    def groups_of(table):
        labels = run(np.ascontiguousarray(table), k)
        return sorted(sorted(map(tuple, table[labels == g].tolist())) for g in range(labels.max() + 1))

    assert groups_of(features) == groups_of(features[mixed])


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=60))
def test_forest_as_the_naive_twin_with_ties(problem):
    features, k = problem
    features = np.round(features * 2)
    parent, tree = grow_forest(features, k)
    links = naive.grow_forest(features, k)
    assert {u: v for u, v in enumerate(parent.tolist()) if v >= 0} == links
    assert np.bincount(tree)[np.unique(tree)].min() >= k
    assert (parent[np.unique(tree)] == -1).all()


@settings(deadline=None, max_examples=120)
@given(st.integers(1, 9), st.integers(0, 60), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_any_tree_is_cut_as_by_the_naive_twin(k, more, bushy, seed):
    """Trees from paths to stars; parts of k or more, above the limit only where the twin finds nothing either."""
    rng = np.random.default_rng(seed)
    n = k + more
    names = rng.permutation(n)
    parent = np.full(n, -1)
    for at in range(1, n):
        parent[names[at]] = names[int(rng.integers(0, at) * (1 - bushy))]
    labels = np.empty(n, dtype=np.int64)
    parts = cut_trees(parent, np.full(n, names[0]), k, labels)
    sizes = np.bincount(labels)
    assert len(sizes) == parts
    assert sizes.min() >= k

    trees, twin, new = [naive.Tree(range(n), [(u, v) for u, v in enumerate(parent.tolist()) if v >= 0], n)], [], n
    while trees:
        tree = trees.pop()
        two = naive.cut(tree, k, new) if len(tree.records()) > max(2 * k - 1, 3 * k - 5) else None
        new += 1
        if two is None:
            twin.append(tree.records())
        else:
            trees += two
    assert sets_of(labels) == {frozenset(part) for part in twin}


def test_a_star_and_a_path():
    labels = np.empty(9, dtype=np.int64)
    star = np.array([-1, 0, 0, 0, 0, 0, 0, 0, 0])
    cut_trees(star, np.zeros(9, dtype=np.int64), 3, labels)
    assert sets_of(labels) == {frozenset({0, 1, 2}), frozenset({3, 4, 5}), frozenset({6, 7, 8})}
    path = np.array([-1, 0, 1, 2, 3, 4, 5, 6, 7])
    cut_trees(path, np.zeros(9, dtype=np.int64), 3, labels)
    assert np.bincount(labels).min() >= 3
    assert (np.abs(np.diff(labels)) > 0).sum() == labels.max()


def test_far_records_keep_together():
    features = np.concatenate([np.random.default_rng(g).normal(size=(4, 3)) + 1000.0 * g for g in range(6)])
    labels = run(features, 4)
    assert sets_of(labels) == {frozenset(range(4 * g, 4 * g + 4)) for g in range(6)}


def test_every_record_alone_at_one():
    assert len(set(run(np.random.default_rng(0).normal(size=(40, 2)), 1).tolist())) == 40
