import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import bound_from_distances, information_loss, information_loss_bound, smallest_distances
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import cluster as naive_cluster
from tests.naive import mdav_family as naive


@settings(deadline=None, max_examples=50)
@given(grouping_problems())
def test_share_of_the_scatter(problem):
    features, k = problem
    labels = np.arange(len(features)) // k
    total = naive_cluster.within_scatter(features, np.zeros(len(features), int))
    expected = 100 * naive_cluster.within_scatter(features, labels) / total if total > 1e-20 else 0.0
    assert information_loss(features, labels) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_ends():
    features = np.array([[1e9], [1e9 + 1], [1e9 + 2]])
    assert information_loss(features, np.zeros(3, int)) == pytest.approx(100)
    assert information_loss(features, np.arange(3)) == 0
    assert information_loss(np.ones((4, 2)), np.zeros(4, int)) == 0
    assert information_loss(np.empty((0, 2)), np.empty(0, int)) == 0


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="shape"):
        information_loss(np.zeros((3, 1)), np.zeros(2, int))
    with pytest.raises(ValueError, match="negative"):
        information_loss(np.zeros((3, 1)), np.array([0, -1, 0]))


def least_loss(features, k):
    """The information loss of the best of all groupings of a tiny table."""

    def groupings(rows):
        if not rows:
            yield []
            return
        first, rest = rows[0], rows[1:]
        for chosen in range(2 ** len(rest)):
            group = [first] + [row for at, row in enumerate(rest) if chosen >> at & 1]
            if len(group) >= k:
                for others in groupings([row for row in rest if row not in group]):
                    yield [group, *others]

    def labels(groups):
        out = np.empty(len(features), dtype=np.int64)
        for g, group in enumerate(groups):
            out[group] = g
        return out

    return min(information_loss(features, labels(groups)) for groups in groupings(list(range(len(features)))))


@settings(deadline=None, max_examples=80)
@given(grouping_problems(most_rows=80))
def test_same_as_the_naive_twin(problem):
    features, k = problem
    bound, expected = information_loss_bound(features, k), naive.loss_bound(features, k)
    assert bound == pytest.approx(expected, rel=1e-12, abs=1e-20)


@settings(deadline=None)
@given(grouping_problems(), st.integers(0, 2**32 - 1))
def test_below_any_grouping(problem, seed):
    features, k = problem
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, len(features) // k + 1))
    # k records for every group, the others anywhere.
    labels = np.concatenate([np.repeat(np.arange(groups), k), rng.integers(0, groups, len(features) - groups * k)])
    labels = rng.permutation(labels)
    assert information_loss_bound(features, k) <= information_loss(features, labels) * (1 + 1e-12)
    near = np.argsort(features[:, 0], kind="stable")
    sorted_labels = np.empty(len(features), dtype=np.int64)
    sorted_labels[near] = np.minimum(np.arange(len(features)) // k, len(features) // k - 1)
    assert information_loss_bound(features, k) <= information_loss(features, sorted_labels) * (1 + 1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1), st.booleans())
def test_below_the_best_grouping(rows, k, width, seed, tied):
    features = np.random.default_rng(seed).normal(size=(rows, width))
    features = np.round(features) if tied else features
    k = min(k, rows)
    assert information_loss_bound(features, k) <= least_loss(features, k) * (1 + 1e-12)


def test_reached_where_all_records_of_group_are_equally_far():
    corner = np.eye(3)
    features = np.vstack([corner + 100 * offset for offset in range(4)])
    labels = np.repeat(np.arange(4), 3)
    assert information_loss_bound(features, 3) == pytest.approx(information_loss(features, labels), rel=1e-12)
    assert information_loss_bound(features, 3) < information_loss(features, labels)


def test_duplicates_are_at_distance_zero():
    features = np.repeat(np.array([[0.0], [1.0], [5.0]]), 4, axis=0)
    assert information_loss_bound(features, 4) == 0.0
    assert information_loss_bound(features, 5) == pytest.approx(naive.loss_bound(features, 5))


def test_large_tables_take_the_same_sums():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2_200, 3))
    features[1_100:] = features[rng.integers(0, 1_100, 1_100)]
    total = 0.0
    for low in range(0, 2_200, 500):
        squares = ((features[low : low + 500, None] - features[None]) ** 2).sum(axis=2)
        total += np.sort(squares, axis=1)[:, :5].sum()
    scatter = np.square(features - features.mean(axis=0)).sum()
    assert information_loss_bound(features, 5) == pytest.approx(100 * total / 10 / scatter, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e99])
def test_scale_decides_nothing(scale):
    features = np.random.default_rng(0).normal(size=(60, 3))
    assert information_loss_bound(features * scale, 4) == pytest.approx(information_loss_bound(features, 4), rel=1e-9)


def test_ends_of_the_bound():
    assert information_loss_bound(np.ones((5, 2)), 3) == 0.0
    assert information_loss_bound(np.zeros((5, 2)), 3) == 0.0
    assert information_loss_bound(np.full((5, 2), 0.1), 3) == 0.0
    features = np.random.default_rng(0).normal(size=(9, 2))
    assert information_loss_bound(features, 1) == 0.0
    assert information_loss_bound(features, 9) == pytest.approx(100.0)
    assert information_loss_bound(features, 9) < 100.0
    assert isinstance(information_loss_bound(features, 2), float)


@pytest.mark.parametrize("k", [0, 10])
def test_wrong_k_is_refused(k):
    with pytest.raises(ValueError, match=f"k is {k} for 9 records"):
        information_loss_bound(np.zeros((9, 2)), k)


def test_wrong_points_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        information_loss_bound(np.array([[0.0], [np.nan]]), 1)


@pytest.mark.parametrize(("k", "bound"), [(3, 9.8551), (4, 12.1667), (5, 13.9273), (10, 19.2181)])
def test_reference_figures(k, bound):
    assert information_loss_bound(tarragona(), k) == pytest.approx(bound, abs=6e-5)


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
