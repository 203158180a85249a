"""`gaussian`, and `pca` beside its literal twin: exactness, and the law of the draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from anonpipe.methods.synthesis import gaussian, pca
from anonpipe.methods.synthesis._gaussian import rotate_residuals
from tests.methods.synthesis.grouped import groupings, shuffled_groups, tiled
from tests.naive import synthesize as naive

CHANCE = 1e-4
"""Smallest p-value that passes; no test here draws more than 20, so each fails by chance under 1e-6."""


def check_exact(features, new, order, starts, tolerance=1e-12):
    for members in naive.groups_of(order, starts):
        group, made = features[members], new[members]
        scatter = naive.scatter(group)
        size = np.sqrt(np.diag(scatter))
        room = tolerance * size + 4e-16 * np.abs(group).max(axis=0) * len(group)  # a float next to a large mean
        assert np.all(np.abs(made.mean(axis=0) - group.mean(axis=0)) <= room)
        off = np.abs(naive.scatter(made) - scatter)
        assert np.all(off <= np.outer(room, size + room) + np.outer(size + room, room))


@given(groupings())
@settings(max_examples=150, deadline=None)
def test_every_group_keeps_mean_and_scatter(case):
    new = gaussian(*case, rng=np.random.default_rng(1))
    check_exact(case[0], new, *case[1:])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 30, 5_000])
def test_sizes_around_the_number_of_columns(size):
    rng = np.random.default_rng(size)
    features = rng.normal(size=(2 * size, 4)) @ rng.normal(size=(4, 4))
    order, starts = shuffled_groups([size, size], rng)
    new = gaussian(features, order, starts, rng=rng)
    check_exact(features, new, order, starts, 1e-12)
    assert (size < 3) == np.allclose(np.sort(new[order[:size]], axis=0), np.sort(features[order[:size]], axis=0))


def test_groups_of_two_are_their_records_kept_or_swapped():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(4000, 3))
    new = gaussian(features, np.arange(4000), np.arange(0, 4001, 2), rng=rng).reshape(2000, 2, 3)
    old = features.reshape(2000, 2, 3)
    kept = np.isclose(new, old).all(axis=(1, 2))
    swapped = np.isclose(new, old[:, ::-1]).all(axis=(1, 2))
    assert np.all(kept | swapped)
    assert stats.binomtest(int(kept.sum()), 2000).pvalue > CHANCE


@given(groupings(largest=10, widest=4))
@settings(max_examples=40, deadline=None)
def test_rotation_equals_the_matrices_written_out(case):
    """On columns of independent random numbers; where a column is zero, signs of the triangle are free."""
    _, order, starts = case
    features = np.random.default_rng(3).normal(size=case[0].shape)
    new = gaussian(features, order, starts, rng=np.random.default_rng(4))
    assert np.allclose(new, naive.rotated(features, order, starts, rng=np.random.default_rng(4)), atol=1e-10)


def directions(n, width, rng):
    """Pairs of a contrast between records and a direction among columns."""
    contrasts = [np.eye(n)[0] - 1 / n, np.eye(n)[-1] - 1 / n, *(rng.normal(size=(2, n)))]
    columns = [np.eye(width)[0], np.eye(width)[-1], *rng.normal(size=(2, width))]
    return [(c - c.mean(), d) for c, d in zip(contrasts, columns, strict=True)]


@pytest.mark.parametrize(("n", "width"), [(3, 5), (5, 10), (6, 5), (7, 2), (12, 3)])
def test_the_rotation_is_uniform(n, width):
    """u'(Y - mean)d over its length is one coordinate of a uniform point of the sphere in n - 1 dimensions."""
    rng = np.random.default_rng(n * 100 + width)
    features = rng.normal(size=(n, width)) @ rng.normal(size=(width, width))
    times = 10_000
    new = gaussian(*tiled(features, np.arange(n), np.array([0, n]), times), rng=rng).reshape(times, n, width)
    scatter = naive.scatter(features)
    for contrast, direction in directions(n, width, rng):
        length = np.linalg.norm(contrast) * np.sqrt(direction @ scatter @ direction)
        cosine = (new - features.mean(axis=0)) @ direction @ contrast / length
        law = stats.beta((n - 2) / 2, (n - 2) / 2, loc=-1, scale=2)
        assert stats.kstest(cosine, law.cdf).pvalue > CHANCE


def test_uniformity_test_sees_rotation_that_is_not_uniform():
    """Power: reflectors from draws that favour a direction (mean 0.1 in each coordinate) are caught."""
    n, times = 5, 20_000
    rng = np.random.default_rng(5)
    features = rng.normal(size=(n, 2))
    many = tiled(features, np.arange(n), np.array([0, n]), times)
    new = np.empty_like(many[0])
    rotate_residuals(many[0], np.empty((len(new), 0)), *many[1:], rng.normal(0.1, 1, 7 * times), new)
    off = (new.reshape(times, n, 2) - features.mean(axis=0))[:, 1, 0]
    cosine = off / np.sqrt((n - 1) / n * naive.scatter(features)[0, 0])
    assert stats.kstest(cosine, stats.beta(1.5, 1.5, loc=-1, scale=2).cdf).pvalue < CHANCE


