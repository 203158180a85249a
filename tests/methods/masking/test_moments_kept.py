"""Moments that masks keep, and those that they are expected to have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from anonpipe.methods.masking import MASKERS
from anonpipe.moments import Expected, Moments, expect_together
from tests.methods.masking.tables import correlated, run

TIMES = 700
FEATURES = np.exp(correlated(14, 3, seed=5) / [3, 20, 60])
CASES = [
    ("noise", {"amount": 0.3}),
    ("noise", {"amount": 0.3, "form": "centred"}),
    ("noise", {"amount": 0.3, "basis": "columns"}),
    ("noise", {"amount": 0.3, "basis": "columns", "form": "centred"}),
    ("spectral_swap", {}),
    ("spectral_swap", {"basis": "columns"}),
    ("synthesis", {}),
    ("synthesis", {"basis": "columns"}),
    ("sequential_regression", {}),
    ("sequential_regression", {"rounds": 3}),
]
EXACT = [
    ("noise", {"form": "exact"}),
    ("noise", {"form": "exact", "basis": "columns", "amount": 2.0}),
    ("suppression", {"share": 0.3}),
    ("suppression", {"share": 0.4, "basis": "columns"}),
]


def many(method, options, times=TIMES):
    """Means and covariances of masked tables, shape (times, width) and (times, width, width)."""
    tables = [run(FEATURES, method, [5, 9], key=f"{i:032d}".encode(), **options) for i in range(times)]
    return np.array([t.mean(axis=0) for t in tables]), np.array([np.cov(t.T) for t in tables])


def sure(values):
    """How many standard errors the worst of so many values may be off, with probability 1e-3."""
    return norm.isf(1e-3 / 2 / np.size(values))


@pytest.mark.parametrize(("method", "options"), CASES)
def test_moments_are_those_expected_and_scatter_as_stated(method, options):
    expected = MASKERS[method].expect(Moments.of(FEATURES), **options)
    means, covariances = many(method, options)
    for found, wanted, error in (
        (means, FEATURES.mean(axis=0), expected.mean_error),
        (covariances, expected.covariance, expected.covariance_error),
    ):
        rounding = 1e-12 * np.abs(FEATURES).max() ** 2
        assert (np.abs(found.mean(axis=0) - wanted) <= sure(wanted) * error / np.sqrt(TIMES) + rounding).all()
        spread = found.std(axis=0)
        # of the squared deviations, whose own spread is taken from the sample
        wobble = ((found - wanted) ** 2).std(axis=0) / np.sqrt(TIMES)
        assert (np.abs(spread**2 - error**2) <= sure(wanted) * wobble + rounding**2).all()


@pytest.mark.parametrize("draw", ["normal", "quantiles"])
def test_synthesis_keeps_moments_on_average_whatever_is_drawn(draw):
    means, covariances = many("synthesis", {"draw": draw})
    for found, wanted in ((means, FEATURES.mean(axis=0)), (covariances, np.cov(FEATURES.T))):
        error = found.std(axis=0) / np.sqrt(TIMES)
        assert (np.abs(found.mean(axis=0) - wanted) <= sure(wanted) * error).all()


def test_drawn_parameters_scatter_more_than_estimated_ones():
    wide, _ = many("sequential_regression", {"parameters": "drawn"}, 300)
    narrow, _ = many("sequential_regression", {"parameters": "estimated"}, 300)
    assert (wide.std(axis=0) > 1.15 * narrow.std(axis=0)).all()
    error = wide.std(axis=0) / np.sqrt(300)
    assert (np.abs(wide.mean(axis=0) - FEATURES.mean(axis=0)) <= sure(error) * error).all()


@pytest.mark.parametrize(("method", "options"), EXACT)
@pytest.mark.parametrize("parts", [[14], [5, 9], [1, 0, 12, 1]])
def test_exact_promises_are_exact_in_any_split(method, options, parts):
    expected = MASKERS[method].expect(Moments.of(FEATURES), **options)
    masked = run(FEATURES, method, parts, **options)
    size = np.sqrt(np.outer(FEATURES.var(axis=0), FEATURES.var(axis=0)))
    assert (expected.mean_error == 0).all() and (expected.covariance_error == 0).all()
    assert (np.abs(np.cov(masked.T) - expected.covariance) <= 1e-9 * size.max()).all()
    assert np.abs(masked.mean(axis=0) - FEATURES.mean(axis=0)).max() <= 1e-13 * np.abs(FEATURES).max()


def test_nothing_is_claimed_where_nothing_is_known():
    moments = Moments.of(FEATURES)
    assert MASKERS["synthesis"].expect(moments, draw="quantiles") is None
    assert MASKERS["suppression"].expect(moments, outside=2.0) is None
    assert MASKERS["sequential_regression"].expect(moments, categories=((0,),)) is None
    assert MASKERS["sequential_regression"].expect(moments, parameters="drawn") is None


def test_exact_promises_of_strata_are_the_whole_tables():
    features = correlated(90, 3, seed=1)
    parts = [Moments.of(features[:20]), Moments.of(features[20:] + 5)]
    whole = Moments.of(np.concatenate([features[:20], features[20:] + 5]))
    exact = [(part, Expected.exactly(part.covariance)) for part in parts]
    together = expect_together(exact)
    assert np.allclose(together.covariance, whole.covariance)
    assert not together.mean_error.any() and not together.covariance_error.any()
    assert expect_together(exact[:1]) is exact[0][1]


def test_standard_errors_of_strata_cover_what_whole_tables_vary():
    rng = np.random.default_rng(2)
    parts = [correlated(30, 2, seed=3), correlated(50, 2, seed=4) + np.array([4.0, 0.0])]
    expect = MASKERS["synthesis"].expect
    together = expect_together([(Moments.of(part), expect(Moments.of(part))) for part in parts])
    drawn = []
    for _ in range(1_500):
        made = [rng.multivariate_normal(p.mean(axis=0), np.cov(p.T), len(p)) for p in parts]
        drawn.append(Moments.of(np.concatenate(made)))
    means, covariances = np.array([m.mean for m in drawn]), np.array([m.covariance for m in drawn])
    assert np.allclose(means.std(axis=0), together.mean_error, rtol=0.1)
    assert (covariances.std(axis=0) <= 1.1 * together.covariance_error).all()
    assert (covariances.std(axis=0) >= 0.4 * together.covariance_error).all()
    assert (np.abs(covariances.mean(axis=0) - together.covariance) < 0.2 * together.covariance_error).all()
