import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from anonpipe.methods.grouping import class_disclosure, information_loss
from anonpipe.methods.grouping._crest import class_tree
from anonpipe.methods.grouping._spanning_tree import shortest_tree
from tests.methods.grouping.classed import (
    class_problems,
    compound_classes,
    crest_per_class,
    diabetes,
    run,
    unit_columns,
)
from tests.methods.grouping.data import grouping_problems
from tests.naive import spanning_tree as naive


@settings(deadline=None)
@given(grouping_problems())
def test_labels_are_in_the_order_of_lowest_rows(problem):
    features, k = problem
    before = features.copy()
    labels = run("mst", features, k)
    assert np.bincount(labels).min() >= k
    assert (features == before).all()
    assert (np.unique(labels, return_index=True)[1] == np.sort(np.unique(labels, return_index=True)[1])).all()


@settings(deadline=None, max_examples=60)
@given(grouping_problems())
def test_the_tree_is_as_short_as_that_of_another_library(problem):
    features, _ = problem
    parent, length, joined = shortest_tree(features)
    place = np.argsort(joined)
    assert parent[0] == -1
    assert joined[0] == 0
    assert (place[parent[joined[1:]]] < place[joined[1:]]).all()
    assert length[joined[1:]] == pytest.approx(np.linalg.norm(features - features[parent], axis=1)[joined[1:]])
    distances = cdist(features, features)
    # The other library takes 0 for "no edge".
    expected = minimum_spanning_tree(distances + 1e-3).sum() - 1e-3 * (len(features) - 1)
    assert length.sum() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_single_records_are_all_cut_apart():
    features = np.random.default_rng(0).normal(size=(40, 3))
    assert run("mst", features, 1).tolist() == list(range(40))


def test_clear_clusters_are_found_and_a_star_is_not_divided():
    rng = np.random.default_rng(1)
    centres = 100 * rng.normal(size=(6, 4))
    home = np.repeat(np.arange(6), [5, 6, 7, 8, 9, 10])
    features = centres[home] + rng.normal(size=(45, 4))
    labels = run("mst", features, 5)
    assert len(np.unique(np.column_stack([home, labels]), axis=0)) == labels.max() + 1 == 6
    # Every edge hangs at the centre, so that no part but the centre's has two records.
    star = np.vstack([np.zeros(8), np.eye(8), -np.eye(8)])
    assert run("mst", star, 2).max() == 0


def test_groups_have_no_upper_limit():
    features = np.random.default_rng(2).normal(size=(3_000, 5))
    labels = run("mst", features, 5)
    assert np.bincount(labels).max() > 9
    assert information_loss(features, labels) < 60


@settings(deadline=None)
@given(class_problems(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))
def test_groups_keep_both_limits_or_nothing_was_cut(problem, t):
    features, k, classes, shares = problem
    labels = run("mst_t_close", features, k, classes, shares, t=t)
    assert np.bincount(labels).min() >= k
    if labels.max() > 0:
        assert class_disclosure(labels, classes, shares).largest_total_variation <= t + 1e-9


@settings(deadline=None, max_examples=40)
@given(class_problems())
def test_any_t_is_mst(problem):
    features, k, classes, shares = problem
    assert (run("mst_t_close", features, k, classes, shares, t=1.0) == run("mst", features, k)).all()


def test_nothing_is_cut_where_the_whole_is_too_far():
    features = np.arange(20.0)[:, None]
    classes = np.arange(20) % 2
    assert run("mst_t_close", features, 2, classes, np.array([0.9, 0.1]), t=0.3).max() == 0
    assert run("mst_t_close", features, 2, classes, np.array([0.5, 0.5]), t=0.3).max() > 0


METHODS = ("crest", "crest_partial")


@pytest.mark.parametrize("b", [2, 3, 4, 6, 12, 60])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_the_tree_is_the_same_as_that_of_the_naive_twin(b, width):
    rng = np.random.default_rng(10 * b + width)
    features = rng.normal(size=(26, width))
    classes = rng.integers(0, 3, 26)
    shares = np.bincount(classes) / 26
    unit = np.sqrt((np.ptp(features, axis=0) ** 2).sum())
    for alpha in (0.1, 0.9):
        parent, length, joined = class_tree(features, classes, shares, b, alpha, unit)
        assert [(parent[v], v) for v in joined[1:]] == naive.class_tree(features, classes, shares, b, alpha)
        assert length[1:] == pytest.approx(np.linalg.norm(features - features[parent], axis=1)[1:])


def test_distance_alone_is_crest_partial():
    rng = np.random.default_rng(3)
    features, classes = rng.normal(size=(400, 4)), rng.integers(0, 3, 400)
    assert (run("crest", features, 4, classes, alpha=1.0) == run("crest_partial", features, 4, classes)).all()


def test_scale_and_offset_change_nothing():
    rng = np.random.default_rng(4)
    features, classes = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    labels = run("crest", features, 4, classes)
    assert (run("crest", 1024 * features, 4, classes) == labels).all()


def test_nine_patients_in_columns_of_one_class():
    """As in figures 1 and 2: by distance every group has one class, by CREST the shares of all."""
    features = np.array([[a, 1.2 * c] for a in range(3) for c in range(3)])
    classes = np.array([0, 1, 1] * 3)
    plain = class_disclosure(run("mst", features, 3), classes)
    assert (plain.n_groups, plain.homogeneous_share) == (3, 1)
    found = class_disclosure(run("crest", features, 3, classes), classes)
    assert (found.n_groups, found.homogeneous_share, found.chi_square) == (2, 0, 0)


@pytest.mark.parametrize("k", [3, 5, 10])
def test_diabetes_classes_mix_as_in_table_1(k):
    """Chi-square of the benchmark, partial and full CREST stand at 2.27 : 2.04 : 1.37 there."""
    features, classes = diabetes()
    features = unit_columns(features)
    figures = {
        method: class_disclosure(run(method, features, k, None if method == "mst" else classes), classes)
        for method in ("mst", *METHODS)
    }
    assert figures["mst"].chi_square > figures["crest_partial"].chi_square > figures["crest"].chi_square
    assert figures["crest"].chi_square < 0.8 * figures["crest_partial"].chi_square
    assert figures["crest"].homogeneous_share < 0.5 * figures["mst"].homogeneous_share


def test_one_grouping_an_attribute():
    rng = np.random.default_rng(5)
    features, classes = rng.normal(size=(200, 3)), rng.integers(0, 2, (200, 3))
    labels = crest_per_class(features, 4, classes, rng=rng)
    assert labels.shape == (200, 3)
    for a in range(3):
        assert (labels[:, a] == run("crest", features, 4, classes[:, a])).all()
    blocks = crest_per_class(features, 4, classes, rng=rng, block_rows=50, alpha=0.3, neighbours=3)
    assert (blocks[:, 1] == run("crest", features, 4, classes[:, 1], block_rows=50, alpha=0.3, neighbours=3)).all()
    assert (labels[:, 0] != run("crest", features, 4, compound_classes(classes))).any()
    with pytest.raises(ValueError, match=r"shape \(200,\)"):
        crest_per_class(features, 4, classes[:, 0], rng=rng)
