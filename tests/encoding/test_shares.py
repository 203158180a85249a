"""Shares of categories: whole numbers that add up, and parts of a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import FeatureEncoder, Groups, NumberBlock
from anonpipe.encoding.scan import scan_batch
from anonpipe.encoding.shares import PartShares, SmallCells, _rounded, share_out, without_few
from anonpipe.errors import InputError
from tests.encoding.test_features import COLUMNS, table
from tests.naive import encoder as naive


@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sampled_from(["even", "wild", "absent"]))
@settings(max_examples=200, deadline=None)
def test_both_margins_are_exact_and_no_count_is_negative(partitions, categories, seed, shape):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, partitions)
    totals = np.bincount(rng.integers(0, categories, sizes.sum()), minlength=categories)
    mass = {
        "even": np.ones((partitions, categories)),
        "wild": rng.normal(0.0, 30.0, (partitions, categories)),
        "absent": np.zeros((partitions, categories)),
    }[shape]
    counts = share_out(mass, totals, sizes)
    assert counts.min() >= 0
    assert np.array_equal(counts.sum(axis=0), totals) and np.array_equal(counts.sum(axis=1), sizes)


@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_rounding_equals_its_twin(rows, categories, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 20, rows)
    totals = np.bincount(rng.integers(0, categories, sizes.sum()), minlength=categories)
    fitted = rng.exponential(size=(rows, categories)) * 10.0
    assert _rounded(fitted, totals.copy(), sizes).tolist() == naive.rounded(fitted, totals, sizes)


def test_counts_that_fit_already_stay():
    counts = np.array([[5, 0, 3], [0, 9, 1]])
    assert np.array_equal(share_out(counts.astype(float), counts.sum(axis=0), counts.sum(axis=1)), counts)


def test_odds_of_the_mass_are_kept():
    """Twice the odds of the first category in the first partition, before and after fitting to other totals."""
    mass = np.array([[2.0, 1.0], [1.0, 1.0]]) * 1e6
    counts = share_out(mass, np.array([3_000_000, 3_000_000]), np.array([4_000_000, 2_000_000]))
    assert counts[0, 0] * counts[1, 1] / (counts[0, 1] * counts[1, 0]) == pytest.approx(2.0, rel=1e-4)


def test_every_count_is_near_what_is_wanted():
    rng = np.random.default_rng(1)
    shares, sizes = np.array([0.7, 0.2, 0.1]), np.full(50, 37)
    totals = np.round(shares * sizes.sum()).astype(int)
    counts = share_out(np.outer(sizes, shares) * rng.uniform(0.999, 1.001, (50, 3)), totals, sizes)
    assert np.abs(counts - np.outer(sizes, shares)).max() <= 2


def test_margins_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="add up"):
        share_out(np.ones((1, 2)), np.array([1, 1]), np.array([3]))


def fitted(rows, seed):
    batch = table(rows, seed)
    scan = scan_batch(batch, COLUMNS, 0, [])
    cells = ColumnEncoder.fit(batch.schema, COLUMNS, scan)
    features = FeatureEncoder.fit(cells, scan)
    return PartShares.fit(cells, features, features.width), cells, features, cells.to_cells(batch)


def counted(shares, cells):
    """Records of each code, nulls last, by a loop over the cells."""
    found = []
    for block, size in zip(shares.blocks, shares.categories, strict=True):
        counts = np.zeros(size + 1, dtype=int)
        plain = isinstance(block, NumberBlock) and not block.ordinal
        for value in cells[:, block.position]:
            counts[size if np.isnan(value) else 0 if plain else int(value)] += 1
        found.append(counts)
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(20, 120), st.integers(0, 10**6), st.integers(1, 19))
def test_parts_get_what_the_table_has(rows, seed, edge):
    shares, _, features, cells = fitted(rows, seed)
    parts = [cells[:edge], cells[edge:]]
    original = [features.encode(part) for part in parts]
    masked = [np.random.default_rng(seed).normal(size=part.shape) for part in original]
    calls = [shares.count(new, params=None, original=old) for new, old in zip(masked, original, strict=True)]
    for call, part in zip(calls, parts, strict=True):
        for codes, wanted in zip(call.codes, counted(shares, part), strict=True):
            assert codes[0].tolist() == wanted.tolist()
    found = shares.share(calls[0].merge(calls[1]), params=None, rng=None, guaranteed=lambda moments: None)
    given_cells = [
        shares.put(part, points, Groups.of(np.arange(len(part)) % 3), found, at, np.random.default_rng(at))
        for at, (part, points) in enumerate(zip(parts, masked, strict=True))
    ]
    totals = [sum(counts) for counts in zip(*(counted(shares, part) for part in given_cells), strict=True)]
    assert [total.tolist() for total in totals] == [total.tolist() for total in counted(shares, cells)]
    untouched = [at for at in range(cells.shape[1]) if at not in [block.position for block in shares.blocks]]
    assert np.array_equal(given_cells[0][:, untouched], parts[0][:, untouched], equal_nan=True)
    lack = np.cov(np.concatenate(original).T) - np.cov(np.concatenate(masked).T)
    assert np.allclose(found.residual, lack, atol=1e-9)


def test_what_is_promised_is_not_made_up_for():
    shares, _, features, cells = fitted(60, 1)
    points = features.encode(cells)
    call = shares.count(points, params=None, original=points)
    assert shares.share(call, params=None, rng=None, guaranteed=lambda moments: moments).residual is None


def test_a_part_of_another_length_is_refused():
    shares, _, features, cells = fitted(60, 1)
    points = features.encode(cells)
    found = shares.share(
        shares.count(points, params=None, original=points), params=None, rng=None, guaranteed=lambda moments: None
    )
    with pytest.raises(InputError, match="changed while it was masked"):
        shares.put(cells[1:], points[1:], Groups.one(len(cells) - 1), found, 0, np.random.default_rng(0))


def test_groups_get_the_categories_that_their_features_have():
    shares, _, features, cells = fitted(240, 3)
    points, groups = features.encode(cells), Groups.of(np.random.default_rng(4).integers(0, 4, 240))
    call = shares.count(points, params=None, original=points)
    found = shares.share(call, params=None, rng=None, guaranteed=lambda moments: moments)
    put = shares.put(cells, points, groups, found, 0, np.random.default_rng(0))
    for rows in np.split(groups.order, groups.starts[1:-1]):
        for block, had, given_now in zip(
            shares.blocks, counted(shares, cells[rows]), counted(shares, put[rows]), strict=True
        ):
            # an ordinal's nulls are taken in proportion from all levels, and each category is rounded once
            assert np.abs(had - given_now).max() <= (4 if isinstance(block, NumberBlock) and block.ordinal else 1)


def test_few_records_of_a_category_in_a_group_are_drawn():
    """Counts of groups follow the masked features, but not those of fewer than k records."""
    shares, _, features, cells = fitted(2_000, 5)
    points, labels = features.encode(cells), np.random.default_rng(6).integers(0, 100, 2_000)
    groups = Groups.of(labels)
    few = replace(shares, small_cells=SmallCells((), 5))
    found = shares.share(
        shares.count(points, params=None, original=points), params=None, rng=None, guaranteed=lambda moments: moments
    )
    at = next(at for at, block in enumerate(shares.blocks) if not isinstance(block, NumberBlock))
    followed = {}
    for name, how in (("kept", shares), ("drawn", few)):
        put = how.put(cells, points, groups, found, 0, np.random.default_rng(1))
        pairs = [
            (counted(shares, cells[rows])[at], counted(shares, put[rows])[at])
            for rows in np.split(groups.order, groups.starts[1:-1])
        ]
        had, has = np.concatenate([one for one, _ in pairs]), np.concatenate([other for _, other in pairs])
        followed[name] = np.corrcoef(had[had < 5], has[had < 5])[0, 1]
        assert counted(shares, put)[at].tolist() == counted(shares, cells)[at].tolist()
    assert followed["kept"] > 0.95 > 0.7 > followed["drawn"]


def test_columns_of_the_same_records_get_the_same_draws():
    """In each group as many have no ward as no doctor, since they are the same."""
    rng = np.random.default_rng(8)
    without, labels = rng.random(3_000) < 0.03, rng.integers(0, 30, 3_000)
    text = np.where(without, None, rng.choice(["a", "b"], 3_000))
    batch = pa.record_batch({"ward": text, "doctor": np.where(without, "none", rng.choice(["x", "y"], 3_000))})
    columns = dict.fromkeys(["ward", "doctor"], Column(kind="categorical"))
    scan = scan_batch(batch, columns, 0, [])
    encoder = ColumnEncoder.fit(batch.schema, columns, scan)
    features, cells = FeatureEncoder.fit(encoder, scan), encoder.to_cells(batch)
    shares = PartShares.fit(encoder, features, features.width)
    points = features.encode(cells)
    found = shares.share(
        shares.count(points, params=None, original=points), params=None, rng=None, guaranteed=lambda moments: moments
    )
    few = replace(shares, small_cells=SmallCells((), 5))
    put = few.put(cells, points, Groups.of(labels), found, 0, np.random.default_rng(0))
    of_ward, of_doctor = (np.bincount(labels, put[:, at] == cells[without, at][0]) for at in range(2))
    assert np.abs(of_ward - of_doctor).max() <= 1 and of_ward.std() > 0.5
    assert not np.array_equal(of_ward, np.bincount(labels, without))


@pytest.mark.parametrize(("counts", "least"), [([3, 97], 5), ([99, 1], 5), ([4, 5], 5), ([20, 20], 40)])
def test_a_few_nulls_are_rounded_at_random(counts, least):
    """To 0 or the least count, without bias (Cox 1987): neither says how many there were."""
    rng, few = np.random.default_rng(1), int(np.argmin(counts))
    found = np.array([without_few(np.array(counts), least, rng) for _ in range(4_000)])
    assert (found.sum(axis=1) == sum(counts)).all() and set(found[:, few].tolist()) == {0, least}
    assert found[:, few].mean() == pytest.approx(counts[few], abs=4 * least / 2 / np.sqrt(4_000))


@pytest.mark.parametrize(("counts", "least"), [([0, 9], 5), ([5, 95], 5), ([2, 1], 5), ([7, 7], 0)])
def test_other_counts_of_nulls_stay(counts, least):
    assert without_few(np.array(counts), least, np.random.default_rng(0)).tolist() == counts
