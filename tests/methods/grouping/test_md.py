import numpy as np
import pytest

from anonpipe.methods.grouping import information_loss
from tests.methods.grouping.classed import run
from tests.methods.grouping.data import reference_folder, tarragona
from tests.naive import mdav_family as naive


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
