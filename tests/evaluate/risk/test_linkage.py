import numpy as np
import pytest

from anonpipe.evaluate.measurement import wilson
from anonpipe.evaluate.risk import RankLinkage, Whitened, nearest
from anonpipe.evaluate.risk._linkage import score_linkage, surest_links
from tests.naive import finding as naive


def test_by_hand():
    """Records at 0, 1, 2, 9; released 0.1, 2.6, 1.8, 5: the nearest are 0, 0, 2, 3 and the second 2, 2, 1, 1."""
    found = nearest([[0.1], [2.6], [1.8], [5.0]], [[0.0], [1.0], [2.0], [9.0]], 2)
    first, either = score_linkage(found, np.arange(4), rows=4)
    # The record at 1 is 0.8 from 1.8, 0.9 from 0.1.
    assert found.rows.tolist() == [[0, 2], [2, 0], [2, 1], [3, 1]]
    assert (first.name, first.value, first.baseline, first.low) == ("reidentification_rate", 0.75, 0.25, None)
    assert (either.name, either.value, either.baseline) == ("linkage.first_or_second", 0.75, 0.5)


def test_whitened_distances_are_those_of_mahalanobis():
    rng = np.random.default_rng(0)
    one, other = (rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) for _ in range(2))
    one[:, 2] = 4.0  # of a constant there is nothing to say but that it is none
    other[:, 2] = 4.0
    axes = Whitened.of(one, other)
    inverse = np.linalg.inv(naive.shrunk_covariance(one[:, :2].tolist(), other[:, :2].tolist(), 0.1))
    for a, b in zip(one[:10], other[:10], strict=True):
        difference = a[:2] - b[:2]
        assert ((axes.apply([a]) - axes.apply([b])) ** 2).sum() == pytest.approx(difference @ inverse @ difference)


def test_by_group():
    found = nearest([[0.0], [0.0], [8.0], [8.0]], [[1.0], [3.0], [5.0], [9.0]], 2)
    labels = np.array([0, 1, 1, 1])
    released_groups = np.array([0, 0, 1, 1])
    (only,) = score_linkage(found, own_group=labels, groups=released_groups[found.rows], sizes=np.full(4, 2), rows=4)
    assert (only.name, only.value, only.baseline) == ("linkage.group", 0.75, 0.5)
    assert "no single source" in only.note


def test_a_sample_has_an_interval_and_ranks_another_name():
    found = nearest(np.arange(10.0)[:, None], np.arange(4.0)[:, None], 2)
    first, either = score_linkage(found, np.array([0, 1, 5, -1]), rows=10, basis="ranks")
    assert first.name == "rank_linkage.first" and first.value == either.value == 0.5 and first.sampled
    assert (first.low, first.high) == pytest.approx(wilson(2, 4))


def test_a_record_that_was_not_released_is_never_linked():
    found = nearest([[0.0]], [[0.0], [1.0]], 2)
    assert found.rows[:, 1].tolist() == [-1, -1]
    assert score_linkage(found, np.array([-1, -1]), rows=1)[1].value == 0


def test_copy_is_linked_and_shuffled_table_only_by_chance():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3_000, 4))
    assert score_linkage(nearest(features, features, 2), np.arange(3_000), rows=3_000)[0].value == 1
    apart = np.column_stack([rng.permutation(column) for column in rng.normal(size=(4, 3_000))])
    first, _ = score_linkage(nearest(apart, features, 2), np.arange(3_000), rows=3_000)
    # Poisson of mean 1: more than 10 happens with a chance of 1e-8.
    assert 3_000 * first.value <= 10


def test_more_noise_links_fewer():
    rng = np.random.default_rng(1)
    features, noise = rng.normal(size=(1_000, 5)), rng.normal(size=(1_000, 5))
    shares = [
        score_linkage(nearest(features + size * noise, features, 2), np.arange(1_000), rows=1_000)[0].value
        for size in (0.0, 0.1, 0.3, 1.0)
    ]
    assert shares == sorted(shares, reverse=True) and shares[0] == 1 and shares[-1] < 0.3


def test_ranks_see_through_a_stretch():
    """Values moved and stretched by column keep their ranks: values alone link hardly anyone."""
    rng = np.random.default_rng(2)
    features = rng.normal(size=(500, 3))
    released = np.exp(features) * 7 + 50
    by_value, _ = score_linkage(nearest(released, features, 2), np.arange(500), rows=500)
    found = nearest(RankLinkage.of(released).apply(released), RankLinkage.of(features).apply(features), 2)
    assert score_linkage(found, np.arange(500), rows=500, basis="ranks")[0].value == 1
    assert 500 * by_value.value < 20


def test_ranks_as_the_twin_and_monotone():
    rng = np.random.default_rng(3)
    table, values = np.round(rng.normal(size=(30, 2)), 1), np.round(rng.normal(size=(20, 2)), 1)
    expected = [[naive.rank_share(row[j], table[:, j]) for j in range(2)] for row in values]
    assert RankLinkage.of(table).apply(values) == pytest.approx(np.array(expected))
    assert RankLinkage.of([[1.0], [1.0]]).apply([[0.0], [1.0], [2.0]]).tolist() == [[0.0], [0.5], [1.0]]


def test_the_surest_links_are_those_of_lists():
    rng = np.random.default_rng(5)
    chances, apart = rng.random(230), np.sort(rng.random((230, 5)), axis=1)
    groups = rng.integers(0, 3, (230, 5))
    for of_found in (groups, None):
        found = surest_links(chances, apart, of_found, of=900)
        assert [one.name for one in found] == ["linkage.surest_5", "linkage.surest_10"]  # 1 % are fewer than five
        agree = [1 if of_found is None else row.count(row[0]) for row in groups.tolist()]
        order = sorted(range(230), key=lambda at: (-agree[at], apart[at][0] / apart[at][1]))
        for one, count in zip(found, (12, 23), strict=True):
            assert one.value == pytest.approx(np.mean([chances[at] for at in order[:count]]))
            assert (one.records, one.of, one.baseline) == (count, 900, pytest.approx(chances.mean()))
            assert one.low < one.value < one.high


def test_recognised_hundredth_shows_among_surest_links():
    """Of 1,000 records ten lie alone and keep to their place: all links hide them."""
    rng = np.random.default_rng(6)
    original = rng.normal(size=(1_000, 3))
    original[:10] += 50.0 * np.arange(1, 11)[:, None]
    released = original + rng.normal(size=original.shape)
    found = nearest(released, original, 2)
    hits = found.rows[:, 0] == np.arange(1_000)
    told = {one.name: one for one in surest_links(hits, found.distances, None, of=1_000)}
    assert hits.mean() < 0.15 and told["linkage.surest_1"].value == 1.0 and told["linkage.surest_1"].low > 0.6
