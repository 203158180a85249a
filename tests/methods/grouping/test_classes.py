import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import class_disclosure
from anonpipe.methods.grouping._classes import entropy, jensen_shannon, ordered_distance, total_variation
from tests.methods.grouping.classed import class_problems, compound_classes
from tests.naive import classes as naive
from tests.naive import spanning_tree

counts_and_shares = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 20), min_size=n, max_size=n).filter(any),
        st.lists(st.integers(0, 20), min_size=n, max_size=n).filter(any),
    )
)


@given(counts_and_shares)
def test_distances_of_classes(given_counts):
    counts, others = (np.array(c, dtype=np.float64) for c in given_counts)
    total, shares = counts.sum(), others / others.sum()
    f, g = list(counts / total), list(shares)
    js, tv, emd = (m(counts, total, shares) for m in (jensen_shannon, total_variation, ordered_distance))
    assert js == pytest.approx(spanning_tree.jensen_shannon(f, g), abs=1e-11)
    assert tv == pytest.approx(spanning_tree.total_variation(f, g), abs=1e-11)
    assert emd == pytest.approx(naive.ordered_distance(f, g), abs=1e-11)
    assert entropy(counts, total) == pytest.approx(naive.entropy(f), abs=1e-11)
    assert 0 <= js <= tv + 1e-11 <= 1 + 2e-11
    assert emd <= tv + 1e-11
    assert jensen_shannon(others, others.sum(), counts / total) == js
    assert jensen_shannon(counts, total, counts / total) == total_variation(counts, total, counts / total) == 0


def test_worked_figures_of_the_paper():
    """Section 3; the first has 0.585, a Kullback-Leibler value, in the paper's eq. 7 by mistake."""
    shares = np.array([1 / 3, 2 / 3])
    assert jensen_shannon(np.array([3.0, 0.0]), 3.0, shares) == pytest.approx(0.459, abs=5e-4)
    assert jensen_shannon(np.array([0.0, 3.0]), 3.0, shares) == pytest.approx(0.191, abs=5e-4)
    assert jensen_shannon(np.array([1.0, 2.0]), 3.0, shares) == 0
    labels, classes = np.repeat(np.arange(3), 3), np.repeat([0, 1, 1], 3)
    assert class_disclosure(labels, classes).mean_divergence == pytest.approx(0.280, abs=5e-4)
    mixed = class_disclosure(np.tile(np.arange(3), 3), classes)
    assert (mixed.mean_divergence, mixed.chi_square, mixed.homogeneous_share) == (0, 0, 0)


def test_ordered_distance_of_the_t_closeness_paper():
    """Li, Li and Venkatasubramanian: salaries 3k to 11k, groups {3k, 4k, 5k} and {6k, 8k, 11k}: 0.375 and 0.167."""
    shares = np.full(9, 1 / 9)
    low, spread = np.zeros(9), np.zeros(9)
    low[[0, 1, 2]] = 1
    spread[[3, 5, 8]] = 1
    assert ordered_distance(low, 3.0, shares) == pytest.approx(0.375)
    assert ordered_distance(spread, 3.0, shares) == pytest.approx(1 / 6)


def test_opposite_ends_are_furthest_apart():
    first, last = np.array([4.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    middle = np.array([0.0, 1.0, 0.0])
    assert (ordered_distance(first, 4.0, last), ordered_distance(first, 4.0, middle)) == (1, 0.5)
    assert total_variation(first, 4.0, last) == total_variation(first, 4.0, middle) == 1
    assert ordered_distance(np.array([3.0]), 3.0, np.array([1.0])) == 0


@settings(deadline=None, max_examples=60)
@given(class_problems(), st.integers(0, 2**32 - 1))
def test_disclosure_adds_up(problem, seed):
    features, k, classes, shares = problem
    labels = np.random.default_rng(seed).integers(0, max(1, len(features) // k), len(features)) * 7
    found = class_disclosure(labels, classes)
    groups = [classes[labels == g].tolist() for g in np.unique(labels)]
    assert found.n_groups == len(groups)
    assert found.chi_square == pytest.approx(naive.chi_square(labels.tolist(), classes.tolist()))
    assert found.homogeneous_share == pytest.approx(sum(len(g) for g in groups if len(set(g)) == 1) / len(features))
    assert found.groups_with_a_single == sum(any(g.count(c) == 1 for c in g) for g in groups)
    assert found.smallest_distinct == min(len(set(g)) for g in groups)
    by_shares = class_disclosure(labels, classes, shares)
    f = [[g.count(c) / len(g) for c in range(len(shares))] for g in groups]
    assert by_shares.smallest_entropy_l == pytest.approx(np.exp(min(naive.entropy(p) for p in f)))
    assert by_shares.largest_total_variation == pytest.approx(max(naive.total_variation(p, shares) for p in f))
    assert by_shares.largest_ordered == pytest.approx(max(naive.ordered_distance(p, shares) for p in f), abs=1e-9)
    divergences = [spanning_tree.jensen_shannon(p, shares) for p in f]
    assert by_shares.largest_divergence == pytest.approx(max(divergences), abs=1e-9)
    weights = [len(g) / len(features) for g in groups]
    assert by_shares.mean_divergence == pytest.approx(np.dot(weights, divergences), abs=1e-9)


def test_disclosure_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="labels has shape"):
        class_disclosure(np.zeros((2, 2), dtype=int), np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="1 record or more"):
        class_disclosure(np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    with pytest.raises(ValueError, match="float64"):
        class_disclosure(np.zeros(2), np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="without a share"):
        class_disclosure(np.zeros(2, dtype=int), np.array([0, 1]), np.array([1.0]))


def test_compound_classes_are_combinations():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, (100, 2))
    compound = compound_classes(classes)
    pairs = {tuple(row) for row in np.column_stack([compound, classes]).tolist()}
    assert len(pairs) == compound.max() + 1 == len({pair[1:] for pair in pairs})
