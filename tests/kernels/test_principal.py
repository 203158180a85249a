import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import kth_smallest, principal_direction, split_rows


def test_direction_is_the_leading_eigenvector():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 4)) * [1, 5, 2, 1] @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    direction = principal_direction(features, np.arange(500), False)
    vectors = np.linalg.eigh(np.cov(features.T))[1]
    assert abs(direction @ vectors[:, -1]) > 1 - 1e-9
    assert direction[np.argmax(np.abs(direction))] > 0


def test_turned_lies_between_the_first_two():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(500, 3)) * [9, 3, 1]
    values, vectors = np.linalg.eigh(np.cov(features.T))
    turned = principal_direction(features, np.arange(500), True)
    first, second = turned @ vectors[:, 2] * np.sqrt(values[2]), turned @ vectors[:, 1] * np.sqrt(values[1])
    assert np.isclose(abs(first), abs(second), rtol=1e-6)


def test_rare_values_are_found_though_the_sample_misses_them():
    features = np.zeros((5000, 2))
    features[1, 1] = 7.0
    assert principal_direction(features, np.arange(5000), False).tolist() == [0.0, 1.0]


def test_no_spread_no_direction():
    assert principal_direction(np.ones((10, 3)), np.arange(10), True).tolist() == [0.0, 0.0, 0.0]
    assert principal_direction(np.ones((10, 0)), np.arange(10), False).tolist() == []


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=50), st.data())
def test_split_is_a_stable_sort_by_rank(values, data):
    left = data.draw(st.integers(0, len(values) - 1))
    projections = np.array(values, dtype=float)
    rows = np.arange(len(values)) * 3
    expected = rows[np.argsort(projections, kind="stable")]
    split_rows(rows, projections, left)
    assert rows[:left].tolist() == sorted(expected[:left])
    assert rows[left:].tolist() == sorted(expected[left:])


def test_kth_smallest_is_that_of_sort_for_any_order_or_ties():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 7, 16, 33, 500):
        for values in (
            rng.normal(size=n),
            rng.integers(0, 3, n) * 1.0,
            np.arange(n) * 1.0,
            -np.abs(np.arange(n) - n / 2),
        ):
            before = values.copy()
            assert [kth_smallest(values, k) for k in range(n)] == np.sort(before).tolist()
            assert (values == before).all()
