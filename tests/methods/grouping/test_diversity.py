import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import class_disclosure, constrain_classes, information_loss, unreachable
from tests.methods.grouping.classed import class_problems, diabetes, run
from tests.methods.grouping.data import standardized
from tests.naive import classes as naive

LIMITS = [
    {"l_diversity": 2},
    {"l_diversity": 3},
    {"l_diversity": 1.7, "diversity": "entropy"},
    {"l_diversity": 2, "diversity": "entropy"},
    {"t_closeness": 0.3},
    {"t_closeness": 0.15, "distance": "ordered"},
    {"t_closeness": 0.5, "l_diversity": 2},
    {"t_closeness": 0.25, "l_diversity": 1.5, "diversity": "entropy", "distance": "ordered"},
]


def keeps(found, limits):
    """Whether the worst group of a disclosure record keeps the limits."""
    level = found.smallest_entropy_l if limits.get("diversity") == "entropy" else found.smallest_distinct
    away = found.largest_ordered if limits.get("distance") == "ordered" else found.largest_total_variation
    return level >= limits.get("l_diversity", 1) - 1e-9 and away <= limits.get("t_closeness", 1) + 1e-9


def naive_limits(limits, shares):
    def short(f):
        lacks = 0.0
        if limits.get("diversity") == "entropy":
            lacks += max(0.0, naive.steps(math.log(limits["l_diversity"])) - naive.steps(naive.entropy(f)))
        else:
            lacks += max(0.0, limits.get("l_diversity", 1) - sum(p > 0 for p in f))
        distance = naive.ordered_distance if limits.get("distance") == "ordered" else naive.total_variation
        return lacks + max(0.0, naive.steps(distance(f, shares)) - naive.steps(limits.get("t_closeness", 1)))

    return short


def constrained(features, labels, classes, limits, shares=None):
    """The groups, or none where the whole breaks the limits."""
    try:
        return constrain_classes(features, labels, classes, class_shares=shares, **limits)
    except ValueError as error:
        whole = class_disclosure(np.zeros(len(features), dtype=int), classes, shares)
        assert not keeps(whole, limits), error
        return None


@settings(deadline=None)
@given(class_problems(), st.sampled_from(LIMITS))
def test_every_group_keeps_the_limits_and_groups_are_only_merged(problem, limits):
    features, k, classes, shares = problem
    labels = run("kd_tree", features, k)
    before = features.copy(), labels.copy(), classes.copy()
    merged = constrained(features, labels, classes, limits, shares)
    assume(merged is not None)
    assert keeps(class_disclosure(merged, classes, shares), limits)
    assert len(np.unique(np.column_stack([labels, merged]), axis=0)) == labels.max() + 1
    assert np.bincount(merged).min() >= k
    assert all((a == b).all() for a, b in zip(before, (features, labels, classes), strict=True))
    assert (constrained(features, merged, classes, limits, shares) == merged).all()


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("seed", range(4))
def test_same_as_the_naive_twin(limits, seed):
    rng = np.random.default_rng(seed)
    features, classes = rng.normal(size=(70, 3)), rng.integers(0, 4, 70)
    classes[features[:, 0] > 0] //= 2
    labels = run("kd_tree", features, 2)
    shares = np.bincount(classes) / len(classes)
    expected = naive.constrain(features, labels, classes, shares, naive_limits(limits, shares))
    assert (constrain_classes(features, labels, classes, **limits) == expected).all()
    assert 0 < expected.max() < labels.max()


@pytest.mark.parametrize("labels", [np.zeros(3, dtype=int), np.zeros(4), np.zeros((4, 1), dtype=int)])
def test_labels_that_do_not_fit_are_refused(labels):
    with pytest.raises(ValueError, match="give one whole number a record"):
        constrain_classes(np.zeros((4, 1)), labels, np.array([0, 1, 0, 1]), l_diversity=2)


