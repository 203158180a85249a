from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import sort_groups
from anonpipe.verify.original_values import equal_by_chance, unchanged_records


def naive(original, released, labels, k):
    rows = [tuple("null" if np.isnan(v) else v for v in row) for row in original]
    new = [tuple("null" if np.isnan(v) else v for v in row) for row in released]
    return sum(
        any(labels[j] == labels[i] and rows[j] == new[i] and rows.count(rows[j]) < k for j in range(len(rows)))
        for i in range(len(rows))
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_like_the_naive_twin(data):
    n = data.draw(st.integers(1, 30))
    cell = st.sampled_from([0.0, -0.0, 1.0, 2.0, float("nan")])
    table = st.lists(st.tuples(cell, cell), min_size=n, max_size=n)
    original, released = np.array(data.draw(table)), np.array(data.draw(table))
    labels = np.unique(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), return_inverse=True)[1]
    k = data.draw(st.integers(2, 6))
    order, starts = sort_groups(labels.astype(np.int64))
    assert unchanged_records(original, released, order, starts, k) == naive(original, released, labels, k)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(2, 6))
def test_chance_counts_the_rows_of_two_to_k_alike(codes, k):
    table = np.array(codes, dtype=np.float64)[:, None]
    assert equal_by_chance(table, k).rows == sum(1 for code in codes if 2 <= codes.count(code) <= k)


def test_another_population_sample_meets_as_many_as_expected():
    """Over many pairs of samples the mean is that of the estimate, within four standard errors."""
    rng = np.random.default_rng(7)
    shares = rng.dirichlet(np.full(400, 0.3))
    differences = []
    for _ in range(200):
        one, other = (rng.choice(400, 500, p=shares)[:, None].astype(np.float64) for _ in range(2))
        met = unchanged_records(one, other, np.arange(500), np.array([0, 500]), 5)
        differences.append(met - equal_by_chance(one, 5).rows)
    assert abs(np.mean(differences)) < 4 * np.std(differences) / np.sqrt(200) + 0.5


def test_copies_are_not_chance():
    table = np.random.default_rng(1).normal(size=(300, 3)).round(1)
    met = unchanged_records(table, table, np.arange(300), np.array([0, 300]), 5)
    assert met - equal_by_chance(table, 5).rows > 250
