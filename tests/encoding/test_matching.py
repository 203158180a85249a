"""Decoding that keeps covariances: against its twin, its laws, and what plain decoding loses."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import FeatureEncoder, Groups
from anonpipe.encoding.matching import (
    _chosen,
    _Exchangeable,
    _lacking_in_groups,
    _opposite,
    _random_pairs,
    associations,
    decode_matched,
    exchange,
)
from anonpipe.encoding.missing import fill_predicted
from anonpipe.encoding.scan import scan_batch
from tests.in_memory import mask
from tests.naive import encoder as naive

COLUMNS = {
    "months": Column(kind="continuous", bounds=(0, 100), step=0.1),
    "size": Column(kind="continuous", bounds=(0, 500)),
    "stage": Column(kind="ordinal", levels=("I", "II", "III")),
    "sex": Column(kind="binary"),
    "site": Column(kind="categorical"),
}


def table(rows, seed=0):
    """A skewed number, one with nulls, an ordinal, and two categories that do not go together in all ways."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], rows)
    site = np.where(
        sex == "f",
        rng.choice(["breast", "lung", "bone"], rows, p=[0.5, 0.4, 0.1]),
        rng.choice(["prostate", "lung"], rows),
    )
    level = np.clip(rng.normal(1 + (site == "lung"), 0.7, rows).round(), 0, 2).astype(int)
    months = np.minimum(rng.exponential(12.0 / (1 + level), rows), 100).round(1)
    size = np.exp(rng.normal(3 + 0.5 * level, 0.4, rows))
    return pa.record_batch(
        {
            "months": months,
            "size": pa.array(size, mask=rng.random(rows) < 0.15),
            "stage": np.array(["I", "II", "III"])[level],
            "sex": sex,
            "site": site,
        }
    )


def coded(batch):
    scan = scan_batch(batch, COLUMNS, 0, [])
    cells = ColumnEncoder.fit(batch.schema, COLUMNS, scan)
    return FeatureEncoder.fit(cells, scan), cells.to_cells(batch)


def scaled_difference(a, b):
    scale = np.sqrt(np.diag(a))
    return np.abs(a - b) / np.outer(scale, scale)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.integers(2, 12), st.booleans())
