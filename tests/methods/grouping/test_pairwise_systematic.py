import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.grouping import information_loss
from tests.methods.grouping.data import grouping_problems, reference_folder, tarragona
from tests.methods.grouping.twins import assert_same, assert_same_on_plain_tables, run, whole_numbers
from tests.naive import mdav_family as naive


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=60))
def test_same_as_the_naive_twin_with_ties(problem):
    features, k = problem
    assert_same("pairwise_systematic", naive.pairwise_systematic, whole_numbers(features), k)


def test_same_as_the_naive_twin():
    assert_same_on_plain_tables("pairwise_systematic", naive.pairwise_systematic)


@settings(deadline=None)
@given(grouping_problems())
def test_sizes(problem):
    features, k = problem
    sizes = np.bincount(run("pairwise_systematic", features, k))
    assert sizes.sum() == len(features)
    assert (sizes[:-1] == k).all()
    assert k <= sizes[-1] < 2 * k


@pytest.mark.parametrize(("k", "loss"), [(3, 17.26488060), (4, 19.40533772), (5, 22.74462945), (10, 37.36095910)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, run("pairwise_systematic", features, k)) == pytest.approx(loss, abs=1e-8)


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
