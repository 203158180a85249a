"""Changes of moments, pairs and records, against plain computations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility import _moments
from anonpipe.evaluate.utility._moments import (
    centred,
    contingency_distance,
    correlation_ratio,
    eigenvalue_change,
    il1s,
    moment_changes,
    pairwise_correlations,
    ranked,
)
from tests.benchmarks._changes import ChangeSummary
from tests.benchmarks._correlations import abico, abim, abisd
from tests.evaluate.utility.tables import pairs
from tests.naive import measure as naive_measure
from tests.naive import utility as naive
from tests.naive.measure import columns_of


@settings(deadline=None, max_examples=40)
@given(pairs(), st.integers(1, 5), st.booleans())
def test_moment_changes_as_the_twin(tables, order, central):
    if central and order == 1:
        return
    found, left_out = moment_changes(*(map(centred, tables) if central else tables), order, least=0.0)
    changes = naive_measure.moment_changes(*(t.tolist() for t in tables), order, central)
    assert len(found) == len(changes) == math.comb(tables[0].shape[1] + order - 1, order) and left_out == 0
    assert found == pytest.approx(changes, rel=1e-6, abs=1e-9)


def test_moment_changes_hand_made():
    old, new = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[2.0, 2.0], [3.0, 0.0]])
    # E x³ 14 to 17.5, E x²y 1 to 4, E xy² 2 to 4, E y³ stays.
    assert moment_changes(old, new, 3)[0].tolist() == pytest.approx([25, 300, 100, 0])


def test_the_table_of_the_paper_has_35_and_70_moments():
    rng = np.random.default_rng(0)
    old = 4 + rng.normal(size=(100, 5))
    assert [len(moment_changes(old, old[::-1], order)[0]) for order in (3, 4)] == [35, 70]
    assert moment_changes(old, old[::-1], 4)[0] == pytest.approx(0, abs=1e-9)


def test_wide_long_and_huge(monkeypatch):
    rng = np.random.default_rng(1)
    old, new = (3 + rng.normal(size=(60, 20)) for _ in range(2))
    whole, third = (moment_changes(old, new, order)[0] for order in (4, 3))
    monkeypatch.setattr(_moments, "_NUMBERS", 1_500)
    assert moment_changes(old, new, 4)[0] == pytest.approx(whole, abs=1e-9)
    for unit in (1e200, 1e-200):
        assert moment_changes(old * unit, new * unit, 3)[0] == pytest.approx(third, abs=1e-9)


def test_moments_near_zero_are_left_out():
    old = np.array([[-1.0, 0.0, 2.0], [1.0, 0.0, 2.0]])
    found, left_out = moment_changes(old, old + 0.5, 3)
    # Of ten, those with an odd power of the first column or any of the second are 0.
    assert (len(found), left_out) == (2, 8)
    assert len(moment_changes(centred(old), centred(old), 2)[0]) == 1
    found, left_out = moment_changes(*2 * [centred(np.full((7, 1), 0.1))], 2)
    assert (len(found), left_out) == (0, 1)


@settings(deadline=None, max_examples=40)
@given(pairs(widths=(2, 3, 5)))
def test_average_bias_as_the_twins(tables):
    for function, twin in ((abim, naive_measure.abim), (abisd, naive_measure.abisd), (abico, naive_measure.abico)):
        options = {} if function is abisd else {"least": 0.0}
        assert function(*tables, **options).mean == pytest.approx(twin(*tables), rel=1e-7)


def test_average_bias_hand_made():
    old = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 16.0]])
    new = np.array([[2.0, 12.0], [3.0, 12.0], [7.0, 12.0]])
    assert abim(old, new).mean == pytest.approx((100 / 3 + 0) / 2)
    # Deviations 2 and √12 become √7 and 0.
    assert abisd(old, new).mean == pytest.approx(100 * ((math.sqrt(7) / 2 - 1) + 1) / 2)
    assert abico(old, new) == ChangeSummary(
        pytest.approx(math.nan, nan_ok=True), pytest.approx(math.nan, nan_ok=True), 0, 0, 1
    )


@settings(deadline=None, max_examples=20)
@given(pairs(widths=(2, 3)))
def test_reordered_copy_and_scales_change_nothing(tables):
    old, new = tables
    before = old.copy()
    for function in (abim, abisd, abico):
        assert function(old, old[::-1]).mean == pytest.approx(0, abs=1e-8)
        assert function(old * 7, new * 7).mean == pytest.approx(function(old, new).mean)
    assert (old == before).all()


def test_terms_near_zero_are_left_out_and_counted():
    rng = np.random.default_rng(0)
    old = rng.normal(size=(400, 3))
    old -= old.mean(axis=0)
    old[:, 2] += 5
    new = old + 0.1
    found = abim(old, new)
    assert (found.terms, found.left_out, found.lost) == (1, 2, 0)
    assert found.mean == pytest.approx(2.0)
    # Orthogonal columns: what is left of a correlation is rounding.
    old = np.linalg.qr(np.c_[np.ones(400), old])[0][:, 1:]
    old = np.c_[old, old[:, 0] + old[:, 1]]
    found = abico(old, old)
    assert (found.terms, found.left_out) == (2, 4)
    assert abico(old, old, least=0.9).terms == 0


def test_average_bias_of_constant_columns():
    old, new = np.array([[5.0, 1.0], [5.0, 2.0]]), np.array([[6.0, 1.0], [7.0, 2.0]])
    assert abim(old, new).mean == pytest.approx(15)
    assert abisd(old, new) == ChangeSummary(0.0, 0.0, 1, 1, 0)
    assert abico(old, new).left_out == 1
    assert abico(new, old).lost == 1
    assert math.isnan(abico(np.ones((3, 1)), np.ones((3, 1))).mean)
    # 0.1 has no exact mean; the column is constant all the same.
    assert abisd(np.full((7, 1), 0.1), np.full((7, 1), 0.3)).left_out == 1


def test_what_is_refused():
    table = np.ones((3, 2))
    for bad, message in (
        (np.ones(3), "shapes"),
        (np.ones((1, 2)), "two rows or more"),
        (np.full((3, 2), np.nan), "not finite"),
        (np.ones((3, 1)), "of equal width"),
    ):
        with pytest.raises(InputError, match=message):
            abisd(table, bad)
    with pytest.raises(JobError, match="least=-1"):
        abico(table, table, least=-1)


cells = st.one_of(st.none(), st.integers(0, 3))
tables = st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=9)


def array(rows):
    return np.array([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=float)


@settings(deadline=None, max_examples=25)
@given(tables, tables)
def test_pairs_as_the_twins(old, new):
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


@settings(deadline=None, max_examples=20)
@given(pairs(least_rows=12, most_rows=12))
def test_record_distance_as_the_twin_and_as_numpy(tables):
    old, new = tables
    expected = [naive.il1s(a, b) for a, b in zip(columns_of(old), columns_of(new), strict=True)]
    assert il1s(old, new) == pytest.approx(expected)
    assert il1s(old * 3 + 1, new * 3 + 1) == pytest.approx(expected)
    values = [np.sort(np.linalg.eigvals(np.atleast_2d(np.corrcoef(t.T))).real)[::-1] for t in tables]
    assert eigenvalue_change(old, new) == pytest.approx((abs(values[1] - values[0]) / values[0]).sum(), abs=1e-9)
    assert eigenvalue_change(old, old[::-1] * 2 - 7) == pytest.approx(0, abs=1e-9)


def test_shuffling_a_normal_column_comes_to_080():
    rng = np.random.default_rng(0)
    old = rng.normal(50, 7, size=(20_000, 1))
    assert il1s(old, rng.permutation(old))[0] == pytest.approx(math.sqrt(2 / math.pi), abs=0.02)


def test_nulls_and_constant_columns():
    nan = np.nan
    old = np.array([[1.0, 5.0, nan], [3.0, 5.0, nan], [nan, 5.0, 1.0], [5.0, 5.0, 2.0]])
    new = np.array([[2.0, 6.0, 1.0], [nan, 6.0, 1.0], [7.0, 6.0, nan], [5.0, 6.0, nan]])
    found = il1s(old, new)
    assert found[0] == pytest.approx(0.5 / (math.sqrt(2) * 2))
    assert np.isnan(found[1:]).all()
    assert eigenvalue_change(old[:, :1], new[:, :1]) == 0
    assert math.isnan(eigenvalue_change(old[:, 1:2], new[:, 1:2]))
    # Columns 0 and 2 vary, but no two records have both: one is left.
    assert eigenvalue_change(old[:, [0, 2]], old[:, [0, 2]]) == 0


def test_columns_that_add_up_do_not_divide_by_zero():
    rng = np.random.default_rng(1)
    old = rng.normal(size=(50, 2))
    old = np.column_stack([old, old.sum(axis=1)])
    assert eigenvalue_change(old, old + 0.1 * rng.normal(size=old.shape)) < 1


@pytest.mark.filterwarnings("error")
def test_differences_whose_squares_vanish_have_no_figure():
    tiny = np.array([[1e-170], [2e-170]])
    assert np.isnan(il1s(tiny, tiny)).all() and np.isnan(il1s(tiny, np.ones((2, 1)))).all()