def test_why_no_grouping_keeps_the_limits():
    shares = np.array([0.5, 0.5])
    found = unreachable(np.array([3, 0]), shares, l_diversity=2)
    assert found == "l_diversity is 2 for records of 1 classes; give at most 1"
    assert unreachable(np.array([3, 1]), shares, l_diversity=2) is None


def test_ties_go_to_the_lower_label():
    features = np.array([[0.0], [0.0], [1.0], [1.0], [-1.0], [-1.0]])
    labels, classes = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 1, 0, 1])
    assert constrain_classes(features, labels, classes, l_diversity=2).tolist() == [0, 0, 0, 0, 1, 1]


def test_a_group_that_mends_comes_before_a_nearer_one():
    features = np.repeat([0.0, 1.0, -3.0, 3.8], 2)[:, None]
    labels, classes = np.repeat(np.arange(4), 2), np.repeat([0, 0, 1, 1], 2)
    assert constrain_classes(features, labels, classes, l_diversity=2).tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("limits", "shares", "text"),
    [
        ({"l_diversity": 3}, None, "3 for records of 2 classes; give at most 2"),
        ({"l_diversity": 2, "diversity": "entropy"}, None, "reach 1.755; give less"),
        ({"t_closeness": 0.2}, np.array([0.5, 0.5]), "lie 0.25 from class_shares"),
        ({"t_closeness": 0.2, "distance": "ordered"}, np.array([0.5, 0.5]), "lie 0.25 from class_shares"),
        ({}, None, "neither"),
        ({"l_diversity": 0.5}, None, "give 1 or more"),
        ({"l_diversity": np.nan}, None, "give 1 or more"),
        ({"t_closeness": -1}, None, "from 0 to 1"),
        ({"l_diversity": 2, "diversity": "recursive"}, None, "allowed are distinct, entropy"),
        ({"t_closeness": 1, "distance": "euclidean"}, None, "allowed are total_variation, ordered"),
        ({"t_closeness": 1, "diversity": "entropy"}, None, "l_diversity is not given"),
        ({"l_diversity": 1, "distance": "ordered"}, None, "t_closeness is not given"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_merged(limits, shares, text):
    classes = np.array([0, 0, 0, 1])
    with pytest.raises(ValueError, match=text):
        constrain_classes(np.arange(4.0)[:, None], np.array([0, 0, 1, 1]), classes, class_shares=shares, **limits)


def test_diabetes_becomes_t_close_with_few_more_records_a_group():
    features, classes = diabetes()
    features = standardized(features)
    labels = run("mdav", features, 3)
    merged = constrain_classes(features, labels, classes, t_closeness=0.3)
    assert class_disclosure(merged, classes).largest_total_variation <= 0.3
    assert information_loss(features, merged) < 25
    # The tree that is cut only into t-close parts loses more.
    assert information_loss(features, run("mst_t_close", features, 3, classes, t=0.3)) > 30


def test_thousands_of_groups():
    rng = np.random.default_rng(0)
    features, classes = rng.normal(size=(20_000, 3)), rng.integers(0, 3, 20_000)
    labels = run("kd_tree", features, 3)
    merged = constrain_classes(features, labels, classes, l_diversity=2, t_closeness=0.5)
    found = class_disclosure(merged, classes)
    assert found.smallest_distinct >= 2
    assert found.largest_total_variation <= 0.5


@pytest.mark.parametrize("t", [0.1, 0.2, 0.25, 0.3, 0.34])
def test_one_right_group_does_not_take_in_all_others(t):
    """Groups of one of three classes each: three near ones can be right, and no two are below t = 1/3."""
    rng = np.random.default_rng(0)
    features = np.repeat(rng.normal(size=(40, 3)), 15, axis=0) + 0.05 * rng.normal(size=(600, 3))
    labels = np.arange(600) // 5
    merged = constrain_classes(features, labels, labels % 3, t_closeness=t)
    assert np.bincount(merged).max() <= 60 and merged.max() >= 19
