import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import turn_rows
from anonpipe.methods.grouping import cluster, information_loss
from anonpipe.methods.grouping._spectral import halved, principal_axes, split_at_all_medians
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import histogram as naive
from tests.naive.two_phase import labels_of


def run(features, k, method="spectral_rhs", **options):
    return cluster(features, k, method, rng=np.random.default_rng(0), **options)


@settings(deadline=None, max_examples=100)
@given(grouping_problems())
def test_cells_as_the_naive_twin(problem):
    features, k = problem
    labels = np.empty(len(features), dtype=np.int64)
    split_at_all_medians(features, k, labels)
    assert (labels == labels_of(naive.rhs(features, k), len(features))).all()
    for cell in range(labels.max() + 1):
        inside = features[labels == cell]
        assert len(inside) <= 2 * k or (inside == inside[0]).all()


@settings(deadline=None, max_examples=60)
@given(grouping_problems())
def test_rhs_gives_groups_of_k_or_refuses(problem):
    features, k = problem
    before = features.copy()
    cells = [len(cell) for cell in naive.rhs(features, k)]
    if min(cells) >= k:
        assert np.bincount(run(features, k, "rhs")).tolist() == cells
    else:
        small = sum(size < k for size in cells)
        text = f"splits {features.shape[1]} columns at once, which leaves {small} of {len(cells)} cells.*spectral_rhs"
        with pytest.raises(ValueError, match=text):
            run(features, k, "rhs")
    assert (features == before).all()


@pytest.mark.parametrize("rows", [5, 9, 10, 11, 15, 40, 41, 1000])
def test_rhs_takes_one_column(rows):
    features = np.random.default_rng(rows).normal(size=(rows, 1))
    sizes = np.bincount(run(features, 5, "rhs"))
    assert sizes.min() >= 5
    assert sizes.max() <= 10


def test_rhs_refuses_many_columns():
    for features in (tarragona(), np.random.default_rng(0).normal(size=(500, 50))):
        with pytest.raises(ValueError, match="use spectral_rhs"):
            run(features, 5, "rhs")


def test_rhs_keeps_highest_value_median_from_stopping_it():
    features = np.array([[0.0]] * 3 + [[1.0]] * 9)
    assert np.bincount(run(features, 3, "rhs")).tolist() == [3, 9]


@settings(deadline=None, max_examples=60)
@given(grouping_problems(), st.booleans())
def test_splits_as_the_naive_twin_with_ties(problem, tied):
    features, k = problem
    matrix = np.round(features * 2) if tied else features
    labels = halved(matrix, 2 * k, True, np.zeros(len(matrix), dtype=np.int64), np.ones(1), 1.0)
    assert (labels == labels_of(naive.spectral_rhs(matrix.tolist(), k), len(features))).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 150), st.sampled_from([1, 2, 5, 50]), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_same_as_the_singular_value_decomposition(rows, width, k, seed):
    # Clearly different singular values.
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    features = rng.normal(size=(max(rows, k, width + 2), width)) * 1.6 ** -np.arange(width) @ turn
    expected = naive.spectral_rhs(naive.spectral_matrix(features).tolist(), k)
    assert (run(features, k) == labels_of(expected, len(features))).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_axes(width, seed):
    features = np.random.default_rng(seed).normal(size=(40, width)) * np.arange(1, width + 1)
    axes = principal_axes(features)
    assert axes.T @ axes == pytest.approx(np.eye(width), abs=1e-9)
    scores = turn_rows(features, axes, before=features.mean(axis=0)).T
    assert scores == pytest.approx(((features - features.mean(axis=0)) @ axes).T, abs=1e-9)
    lengths = np.square(scores).sum(axis=1)
    assert (np.diff(lengths) <= 1e-9 * lengths[0]).all()
    # The same axes whatever sign the library gives them: turning the table round turns nothing.
    assert principal_axes(-features) == pytest.approx(axes, abs=1e-9)


@pytest.mark.parametrize("columns", [2, 3])
def test_sign_is_settled_where_entries_differ_by_rounding_only(columns):
    features = np.random.default_rng(7).normal(size=(60, 1)) + 0.01 * np.random.default_rng(8).normal(
        size=(60, columns)
    )
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    first = principal_axes(features)[:, 0]
    assert (first > 0).all()
    assert (np.abs(principal_axes(features)).max(axis=0) > 0.3).all()


def test_equal_records_have_equal_scores():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(700, 7))[rng.integers(0, 50, 700)]
    scores = turn_rows(features, principal_axes(features), before=features.mean(axis=0)).T
    assert len(np.unique(scores.T, axis=0)) == 50


def test_ties_at_the_median_leave_no_small_group():
    features = np.array([[0.0]] * 9 + [[1.0]])
    assert np.bincount(run(features, 2)).tolist() == [2, 3, 2, 3]


def test_an_odd_record_goes_up():
    assert run(np.arange(5.0)[:, None], 2).tolist() == [0, 0, 1, 1, 1]


def test_scale_of_all_columns_changes_nothing():
    features = np.random.default_rng(0).normal(size=(100, 3))
    assert (run(features * 2.0**300, 3) == run(features, 3)).all()
    assert (run(features * 2.0**-300, 3) == run(features, 3)).all()


@pytest.mark.parametrize(("k", "loss"), [(3, 21.57214), (5, 29.881179), (10, 38.282849)])
def test_reference_figures(k, loss):
    """Measured, not published."""
    features = tarragona()
    assert information_loss(features, run(features, k)) == pytest.approx(loss, abs=6e-6)
