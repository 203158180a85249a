from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.synthesis import centroid
from tests.methods.synthesis.grouped import groupings, shuffled_groups
from tests.naive import synthesize as naive


@given(groupings())
@settings(max_examples=60, deadline=None)
def test_centroids_are_those_of_the_twin(case):
    size = np.abs(case[0]).max(axis=0)
    assert np.all(np.abs(centroid(*case) - naive.centroid(*case)) <= 1e-14 * size)


@given(groupings(), st.sets(st.integers(0, 5)))
@settings(max_examples=60, deadline=None)
def test_medians_are_those_of_twin_and_leave_other_columns(case, chosen):
    features = case[0]
    statistics = ["median" if j in chosen else "mean" for j in range(features.shape[1])]
    new = centroid(*case, statistics=statistics)
    columns = [j for j, statistic in enumerate(statistics) if statistic == "median"]
    assert np.all(np.abs(new - naive.medians(*case, columns)) <= 1e-14 * np.abs(features).max(axis=0))
    others = [j for j in range(features.shape[1]) if j not in columns]
    assert np.array_equal(new[:, others], centroid(*case)[:, others])


def test_of_an_odd_group_the_median_is_a_value_of_it():
    rng = np.random.default_rng(1)
    order, starts = shuffled_groups([1, 3, 5, 7], rng)
    features = rng.integers(0, 4, (16, 2)).astype(float)
    new = centroid(features, order, starts, statistics=["median", "median"])
    for members in naive.groups_of(order, starts):
        assert all(new[members[0], j] in features[members, j] for j in range(2))


def test_the_largest_mean_dummy_is_the_mode():
    """What the docstring says of nominal columns; ties go to the first category in both."""
    rng = np.random.default_rng(2)
    order, starts = shuffled_groups(rng.integers(1, 9, 60), rng)
    codes = rng.integers(0, 4, len(order))
    means = centroid(2.0 * np.eye(4)[codes] - 1, order, starts)
    for members in naive.groups_of(order, starts):
        mode = np.bincount(codes[members], minlength=4).argmax()
        assert means[members[0]].round(12).argmax() == mode
