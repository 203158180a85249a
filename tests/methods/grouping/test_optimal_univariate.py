import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import cluster, information_loss
from anonpipe.methods.grouping._loss import scatter_in_groups
from anonpipe.methods.grouping._univariate import cut_path
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import univariate as naive


def run(features, k, method="optimal_univariate"):
    return cluster(features, k, method, rng=np.random.default_rng(0))


def scatter(features, labels):
    return scatter_in_groups(features, *sort_groups(labels))


@settings(deadline=None)
@given(grouping_problems())
def test_sizes_and_order(problem):
    features, k = problem
    features = features[:, :1].copy()
    labels = run(features, k)
    sizes = np.bincount(labels)
    assert k <= sizes.min() and sizes.max() < max(2, 2 * k)
    order = np.argsort(features[:, 0], kind="stable")
    assert (np.diff(labels[order]) >= 0).all()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 4),
    st.lists(st.one_of(st.integers(-5, 5), st.floats(-1e3, 1e3)), min_size=1, max_size=9),
)
def test_no_grouping_at_all_is_better(k, values):
    features = np.array(values, dtype=float)[:, None]
    if k > len(features):
        return
    best = naive.least_scatter(features, k)
    assert scatter(features, run(features, k)) == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rows", [1, 3, 5, 6, 9, 10, 20, 23])
def test_same_as_the_naive_twin(rows):
    features = np.random.default_rng(rows).normal(size=(rows, 1)) ** 3
    path = sorted(range(rows), key=lambda i: features[i, 0])
    for k in (1, 2, 3, 5):
        if k <= rows:
            assert (run(features, k) == naive.cut_path(features, path, k)).all()


@settings(deadline=None, max_examples=40)
@given(grouping_problems(most_rows=18))
def test_best_cut_of_any_line(problem):
    features, k = problem
    k = max(2, k)
    if k > len(features):
        return
    path = np.random.default_rng(k).permutation(len(features))
    found, best = cut_path(features, path, k), naive.cut_path(features, path.tolist(), k)
    assert scatter(features, found) == pytest.approx(scatter(features, best), rel=1e-12, abs=1e-12)


def test_equal_values_form_groups_of_k():
    assert run(np.full((7, 1), 0.1), 3).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert run(np.array([[2.0], [1.0], [2.0], [1.0]]), 2).tolist() == [1, 0, 1, 0]


def test_no_other_method_is_better():
    features = np.random.default_rng(0).lognormal(size=(500, 1))
    least = information_loss(features, run(features, 4))
    for method in ("mdav", "tfrp_2"):
        assert least <= information_loss(features, run(features, 4, method))


def test_large_offset():
    features = np.random.default_rng(1).normal(size=(1000, 1))
    assert (run(np.round(features, 3) + 1e9, 5) == run(np.round(features, 3), 5)).mean() > 0.99
    whole = np.round(features * 1000)
    assert (run(whole + 2**40, 5) == run(whole, 5)).all()


def test_several_columns_are_refused():
    with pytest.raises(ValueError, match="one column, not 2; use mhm"):
        run(np.zeros((4, 2)), 2)


def test_each_column_of_tarragona_beats_mdav():
    features = tarragona()
    for j in range(features.shape[1]):
        column = np.ascontiguousarray(features[:, j : j + 1])
        assert information_loss(column, run(column, 3)) <= information_loss(column, run(column, 3, "mdav")) + 1e-12