def functionals(new, rng):
    """Numbers of each release that depend on how records and columns hang together."""
    weight = rng.normal(size=new.shape[1:])
    return {
        "linear": np.einsum("tij,ij->t", new, weight),
        "largest": np.abs(new).max(axis=(1, 2)),
        "fourth": (new**4).sum(axis=(1, 2)),
        "product": new[:, 0, 0] * new[:, 1, -1],
    }


@pytest.mark.parametrize("moments", ["exact", "expected"])
@pytest.mark.parametrize(("n", "width"), [(4, 3), (4, 6), (9, 2)])
def test_pca_has_the_law_of_the_literal_algorithm(moments, n, width):
    rng = np.random.default_rng(n + 10 * width)
    features = rng.normal(size=(n, width)) @ rng.normal(size=(width, width))
    many = tiled(features, np.arange(n), np.array([0, n]), 2000)
    options = {"moments": moments} | ({"n_table": 2000 * n} if moments == "expected" else {})
    ours = pca(*many, rng=rng, **options).reshape(2000, n, width)
    theirs = naive.pca(*many, rng=rng, **options).reshape(2000, n, width)
    centre = features.mean(axis=0)
    seed = rng.integers(2**32)
    a, b = (functionals(x - centre, np.random.default_rng(seed)) for x in (ours, theirs))
    for name in a:
        assert stats.ks_2samp(a[name], b[name]).pvalue > CHANCE, name


@pytest.mark.parametrize(("n", "width"), [(2, 3), (4, 6), (9, 2)])
def test_gaussian_in_expectation_has_the_law_of_its_twin(n, width):
    rng = np.random.default_rng(n + 100 * width)
    features = rng.normal(size=(n, width)) @ rng.normal(size=(width, width))
    many = tiled(features, np.arange(n), np.array([0, n]), 1000)
    ours = gaussian(*many, rng=rng, moments="expected", n_table=1000 * n).reshape(1000, n, width)
    theirs = naive.gaussian(*many, rng=rng, n_table=1000 * n).reshape(1000, n, width)
    centre, seed = features.mean(axis=0), rng.integers(2**32)
    a, b = (functionals(x - centre, np.random.default_rng(seed)) for x in (ours, theirs))
    for name in a:
        assert stats.ks_2samp(a[name], b[name]).pvalue > CHANCE, name


@pytest.mark.parametrize("moments", ["exact", "expected"])
def test_pca_and_gaussian_are_one(moments):
    features = np.random.default_rng(8).normal(size=(12, 3))
    groups = np.arange(12), np.array([0, 3, 12])
    options = {"moments": moments} | ({"n_table": 50} if moments == "expected" else {})
    a, b = (method(features, *groups, rng=np.random.default_rng(9), **options) for method in (gaussian, pca))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("moments", ["exact", "expected"])
def test_few_records_of_many_columns_need_no_matrix_of_columns(moments):
    """Three records of 300,000 columns: a scatter of them would hold 720 GB."""
    features = np.random.default_rng(10).normal(size=(3, 300_000))
    options = {"moments": moments} | ({"n_table": 3} if moments == "expected" else {})
    new = pca(features, np.arange(3), np.array([0, 3]), rng=np.random.default_rng(11), **options)
    rank = np.linalg.matrix_rank(np.vstack([new, features]) - features[0])
    assert rank == 2 and not np.allclose(new, features)


@pytest.mark.parametrize(("n", "width"), [(2, 3), (4, 6), (9, 2), (40, 3)])
def test_expected_pca_covariance_is_that_of_group_over_size(n, width):
    """Each record has covariance W/n · N/(N-1), and records are independent; Z = 5 for each of the entries."""
    rng = np.random.default_rng(n * width)
    features = rng.normal(size=(n, width)) @ rng.normal(size=(width, width))
    times = 10_000
    many = tiled(features, np.arange(n), np.array([0, n]), times)
    new = pca(*many, rng=rng, moments="expected", n_table=n * times).reshape(times, n, width) - features.mean(axis=0)
    target = naive.scatter(features) / n * (n * times) / (n * times - 1)
    same = np.einsum("ti,th->tih", new[:, 0], new[:, 0])
    other = np.einsum("ti,th->tih", new[:, 0], new[:, 1])
    assert np.all(np.abs(same.mean(axis=0) - target) < 5 * same.std(axis=0) / np.sqrt(times))
    assert np.all(np.abs(other.mean(axis=0)) < 5 * other.std(axis=0) / np.sqrt(times))
