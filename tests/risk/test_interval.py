import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from anonpipe.risk._interval import difference, grouped_share, wilson


@given(st.integers(1, 50), st.data())
def test_as_statsmodels(trials, data):
    hits, others = data.draw(st.integers(0, trials)), data.draw(st.integers(0, 7))
    assert wilson(hits, trials) == pytest.approx(proportion_confint(hits, trials, method="wilson"), abs=1e-12)
    assert difference((hits, trials), (others, 7)) == pytest.approx(
        confint_proportions_2indep(hits, trials, others, 7, method="newcomb", compare="diff"), abs=1e-9
    )
    assert wilson(0, 0) == (0.0, 1.0)


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
