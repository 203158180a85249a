from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anonpipe.errors import InputError
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.synthesis import micro_perturbation, noise_scatter
from anonpipe.moments import FORMS, GroupedMoments, NoiseScatter, exact_factor, merge_all, noise_factor, s_delta
from anonpipe.storage.records import from_bytes, to_bytes
from tests.methods.synthesis.grouped import groupings, shuffled_groups
from tests.naive import synthesize as naive


def scatter_of(counted):
    """Sum of outer products of the centred draws."""
    return counted.root.T @ counted.root


@pytest.mark.parametrize("form", FORMS)
def test_noise_is_that_of_the_twin(form):
    rng = np.random.default_rng(1)
    order, starts = shuffled_groups(rng.integers(1, 8, 30), rng)
    features = rng.normal(size=(len(order), 4))
    factor = noise_factor(s_delta(GroupedMoments.of(features, order, starts), form))
    assert factor.any(axis=0).all()
    new = micro_perturbation(features, order, starts, rng=np.random.default_rng(2), factor=factor, form=form)
    twin = naive.micro_perturbation(features, order, starts, rng=np.random.default_rng(2), factor=factor, form=form)
    assert np.allclose(new, twin, rtol=0, atol=1e-13)


def test_noise_stays_in_the_directions_that_the_groups_lost():
    """Dummies of one category sum to a constant: so do the perturbed ones."""
    rng = np.random.default_rng(3)
    order, starts = shuffled_groups([4] * 50, rng)
    features = 2.0 * np.eye(3)[rng.integers(0, 3, 200)] - 1
    factor = noise_factor(s_delta(GroupedMoments.of(features, order, starts), "independent"))
    assert (~factor.any(axis=0)).sum() == 1
    new = micro_perturbation(features, order, starts, rng=rng, factor=factor)
    assert np.allclose(new.sum(axis=1), -1, atol=1e-12)


def test_centred_noise_vanishes_in_groups_of_one():
    features = np.random.default_rng(4).normal(size=(6, 2))
    groups = np.arange(6), np.arange(7)
    new = micro_perturbation(features, *groups, rng=np.random.default_rng(5), factor=np.eye(2), form="centred")
    assert np.array_equal(new, features)


def exact(pieces, seeds):
    """The two passes over the pieces of a table."""
    grouped = merge_all([GroupedMoments.of(*piece) for piece in pieces])
    width = pieces[0][0].shape[1]
    noise = [noise_scatter(p[2], width, rng=np.random.default_rng(s)) for p, s in zip(pieces, seeds, strict=True)]
    factor = exact_factor(merge_all(noise), grouped.within)
    return grouped, [
        micro_perturbation(*piece, rng=np.random.default_rng(seed), factor=factor, form="exact")
        for piece, seed in zip(pieces, seeds, strict=True)
    ]


