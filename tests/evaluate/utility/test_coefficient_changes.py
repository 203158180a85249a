import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.synthesis import synthesize
from tests.benchmarks._coefficient_changes import coefficient_changes, regressions
from tests.evaluate.utility.tables import pairs
from tests.naive import measure as naive


@settings(deadline=None, max_examples=40)
@given(pairs(widths=(2, 3, 4)))
def test_as_the_twin(tables):
    found = coefficient_changes(*tables, least=0.0)
    coefficients, errors = naive.coefficient_changes(*tables)
    assert found.coefficients.mean == pytest.approx(coefficients, rel=1e-6)
    assert found.standard_errors.mean == pytest.approx(errors, rel=1e-6)
    assert found.coefficients.terms == tables[0].shape[1] * (tables[0].shape[1] - 1)


def test_as_statsmodels():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) * [1, 1e4, 1e-3, 1] + [5, 0, 0, 1e3]
    slopes, errors = regressions(table)
    for place in range(4):
        fit = sm.OLS(table[:, place], sm.add_constant(np.delete(table, place, axis=1))).fit()
        assert slopes[place] == pytest.approx(fit.params[1:], rel=1e-8)
        assert errors[place] == pytest.approx(fit.bse[1:], rel=1e-8)


def test_exact_moments_keep_regressions_and_their_errors():
    rng = np.random.default_rng(3)
    old = rng.gamma(2.0, size=(90, 4)) @ rng.normal(size=(4, 4))
    new = synthesize(old, *sort_groups(np.arange(90) % 3), "gaussian", rng=rng)
    found = coefficient_changes(old, new)
    assert found.coefficients.mean == pytest.approx(0, abs=1e-7)
    assert found.standard_errors.mean == pytest.approx(0, abs=1e-7)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_only_slopes_that_are_determined_count(seed):
    rng = np.random.default_rng(seed)
    old = rng.normal(size=(30, 4))
    old[:, 3] = old[:, 2] * 2 + 1
    new = rng.normal(size=(30, 4))
    slopes, errors = regressions(old)
    # The pair of equals shares its slopes in the regressions of the two others, which keep theirs on each other.
    determined = ~np.isnan(slopes)
    assert determined.tolist() == [[True, False, False], [True, False, False], [True] * 3, [True] * 3]
    two = regressions(old[:, :3])[0]
    assert slopes[0, 0] == pytest.approx(two[0, 0]) and slopes[1, 0] == pytest.approx(two[1, 0])
    assert np.isnan(errors[2:]).all()
    found = coefficient_changes(old, new, least=0.0)
    assert found.coefficients.left_out >= 4 and found.standard_errors.left_out == 10
    turned = coefficient_changes(new, old, least=0.0)
    assert turned.coefficients.lost == 4 and turned.standard_errors.lost == 10


def test_constant_columns_and_few_records():
    rng = np.random.default_rng(1)
    old = np.c_[rng.normal(size=(20, 2)), np.full(20, 0.1)]
    slopes, _ = regressions(old)
    assert np.isnan(slopes[:, 1][:2]).all() and np.isfinite(slopes[:2, 0]).all()
    assert slopes[2].tolist() == [0, 0]
    few = coefficient_changes(rng.normal(size=(3, 4)), rng.normal(size=(3, 4)))
    assert few.coefficients.terms == 0 and math.isnan(few.coefficients.mean)
    one = coefficient_changes(old[:, :1], old[:, :1])
    assert one.coefficients.terms == one.coefficients.left_out == 0


def test_weak_slopes_are_left_out_with_their_errors():
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(np.c_[np.ones(50), rng.normal(size=(50, 3))])[0][:, 1:]
    old = np.c_[basis[:, 0], basis[:, 0] + basis[:, 1], basis[:, 2]]
    found = coefficient_changes(old, rng.normal(size=(50, 3)))
    assert (found.coefficients.terms, found.coefficients.left_out) == (2, 4)
    assert (found.standard_errors.terms, found.standard_errors.left_out) == (2, 4)
