"""The gate on small cells of two-way tables: what it counts, what it finds, what it lets pass."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.encoding.shares import likely_means
from anonpipe.moments import Moments, PairwiseMoments
from anonpipe.verify.expectations import ReleaseView, Target, Variable
from anonpipe.verify.original_values import SmallCellCounts

K = 5


def view_of(cells):
    """A number with nulls, columns of four and of two categories masked, one of three unchanged."""
    variables = [Variable("score", 0, None, 0.3, 2.0, True)]
    for position, (name, codes, masked) in enumerate([("a", 4, True), ("b", 2, True), ("key", 3, False)], start=1):
        for code in range(1 if codes == 2 else 0, codes):
            share = float((cells[:, position] == code).mean())
            sd = np.sqrt(share * (1 - share)) or 1.0
            variables.append(Variable(name, position, code, share, sd, masked))
    return ReleaseView(tuple(variables))


def registry(rows, seed):
    rng = np.random.default_rng(seed)
    skewed = [0.8, 0.12, 0.05, 0.03]
    score = np.where(rng.random(rows) < 0.05, np.nan, rng.normal(size=rows))
    columns = [score, rng.choice(4, rows, p=skewed), rng.choice(2, rows, p=[0.95, 0.05])]
    return np.column_stack([*columns, rng.choice(3, rows, p=[0.9, 0.07, 0.03])]).astype(float)


def measured(original, released):
    view = view_of(original)
    before, after = (PairwiseMoments.of(view.measure(table)) for table in (original, released))
    return SmallCellCounts.of(before, after, view, K)


def literal(original, released):
    """Small cells, and exact ones; small released cells, and those that occur; by loops over records."""
    found = np.zeros(4, dtype=int)
    for one, other in itertools.combinations(range(4), 2):
        counts = []
        for table in (original, released):
            levels = [
                [("null" if np.isnan(v) else "there") if at == 0 else v for v in table[:, at]] for at in (one, other)
            ]
            counts.append(list(zip(*levels, strict=True)))
        for pair in set(counts[0]):
            ours, theirs = (pairs.count(pair) for pairs in counts)
            found[:2] += [ours < K, ours < K and ours == theirs]
        for pair in set(counts[1]):
            ours, theirs = (pairs.count(pair) for pairs in counts)
            found[2:] += [theirs < K, theirs < K and ours > 0]
    return found.tolist()


@given(st.integers(20, 200), st.integers(0, 10**6))
def test_cells_are_counted_as_by_loops(rows, seed):
    original, released = registry(rows, seed), registry(rows, seed + 1)
    found = measured(original, released)
    counted = [found.cells, found.exact, found.released, found.occurring]
    assert counted == literal(original, released)


def test_a_copy_is_found():
    original = registry(300, 1)
    found = measured(original, np.random.default_rng(2).permutation(original))
    assert found.exact == found.cells >= 10 and found.excess > 0.1


def test_other_samples_pass():
    original = registry(1_500, 4)
    for seed in range(200):
        assert measured(original, registry(1_500, 5 + seed)).excess == 0.0


def test_pairs_that_always_occur_are_found():
    """A release of which each pair occurs, with other counts: records of the original, drawn with replacement."""
    rng = np.random.default_rng(3)
    wide = rng.integers(0, 40, (2_000, 4)).astype(float)
    view = view_of(np.column_stack([wide[:, 0], wide[:, 1] % 4, wide[:, 2] % 2, wide[:, 3] % 3]))
    variables = [v for v in view.variables if v.position == 0]
    variables += [Variable(f"c{at}", at, code, 1 / 40, 0.156, True) for at in (1, 2) for code in range(40)]
    view = ReleaseView(tuple(variables))
    before, same, other = (
        PairwiseMoments.of(view.measure(each))
        for each in (wide, wide[rng.integers(0, 2_000, 2_000)], rng.integers(0, 40, (2_000, 4)).astype(float))
    )
    assert SmallCellCounts.of(before, same, view, K).excess > 0.1
    assert SmallCellCounts.of(before, other, view, K).excess == 0.0


@pytest.mark.parametrize(("of_empty", "noticed"), [(0.0, True), (0.25, True), (1.0, False)])
def test_a_wrong_estimator_of_means_is_noticed(of_empty, noticed):
    """Cells are drawn by means of which those of empty cells are too small; chance is not that estimator's."""
    rng = np.random.default_rng(4)
    one, other = (rng.choice(size, 6_000, p=(p := np.arange(1, size + 1) ** -0.8) / p.sum()) for size in (60, 40))
    other = np.where(rng.random(6_000) < 0.6, one * 40 // 60, other)
    table = np.bincount(40 * one + other, minlength=2_400).reshape(60, 40)
    means = likely_means([table], K)[0] * np.where(table == 0, of_empty, 1.0)
    drawn = np.where(table < K, rng.poisson(means), table)
    variables = [Variable("a", 0, code, 0.02, 0.13, True) for code in range(60)]
    variables += [Variable("b", 1, code, 0.02, 0.13, True) for code in range(40)]
    view = ReleaseView(tuple(variables))
    before, after = (PairwiseMoments.of(view.measure(_records(each))) for each in (table, drawn))
    found = SmallCellCounts.of(before, after, view, K)
    assert (found.excess > 0.1) == noticed and (found.excess == 0.0) != noticed


def _records(table):
    cells = np.argwhere(table > 0)
    return np.repeat(cells, table[table > 0], axis=0).astype(float)


@pytest.mark.parametrize("columns", [[], [Variable("score", 0, None, 0.0, 1.0, True)]])
def test_a_table_without_two_columns_has_no_cells(columns):
    view = ReleaseView(tuple(columns))
    moments = PairwiseMoments.of(np.zeros((10, len(columns))))
    assert SmallCellCounts.of(moments, moments, view, K) == SmallCellCounts(0, 0, 0.0, 0.0)


def test_covariances_may_move_as_cells_were_drawn():
    """Three records more in a cell move a covariance of dummies of -1 and +1 by 12 / (n - 1), and no other."""
    rng = np.random.default_rng(5)
    dummies = rng.choice([-1.0, 1.0], (40, 3))
    moments, drawn = Moments.of(dummies), np.zeros((3, 4))
    drawn[0, 1] = drawn[1, 0] = -3.0
    drawn[2, 3] = 2.0  # with an unchanged category
    plain, moved = Target(moments, None), Target(moments, None, drawn=drawn)
    spread = dummies.std(axis=0, ddof=1)
    allowed = moved.allowance[1] - plain.allowance[1]
    assert allowed[0, 1] == pytest.approx(12 / 39 / (spread[0] * spread[1])) and np.count_nonzero(allowed) == 2
    assert moved.drawn_with_keys.tolist() == pytest.approx([0.0, 0.0, 4.0 / 39 / spread[2]])
    assert not plain.drawn_with_keys.any()
