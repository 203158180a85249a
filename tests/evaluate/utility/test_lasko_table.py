import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import spearmanr

from tests.benchmarks._lasko_table import lasko_table
from tests.evaluate.utility.tables import pairs
from tests.naive import measure as naive


def medians(table):
    parts = (table.means, table.variances, table.correlations, table.rank_correlations)
    return [part.median for part in parts]


@settings(deadline=None, max_examples=40)
@given(pairs(widths=(2, 3, 4)))
def test_as_the_twin(tables):
    assert medians(lasko_table(*tables)) == pytest.approx(naive.lasko_table(*tables), abs=1e-9)


def test_as_spearman():
    rng = np.random.default_rng(1)
    old, new = (np.round(rng.normal(size=(50, 2)) @ [[1, 0.5], [0, 1]], 1) for _ in range(2))
    expected = abs(spearmanr(new).statistic - spearmanr(old).statistic)
    assert lasko_table(old, new).rank_correlations.median == pytest.approx(expected)


def test_hand_made():
    old = np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 10.0]])
    new = np.array([[1.0, 0.0], [3.0, 12.0], [5.0, 12.0]])
    table = lasko_table(old, new)
    # Means 2 and 4 become 3 and 8, deviations are 2 and √28; variances 4 and 28 become 4 and 48.
    assert table.means.median == pytest.approx((0.5 + 4 / np.sqrt(28)) / 2)
    assert table.variances.median == pytest.approx((0 + 20 / 28) / 2)
    # Ranks 1 2 3 twice become 1 2 3 and 1 2.5 2.5.
    assert table.rank_correlations.median == pytest.approx(1 - np.sqrt(3) / 2)


def test_constant_columns_are_left_out_and_lost_ones_counted():
    rng = np.random.default_rng(2)
    old = np.c_[rng.normal(size=(20, 3)), np.full(20, 0.1)]
    new = old.copy()
    new[:, 0] = 7.0
    table = lasko_table(old, new)
    assert (table.means.terms, table.means.left_out) == (3, 1)
    assert (table.variances.terms, table.variances.left_out, table.variances.lost) == (3, 1, 0)
    assert sorted([1.0, 0.0, 0.0])[1] == table.variances.median
    for part in (table.correlations, table.rank_correlations):
        assert (part.terms, part.left_out, part.lost) == (1, 3, 2)
