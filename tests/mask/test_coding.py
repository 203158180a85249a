from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.codec.categories import probabilities
from anonpipe.errors import InputError, JobError
from anonpipe.mask import from_logarithms, mask, to_logarithms


@given(st.integers(0, 10**6))
def test_logarithms_and_back(seed):
    points = np.exp(np.random.default_rng(seed).normal(size=(20, 3)) * 5)
    coded = to_logarithms(points, [0, 2])
    assert np.array_equal(coded[:, 1], points[:, 1]) and np.allclose(np.exp(coded[:, 0]), points[:, 0])
    assert np.allclose(from_logarithms(coded, [0, 2]), points, rtol=1e-12, atol=0)


def test_masked_logarithms_come_back_positive_with_the_geometric_mean():
    rng = np.random.default_rng(1)
    points = np.exp(rng.normal(size=(500, 2)))
    masked = from_logarithms(mask(to_logarithms(points, [0, 1]), "spectral_swap", rng=rng), [0, 1])
    assert (masked > 0).all()
    assert np.allclose(np.log(masked).mean(axis=0), np.log(points).mean(axis=0), atol=1e-12)


def test_values_up_to_zero_and_missing_columns_are_refused():
    with pytest.raises(InputError, match="1 of 2 records"):
        to_logarithms(np.array([[0.0], [1.0]]), [0])
    for columns in ([1], [-1]):
        with pytest.raises(JobError):
            to_logarithms(np.ones((2, 1)), columns)


def test_the_papers_example_of_masked_dummies():
    found = probabilities(np.array([[-2.5, -1.5, 0.41]]))[0]
    assert np.allclose(found, [0.088, 0.212, 0.700], atol=1e-3)
