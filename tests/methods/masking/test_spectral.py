"""Swapping, synthesis and suppression in the spectral basis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.masking._spectral import axes_of, spectral_inverse
from anonpipe.moments import Moments
from tests.in_memory import mask
from tests.methods.masking.tables import KEY, correlated, run, split_tables, tables
from tests.naive import mask as naive

FEATURES = correlated(25, 4)


def test_swapping_is_that_of_the_twin():
    new = run(FEATURES, "spectral_swap", [10, 15])
    assert np.allclose(new, naive.spectral_swap(FEATURES.tolist(), KEY), rtol=0, atol=1e-9)


def test_synthesis_is_that_of_the_twin():
    new = run(FEATURES, "synthesis", [10, 15])
    assert np.allclose(new, naive.normal_synthesis(FEATURES.tolist(), KEY), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("share", "outside"), [(0.05, None), (0.4, 1.5), (0.0, 1.0)])
def test_suppression_is_that_of_the_twin(share, outside):
    new = run(FEATURES, "suppression", [10, 15], share=share, outside=outside)
    assert np.allclose(new, naive.suppression(FEATURES.tolist(), share, outside), rtol=0, atol=1e-9)


@given(features=tables())
@settings(max_examples=60, deadline=None)
def test_axes_are_orthonormal_and_carry_the_covariance(features):
    moments = Moments.of(features)
    axes = axes_of(moments, "spectral")
    size = np.abs(moments.covariance).max() + 1e-300
    assert np.allclose(axes.vectors.T @ axes.vectors, np.eye(features.shape[1]), atol=1e-10)
    assert np.abs((axes.vectors * axes.variances) @ axes.vectors.T - moments.covariance).max() <= 1e-10 * size
    assert (np.diff(axes.variances) <= 1e-12 * size).all() and (axes.variances >= 0).all()
    largest = np.abs(axes.vectors).max(axis=0)
    assert (axes.vectors.max(axis=0) >= largest * (1 - 1e-12)).all()


@given(case=split_tables())
@settings(max_examples=60, deadline=None)
def test_swapping_keeps_component_values_and_total_variance(case):
    features, parts = case
    masked = run(features, "spectral_swap", parts)
    axes = axes_of(Moments.of(features), "spectral")
    before, after = ((p - axes.centre) @ axes.vectors for p in (features, masked))
    far = np.abs(features).max()
    if len(parts) == 1:
        assert np.abs(np.sort(before, axis=0) - np.sort(after, axis=0)).max() <= 1e-11 * far
    total = features.var(axis=0).sum()
    assert abs(masked.var(axis=0).sum() - total) <= 1e-11 * (total + far**2 * 1e-4)


@given(case=split_tables())
@settings(max_examples=40, deadline=None)
def test_swapping_of_columns_keeps_each_columns_values(case):
    features, parts = case
    masked = run(features, "spectral_swap", parts, basis="columns")
    far = np.abs(features).max(axis=0)
    assert (np.abs(np.sort(masked, axis=0) - np.sort(features, axis=0)) <= 1e-14 * far).all()


def test_quantiles_follow_component_shape_unlike_normal_draws():
    rng = np.random.default_rng(2)
    features = np.column_stack([rng.exponential(size=40_000) * 5, rng.normal(size=40_000)])
    skew = {}
    for draw in ("normal", "quantiles"):
        column = mask(features, "synthesis", rng=rng, draw=draw)[:, 0]
        skew[draw] = np.mean(((column - column.mean()) / column.std()) ** 3)
    assert skew["quantiles"] > 1.8 and abs(skew["normal"]) < 0.1


def test_suppressed_components_are_gone_and_the_others_untouched():
    axes = axes_of(Moments.of(FEATURES), "spectral")
    masked = run(FEATURES, "suppression", [12, 13], share=0.2)
    before, after = ((p - axes.centre) @ axes.vectors for p in (FEATURES, masked))
    gone = np.abs(after).max(axis=0) < 1e-10
    assert 0 < gone.sum() < 4 and axes.variances[gone].sum() <= 0.2 * axes.variances.sum()
    assert np.allclose(before[:, ~gone], after[:, ~gone], atol=1e-10)


def test_singular_scatter_inverse_is_of_its_own_directions():
    features = correlated(30, 3)
    features = np.column_stack([features, features[:, 0] * 1e6, np.ones(30)])
    scatter = Moments.of(features).scatter
    inverse, rank = spectral_inverse(scatter)
    unit = np.sqrt(np.where(np.diag(scatter) > 0, np.diag(scatter), 1.0))
    off = (scatter @ inverse @ scatter - scatter) / np.outer(unit, unit)
    assert rank == 3 and np.abs(off).max() < 1e-9