def test_exchanging_equals_its_twin(seed, rows, ties):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 3, (rows, 4)).astype(float) if ties else rng.normal(size=(rows, 4))
    labels = rng.integers(0, 2, rows)
    pairs, lacking, expected = _random_pairs(labels, rng), np.zeros((2, 4, 4)), features.copy()
    assert len(pairs) == sum(np.bincount(labels) // 2) and (labels[pairs[:, 0]] == labels[pairs[:, 1]]).all()
    for label in np.unique(labels):
        inside, wanted = np.flatnonzero(labels == label), rng.normal(size=(4, 4)) * rows
        wanted, own = wanted + wanted.T, np.searchsorted(inside, pairs[labels[pairs[:, 0]] == label])
        expected[inside] = naive.exchanged(features[inside].tolist(), 1, 3, own.tolist(), wanted.tolist())
        centred = features[inside] - features[inside].mean(axis=0)
        lacking[label] = wanted - centred.T @ centred
    made, source = features.copy(), np.arange(rows)
    exchange(made, 1, 3, pairs, labels, lacking, np.ones(4), source)
    if not ties:  # where nothing changes to rounding, either may exchange
        assert np.allclose(made, expected)
    assert np.array_equal(made[:, 1:3], features[source, 1:3])
    assert np.array_equal(made[:, [0, 3]], features[:, [0, 3]])


def test_what_swapped_records_lose_in_decoding_is_made_up_for():
    encoder, cells = coded(table(3_000))
    own = {block.position: range(block.start, block.stop) for block in encoder.numbers}
    filled = fill_predicted(cells, own, encoder.encode(cells), np.random.default_rng(1))
    features = encoder.encode(cells, filled)
    masked = mask(features, "spectral_swap", rng=np.random.default_rng(2))
    target = np.cov(masked, rowvar=False)
    before = masked.copy()
    made = decode_matched(encoder, masked, cells, target, rng=np.random.default_rng(3))
    plain = encoder.decode(masked, cells, Groups(np.arange(3_000), np.array([0, 3_000])), rng=np.random.default_rng(3))
    assert np.array_equal(masked, before)
    off = {}
    for name, decoded in (("matched", made), ("plain", plain)):
        # counts are exact either way
        for position in (2, 3, 4):
            assert np.array_equal(
                np.bincount(decoded[:, position].astype(int)), np.bincount(cells[:, position].astype(int))
            )
        assert np.isnan(decoded[:, 1]).sum() == np.isnan(cells[:, 1]).sum()
        assert decoded[:, 0].min() >= 0 and np.allclose(decoded[:, 0] * 10, np.rint(decoded[:, 0] * 10))
        whole = np.where(np.isnan(decoded), masked[:, [1]] * 0 + np.nanmean(decoded[:, 1]), decoded)
        off[name] = scaled_difference(target, np.cov(encoder.encode(decoded, whole), rowvar=False))
    nulls = encoder.numbers[1].start
    keep = np.delete(np.arange(encoder.width), nulls)  # values under nulls are not seen here
    assert off["matched"][np.ix_(keep, keep)].max() < 0.03
    assert off["plain"][np.ix_(keep, keep)].max() > 0.15


def test_groups_keep_what_differs_between_them():
    """In one group the month rises with the site, in the other it falls."""
    rng = np.random.default_rng(5)
    lung, labels = rng.random(4_000) < 0.4, np.repeat([0, 1], 2_000)
    months = rng.normal(50.0, 8.0, 4_000) + np.where(labels == 0, 8.0, -8.0) * lung
    encoder, cells = coded(pa.record_batch({"months": months, "site": np.where(lung, "lung", "breast")}))
    features = encoder.encode(cells)
    masked = np.concatenate(
        [rng.multivariate_normal(each.mean(axis=0), np.cov(each.T), 2_000) for each in np.split(features, 2)]
    )
    shuffled, target = cells[rng.permutation(4_000)], np.cov(masked.T)

    def covariances(groups):
        made = decode_matched(encoder, masked, shuffled, target, rng=np.random.default_rng(6), groups=groups)
        assert np.bincount(made[:, 1].astype(int)).tolist() == np.bincount(cells[:, 1].astype(int)).tolist()
        return np.array([np.cov(encoder.encode(each).T)[0, 1] for each in np.split(made, 2)])

    wanted = np.array([np.cov(each.T)[0, 1] for each in np.split(masked, 2)])
    assert np.abs(covariances(Groups.of(labels)) - wanted).max() < 0.02
    assert np.abs(covariances(None) - wanted).max() > 0.05


def test_cells_of_few_records_in_groups_are_drawn():
    """One of 40 groups has both rare categories in one record: what is aimed at must not tell which group it is."""
    rng = np.random.default_rng(7)
    wanted = np.where(rng.random((40 * 100, 2)) < 0.1, 1.0, -1.0)
    groups, first = Groups.of(np.repeat(np.arange(40), 100)), slice(0, 100)
    wanted[first] = -1.0
    wanted[[0, *range(1, 10)], 0] = wanted[[0, *range(10, 19)], 1] = 1.0  # ten of each, one of both
    together = (wanted > 0).all(axis=1).reshape(40, 100).sum(axis=1)
    ages = np.c_[wanted, np.where(np.arange(4_000) == 0, 90.0, rng.normal(size=4_000))]
    apart = ages.reshape(40, 100, 3).copy()
    apart[:, :, 0] = np.sort(apart[:, :, 0], axis=1)
    apart[:, :, 1] = -np.sort(-apart[:, :, 1], axis=1)  # as many of each in each group, none of both
    apart = apart.reshape(-1, 3)

    def cells(least):
        aims = [
            _lacking_in_groups(apart, ages, groups, least, np.random.default_rng(seed))[:, 0, 1] for seed in range(400)
        ]
        return np.array(aims) / 4

    assert np.allclose(cells(0), together)
    drawn = cells(5)[:, together < 5]
    assert abs(drawn[:, 0].mean() - 1.0) < 0.2  # expected of any such group, whatever it has
    assert abs(np.corrcoef(drawn.mean(axis=0), together[together < 5])[0, 1]) < 0.5
    assert drawn.std(axis=0).min() > 0.5
    lacking = _lacking_in_groups(apart, ages, groups, 11, np.random.default_rng(0))
    assert (lacking[0, :2, 2] == 0.0).all() and (lacking[0, 2, :2] == 0.0).all()  # no age of ten persons


class Means:
    """Draws that are their means."""

    @staticmethod
    def poisson(means):
        return means


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from([0, 3]), st.integers(1, 4))
def test_associations_in_groups_equal_their_twin(seed, least, many):
    rng = np.random.default_rng(seed)
    has, sizes = rng.random((many, 12, 4)) < rng.random((many, 1, 4)), np.full(many, 12)
    before = has.sum(axis=1).astype(float)
    aims = np.einsum("gra,grb->gab", has * 1.0, has * 1.0) - before[:, :, None] * before[:, None] / 12
    after = rng.uniform(0.0, 12.0, (many, 4))
    made, upper = associations(before, after, aims, sizes, least, Means), np.triu_indices(4, 1)
    twin = naive.associations(has.tolist(), after.tolist(), least)
    assert np.allclose(made[:, *upper], np.array(twin)[:, *upper]) and np.array_equal(made, made.transpose(0, 2, 1))


