import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anonpipe.errors import InputError
from anonpipe.evaluate.utility import ks_distance, total_variation, wasserstein_distance
from tests.naive import utility as naive

numbers = st.lists(st.integers(-4, 4), min_size=1, max_size=9)


@settings(deadline=None, max_examples=25)
@given(numbers, numbers)
def test_as_the_twins(old, new):
    assert ks_distance(old, new) == pytest.approx(naive.ks_distance(old, new))
    assert total_variation(old, new) == pytest.approx(naive.total_variation(old, new))
    found = wasserstein_distance(old, new)
    if len(set(old)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(naive.wasserstein_distance(old, new))
    for measure in (ks_distance, total_variation):
        assert measure(old, new) == measure(new, old)
        assert 0 <= measure(old, new) <= 1
        assert measure(old, old[::-1]) == 0


def test_as_scipy():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=700), rng.gamma(2, size=500).round(1)
    assert ks_distance(old, new) == pytest.approx(stats.ks_2samp(old, new).statistic)
    assert wasserstein_distance(old, new) == pytest.approx(stats.wasserstein_distance(old, new) / old.std())


def test_huge_and_tiny_values():
    old = np.array([-1.7e308, 1.7e308])
    assert wasserstein_distance(old, old[::-1]) == 0
    assert wasserstein_distance(old, np.zeros(2)) == pytest.approx(1)
    tiny = np.array([0.0, 1e-300])
    assert wasserstein_distance(tiny, tiny + 1e-300) == pytest.approx(2)


def test_what_is_refused():
    for measure in (ks_distance, wasserstein_distance, total_variation):
        with pytest.raises(InputError, match=r"shape \(0,\)"):
            measure([1.0], [])
        with pytest.raises(InputError, match="not finite"):
            measure([np.nan], [1.0])
