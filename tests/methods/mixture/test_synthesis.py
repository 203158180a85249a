import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError
from anonpipe.methods.mixture import affine_maps, group_statistics
from anonpipe.moments import merge_all
from tests.methods.mixture import in_memory
from tests.methods.mixture.data import KINDS, table
from tests.methods.mixture.in_memory import draw_statistics, synthesize_rows


def rng_of(piece, seed=5):
    # Not [seed, 0], which is the stream of `seed` alone: tables may be drawn from that.
    return np.random.default_rng([seed, piece + 1])


def synthesized(pieces, labels, groups, seed=5):
    """Two passes over pieces, each with a generator of its own."""
    width = pieces[0].shape[1]
    records = merge_all([group_statistics(p, g, groups) for p, g in zip(pieces, labels, strict=True)])
    draws = merge_all([draw_statistics(g, width, groups, rng=rng_of(i, seed)) for i, g in enumerate(labels)])
    maps = affine_maps(records, draws)
    return np.concatenate([synthesize_rows(g, maps, rng=rng_of(i, seed)) for i, g in enumerate(labels)]), maps


def scatter(features):
    centred = features - features.mean(axis=0)
    return centred.T @ centred


def assert_exact(features, new, labels, groups, tolerance=1e-9):
    for g in range(groups):
        old_rows, new_rows = features[labels == g], new[labels == g]
        size = np.sqrt(np.maximum(np.diag(scatter(old_rows)), 0.0))
        unit = np.maximum(size, 1e-300)
        mean_size = np.maximum(size / np.sqrt(len(old_rows)), 1e-6 * np.abs(old_rows).max())
        assert (np.abs(new_rows.mean(axis=0) - old_rows.mean(axis=0)) <= tolerance * mean_size).all()
        error = np.abs(scatter(new_rows) - scatter(old_rows))
        scale = np.outer(unit, unit) + 1e-20 * np.abs(old_rows).max() ** 2
        assert (error <= tolerance * scale).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from([1, 2, 5]), st.data())
def test_every_group_has_its_mean_and_covariance_over_any_split(seed, kind, width, data):
    groups = 3
    rows = data.draw(st.integers(groups * (2 * width + 2), 200))
    features = table(rows, width, seed, kind)
    labels = np.random.default_rng(seed).permutation(np.arange(rows) % groups)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=4)))
    before = features.copy()
    new, maps = synthesized(np.split(features, cuts), np.split(labels, cuts), groups)
    assert (features == before).all()
    assert_exact(features, new, labels, groups)
    # Hence the moments of the table, too.
    assert new.mean(axis=0) == pytest.approx(features.mean(axis=0), abs=1e-9 * (1 + np.abs(features).max()))
    for g in range(groups):
        assert maps.ranks[g] == np.linalg.matrix_rank(
            features[labels == g] - features[labels == g].mean(axis=0), tol=1e-9
        )


def test_units_far_apart_and_offsets():
    features = table(400, 4, seed=2) * 10.0 ** np.array([-9, 0, 4, 9]) + np.array([0, 1e5, 0, -1e12])
    labels = np.arange(400) % 4
    new, _ = synthesized(np.split(features, [10, 300]), np.split(labels, [10, 300]), 4)
    for g in range(4):
        old_c, new_c = np.cov(features[labels == g].T), np.cov(new[labels == g].T)
        scale = np.sqrt(np.outer(np.diag(old_c), np.diag(old_c)))
        assert (np.abs(new_c - old_c) < 1e-9 * scale).all()


def test_statistics_merge_to_those_of_the_whole():
    features, labels = table(500, 3, seed=1), np.random.default_rng(0).integers(0, 6, 500)
    labels[labels == 4] = 5
    whole = group_statistics(features, labels, 7)
    parts = [group_statistics(features[a:b], labels[a:b], 7) for a, b in ((0, 3), (3, 3), (3, 77), (77, 500))]
    merged = merge_all(parts)
    assert merged.counts.tolist() == whole.counts.tolist() == np.bincount(labels, minlength=7).tolist()
    assert merged.means == pytest.approx(whole.means, abs=1e-13)
    assert merged.scatters == pytest.approx(whole.scatters, rel=1e-12, abs=1e-11)
    for g in (0, 5):
        assert whole.means[g] == pytest.approx(features[labels == g].mean(axis=0))
        assert whole.scatters[g] == pytest.approx(scatter(features[labels == g]))
    assert not whole.scatters[[4, 6]].any()


def test_pieces_of_the_draws_do_not_matter(monkeypatch):
    features, labels = table(300, 3, seed=1), np.arange(300) % 2
    one, _ = synthesized([features], [labels], 2)
    monkeypatch.setattr(in_memory, "_DRAWS", 31)
    two, _ = synthesized([features], [labels], 2)
    assert two == pytest.approx(one, abs=1e-10)


def test_draws_decide_and_nothing_else():
    features, labels = table(300, 3, seed=1), np.arange(300) % 2
    one, other = (synthesized([features], [labels], 2, seed)[0] for seed in (1, 2))
    again = synthesized([features], [labels], 2, 1)[0]
    assert (one == again).all()
    assert np.abs(one - other).max() > 0.5
    # A new record tells nothing of the one that it stands for but its group.
    inside = labels == 0
    assert abs(np.corrcoef(one[inside, 0], features[inside, 0])[0, 1]) < 0.3


def test_small_and_flat_groups_stay_in_their_span():
    features = np.array(
        [[1.0, 2.0], [3.0, 2.0], [5.0, 2.0], [7.0, 8.0], [7.0, 8.0], [0.0, 0.0], [1.0, 3.0], [9.0, 9.0]]
    )
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 3])
    new, maps = synthesized([features], [labels], 4)
    assert maps.ranks.tolist() == [1, 0, 1, 0]
    assert (new[:3, 1] == 2.0).all()
    assert (new[3:5] == features[3:5]).all()
    assert np.sort(new[5:7], axis=0) == pytest.approx(features[5:7], abs=1e-12)
    assert (new[7] == features[7]).all()


def test_synthetic_records_of_a_large_group_are_normal():
    features = table(20_000, 1, seed=1, kind="heavy")
    new, _ = synthesized([features], [np.zeros(20_000, dtype=np.int64)], 1)
    z = (new - new.mean()) / new.std()
    assert abs((z**3).mean()) < 0.1
    assert abs((z**4).mean() - 3) < 0.2


def test_what_is_refused():
    features, labels = table(20, 2, seed=1), np.arange(20) % 2
    records = group_statistics(features, labels, 2)
    with pytest.raises(InputError, match="labels above 0"):
        group_statistics(features, labels, 1)
    with pytest.raises(InputError, match="do not merge"):
        records.merge(group_statistics(features, labels, 3))
    with pytest.raises(InputError, match="sizes of their groups"):
        affine_maps(records, draw_statistics(labels[1:], 2, 2, rng=rng_of(0)))
    same = group_statistics(np.ones((20, 2)), labels, 2)
    with pytest.raises(InputError, match="dependent"):
        affine_maps(records, same)
