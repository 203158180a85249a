"""MDAV and MD."""

import numpy as np
import pytest

from anonpipe.methods.grouping import class_disclosure, cluster, information_loss
from tests.methods.grouping.classed import diabetes, run
from tests.methods.grouping.data import principal_blocks, reference_folder, standardized, tarragona
from tests.naive import classes as naive_classes
from tests.naive import mdav_family as naive


def mdav(features, k, block_rows=None):
    return cluster(features, k, "mdav", rng=np.random.default_rng(0), block_rows=block_rows)


def test_ties_go_to_the_lower_row():
    features = np.array([[1.0], [-1.0], [1.0], [-1.0], [0.0], [0.0]])
    assert mdav(features, 2).tolist() == [0, 1, 0, 1, 2, 2]
    assert mdav(np.zeros((7, 2)), 3).tolist() == [0, 0, 0, 1, 1, 1, 0]


def test_last_records():
    near, far = np.array([[0.0], [1.0], [20.0], [21.0]]), np.array([[2.0]])
    assert mdav(np.vstack([near, far]), 2).tolist() == [1, 1, 0, 0, 1]
    assert mdav(np.vstack([near, far, far]), 2).tolist() == [1, 1, 0, 0, 2, 2]


def test_the_threshold_is_not_that_of_mdav_generic():
    features = np.random.default_rng(3).normal(size=(44, 2))
    generic = naive.mdav_generic(features, 5)
    assert (cluster(features, 5, "mdav_generic", rng=np.random.default_rng(0)) == generic).all()
    assert (mdav(features, 5) != generic).any()


@pytest.mark.parametrize("seed", range(3))
def test_rows_may_come_in_any_order(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(5_003, 4))
    order = rng.permutation(len(features))
    labels, shuffled = mdav(features, 4), mdav(features[order], 4)
    assert (labels[order] == shuffled).all()


def test_blocks_are_grouped_each_by_itself():
    features = np.random.default_rng(1).normal(size=(1003, 4))
    labels = mdav(features, 5, block_rows=100)
    blocks = principal_blocks(features, 100)
    for block in range(blocks.max() + 1):
        inside = np.flatnonzero(blocks == block)
        own = labels[inside]
        assert (own - own.min() == mdav(features[inside], 5)).all()
        assert not np.isin(labels[blocks != block], own).any()


def test_many_columns_and_large_offset():
    features = np.random.default_rng(2).normal(size=(60, 80))
    assert (mdav(features, 4) == naive.mdav(features, 4)).all()
    assert (mdav(features + 1e6, 4) == mdav(features, 4)).all()


def test_blocks_under_k_are_refused():
    with pytest.raises(ValueError, match="at least 10"):
        cluster(np.zeros((20, 1)), 5, "mdav", rng=np.random.default_rng(0), block_rows=4)


def test_last_records_join_the_nearest_groups():
    # 5 and 12 form the last group; 16 is nearer to 20.5 than to 8.5.
    features = np.array([[0.0], [1.0], [20.0], [21.0], [5.0], [12.0], [16.0]])
    assert run("mdav_1", features, 2).tolist() == [0, 0, 1, 1, 2, 2, 1]
    assert run("mdav", features, 2).tolist() == [0, 0, 1, 1, 2, 2, 2]


def test_groups_grow_where_record_is_near_and_far_from_others():
    rng = np.random.default_rng(0)
    centres = np.repeat(100.0 * np.arange(6), 4)
    features = np.column_stack([centres, np.zeros(24)]) + rng.normal(size=(24, 2))
    grown = run("v_mdav", features, 3, gamma=1.1)
    assert (np.bincount(grown) == 4).all()
    assert (np.bincount(run("v_mdav", features, 3, gamma=0.0)) == 3).all()
    assert information_loss(features, grown) < 0.1 * information_loss(features, run("v_mdav", features, 3, gamma=0.0))


def test_default_gamma():
    features = np.random.default_rng(1).normal(size=(200, 2))
    assert (run("v_mdav", features, 3) == run("v_mdav", features, 3, gamma=0.2)).all()


