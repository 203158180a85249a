"""`r_microhybrid`: what it keeps exactly, the law of what it draws, and the groups it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anonpipe.errors import InputError
from anonpipe.methods.synthesis import METHODS, gaussian, r_microhybrid
from anonpipe.moments import GroupedMoments
from tests.methods.synthesis.grouped import groupings, shuffled_groups, tiled
from tests.naive import synthesize as naive

CHANCE = 1e-4
"""Smallest p-value that passes; no test here draws more than 30, so each fails by chance under 1e-6."""


def check_exact(features, kept, new, order, starts):
    """Means, scatter, and scatter with the kept columns of every group, to 1e-9 and what floats leave."""
    for members in naive.groups_of(order, starts):
        old, made = (np.column_stack([x[members], kept[members]]) for x in (features, new))
        was, now = naive.scatter(old), naive.scatter(made)
        size = np.sqrt(np.diag(was))
        room = 1e-9 * size + 4e-16 * np.abs(old).max(axis=0) * len(old)
        assert np.all(np.abs(made.mean(axis=0) - old.mean(axis=0)) <= room)
        assert np.all(np.abs(now - was) <= np.outer(room, size + room) + np.outer(size + room, room))


@given(groupings(smallest=4), st.integers(0, 2**32), st.data())
@settings(max_examples=150, deadline=None)
def test_group_keeps_its_moments_and_those_with_kept_columns(case, seed, data):
    """The last columns of the awkward tables are kept: constant, dependent, in far units, repeated."""
    table, order, starts = case
    n_kept = data.draw(st.integers(0, min(2, table.shape[1] - 1)))
    features = np.ascontiguousarray(table[:, : table.shape[1] - n_kept])
    kept = table[:, table.shape[1] - n_kept :]
    new = r_microhybrid(features, order, starts, rng=np.random.default_rng(seed), kept=kept, rule="rank")
    check_exact(features, kept, new, order, starts)


@pytest.mark.parametrize("n_kept", [0, 1, 3])
@pytest.mark.parametrize("size", [5, 6, 7, 12, 3_000])
def test_sizes_around_the_number_of_columns(size, n_kept):
    rng = np.random.default_rng(size)
    table = rng.normal(size=(2 * size, 4 + n_kept)) @ rng.normal(size=(4 + n_kept, 4 + n_kept))
    order, starts = shuffled_groups([size, size], rng)
    features, kept = np.ascontiguousarray(table[:, :4]), table[:, 4:]
    new = r_microhybrid(features, order, starts, rng=rng, kept=kept, rule="rank")
    check_exact(features, kept, new, order, starts)
    assert size == 5 or not np.allclose(new, features, atol=1e-3)


def test_fifty_kept_columns_of_rank_two_leave_room():
    rng = np.random.default_rng(1)
    kept = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50))
    features = kept[:, :1] + rng.normal(size=(60, 1))
    new = r_microhybrid(features, np.arange(60), np.array([0, 60]), rng=rng, kept=kept)
    check_exact(features, kept, new, np.arange(60), np.array([0, 60]))
    assert np.abs(new - features).max() > 0.5


@given(groupings(smallest=2))
@settings(max_examples=40, deadline=None)
def test_without_kept_columns_it_is_gaussian(case):
    nothing = np.empty((len(case[0]), 0))
    new = r_microhybrid(*case, rng=np.random.default_rng(2), kept=nothing, rule="rank")
    assert np.array_equal(new, gaussian(*case, rng=np.random.default_rng(2)))


@given(groupings(smallest=4, largest=10, widest=4), st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_records_are_those_of_the_matrices_written_out(case, n_kept):
    """On columns of independent random numbers; where columns depend, signs of the triangle are free."""
    _, order, starts = case
    features = np.random.default_rng(3).normal(size=case[0].shape)
    kept = np.random.default_rng(4).normal(size=(len(features), n_kept))
    new = r_microhybrid(features, order, starts, rng=np.random.default_rng(5), kept=kept, rule="rank")
    twin = naive.hybrid(features, kept, order, starts, rng=np.random.default_rng(5))
    assert np.allclose(new, twin, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("n", "width", "n_kept"), [(6, 2, 1), (6, 2, 2), (9, 3, 2), (12, 1, 4)])
def test_it_has_the_law_of_ipso(n, width, n_kept):
    rng = np.random.default_rng(n + 10 * width)
    kept = rng.normal(size=(n, n_kept))
    features = kept[:, :1] + rng.normal(size=(n, width)) @ rng.normal(size=(width, width))
    many = tiled(features, np.arange(n), np.array([0, n]), 2000)
    again = np.tile(kept, (2000, 1))
    ours = r_microhybrid(*many, rng=rng, kept=again, rule="rank").reshape(2000, n, width)
    theirs = naive.ipso(many[0], again, *many[1:], rng=rng).reshape(2000, n, width)
    for contrast, direction in zip(rng.normal(size=(6, n)), rng.normal(size=(6, width)), strict=True):
        assert stats.ks_2samp(ours @ direction @ contrast, theirs @ direction @ contrast).pvalue > CHANCE
    for power in (3, 4):
        assert stats.ks_2samp((ours**power).sum(axis=(1, 2)), (theirs**power).sum(axis=(1, 2))).pvalue > CHANCE
    pair = [x[:, 0, 0] * x[:, 1, -1] for x in (ours, theirs)]
    assert stats.ks_2samp(*pair).pvalue > CHANCE


def test_law_comparison_sees_residuals_forget_kept_columns():
    """Power: rotating the whole group, as `gaussian` does, gives other laws of the same sums."""
    rng = np.random.default_rng(6)
    kept = rng.normal(size=(6, 1))
    features = kept + rng.normal(size=(6, 2))
    many = tiled(features, np.arange(6), np.array([0, 6]), 2000)
    theirs = naive.ipso(many[0], np.tile(kept, (2000, 1)), *many[1:], rng=rng).reshape(2000, 6, 2)
    other = gaussian(*many, rng=rng).reshape(2000, 6, 2)
    assert stats.ks_2samp(other[:, :, 0] @ kept[:, 0], theirs[:, :, 0] @ kept[:, 0]).pvalue < CHANCE


def test_in_one_free_dimension_a_group_is_kept_or_mirrored():
    """What `rank` lets through: with kept + 2 records half of the groups are released as they are."""
    rng = np.random.default_rng(7)
    features, kept = rng.normal(size=(4000 * 4, 3)), rng.normal(size=(4000 * 4, 2))
    groups = np.arange(16_000), np.arange(0, 16_001, 4)
    new = r_microhybrid(features, *groups, rng=rng, kept=kept, rule="rank")
    same = np.isclose(new, features, atol=1e-9).all(axis=1).reshape(4000, 4).all(axis=1)
    assert stats.binomtest(int(same.sum()), 4000).pvalue > CHANCE


def test_kept_column_depending_on_another_takes_no_dimension():
    """Groups of four, one column kept twice: two dimensions are free, so that no group is kept or mirrored."""
    rng = np.random.default_rng(10)
    features, kept = rng.normal(size=(800, 1)), np.repeat(rng.normal(size=(800, 1)), 2, axis=1) * [1.0, 1 / 3]
    groups = np.arange(800), np.arange(0, 801, 4)
    new = r_microhybrid(features, *groups, rng=rng, kept=kept, rule="rank")
    check_exact(features, kept, new, *groups)
    assert np.abs(new - features).reshape(200, 4).max(axis=1).min() > 1e-4


def test_the_rules_refuse_small_groups_with_their_number():
    rng = np.random.default_rng(8)
    order, starts = shuffled_groups([6, 5, 3, 6], rng)
    features, kept = rng.normal(size=(20, 2)), rng.normal(size=(20, 1))
    assert r_microhybrid(features, order, starts, rng=rng, kept=kept, rule="rank").shape == (20, 2)
    with pytest.raises(InputError, match=r"2 of 4 groups .* 2 masked and 1 key .* asks for 6 records.*rule='rank'"):
        r_microhybrid(features, order, starts, rng=rng, kept=kept)
    wider = rng.normal(size=(20, 2))
    with pytest.raises(InputError, match=r"1 of 4 groups .* asks for 4 records; form larger groups"):
        r_microhybrid(features, order, starts, rng=rng, kept=wider, rule="rank")


def test_the_moments_of_the_table_are_promised_and_kept():
    rng = np.random.default_rng(9)
    order, starts = shuffled_groups([7, 8, 9], rng)
    features, kept = rng.normal(size=(24, 2)), rng.normal(size=(24, 1))
    grouped = GroupedMoments.of(features, order, starts)
    new = r_microhybrid(features, order, starts, rng=rng, kept=kept)
    record = METHODS["r_microhybrid"]
    expected = record.guarantee(record.options(method="r_microhybrid")).expect([grouped], None)
    assert np.allclose(np.cov(new.T), expected.covariance, rtol=0, atol=1e-12)
    assert not expected.covariance_error.any() and not expected.mean_error.any()
