from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.groups import within_scatter
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import cluster, information_loss
from anonpipe.methods.grouping._univariate import GROUPED, cut_path, nearest_next
from tests.methods.grouping.data import grouping_problems, standardized, tarragona
from tests.naive import univariate as naive


def optimal(features, k, method="optimal_univariate"):
    return cluster(features, k, method, rng=np.random.default_rng(0))


def scatter(features, labels):
    return np.trace(within_scatter(features, *sort_groups(labels)))


@settings(deadline=None)
@given(grouping_problems())
def test_groups_are_intervals(problem):
    features, k = problem
    features = features[:, :1].copy()
    labels = optimal(features, k)
    order = np.argsort(features[:, 0], kind="stable")
    assert (np.diff(labels[order]) >= 0).all()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3),
    st.lists(st.one_of(st.integers(-5, 5), st.floats(-1e3, 1e3)), min_size=1, max_size=7),
)
def test_no_grouping_at_all_is_better(k, values):
    features = np.array(values, dtype=float)[:, None]
    if k > len(features):
        return
    best = naive.least_scatter(features, k)
    assert scatter(features, optimal(features, k)) == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rows", [1, 3, 5, 6, 9, 10, 20, 23])
def test_same_as_the_naive_twin(rows):
    features = np.random.default_rng(rows).normal(size=(rows, 1)) ** 3
    path = sorted(range(rows), key=lambda i: features[i, 0])
    for k in (1, 2, 3, 5):
        if k <= rows:
            assert (optimal(features, k) == naive.cut_path(features, path, k)).all()


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
    assert optimal(np.full((7, 1), 0.1), 3).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert optimal(np.array([[2.0], [1.0], [2.0], [1.0]]), 2).tolist() == [1, 0, 1, 0]


def test_no_other_method_is_better():
    features = np.random.default_rng(0).lognormal(size=(500, 1))
    least = information_loss(features, optimal(features, 4))
    for method in ("mdav", "tfrp_2"):
        assert least <= information_loss(features, optimal(features, 4, method))


def test_large_offset():
    features = np.random.default_rng(1).normal(size=(1000, 1))
    assert (optimal(np.round(features, 3) + 1e9, 5) == optimal(np.round(features, 3), 5)).mean() > 0.99
    whole = np.round(features * 1000)
    assert (optimal(whole + 2**40, 5) == optimal(whole, 5)).all()


def test_several_columns_are_refused():
    with pytest.raises(ValueError, match="one column, not 2; use mhm"):
        optimal(np.zeros((4, 2)), 2)


def test_each_column_of_tarragona_beats_mdav():
    features = tarragona()
    for j in range(features.shape[1]):
        column = np.ascontiguousarray(features[:, j : j + 1])
        assert (
            information_loss(column, optimal(column, 3)) <= information_loss(column, optimal(column, 3, "mdav")) + 1e-12
        )


ORDERS = ("npn", "md", "mdav", "cbfs")


def mhm(features, k, order):
    return cluster(features, k, "mhm", rng=np.random.default_rng(0), order=order)


@settings(deadline=None, max_examples=80)
@given(grouping_problems(), st.sampled_from(ORDERS[1:]))
def test_never_loses_more_than_the_method_it_follows(problem, order):
    features, k = problem
    fixed = GROUPED[order](features, k, rng=np.random.default_rng(0))
    assert information_loss(features, mhm(features, k, order)) <= information_loss(features, fixed) + 1e-9


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=60))
def test_walk_is_as_the_naive_twin(problem):
    features, k = problem
    features = np.round(features * 4)
    labels = np.arange(len(features)) // k
    for groups in (labels, np.zeros_like(labels)):
        order, starts = sort_groups(groups)
        lists = [order[low:high].tolist() for low, high in pairwise(starts)]
        assert nearest_next(features, order, starts).tolist() == naive.nearest_next(features, lists)


