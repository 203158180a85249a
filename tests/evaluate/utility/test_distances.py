import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anonpipe.columns import Kind
from anonpipe.evaluate.utility._distances import (
    COLUMN_DISTANCES,
    hellinger_distance,
    ks_distance,
    total_variation,
    wasserstein_distance,
)
from anonpipe.evaluate.utility._tables import typed_tables
from tests.naive import utility as naive

numbers = st.lists(st.integers(-4, 4), min_size=1, max_size=9)


@settings(deadline=None, max_examples=25)
@given(numbers, numbers)
def test_as_the_twins(left, right):
    sides, (old, new) = (left, right), map(np.array, (left, right))
    assert ks_distance(old, new) == pytest.approx(naive.ks_distance(*sides))
    assert total_variation(old, new) == pytest.approx(naive.total_variation(*sides))
    found = wasserstein_distance(old, new)
    if len(set(old)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(naive.wasserstein_distance(*sides))
    assert hellinger_distance(old, new) == pytest.approx(naive.hellinger_distance(*sides), abs=1e-7)
    assert hellinger_distance(old, new) ** 2 <= total_variation(old, new) + 1e-12
    assert total_variation(old, new) <= math.sqrt(2) * hellinger_distance(old, new) + 1e-12
    for measure in (ks_distance, total_variation, hellinger_distance):
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


def test_a_lost_category_weighs_by_the_root_of_its_share():
    old = np.repeat([0, 1], [96, 4])
    assert hellinger_distance(old, np.zeros(50)) == pytest.approx(math.sqrt(1 - math.sqrt(0.96)))
    assert total_variation(old, np.zeros(50)) == pytest.approx(0.04)


def test_numbers_are_compared_in_bins_of_the_original():
    rng = np.random.default_rng(4)
    x = rng.normal(size=4_000)
    frame = pd.DataFrame({"x": x, "c": rng.choice(["a", "b"], 4_000), "n": np.nan})
    kinds = {"x": Kind.CONTINUOUS, "c": Kind.CATEGORICAL, "n": Kind.CONTINUOUS}
    *_, same = COLUMN_DISTANCES.of(typed_tables(frame, frame, kinds))
    assert same.value == 0.0 and dict(same.parts) == {"x": 0.0, "c": 0.0}
    far = frame.assign(x=x + 100, c="a")
    *_, other = COLUMN_DISTANCES.of(typed_tables(frame, far, kinds))
    shares = np.bincount(np.searchsorted(np.quantile(x, np.arange(1, 20) / 20), x), minlength=20) / 4_000
    assert dict(other.parts)["x"] == pytest.approx(math.sqrt(1 - math.sqrt(shares[-1])))
    *_, lost = COLUMN_DISTANCES.of(typed_tables(frame, frame.assign(x=np.nan), kinds))
    assert dict(lost.parts)["x"] == 1.0
