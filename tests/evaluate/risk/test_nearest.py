from itertools import cycle, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError
from anonpipe.evaluate.risk import Nearest, RankLinkage, merge_nearest, near_order, nearest
from anonpipe.evaluate.risk._nearest import TILE, Tiles
from tests.methods.grouping.data import grouping_problems
from tests.naive import finding as naive


def same(found, expected):
    return found.squared.tolist() == expected[0] and found.rows.tolist() == expected[1]


@settings(deadline=None, max_examples=25)
@given(grouping_problems(most_rows=40), st.integers(1, 6), st.booleans())
def test_as_the_twin(problem, count, left_out):
    features, _ = problem
    without = np.arange(len(features)) if left_out else None
    queries = features if left_out else np.concatenate([features[::2], features[:3] + 0.5])
    before = features.copy()
    assert same(nearest(features, queries, count, without=without), naive.nearest(features, queries, count, without))
    assert (features == before).all()


@settings(deadline=None, max_examples=25)
@given(grouping_problems(most_rows=60), st.integers(1, 4), st.lists(st.integers(0, 60), max_size=4), st.randoms())
def test_parts_in_any_order_give_the_whole(problem, count, cuts, random):
    features, _ = problem
    queries, own = features[::3], np.arange(len(features))[::3]
    bounds = [0, *sorted(min(cut, len(features)) for cut in cuts), len(features)]
    # One more than are wanted, as a query may be among them; some parts look no further, some do
    sampled = nearest(features[::2], queries, count + 1).squared[:, -1]
    parts = [
        nearest(features[low:high], queries, count, offset=low, without=own, values=True, within=within)
        for (low, high), within in zip(pairwise(bounds), cycle([sampled, sampled, None]), strict=False)
    ]
    whole = nearest(features, queries, count, without=own, values=True)
    random.shuffle(parts)
    half = len(parts) // 2
    together = merge_nearest(parts)
    nested = merge_nearest([merge_nearest(part) for part in (parts[:half], parts[half:]) if part])
    for found in (together, nested):
        assert (found.rows == whole.rows).all() and (found.squared == whole.squared).all()
        assert np.array_equal(found.values, whole.values, equal_nan=True)


@pytest.mark.parametrize("width", [1, 3, 12])
def test_tiles_and_parts_of_the_queries_change_nothing(width, monkeypatch):
    monkeypatch.setattr("anonpipe.evaluate.risk._nearest._TOGETHER", 50)
    rng = np.random.default_rng(width)
    features = np.round(rng.normal(size=(700, width)), 1)
    features[100:550:3] = features[7]  # more equal records than a tile holds
    features[:, width // 2] = 0.3 if width > 1 else features[:, 0]
    queries = np.concatenate([features[:80], rng.normal(size=(40, width)), 40.0 + rng.normal(size=(9, width))])
    without = np.where(np.arange(129) < 60, np.arange(129), -1)
    assert same(nearest(features, queries, 4, without=without), naive.nearest(features, queries, 4, without))
    order, low, high = Tiles.of(features)
    assert sorted(order) == list(range(700))
    for at in range(len(low)):
        part = features[order[at * TILE : (at + 1) * TILE]]
        assert (part.min(axis=0) == low[at]).all() and (part.max(axis=0) == high[at]).all()


def test_an_order_of_other_columns_changes_nothing():
    rng = np.random.default_rng(5)
    features = np.round(rng.normal(size=(900, 6)), 1)
    queries, order = features[::11] + 0.03, near_order(features)
    for some in (features, features[:, ::2], RankLinkage.of(features).apply(features)):
        asked = queries[:, : some.shape[1]]
        assert same(nearest(some, asked, 3, order=order), naive.nearest(some, asked, 3))
    assert same(nearest(features, queries, 3, order=rng.permutation(900)), naive.nearest(features, queries, 3))


def test_a_part_of_the_queries_and_of_what_was_found():
    features = np.random.default_rng(6).normal(size=(300, 3))
    both = nearest(features, features[:40] + 0.1, 4, values=True)
    for some, count in ((slice(0, 25), 4), (slice(25, None), 2)):
        alone, part = (
            nearest(features, features[:40][some] + 0.1, count, values=True),
            both.part(some, count, values=True),
        )
        assert (alone.rows == part.rows).all() and (alone.squared == part.squared).all()
        assert (alone.values == part.values).all() and both.part(some, count).values is None


def test_nothing_is_found_beyond_a_distance():
    found = nearest([[0.0], [3.0], [4.0]], [[1.0], [9.0]], 2, within=np.array([4.0, 1.0]), values=True)
    assert found.rows.tolist() == [[0, 1], [-1, -1]] and found.squared.tolist() == [[1.0, 4.0], [np.inf, np.inf]]
    assert np.isnan(found.values[1]).all()


def test_labels_stay_with_their_records():
    rng = np.random.default_rng(7)
    features, labels = np.round(rng.normal(size=(200, 2)), 1), rng.integers(0, 9, 200)
    parts = []
    for low, high in ((120, 200), (0, 3), (3, 120)):
        found = nearest(features[low:high], features[:20], 5, offset=low)
        parts.append(Nearest(found.squared, found.rows, labels=np.where(found.rows >= 0, labels[found.rows], -1)))
    merged = merge_nearest(parts)
    assert (merged.labels == labels[merged.rows]).all()


@pytest.mark.parametrize("scale", [1e-320, 1e-160, 1e-30, 1e-12, 1.0, 1e7, 1e60, 9e99])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_estimates_rule_out_no_near_point_at_any_scale(scale, offset):
    rng = np.random.default_rng(3)
    features = np.concatenate([rng.normal(size=(500, 5)), 1e-9 * rng.normal(size=(200, 5)), np.zeros((9, 5))])
    features = np.concatenate([features, features[:40], [[1e4] * 5]])
    features = scale * (offset / max(scale, 1.0) + features / 1e5)
    queries = np.concatenate([features[::31], scale * rng.normal(size=(300, 5)) / 1e5])
    found = nearest(features, queries, 3)
    squares = np.zeros((len(queries), len(features)))
    for column, asked in zip(features.T, queries.T, strict=True):
        squares += (column[None] - asked[:, None]) * (column[None] - asked[:, None])
    order = np.argsort(squares, axis=1, kind="stable")[:, :3]
    assert (found.rows == order).all()
    assert (found.squared == np.take_along_axis(squares, order, axis=1)).all()


def test_far_from_zero_no_digit_is_lost():
    features = 1e9 + np.array([[0.0, 3.0], [0.0, 4.0], [0.5, 0.0]])
    assert nearest(features, [[1e9, 1e9]], 3).distances.tolist() == [[0.5, 3.0, 4.0]]


def test_fewer_records_than_asked_for():
    found = nearest(np.empty((0, 2)), [[1.0, 2.0]], 2, values=True)
    assert found.rows.tolist() == [[-1, -1]] and np.isinf(found.squared).all() and np.isnan(found.values).all()
    found = nearest([[4.0], [6.0]], [[5.0]], 3, offset=10, without=[11], values=True)
    assert found.rows.tolist() == [[10, -1, -1]]
    assert found.values[0, 0, 0] == 4.0 and np.isnan(found.values[0, 1:]).all()


@pytest.mark.parametrize(("features", "words"), [([[np.nan]], "NaN"), ([[1e101]], "above 1e100"), ([1.0], "shape")])
def test_refusals(features, words):
    for tables in ((features, [[1.0]]), ([[1.0]], features)):
        with pytest.raises(InputError, match=words):
            nearest(*tables, 1)
