"""Tracing by moments and by counts: scores by loops, 0.5 where there is nothing, and what nearest records miss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._membership import (
    _excess,
    _mean_product,
    _products,
    counted_membership,
    membership,
    traced_membership,
)
from tests.evaluate.risk.tasks import task


def moments_of(record):
    """What a record adds to means and covariances of whitened features."""
    second = (np.outer(record, record) - np.eye(len(record))) / np.sqrt(2)
    return np.concatenate([record, second.ravel()])


def with_moments_of(table, rng):
    """Other records of the same mean and covariance."""
    drawn = rng.normal(size=table.shape)
    drawn -= drawn.mean(axis=0)
    own, wanted = (np.linalg.cholesky(np.cov(each.T)) for each in (drawn, table))
    return table.mean(axis=0) + drawn @ np.linalg.solve(own, np.eye(len(own))).T @ wanted.T


def test_products_are_those_of_loops():
    rng = np.random.default_rng(0)
    records, others = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    each = np.array([[moments_of(x) @ moments_of(y) for y in others] for x in records])
    assert _products(records, others[:5]) == pytest.approx(np.diag(each))
    assert _mean_product(records, others) == pytest.approx(each.mean(axis=1))


def test_a_release_of_others_traces_nobody():
    """60 releases of other persons, in three columns, one of codes: at 2.5 % more than 5 come by 1 in 100."""
    above = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tables = [np.column_stack([rng.exponential(size=(n, 2)), rng.integers(0, 4, n)]) for n in (300, 300, 40)]
        tables[0][:5, 0] = np.nan
        found = traced_membership(task(*tables, [2]))
        above += found.low > 0.5
        assert found.low <= found.value <= found.high
    assert above <= 5


@pytest.mark.parametrize("columns", [10, 20])
def test_kept_moments_trace_members_as_far_as_theory_says(columns):
    """Of n records with m others as the population: Φ(d / √2), d² = (p (p + 3) / 2) / n · m / (n + m)."""
    size, others = 200, 200
    traced, near = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        members, controls = rng.normal(size=(size, columns)), rng.normal(size=(others, columns))
        released = with_moments_of(members, rng)
        traced.append(traced_membership(task(released, members, controls)).value)
        distances = (nearest(released, table, 1).distances[:, 0] for table in (members, controls))
        near.append(membership(*distances)[0].value)
    moved = columns * (columns + 3) / 2 / size * others / (size + others)
    assert np.mean(traced) == pytest.approx(norm.cdf(np.sqrt(moved / 2)), abs=0.02)
    assert np.mean(near) < 0.55 < np.mean(traced)


def test_order_and_scale_mean_nothing():
    rng = np.random.default_rng(1)
    members, controls = rng.normal(size=(200, 4)), rng.normal(size=(80, 4))
    released = with_moments_of(members, rng)
    found = traced_membership(task(released, members, controls))
    shuffled = traced_membership(task(rng.permutation(released), members, controls))
    assert shuffled.value == pytest.approx(found.value)
    grown = [np.exp(3 * table) for table in (released, members, controls)]  # ranks stay
    assert traced_membership(task(*grown)).value == pytest.approx(found.value)
    constant = [np.column_stack([table, np.ones(len(table))]) for table in (released, members, controls)]
    assert 0.0 <= traced_membership(task(*constant)).value <= 1.0


def excess_by_loops(known, value):
    """The 32 values below and above give a window of their shorter distance; an eighth of it is near."""
    below, above = [x for x in known if x < value], [x for x in known if x >= value]
    low = below[-32] if len(below) >= 32 else known[0]
    high = above[31] if len(above) >= 32 else known[-1]
    far = min(abs(value - low), abs(high - value))
    near, around = (sum(value - reach <= x <= value + reach for x in known) for reach in (far / 8, far))
    return np.log((near + 0.5) / (around / 8 + 0.5)) if far > 0 else 0.0


@pytest.mark.parametrize("step", [1e-9, 0.1, 1.0])
def test_counts_of_values_are_those_of_loops(step):
    rng = np.random.default_rng(3)
    known, values = (np.rint(rng.normal(size=n) / step) * step for n in (300, 60))
    known = np.sort(known)
    assert _excess(known, values) == pytest.approx([excess_by_loops(known.tolist(), each) for each in values])
    assert _excess(known, np.array([np.nan]))[0] == 0.0


def test_counts_tell_copies_and_not_another_sample():
    above = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        whole = rng.normal(size=(900, 6)).round(2)
        whole[:9, 0] = np.nan
        members, controls, released = np.split(whole, 3)
        above += counted_membership(task(released, members, controls)).low > 0.5
        assert counted_membership(task(rng.permutation(members), members, controls)).low > 0.6
    assert above <= 4  # 1 by chance
    constant = [np.ones((300, 1))] * 3
    assert counted_membership(task(*constant)).value == 0.5
