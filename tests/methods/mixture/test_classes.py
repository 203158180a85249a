import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError, JobError
from anonpipe.methods import latent_classes
from anonpipe.methods.latent_classes import (
    LatentClasses,
    class_e_step,
    class_m_step,
    count_categories,
    draw_categories,
    first_classes,
    fit_classes,
    lifted,
)
from anonpipe.methods.mixture import least_weight
from tests.naive import mixture as naive

STARTS = np.array([0, 2, 5])


def problem(rows, width, classes, seed):
    """Numbers, codes and any estimates for columns of two and three categories."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, width))
    codes = np.stack([rng.integers(0, 2, rows), rng.integers(0, 3, rows)], axis=1)
    slopes = rng.normal(size=(classes, 1 + width))
    shares = np.concatenate([rng.dirichlet(np.ones(2), classes), rng.dirichlet(np.ones(3), classes)], axis=1)
    return features, codes, LatentClasses(slopes - slopes.mean(axis=0), shares, STARTS)


def truth(rows, seed):
    """Two classes that the first number separates, with unlike categories."""
    rng = np.random.default_rng(seed)
    classes = LatentClasses(
        np.array([[0.3, 1.0, 0.0], [-0.3, -1.0, 0.0]]),
        np.array([[0.9, 0.1, 0.8, 0.15, 0.05], [0.2, 0.8, 0.1, 0.2, 0.7]]),
        STARTS,
    )
    features = rng.normal(size=(rows, 2))
    return features, draw_categories(features, classes, rng=rng), classes


def objective(statistics, classes):
    overall = np.concatenate([part / part.sum() for part in np.split(statistics.totals, STARTS[1:-1])])
    return (
        statistics.log_likelihood
        - latent_classes.RIDGE / 2 * (classes.slopes[:, 1:] ** 2).sum()
        + latent_classes.PRIOR_ROWS * (overall * np.log(classes.shares)).sum()
    )


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 3), st.integers(1, 4))
def test_expectation_is_the_naive_one(seed, rows, width, classes):
    features, codes, start = problem(rows, width, classes, seed)
    statistics = class_e_step(features, codes, start)
    z, p, likelihood = naive.class_posteriors(features, codes, start.slopes, start.shares, STARTS)
    z, p, x = np.array(z), np.array(p), np.c_[np.ones(rows), features]
    assert statistics.log_likelihood == pytest.approx(likelihood, rel=1e-10)
    assert statistics.posteriors == pytest.approx(z.sum(axis=0), rel=1e-9)
    assert statistics.gradient == pytest.approx((z - p).T @ x, abs=1e-9)
    for g in range(classes):
        for j in range(2):
            for c in range(int(STARTS[j + 1] - STARTS[j])):
                expected = z[codes[:, j] == c, g].sum()
                assert statistics.tables[g, STARTS[j] + c] == pytest.approx(expected, abs=1e-9)
    terms = 1 + width
    for g in range(classes):
        for h in range(classes):
            weight = p[:, g] * ((g == h) - p[:, h])
            block = statistics.hessian[g * terms : (g + 1) * terms, h * terms : (h + 1) * terms]
            assert block == pytest.approx((x * weight[:, None]).T @ x, abs=1e-9)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 40), max_size=4))
def test_any_split_gives_the_same_estimates(seed, cuts):
    features, codes, start = problem(40, 2, 3, seed)
    pieces = zip(np.split(features, sorted(cuts)), np.split(codes, sorted(cuts)), strict=True)
    found, whole = [class_e_step(*piece, start) for piece in pieces], class_e_step(features, codes, start)
    merged = replace(whole, **{name: sum(getattr(piece, name) for piece in found) for name in vars(whole)})
    bounds = least_weight(8, 40, 3, "classes")
    new, other = (class_m_step(s, start, bounds) for s in (merged, whole))
    assert merged.rows == 40
    assert new.slopes == pytest.approx(other.slopes, rel=1e-7, abs=1e-7)
    assert new.shares == pytest.approx(other.shares, rel=1e-9)


def test_whole_difference_reaches_new_weights_printed_does_not():
    features, codes, start = problem(60, 2, 3, 1)
    slopes = start.slopes.copy()
    slopes[2, 0] -= 6
    start = replace(start, slopes=slopes)
    n, bounds = 60, least_weight(15, 60, 3, "classes")
    z = np.array(naive.class_posteriors(features, codes, start.slopes, start.shares, STARTS)[0])
    new, difference = lifted(class_e_step(features, codes, start), bounds)
    old = z.mean(axis=0)
    assert old.min() < 15 / n
    assert new.min() == pytest.approx(15 / n)
    assert (z + difference).mean(axis=0) == pytest.approx(new)
    printed = (z + difference / n).mean(axis=0)
    assert printed == pytest.approx(old + (new - old) / n)
    assert printed.min() < 15 / n - 0.05
    # Of all z with these means it is the nearest: any other differs by a part that sums to 0.
    other = np.random.default_rng(0).normal(size=z.shape)
    other += new - (other.mean(axis=0))
    assert ((other - z) ** 2).sum() > n * (difference**2).sum()


def test_fitted_weights_reach_the_bound():
    features, codes, _ = truth(2_000, 3)
    k = 800
    labels = (np.arange(2_000) % 10 == 0).astype(np.int64)
    bounds = least_weight(k, 2_000, 2, "classes")
    tables = count_categories(codes, labels, 2, STARTS)
    start = first_classes(tables, np.bincount(labels).astype(float), STARTS, 2)
    result = fit_classes(features, codes, start, bounds, tolerance=1e-12, iterations=400)
    x = np.c_[np.ones(2_000), features] @ result.classes.slopes.T
    p = np.exp(x - x.max(axis=1, keepdims=True))
    weights = (p / p.sum(axis=1, keepdims=True)).mean(axis=0)
    assert weights.min() >= k / 2_000 - 1e-3
    assert weights.sum() == pytest.approx(1)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_safe_steps_never_lower_the_penalised_likelihood(seed, classes):
    features, codes, start = problem(50, 2, classes, seed)
    bounds = 0.0
    before = -math.inf
    for _ in range(20):
        statistics = class_e_step(features, codes, start)
        value = objective(statistics, start)
        assert value >= before - 1e-8
        before = value
        start = class_m_step(statistics, start, bounds, newton=False)


def fitted(features, codes, **options):
    """Two classes that begin on either side of the first number's mean."""
    labels = (features[:, 0] < 0).astype(np.int64)
    bounds = least_weight(100, 20_000, 2, "classes")
    tables = count_categories(codes, labels, 2, STARTS)
    start = first_classes(tables, np.bincount(labels).astype(float), STARTS, 2)
    return fit_classes(features, codes, start, bounds, **options)


