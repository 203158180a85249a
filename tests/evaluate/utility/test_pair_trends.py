import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anonpipe.evaluate.utility._moments import (
    contingency_distance,
    correlation_ratio,
    pairwise_correlations,
    ranked,
)
from tests.naive import utility as naive

cells = st.one_of(st.none(), st.integers(0, 3))
tables = st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=9)


def array(rows):
    return np.array([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=float)


@settings(deadline=None, max_examples=25)
@given(tables, tables)
def test_as_the_twins(old, new):
    table = array(old)
    columns = list(zip(*old, strict=True))
    found = pairwise_correlations(table + 1000)
    for left in range(3):
        for right in range(3):
            expected = naive.pairwise_correlation(columns[left], columns[right])
            if expected is None:
                assert math.isnan(found[left, right])
            else:
                assert found[left, right] == pytest.approx(expected)
    expected = naive.correlation_ratio(columns[0], columns[1])
    ratio = correlation_ratio(table[:, 0], table[:, 1])
    assert math.isnan(ratio) if expected is None else ratio == pytest.approx(expected)
    pairs = [[row[:2] for row in side] for side in (old, new)]
    distance = contingency_distance(*map(array, pairs))
    without_any, lost = (all(None in pair for pair in side) for side in pairs)
    if without_any:
        assert math.isnan(distance)
    elif lost:
        assert distance == 1.0
    else:
        assert distance == pytest.approx(naive.contingency_distance(*pairs))


def test_as_numpy_and_scipy():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 1e6
    table[:, 2] = table[:, 2].round()
    assert pairwise_correlations(table) == pytest.approx(np.corrcoef(table.T), abs=1e-8)
    assert pairwise_correlations(ranked(table)) == pytest.approx(stats.spearmanr(table).statistic)
    # η² is R² of the analysis of variance: F = η² / (1 - η²) · (n - g) / (g - 1).
    codes = rng.integers(0, 3, 300)
    share = correlation_ratio(codes, table[:, 0]) ** 2
    fisher = stats.f_oneway(*(table[codes == code, 0] for code in range(3))).statistic
    assert share / (1 - share) * 297 / 2 == pytest.approx(fisher)


def test_constant_columns_whose_mean_is_not_exact():
    table = np.column_stack([np.full(7, 0.1), np.arange(7.0), [0.3] * 6 + [np.nan]])
    found = pairwise_correlations(table)
    assert np.isnan(found[0]).all() and np.isnan(found[2]).all()
    assert found[1, 1] == 1
    assert math.isnan(correlation_ratio(np.zeros(7), table[:, 0]))


def test_many_categories_are_counted_without_the_whole_table():
    codes = np.column_stack([np.arange(3000.0), np.arange(3000.0)])
    assert contingency_distance(codes, codes[::-1]) == 0
    assert contingency_distance(codes, codes[:1500]) == pytest.approx(0.5)