@pytest.mark.parametrize("rows", [1, 3, 5, 9, 10, 19])
@pytest.mark.parametrize("width", [2, 10])
def test_same_as_the_naive_twins(rows, width):
    features = np.random.default_rng(rows).normal(size=(rows, width))
    for k in (1, 2, 3):
        if k > rows:
            continue
        for order in ORDERS:
            groups = [list(range(rows))]
            if order != "npn":
                fixed = GROUPED[order](features, k, rng=np.random.default_rng(0))
                groups = [np.flatnonzero(fixed == g).tolist() for g in range(fixed.max() + 1)]
                groups = naive.chained(features, groups)
            assert (mhm(features, k, order) == naive.cut_path(features, naive.nearest_next(features, groups), k)).all()


def test_walk_of_many_records_is_as_one_loop():
    features = np.random.default_rng(0).normal(size=(1500, 3))
    path = nearest_next(features, np.arange(1500), np.array([0, 1500]))
    left = np.ones(1500, dtype=bool)
    here = np.square(features - features.mean(axis=0)).sum(axis=1).argmax()
    for row in path:
        assert row == here
        left[here] = False
        if left.any():
            here = np.where(left, np.square(features - features[here]).sum(axis=1), np.inf).argmin()


def test_cut_is_free_of_the_offset():
    features = np.random.default_rng(0).normal(size=(200, 3))
    path = np.arange(200)
    assert (cut_path(features + 1e6, path, 4) == cut_path(features, path, 4)).all()


@pytest.mark.parametrize(
    ("order", "losses", "printed"),
    [
        ("mdav", [16.926947, 22.048081, 33.188033], [16.9326, 22.4617, 33.1923]),
        ("md", [16.977314, 22.057473, 33.182105], [16.9829, 22.5269, 33.1834]),
        ("cbfs", [16.960617, 22.405641, 33.214986], [16.9714, 22.8227, 33.2188]),
    ],
)
def test_reference_figures(order, losses, printed):
    """Below the printed ones, by no more than 2.1 %: see the docstring of `mhm`."""
    features = tarragona()
    found = [information_loss(features, mhm(features, k, order)) for k in (3, 5, 10)]
    assert found == pytest.approx(losses, abs=6e-6)
    assert all(0.979 * wanted < loss < wanted for loss, wanted in zip(found, printed, strict=True))


def companies(seed, months=1_500, n_companies=150):
    """A row for a month of a company: sales and revenues of very different companies, with little change in each."""
    rng = np.random.default_rng(seed)
    size, company = np.exp(2.2 * rng.normal(size=n_companies)), rng.integers(0, n_companies, months)
    kinds = np.exp(0.7 * rng.normal(size=(n_companies, 5)))
    sales = size[company, None] * kinds[company] * np.exp(0.12 * rng.normal(size=(months, 5)))
    return standardized(np.column_stack([company, sales, 0.07 * sales * np.exp(0.08 * rng.normal(size=(months, 5)))]))


def test_a_skewed_table_gains_much():
    """As the printed 0.408 % is below MDAV's 0.483 % on EIA; along the groups as they are formed nothing is gained."""
    shares = []
    for seed in range(3):
        features = companies(seed)
        mdav = information_loss(features, GROUPED["mdav"](features, 5, rng=np.random.default_rng(0)))
        shares.append(information_loss(features, mhm(features, 5, "mdav")) / mdav)
    assert np.mean(shares) < 0.85


def test_figures_of_nearest_point_next():
    """Published are 17.3949, 27.0213 and 40.1831; see the docstring of `mhm` for why they are not met."""
    features = tarragona()
    found = [information_loss(features, mhm(features, k, "npn")) for k in (3, 5, 10)]
    assert found == pytest.approx([17.525753, 28.166631, 38.718449], abs=6e-7)


def test_losses_on_generated_tables():
    features = standardized(np.random.default_rng(7).normal(size=(2000, 5)))
    mdav = information_loss(features, cluster(features, 5, "mdav", rng=np.random.default_rng(0)))
    for order in ORDERS[1:]:
        assert information_loss(features, mhm(features, 5, order)) < 1.1 * mdav
    assert information_loss(features, mhm(features, 5, "npn")) < 1.6 * mdav
