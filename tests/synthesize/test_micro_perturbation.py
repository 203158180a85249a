from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.moments import FORMS, GroupedMoments, noise_factor, s_delta
from anonpipe.synthesize import centroid, micro_perturbation
from tests.naive import synthesize as naive
from tests.synthesize.grouped import groupings, shuffled_groups


@given(groupings())
@settings(max_examples=60, deadline=None)
def test_centroids_are_those_of_the_twin(case):
    size = np.abs(case[0]).max(axis=0)
    assert np.all(np.abs(centroid(*case) - naive.centroid(*case)) <= 1e-14 * size)


@pytest.mark.parametrize("form", FORMS)
def test_noise_is_that_of_the_twin(form):
    rng = np.random.default_rng(1)
    order, starts = shuffled_groups(rng.integers(1, 8, 30), rng)
    points = rng.normal(size=(len(order), 4))
    factor = noise_factor(s_delta(GroupedMoments.of(points, order, starts), form))
    assert factor.any(axis=0).all()
    new = micro_perturbation(points, order, starts, rng=np.random.default_rng(2), factor=factor, form=form)
    twin = naive.micro_perturbation(points, order, starts, rng=np.random.default_rng(2), factor=factor, form=form)
    assert np.allclose(new, twin, rtol=0, atol=1e-13)


def test_noise_stays_in_the_directions_that_the_groups_lost():
    """Dummies of one category sum to a constant: so do the perturbed ones."""
    rng = np.random.default_rng(3)
    order, starts = shuffled_groups([4] * 50, rng)
    points = 2.0 * np.eye(3)[rng.integers(0, 3, 200)] - 1
    factor = noise_factor(s_delta(GroupedMoments.of(points, order, starts), "independent"))
    assert (~factor.any(axis=0)).sum() == 1
    new = micro_perturbation(points, order, starts, rng=rng, factor=factor)
    assert np.allclose(new.sum(axis=1), -1, atol=1e-12)


def test_centred_noise_vanishes_in_groups_of_one():
    points = np.random.default_rng(4).normal(size=(6, 2))
    groups = np.arange(6), np.arange(7)
    new = micro_perturbation(points, *groups, rng=np.random.default_rng(5), factor=np.eye(2), form="centred")
    assert np.array_equal(new, points)
