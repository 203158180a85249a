"""What is promised of several tables together."""

import numpy as np

from anonpipe.methods.masking import MASKERS
from anonpipe.moments import Expected, Moments, expect_together
from tests.methods.masking.tables import correlated


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