def test_fit_finds_the_classes():
    features, codes, classes = truth(20_000, 1)
    result = fitted(features, codes, tolerance=1e-10)
    assert result.converged
    assert result.classes.shares == pytest.approx(classes.shares, abs=0.04)
    assert result.classes.slopes == pytest.approx(classes.slopes, abs=0.15)
    assert result.log_likelihoods[-1] >= class_e_step(features, codes, classes).log_likelihood
    assert len(result.log_likelihoods) < 60


def test_drawn_categories_keep_shares_and_relation_to_numbers():
    features, codes, _ = truth(20_000, 2)
    classes = fitted(features, codes).classes
    fresh = np.random.default_rng(9).normal(size=features.shape)
    new, again = (draw_categories(fresh, classes, rng=np.random.default_rng(1)) for _ in range(2))
    assert (new == again).all()
    for j in range(2):
        shares = [np.bincount(c[:, j], minlength=3)[:3] / 20_000 for c in (codes, new)]
        assert shares[1] == pytest.approx(shares[0], abs=0.02)
        for number in range(2):
            old_r = np.corrcoef(features[:, number], codes[:, j])[0, 1]
            assert np.corrcoef(fresh[:, number], new[:, j])[0, 1] == pytest.approx(old_r, abs=0.03)
    both = [np.histogram2d(c[:, 0], c[:, 1], bins=(2, 3))[0] / 20_000 for c in (codes, new)]
    assert both[1] == pytest.approx(both[0], abs=0.02)


def test_separated_constant_and_missing_values_stay_finite():
    features = np.c_[np.repeat([-5.0, 5.0], 50), np.ones(100)]
    codes = np.c_[np.repeat([0, 1], 50), np.zeros(100, dtype=np.int64)]
    labels = codes[:, 0].copy()
    bounds = least_weight(10, 100, 2, "classes")
    tables = count_categories(codes, labels, 2, STARTS)
    start = first_classes(tables, np.array([50.0, 50.0]), STARTS, 2)
    result = fit_classes(features, codes, start, bounds, tolerance=1e-9)
    assert np.isfinite(result.classes.slopes).all()
    assert (result.classes.shares > 0).all()
    new = draw_categories(features, result.classes, rng=np.random.default_rng(0))
    assert (new[:, 0] == labels).mean() > 0.95
    assert (new[:, 1] == 0).all()


def test_what_is_refused():
    features, codes, start = problem(10, 2, 2, 1)
    with pytest.raises(InputError, match="above the last category"):
        class_e_step(features, codes + 2, start)
    with pytest.raises(InputError, match="2 columns"):
        class_e_step(features, codes[:, :1], start)
    with pytest.raises(JobError, match="give 1 to 2"):
        least_weight(4, 10, 3, "classes")


@pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-9])
def test_a_column_that_follows_from_another_leaves_a_finite_step(factor, monkeypatch):
    """Of equal columns the shortest step shares alike; a Cholesky factor of nearly equal ones would be noise."""
    features, codes, start = problem(80, 1, 3, 4)
    twice = np.concatenate([features, factor * features], axis=1)
    zero = LatentClasses(np.zeros((3, 3)), start.shares, STARTS)
    monkeypatch.setattr(latent_classes, "RIDGE", 1e-30)
    bounds = least_weight(5, 80, 3, "classes")
    step = class_m_step(class_e_step(twice, codes, zero), zero, bounds).slopes
    alone = replace(zero, slopes=zero.slopes[:, :2])
    wanted = class_m_step(class_e_step(features, codes, alone), alone, bounds).slopes
    assert step[:, 1] == pytest.approx(step[:, 2], rel=1e-5)
    assert step[:, :2] == pytest.approx(wanted * [1.0, 0.5], rel=1e-5)