def cut(features, order, starts, piece_of_group):
    """The groups dealt out to pieces, each a table with groups of its own; empty ones left out."""
    label = np.empty(len(features), dtype=np.int64)
    label[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    pieces = []
    for piece in np.unique(piece_of_group):
        chosen = np.isin(label, np.flatnonzero(piece_of_group == piece))
        pieces.append((features[chosen], *sort_groups(np.unique(label[chosen], return_inverse=True)[1])))
    return pieces


@given(groupings(), st.lists(st.integers(0, 3), min_size=6, max_size=6))
@settings(max_examples=150, deadline=None)
def test_exact_form_keeps_group_means_and_covariance_any_split(case, piece_of_group):
    features, _, starts = case
    pieces = cut(*case, np.array(piece_of_group[: len(starts) - 1]))
    grouped, made = exact(pieces, range(len(pieces)))
    size = np.sqrt(np.diag(grouped.total.scatter))
    room = 1e-9 * size + 4e-16 * np.abs(features).max(axis=0) * len(features)  # floats next to a large mean
    for (old, order, starts), new in zip(pieces, made, strict=True):
        for members in naive.groups_of(order, starts):
            assert np.all(np.abs(new[members].mean(axis=0) - old[members].mean(axis=0)) <= room)
    off = np.abs(naive.scatter(np.vstack(made)) - naive.scatter(np.vstack([piece[0] for piece in pieces])))
    assert np.all(off <= np.outer(room, size + room) + np.outer(size + room, room))


def test_exact_form_is_that_of_the_twin():
    rng = np.random.default_rng(6)
    pieces = []
    for sizes in ([3, 4, 5], [2, 2, 1, 6], [8]):
        order, starts = shuffled_groups(sizes, rng)
        pieces.append((rng.normal(size=(len(order), 3)) @ rng.normal(size=(3, 3)), order, starts))
    made = exact(pieces, (11, 12, 13))[1]
    for new, twin in zip(made, naive.exact_noise(pieces, (11, 12, 13)), strict=True):
        assert np.allclose(new, twin, rtol=0, atol=1e-11)


@pytest.mark.parametrize("width", [1, 2, 7, 50])
def test_exact_form_where_degrees_of_freedom_just_reach_the_rank(width):
    """One group of width + 1: W has rank width = N - G."""
    for seed in range(20):
        features = np.random.default_rng(seed).normal(size=(width + 1, width))
        groups = np.arange(width + 1), np.array([0, width + 1])
        _, (new,) = exact([(features, *groups)], [seed])
        assert np.allclose(np.cov(new.T), np.cov(features.T), rtol=0, atol=1e-9 * np.var(features, axis=0).max())


@pytest.mark.parametrize(("width", "seed"), [(2, 4043), (2, 2828), (7, 1193), (7, 2060)])
def test_draws_near_a_plane_whitened_by_root_not_products(width, seed):
    """Among the worst of 20,000 and 5,000 seeds; a scatter summed from products misses the covariance by over 1e-9."""
    features = np.random.default_rng(1).normal(size=(width + 1, width))
    groups = np.arange(width + 1), np.array([0, width + 1])
    grouped, (new,) = exact([(features, *groups)], [seed])
    assert np.allclose(np.cov(new.T), grouped.total.covariance, rtol=0, atol=1e-10)
    drawn = np.random.default_rng(seed).standard_normal(features.shape)
    products = NoiseScatter(width, np.ascontiguousarray(np.linalg.cholesky(naive.scatter(drawn)).T))
    factor = exact_factor(products, grouped.within)
    off = micro_perturbation(features, *groups, rng=np.random.default_rng(seed), factor=factor, form="exact")
    assert np.abs(np.cov(off.T) - grouped.total.covariance).max() > 1e-9


def test_exact_form_collinear_constant_and_too_many_columns():
    rng = np.random.default_rng(7)
    features = rng.normal(size=(12, 9))
    features[:, 3], features[:, 4], features[:, 5] = 7.0, 2 * features[:, 0], features[:, 1] - features[:, 2]
    order, starts = shuffled_groups([3, 3, 3, 3], rng)  # 8 degrees of freedom
    grouped, (new,) = exact([(features, order, starts)], [1])
    assert np.all(new[:, 3] == 7.0)
    assert np.allclose(new[:, 4], 2 * new[:, 0], atol=1e-7) and np.allclose(new[:, 5], new[:, 1] - new[:, 2], atol=1e-7)
    assert np.allclose(np.cov(new.T), grouped.total.covariance, rtol=0, atol=1e-10)
    assert not np.allclose(new, features, atol=0.1)


def test_exact_noise_is_a_uniform_frame():
    """One coordinate of each record's noise, whitened, is one of a uniform point of the sphere in N - G dimensions.

    3,000 releases of groups of 3, 4 and 2: the length of the zero-sum contrast is 1.
    """
    rng = np.random.default_rng(8)
    order, starts = shuffled_groups([3, 4, 2], rng)
    features = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 2))
    grouped = GroupedMoments.of(features, order, starts)
    root = np.linalg.inv(np.linalg.cholesky(grouped.within))
    contrast = rng.normal(size=9)
    for members in naive.groups_of(order, starts):
        contrast[members] -= contrast[members].mean()
    contrast /= np.linalg.norm(contrast)
    cosine = np.array([contrast @ exact([(features, order, starts)], [seed])[1][0] @ root[1] for seed in range(3_000)])
    assert stats.kstest(cosine, stats.beta(2.5, 2.5, loc=-1, scale=2).cdf).pvalue > 1e-4


def test_noise_scatter_is_that_of_the_draws_to_come_and_merges():
    rng = np.random.default_rng(9)
    starts = np.array([0, 3, 4, 9, 13])
    counted = noise_scatter(starts, 3, rng=np.random.default_rng(1))
    drawn = np.random.default_rng(1).standard_normal((13, 3))
    assert counted.free == 9
    assert np.allclose(scatter_of(counted), naive.within(drawn, np.arange(13), starts))
    other = noise_scatter(np.array([0, 300, 700]), 3, rng=rng)
    assert np.allclose(scatter_of(counted.merge(other)), scatter_of(counted) + scatter_of(other), rtol=1e-13)
    assert counted.merge(other).free == 707
    again = from_bytes(to_bytes(counted), [NoiseScatter])
    assert again.free == counted.free and np.array_equal(again.root, counted.root)
    nothing = noise_scatter(np.array([0]), 3, rng=rng)
    assert nothing.free == 0 and not nothing.root.any()


def test_exact_noise_refuses_what_it_cannot_reach():
    alone = noise_scatter(np.arange(5), 2, rng=np.random.default_rng(1))
    with pytest.raises(InputError, match="rank 2 of the within-group scatter; there are 0 more"):
        exact_factor(alone, np.eye(2))
    assert not exact_factor(alone, np.zeros((2, 2))).any()
    flat = NoiseScatter(2, np.array([[1.0, 1.0], [0.0, 1e-9]]))
    with pytest.raises(InputError, match="linearly dependent"):
        exact_factor(flat, np.eye(2))
    with pytest.raises(InputError, match="columns"):
        exact_factor(alone, np.eye(3))