def test_a_record_as_near_as_gamma_allows_stays_out():
    features = np.array([0.0, 0.0, 1.0, 6.0, 6.0, 9.0, 9.0])[:, None]  # 1 is 1 from the group and 5 from the next
    labels = run("v_mdav", features, 2, gamma=0.2)
    assert (labels == naive.v_mdav(features, 2, gamma=0.2)).all()
    assert labels[2] != labels[0] == labels[1]


@pytest.mark.parametrize("rows", [1, 3, 5, 9, 10, 80])
@pytest.mark.parametrize("width", [1, 4, 50])
def test_class_mdav_as_the_naive_twin(rows, width):
    rng = np.random.default_rng(rows)
    features, classes = rng.normal(size=(rows, width)), rng.integers(0, 3, rows)
    shares = np.array([0.2, 0.3, 0.5])
    for k in (1, 2, 3, 5):
        if k <= rows:
            expected = naive_classes.class_mdav(features, k, classes, shares, 0.5)
            assert (run("class_mdav", features, k, classes, shares) == expected).all()


def test_distance_alone_is_mdav_generic():
    rng = np.random.default_rng(3)
    features, classes = rng.normal(size=(100, 4)), rng.integers(0, 3, 100)
    assert (run("class_mdav", features, 4, classes, alpha=1.0) == run("mdav_generic", features, 4)).all()


def test_diabetes_classes_mix_at_a_price():
    features, classes = diabetes()
    features = standardized(features)
    plain, mixed = run("mdav", features, 5), run("class_mdav", features, 5, classes)
    assert class_disclosure(plain, classes).homogeneous_share > 0.3
    assert class_disclosure(mixed, classes).homogeneous_share < 0.15
    assert class_disclosure(mixed, classes).chi_square < 0.3 * class_disclosure(plain, classes).chi_square
    assert information_loss(features, plain) < information_loss(features, mixed) < 40


def test_the_record_further_out_chooses_first():
    # Both ends want the record in the middle; the mean lies to the left.
    features = np.array([[0.0], [4.0], [0.0], [8.0], [0.0]])
    assert run("md", features[[0, 1, 3]], 2).tolist() == [0, 0, 0]
    features = np.array([[0.0, 0.0], [4.0, 0.0], [8.0, 0.0], [1.0, 3.0]])
    assert run("md", features, 2).tolist() == [1, 0, 0, 1]
    assert run("md", features * [-1.0, 1.0] + [8.0, 0.0], 2).tolist() == [1, 0, 0, 1]


def test_a_larger_table_ends():
    features = np.random.default_rng(0).normal(size=(5_000, 3))
    sizes = np.bincount(run("md", features, 7))
    assert (np.sort(sizes)[:-1] == 7).all()


def test_last_records_join_one_by_one():
    features = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0], [3.5], [7.0]])
    assert run("diameter_fixed", features, 3).tolist() == [1, 1, 1, 0, 0, 0, 1, 0]
    assert run("md", features, 3).tolist() == [1, 1, 1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("k", "published", "loss"),
    [(3, 5.494, 5.492708), (4, 8.329, 8.335313), (5, 10.875, 10.888184), (10, 17.012, 16.998571)],
)
def test_published_figures_are_of_the_raw_columns(k, published, loss):
    path = reference_folder() / "data" / "tarragona.csv"
    tarragona()  # skips where the table is not at hand
    features = np.genfromtxt(path, delimiter=",", skip_header=1)
    measured = information_loss(features, run("pairwise_systematic", features, k))
    assert measured == pytest.approx(loss, abs=1e-6)
    assert measured == pytest.approx(published, rel=2e-3)


def test_the_first_group_leaves_the_seed_of_the_other():
    # Nearest to 0 would be 1, the other end of the order.
    features = np.array([[0.0, 0.0], [1.0, 0.0], [-9.0, 9.5], [-9.0, 9.4], [9.0, -8.6], [9.0, -8.7]])
    labels = run("pairwise_systematic", features, 2)
    assert labels[0] != labels[1]
    assert (labels == naive.pairwise_systematic(features, 2)).all()
