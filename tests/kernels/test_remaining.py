import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import mean_of, sum_rows
from anonpipe.kernels.remaining import (
    FEW,
    ROOM,
    furthest_record,
    nearest_records,
    remaining_records,
    take_group,
    take_rows,
    tidied,
)
from anonpipe.methods.grouping._mdav import groups_from_outside
from tests.benchmarks.plain_mdav import plain_pairs


def squared(features, point):
    total = np.zeros(len(features))
    for j in range(features.shape[1]):
        total += (features[:, j] - point[j]) ** 2
    return total


def expected_furthest(features, left, point):
    distances = squared(features[left], point)
    return left[np.argmax(distances)]


def expected_nearest(features, left, point, count):
    distances = squared(features[left], point)
    order = np.argsort(distances, kind="stable")[:count]
    return left[order], distances[order]


def check(features, tree, left, point, count):
    assert furthest_record(tree, point, False) == expected_furthest(features, left, point)
    rows, distances = np.empty(count, dtype=np.int64), np.empty(count)
    nearest_records(tree, point, rows, distances)
    wanted, wanted_distances = expected_nearest(features, left, point, count)
    assert (rows == wanted).all()
    assert (distances == wanted_distances).all()
    assert furthest_record(tree, point, False) == expected_furthest(features, left, point)


@st.composite
def tables(draw):
    rows = draw(st.one_of(st.integers(1, 700), st.sampled_from([ROOM, ROOM + 1, 8 * ROOM, 8 * ROOM + 1])))
    width = draw(st.sampled_from([1, 2, 3, 10, 50]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features = rng.normal(size=(rows, width))
    shape = draw(st.sampled_from(["normal", "tied", "constant", "duplicated", "offset", "heavy", "tiny", "flat"]))
    if shape == "tied":
        features = np.round(features)
    elif shape == "constant":
        features[:] = 3.3
    elif shape == "duplicated":
        features = features[rng.integers(0, max(1, rows // 5), rows)]
    elif shape == "offset":
        features += 1e6
    elif shape == "heavy":
        features = features**7
    elif shape == "tiny":
        features *= 1e-150
    elif shape == "flat":
        features[:, 0] = 1.0
    return features, rng


@settings(deadline=None, max_examples=40)
@given(tables(), st.sampled_from([0, 100]))
def test_same_answers_as_a_loop_while_records_leave(table, few):
    features, rng = table
    n = len(features)
    tree = remaining_records(features, np.arange(n), few)
    left = np.arange(n)
    while len(left) > 0:
        inside = features[rng.choice(left)]
        for point in (inside, features[left].mean(axis=0), inside + rng.normal(size=features.shape[1])):
            check(features, tree, left, point, int(rng.integers(1, min(len(left), 9) + 1)))
        gone = rng.choice(left, min(len(left), int(rng.integers(1, 1 + n // 8 + 1))), replace=False)
        for row in gone:
            take_rows(tree, np.array([row]))
        left = np.setdiff1d(left, gone)
        assert tree.counts.sum() == len(left) == (tree.places >= 0).sum()
        tree = tidied(features, tree, few)


def test_part_of_a_table():
    features = np.random.default_rng(0).normal(size=(2000, 3))
    rows = np.arange(0, 2000, 3)
    tree = remaining_records(features, rows, 0)
    check(features, tree, rows, features[5], 20)
    assert (np.flatnonzero(tree.places >= 0) == rows).all()


def test_a_second_query_from_the_same_point():
    features = np.random.default_rng(0).normal(size=(900, 3))
    for few in (0, 4096):
        tree = remaining_records(features, np.arange(900), few)
        rows, distances = np.empty(3, dtype=np.int64), np.empty(3)
        for row in (4, 5, 6):
            nearest_records(tree, features[row], rows, distances)
            assert furthest_record(tree, features[row], True) == furthest_record(tree, features[row], False)


def test_groups_leave_the_sums():
    features = np.round(np.random.default_rng(0).normal(size=(900, 3)), 3)
    tree, sums = remaining_records(features, np.arange(900), FEW), sum_rows(features, np.arange(900))
    labels = np.full(900, -1)
    take_group(tree, features, sums, np.arange(0, 900, 2), labels, 7)
    assert (labels[::2] == 7).all()
    assert (labels[1::2] == -1).all()
    # Not only near: the same bits as a sum that never had the others.
    assert (mean_of(sums, 450) == mean_of(sum_rows(features, np.arange(899, 0, -2)), 450)).all()


@pytest.mark.parametrize("shape", ["normal", "tied", "duplicated", "clusters", "offset"])
@pytest.mark.parametrize("rows", [4_096, 9_001])
def test_large_tables_group_as_the_plain_loop(shape, rows):
    rng = np.random.default_rng(rows)
    features = rng.normal(size=(rows, 6))
    if shape == "tied":
        features = np.round(2 * features)
    elif shape == "duplicated":
        features = features[rng.integers(0, rows // 4, rows)]
    elif shape == "clusters":
        features = 0.1 * features + 3 * rng.normal(size=(5, 6))[rng.integers(0, 5, rows)]
    elif shape == "offset":
        features = np.exp(features) + 1e5
    for k in (3, 10):
        assert (groups_from_outside(features, k, 2 * k, True) == plain_pairs(features, k, 2 * k)).all()
