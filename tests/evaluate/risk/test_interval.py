import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint

from anonpipe.evaluate.measurement import difference, exact, grouped_share, wilson


@given(st.floats(0, 1), st.floats(0.5, 1e6))
def test_wilson_holds_shares_that_normal_test_does_not_reject(share, trials):
    square = 1.959963984540054**2
    low, high = wilson(share * trials, trials)
    assert 0 <= low <= share * trials / trials <= high <= 1
    for end in (low, high):
        assert trials * (share - end) ** 2 == pytest.approx(square * end * (1 - end), abs=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 60), st.floats(1e-5, 0.1), st.data())
def test_exact_errs_as_often_as_said(trials, tail, data):
    hits = data.draw(st.integers(0, trials))
    low, high = exact(hits, trials, tail)
    assert binom.sf(hits - 1, trials, low) == pytest.approx(tail if hits else 1.0, rel=1e-6)
    assert binom.cdf(hits, trials, high) == pytest.approx(tail if hits < trials else 1.0, rel=1e-6)


def test_differences_as_newcombe_printed_them():
    # His table II, method 10.
    assert difference((56, 70), (48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert difference((9, 10), (3, 10)) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    assert difference((10, 10), (0, 20)) == pytest.approx((0.6791, 1.0), abs=5e-5)


def test_intervals_as_statsmodels_has_them():
    for hits, trials in ((0, 7), (3, 7), (7, 7), (12, 1500), (2.25, 7.5)):
        clopper = proportion_confint(hits, trials, alpha=0.02, method="beta")
        assert exact(hits, trials, 0.01) == tuple(map(float, clopper))
        assert wilson(hits, trials) == pytest.approx(proportion_confint(hits, trials, method="wilson"), abs=1e-15)


def test_trials_that_come_in_groups():
    # All or none of a group: as many trials as groups, less one.
    share, low, high = grouped_share([10, 0, 10, 0, 0], [10] * 5)
    assert (share, low, high) == pytest.approx((0.4, *wilson(1.6, 4)))
    # As if thrown one by one: nearly as many as there are.
    rng = np.random.default_rng(0)
    hits = rng.binomial(10, 0.3, 400)
    share, low, high = grouped_share(hits, np.full(400, 10))
    one_by_one = wilson(hits.sum(), 4000)
    assert high - low == pytest.approx(one_by_one[1] - one_by_one[0], rel=0.1)
    assert grouped_share([0, 0], [9, 9])[1:] == wilson(0, 2)
    assert np.isnan(grouped_share([], [])[0])
