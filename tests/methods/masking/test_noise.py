from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError
from tests.in_memory import mask
from tests.methods.masking.tables import KEY, correlated, run, split_tables
from tests.naive import mask as naive


@pytest.mark.parametrize("centred", [False, True])
def test_noise_is_that_of_the_twin(centred):
    features, parts = correlated(30, 4), [11, 0, 19]
    new = run(features, "noise", parts, amount=0.15, form="centred" if centred else "expected")
    assert np.allclose(new, naive.noise(features.tolist(), parts, KEY, 0.15, centred), rtol=0, atol=1e-10)


@given(case=split_tables(most=40, widths=(1, 2, 3)), amount=st.sampled_from([1e-3, 0.15, 5.0]))
@settings(max_examples=80, deadline=None)
def test_exact_noise_keeps_mean_and_covariance_of_large_table(case, amount):
    features, parts = case
    try:
        masked = run(features, "noise", parts, form="exact", amount=amount)
    except InputError:
        assert len(features) <= 2 * features.shape[1]
        return
    spread = features.std(axis=0, ddof=1)
    off = np.abs(np.cov(masked.T) - np.cov(features.T)).reshape(len(spread), -1)
    # Of hardly more records than it takes, draws nearly follow from the data: taking these off magnifies rounding.
    magnified = 1e4 if len(features) <= 2 * features.shape[1] + 3 else 1.0
    rounding = magnified * 1e-15 * np.abs(features).max()
    assert (off <= np.outer(spread + rounding, magnified * 1e-9 * spread + rounding)).all()
    assert np.abs(masked.mean(axis=0) - features.mean(axis=0)).max() <= 100 * rounding


def test_exact_noise_does_not_correlate_with_data_beyond_share():
    features = correlated(50, 3)
    masked = run(features, "noise", [25, 25], form="exact", amount=0.5)
    both = np.cov(features.T, masked.T)
    assert np.allclose(both[:3, 3:] * np.sqrt(1.5), np.cov(features.T), rtol=1e-9, atol=1e-9)


def test_independent_noise_shrinks_correlations():
    features = correlated(20_000, 2)
    masked = mask(features, "noise", rng=np.random.default_rng(1), amount=1.0, basis="columns")
    ratio = np.cov(masked.T)[0, 1] / np.cov(features.T)[0, 1]
    assert abs(ratio - 0.5) < 0.1
