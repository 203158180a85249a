import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import bound_from_distances, information_loss_bound, smallest_distances
from tests.methods.grouping.data import grouping_problems


@settings(deadline=None, max_examples=40)
@given(grouping_problems(), st.integers(1, 4))
def test_parts_together_give_the_bound_of_the_whole(problem, parts):
    features, k = problem
    found = np.concatenate([smallest_distances(part, features, k) for part in np.array_split(features, parts)], axis=1)
    smallest = np.sort(found, axis=1)[:, :k]
    centred = features - features.mean(axis=0)
    scatter = float(np.square(centred).sum())
    bound = bound_from_distances(smallest, k, len(features), scatter)
    assert bound.sampled is None
    if scatter > 1e-12:
        assert bound.percent == pytest.approx(information_loss_bound(features, k), rel=1e-6, abs=1e-9)


def test_distances_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    features, queries = rng.normal(size=(1_300, 3)) + 1e4, rng.normal(size=(7, 3)) + 1e4  # more than are turned at once
    plain = np.sort(np.square(features[None] - queries[:, None]).sum(axis=2), axis=1)[:, :4]
    assert np.allclose(smallest_distances(features, queries, 4), plain, rtol=1e-12)
    assert np.isinf(smallest_distances(features[:2], queries, 4)[:, 2:]).all()


def test_a_sample_stays_below_the_bound_of_all_records():
    """99 of 100 intervals should; 400 samples miss it more than 16 times with probability under 1e-6."""
    features = np.random.default_rng(1).normal(size=(3_000, 4))
    scatter = float(np.square(features - features.mean(axis=0)).sum())
    smallest = smallest_distances(features, features, 5)
    whole = bound_from_distances(smallest, 5, 3_000, scatter).percent
    rng = np.random.default_rng(2)
    sampled = [
        bound_from_distances(smallest[rng.choice(3_000, 128, replace=False)], 5, 3_000, scatter) for _ in range(400)
    ]
    assert all(bound.sampled == 128 for bound in sampled)
    assert sum(bound.percent > whole for bound in sampled) <= 16
    assert np.median([bound.percent for bound in sampled]) > 0.6 * whole