@pytest.mark.parametrize("least", [0, 5])
def test_what_follows_in_groups_does_so_by_other_counts(least):
    """Who is pregnant is a woman: in groups of 12 or 2 pregnant ones, as in those of 8."""
    labels, place = np.divmod(np.arange(600), 200)
    groups, age = Groups.of(labels), np.random.default_rng(1).normal(size=600)

    def features(pregnant, women):
        codes = [np.where(place < np.array(each)[labels], 1.0, -1.0) for each in (pregnant, women)]
        return np.c_[*codes, age + 2.0 * (codes[1] > 0)]

    wanted, decoded = features([8, 8, 8], [100, 90, 60]), features([12, 8, 2], [80, 90, 70])
    lacking = _lacking_in_groups(decoded, wanted, groups, least, np.random.default_rng(0))
    assert np.allclose(lacking[:, 0, 1], 0.0)
    scatter = 200 * np.array([np.cov(each.T, bias=True)[1, 2] for each in np.split(decoded, 3)])
    differences = [
        [each[each[:, 1] > 0, 2].mean() - each[each[:, 1] < 0, 2].mean() for each in np.split(side, 3)]
        for side in (wanted, decoded)
    ]
    assert np.allclose((scatter + lacking[:, 1, 2]) / scatter, np.divide(*differences))  # the mean age of women stays


def test_the_values_of_a_column_can_be_exchanged_too():
    encoder, cells = coded(table(1_000, seed=4).select(["months", "sex"]))
    shuffled = encoder.encode(cells)
    target = np.cov(shuffled, rowvar=False)
    shuffled[:, 0] = np.random.default_rng(0).permutation(shuffled[:, 0])
    made = decode_matched(encoder, shuffled, cells, target, rng=np.random.default_rng(1), numbers_too=True)
    assert np.array_equal(np.sort(made[:, 0]), np.sort(cells[:, 0]))
    assert abs(np.corrcoef(made.T)[0, 1] - np.corrcoef(cells.T)[0, 1]) < 0.01


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_handful_of_records_is_decoded(rows):
    batch = pa.record_batch({"months": [1.0, 2.0, 5.0][:rows], "sex": ["f", "m", "m"][:rows]})
    encoder, cells = coded(batch)
    features = encoder.encode(cells)
    target = np.cov(features, rowvar=False).reshape(encoder.width, -1) if rows > 1 else np.zeros((encoder.width,) * 2)
    made = decode_matched(encoder, features, cells, target, rng=np.random.default_rng(0))
    assert np.array_equal(np.sort(made, axis=0), np.sort(cells, axis=0))


def test_predicted_donors_keep_relation_of_column_to_another():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4_000)
    y = x + 0.5 * rng.normal(size=4_000)
    cells = np.stack([x, np.where(rng.random(4_000) < 0.4, np.nan, y)], axis=1)
    before = cells.copy()
    filled = fill_predicted(cells, {0: [0], 1: [1]}, np.nan_to_num(cells), np.random.default_rng(1))
    assert np.array_equal(cells, before, equal_nan=True) and not np.isnan(filled).any()
    known = ~np.isnan(cells[:, 1])
    assert np.array_equal(filled[known], cells[known]) and np.isin(filled[~known, 1], cells[known, 1]).all()
    assert abs(np.corrcoef(filled.T)[0, 1] - np.corrcoef(x, y)[0, 1]) < 0.02


