"""Every group has records of k units, whatever method formed it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InfeasibleError
from anonpipe.methods.grouping import METHODS, cluster, hold_units, largest_share, unit_points, units_in_groups
from tests.naive import units as naive


def _panel(rng, firms, months, width=2, spread=0.1):
    size = rng.normal(size=(firms, width)).repeat(months, axis=0)
    return size + rng.normal(scale=spread, size=size.shape), np.repeat(np.arange(firms), months)


def _groups(labels):
    return sorted(np.flatnonzero(labels == label).tolist() for label in range(int(labels.max()) + 1))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 12), st.integers(1, 40), st.integers(1, 3))
def test_the_kernel_does_what_the_words_say(seed, k, units, extra, width):
    rng = np.random.default_rng(seed)
    rows = max(k, units) + extra
    units = np.concatenate([np.arange(max(k, units)), rng.integers(0, max(k, units), extra)])
    features, labels = rng.normal(size=(rows, width)), rng.integers(0, max(1, rows // max(k, 2)), rows)
    found = hold_units(features, labels, units, k)
    assert _groups(found) == sorted(naive.hold_units(features, labels, units, k))
    assert sorted(set(found.tolist())) == list(range(int(found.max()) + 1))
    assert units_in_groups(found, units).min() >= k


@pytest.mark.parametrize("units", [5, 10, 15])
def test_k_units_and_twice_and_three_times_as_many(units):
    features, own = _panel(np.random.default_rng(units), units, 16)
    found = hold_units(features, cluster(features, 5, "mdav", rng=np.random.default_rng(0)), own, 5)
    assert units_in_groups(found, own).min() >= 5
    assert found.max() + 1 >= 0.75 * units * 16 / 5  # cut again, not left as all rows of k units
    assert largest_share(found, own) <= 0.5


@pytest.mark.parametrize("method", [name for name, entry in METHODS.items() if not entry.classes and "rhs" not in name])
def test_groups_of_every_method_get_their_units(method):
    rng = np.random.default_rng(3)
    features, own = _panel(rng, 24, 6, 1 if method == "optimal_univariate" else 2)
    labels = cluster(features, 3, method, rng=rng)
    assert units_in_groups(labels, own).min() < 3
    assert units_in_groups(hold_units(features, labels, own, 3), own).min() >= 3


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(0, 40), st.integers(1, 3))
def test_the_points_of_units_are_what_the_words_say(seed, units, extra, width):
    rng = np.random.default_rng(seed)
    units = 5 * rng.permutation(np.concatenate([np.arange(units), rng.integers(0, units, extra)]))
    features = rng.normal(size=(len(units), width))
    points, own = unit_points(features, units)
    literal = naive.unit_points(features.tolist(), units.tolist())
    np.testing.assert_allclose(points, [literal[unit] for unit in sorted(literal)], atol=1e-12)
    assert own.tolist() == [sorted(literal).index(unit) for unit in units]


def test_counts_of_units_in_groups():
    assert units_in_groups(np.array([0, 0, 1, 1]), np.array([7, 7, 7, 3])).tolist() == [1, 2]
    assert largest_share(np.array([0, 0, 0, 0, 1, 1]), np.array([7, 7, 7, 3, 1, 2])) == 0.75


def test_groups_that_have_their_units_stay_as_they_are():
    features, own = _panel(np.random.default_rng(1), 20, 1)
    labels = cluster(features, 4, "mdav", rng=np.random.default_rng(0))
    assert hold_units(features, labels, own, 4).tolist() == labels.tolist()


def test_the_numbers_of_units_and_groups_do_not_matter():
    rng = np.random.default_rng(2)
    features, own = _panel(rng, 12, 7)
    labels = cluster(features, 3, "mdav", rng=rng)
    one, other = hold_units(features, labels, own, 3), hold_units(features, labels * 7 + 3, own * 5 + 11, 3)
    assert one.tolist() == other.tolist()


def test_one_unit_is_refused_with_its_counts():
    with pytest.raises(InfeasibleError, match=r"12 records are of 1 units, fewer than k=3.*lower k"):
        hold_units(np.arange(12.0)[:, None], np.arange(12) // 3, np.zeros(12, dtype=int), 3)


def test_a_unit_of_most_rows_does_not_hold_up_the_others():
    rng = np.random.default_rng(4)
    own = np.concatenate([np.zeros(400, dtype=int), 1 + np.arange(60)])
    features = rng.normal(size=(460, 2))
    found = hold_units(features, cluster(features, 3, "mdav", rng=rng), own, 3)
    assert units_in_groups(found, own).min() >= 3 and found.max() + 1 >= 10


@pytest.mark.parametrize("units", [np.zeros(3, dtype=int), np.zeros(4)])
def test_units_that_do_not_fit_are_refused(units):
    with pytest.raises(ValueError, match="units has shape"):
        hold_units(np.zeros((4, 1)), np.zeros(4, dtype=int), units, 1)