def test_values_missing_together_keep_their_relations():
    rng = np.random.default_rng(0)
    state, one, other = rng.random(6_000) < 0.05, rng.normal(size=6_000), rng.normal(size=6_000)
    both = one - 2 * state
    table = np.stack([both, other, both - other, 0.5 * other + rng.normal(size=6_000), state], axis=1)
    cells = table.copy()
    cells[np.ix_(rng.random(6_000) < 0.3, [0, 1, 2])] = np.nan
    cells[rng.random(6_000) < 0.3, 3] = np.nan
    columns = {at: [at] for at in range(5)}
    filled = fill_predicted(cells, columns, np.nan_to_num(cells), np.random.default_rng(1))
    assert np.abs(np.corrcoef(filled.T) - np.corrcoef(table.T)).max() < 0.03


def test_a_column_without_values_is_left_empty():
    rng = np.random.default_rng(1)
    nothing = fill_predicted(np.full((3, 1), np.nan), {0: [0]}, np.zeros((3, 1)), rng)
    assert np.isnan(nothing).all()


def child(rows, seed):
    """Who is a child follows from the age, and who works has hours."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 95, rows)
    work = np.where(age < 16, "child", np.where(age > 66, "retired", rng.choice(["job", "home"], rows, p=[0.7, 0.3])))
    hours = np.where(work == "job", rng.choice(["20", "35", "40"], rows), "0")
    return pa.record_batch({"months": age.astype(float), "site": work, "sex": hours})


def test_records_are_chosen_where_column_follows_from_another():
    # by random records alone it is 0.08
    assert np.mean([lost_by_children(seed) for seed in range(4)]) < 0.05


def lost_by_children(seed):
    """The largest deviation of a covariance where some sites have children only."""
    batch = child(3_000, seed)
    columns = {"months": Column(kind="continuous")} | dict.fromkeys(["site", "sex"], Column(kind="categorical"))
    scan = scan_batch(batch, columns, 0, [])
    cells = ColumnEncoder.fit(batch.schema, columns, scan)
    encoder, original = FeatureEncoder.fit(cells, scan), cells.to_cells(batch)
    features = encoder.encode(original)
    target = np.cov(features, rowvar=False)
    rng = np.random.default_rng(seed + 2)
    made = rng.normal(size=features.shape) @ np.linalg.cholesky(target + 1e-9 * np.eye(len(target))).T
    ages = np.sort(features[:, 0])[np.argsort(np.argsort(made[:, 0]))]  # by rank, as scores get values
    decoded = decode_matched(encoder, made, original, target, rng=np.random.default_rng(3), mean_scores={0: ages})
    again = encoder.encode(decoded)
    again[:, 0] = np.sort(features[:, 0])[np.argsort(np.argsort(decoded[:, 0]))]
    return scaled_difference(target, np.cov(again, rowvar=False)).max()


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from(["value", "all"]))
def test_chosen_pairs_gain_to_first_order(seed, part):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(60, 4))
    features[:, 1:3] = np.eye(2)[rng.integers(0, 2, 60)]
    lack = rng.normal(size=(4, 4)) * 60
    start, stop = (0, 1) if part == "value" else (1, 3)
    unit = rng.uniform(0.5, 2.0, 4)
    pairs = _chosen(features, _Exchangeable(0, start, stop, part), lack + lack.T, unit, rng)
    assert len(set(pairs.ravel().tolist())) == pairs.size  # every record once
    for r, s in pairs:
        gain = sum(
            (unit[j] * unit[h]) ** 2
            * (lack + lack.T)[j, h]
            * (features[r, j] - features[s, j])
            * (features[s, h] - features[r, h])
            for j in range(start, stop)
            for h in range(4)
            if not start <= h < stop
        )
        assert gain > 0


def test_a_heavy_value_stays_where_it_is():
    own = np.where(np.arange(100) < 30, 0.0, np.arange(100.0))
    others = -own + np.random.default_rng(0).normal(size=100)
    assert (_opposite(own, others) >= 30).all() and len(_opposite(own, others))
