from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chi2, ncx2

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.synthesis import METHODS, noise_scatter, synthesize
from anonpipe.methods.synthesis._gaussian import draw_groups
from anonpipe.moments import (
    GroupedMoments,
    GroupSpread,
    Moments,
    PairwiseMoments,
    covariance_limit,
    exact_factor,
    expect_scopes,
    form_eigenvalue,
    merge_all,
    noise_factor,
    product_variance,
    s_delta,
)
from anonpipe.storage.records import from_bytes, to_bytes
from tests.methods.synthesis.grouped import groupings, shuffled_groups, tiled
from tests.naive import synthesize as naive

Z = 5.0
"""Normal quantile of all statistical tests here: 5.7e-7 an entry two-sided, under 1e-4 for a whole test."""


def close(a, b, scale, relative=1e-11):
    assert np.max(np.abs(a - b) / np.where(scale > 0, scale, 1.0)) < relative


def sizes_of(square):
    return np.sqrt(np.outer(np.diag(square), np.diag(square)))


@given(groupings())
@settings(max_examples=60, deadline=None)
def test_moments_are_those_of_the_twin(case):
    features, order, starts = case
    before = features.copy()
    grouped = GroupedMoments.of(features, order, starts)
    size = np.abs(features).max(axis=0)
    close(grouped.total.mean, features.mean(axis=0), size)
    floor = 1e-9 * np.outer(size, size)  # the twin itself loses digits next to a large mean
    close(grouped.total.scatter, naive.scatter(features), sizes_of(naive.scatter(features)) + floor)
    close(
        grouped.within, naive.within(features, order, starts), sizes_of(naive.within(features, order, starts)) + floor
    )
    assert grouped.groups == len(starts) - 1
    assert np.array_equal(features, before)
    assert np.array_equal(grouped.within, grouped.within.T)


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 1000])
def test_block_borders(n):
    features = np.random.default_rng(n).normal(3, 2, (n, 3))
    moments = Moments.of(features)
    assert moments.n == n
    assert np.allclose(moments.scatter, naive.scatter(features) if n else 0, rtol=1e-12, atol=1e-12)
    assert np.isnan(moments.covariance).all() == (n < 2)


@pytest.mark.parametrize("n", [4, 255, 256, 257, 700])
def test_block_borders_of_groups(n):
    features = np.random.default_rng(n).normal(3, 2, (n, 3))
    order, starts = sort_groups(np.arange(n) % (n // 4))
    within = GroupedMoments.of(features, order, starts).within
    assert np.allclose(within, naive.within(features, order, starts), rtol=1e-12, atol=1e-12)


def test_constant_column_has_no_variance_and_keeps_its_value():
    features = np.full((1001, 1), 0.1)
    moments = Moments.of(features)
    assert moments.mean[0] == 0.1
    assert moments.scatter[0, 0] == 0.0
    groups = sort_groups(np.arange(1001) // 7)
    assert GroupedMoments.of(features, *groups).within[0, 0] == 0.0


def test_a_large_mean_costs_no_digits():
    noise = np.random.default_rng(1).integers(-1000, 1000, (5000, 2)) / 1024
    exact = Moments.of(noise).scatter
    close(Moments.of(noise + 2.0**30).scatter, exact, sizes_of(exact), 1e-12)


@given(groupings(), st.lists(st.integers(0, 5), min_size=6, max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_split_by_groups_merges_to_the_whole(case, piece_of_group):
    features, order, starts = case
    label = np.empty(len(features), dtype=np.int64)
    label[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    grouped, pairs, spreads = [], [], []
    for piece in range(6):
        chosen = np.isin(label, [g for g in range(len(starts) - 1) if piece_of_group[g] == piece])
        if chosen.any():
            renumbered = np.unique(label[chosen], return_inverse=True)[1]
            part = (features[chosen], *sort_groups(renumbered))
            grouped.append(GroupedMoments.of(*part))
            pairs.append(PairwiseMoments.of(part[0]))
            spreads.append(GroupSpread.of(*part))
    whole, merged = GroupedMoments.of(features, order, starts), merge_all(grouped)
    size = np.abs(features).max(axis=0)
    floor = np.outer(size, size)
    close(merged.total.mean, whole.total.mean, size)
    close(merged.total.scatter, whole.total.scatter, len(features) * floor)
    close(merged.within, whole.within, len(features) * floor)
    assert (merged.groups, merged.total.n) == (whole.groups, whole.total.n)
    pairwise, joined = PairwiseMoments.of(features), merge_all(pairs)
    assert np.array_equal(joined.n, pairwise.n)
    close(joined.cross, pairwise.cross, len(features) * floor)
    spread, together = GroupSpread.of(features, order, starts), merge_all(spreads)
    for name, power in {"noise": 4, "square": 4, "product": 4, "linear": 3, "mixed": 3}.items():
        scale = floor**2 if power == 4 else floor * np.maximum(size[:, None], size[None, :])
        close(getattr(together, name), getattr(spread, name), len(features) * scale)


def test_merging_is_associative_and_has_a_neutral_piece():
    rng = np.random.default_rng(2)
    a, b, c = (Moments.of(rng.normal(m, 1, (n, 3))) for m, n in ((0, 5), (9, 50), (-3, 1)))
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    close(left.scatter, right.scatter, sizes_of(left.scatter))
    nothing = Moments.of(np.empty((0, 3)))
    assert nothing.merge(a) is a
    assert a.merge(nothing) is a
    with pytest.raises(InputError, match="at least one"):
        merge_all([])
    with pytest.raises(InputError, match="columns"):
        a.merge(Moments.of(np.ones((2, 2))))


@given(groupings(largest=9), st.floats(0, 0.9))
@settings(max_examples=60, deadline=None)
def test_pairwise_moments_are_those_of_the_twin(case, share):
    values = case[0] / np.abs(case[0]).max(axis=0).clip(1e-300)
    values[np.random.default_rng(len(values)).random(values.shape) < share] = np.nan
    some = PairwiseMoments.of(values)
    n, mean, covariance = naive.pairwise(values)
    assert np.array_equal(some.n, n)
    assert np.allclose(some.mean, mean, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert np.allclose(some.covariance, covariance, rtol=1e-10, atol=1e-12, equal_nan=True)
    assert np.allclose(some.null_share, np.isnan(values).mean(axis=0))


def test_files_keep_every_bit():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(40, 3)) / 3
    order, starts = shuffled_groups([4] * 10, rng)
    holed = np.where(rng.random(features.shape) < 0.2, np.nan, features)
    records = [
        Moments.of(features),
        GroupedMoments.of(features, order, starts),
        PairwiseMoments.of(holed),
        GroupSpread.of(features, order, starts),
        noise_scatter(starts, 3, rng=rng),
    ]
    for record in records:
        content = to_bytes(record)
        again = from_bytes(content, [type(record), Moments])
        assert type(again) is type(record) and to_bytes(again) == content


def test_s_delta_by_form():
    rng = np.random.default_rng(4)
    features = rng.normal(size=(60, 3))
    order, starts = shuffled_groups([3] * 20, rng)
    grouped = GroupedMoments.of(features, order, starts)
    lost = np.cov(features.T) - np.cov(naive.centroid(features, order, starts).T)
    assert np.allclose(s_delta(grouped, "independent"), lost)
    for form in ("centred", "published"):
        assert np.allclose(s_delta(grouped, form), 59 / 40 * lost)
    with pytest.raises(JobError, match="independent, centred, published"):
        s_delta(grouped, "other")


def test_groups_of_one_need_no_noise():
    features = np.random.default_rng(5).normal(size=(7, 2))
    grouped = GroupedMoments.of(features, np.arange(7), np.arange(8))
    for form in ("independent", "centred", "published"):
        assert not s_delta(grouped, form).any()
        assert not noise_factor(s_delta(grouped, form)).any()
        assert not limit_of(grouped, "micro_perturbation", form).covariance_error.any()


@given(groupings())
@settings(max_examples=60, deadline=None)
def test_noise_factor_gives_the_covariance_back(case):
    covariance = Moments.of(case[0]).scatter
    factor = noise_factor(covariance)
    close(factor @ factor.T, covariance, sizes_of(covariance))
    largest = np.abs(factor).argmax(axis=0)
    assert np.array_equal(factor, noise_factor(covariance))
    assert factor.shape == covariance.shape
    unscaled = factor[:, factor.any(axis=0)]
    assert unscaled.shape[1] <= max(len(case[0]) - 1, 0)
    assert len(largest) == len(covariance)


@pytest.mark.parametrize("bad", [np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 3)), np.array([[np.nan]])])
def test_noise_factor_refuses_what_is_no_covariance(bad):
    with pytest.raises(InputError):
        noise_factor(bad)


def make(apart=3.0):
    """Groups of unequal size whose means (`apart`) and scatters differ: 14 groups, 61 records, 3 columns."""
    rng = np.random.default_rng(6)
    sizes = np.array([3, 3, 3, 4, 5, 3, 3, 7, 3, 9, 4, 3, 3, 8])
    order, starts = shuffled_groups(sizes, rng)
    features = rng.normal(size=(sizes.sum(), 3)) @ rng.normal(size=(3, 3))
    group = np.empty(len(features), dtype=np.int64)
    group[order] = np.repeat(np.arange(len(sizes)), sizes)
    return features * (0.3 + group % 4)[:, None] + apart * rng.normal(size=(len(sizes), 3))[group], order, starts


@cache
def simulate(method, form, times=4000, noise=None, apart=3.0):
    """Means and covariances of many independent releases of one table; noise of these variances."""
    features, order, starts = make(apart)
    grouped = GroupedMoments.of(features, order, starts)
    options = {}
    if (method, form) == ("micro_perturbation", "exact"):
        return grouped, *simulate_exact(features, order, starts, times)
    if method == "micro_perturbation":
        options = {"form": form, "factor": noise_factor(s_delta(grouped, form) if noise is None else np.diag(noise))}
    elif method in ("gaussian", "pca") and form is not None:
        options = {"moments": form} | ({"n_table": len(features)} if form == "expected" else {})
    elif method == "r_microhybrid":
        options = {"kept": np.empty((len(features) * times, 0)), "rule": "rank"}
    rng = np.random.default_rng(7)
    if "n_table" in options:
        new = np.stack([synthesize(features, order, starts, method, rng=rng, **options) for _ in range(times)])
    else:
        many = tiled(features, order, starts, times)
        new = synthesize(*many, method, rng=rng, **options).reshape(times, len(features), 3)
    return grouped, *moments_of(new)


def moments_of(new):
    """Means and covariances of releases, shape (times, n_rows, width)."""
    mean = new.mean(axis=1)
    off = new - mean[:, None, :]
    return mean, np.einsum("tij,tih->tjh", off, off) / (new.shape[1] - 1)


def simulate_exact(features, order, starts, times):
    within = GroupedMoments.of(features, order, starts).within
    new = []
    for seed in range(times):
        factor = exact_factor(noise_scatter(starts, 3, rng=np.random.default_rng(seed)), within)
        options = {"form": "exact", "factor": factor}
        new.append(
            synthesize(features, order, starts, "micro_perturbation", rng=np.random.default_rng(seed), **options)
        )
    return moments_of(np.stack(new))


def spread_for(form, apart):
    return GroupSpread.of(*make(apart)) if form == "expected" else None


def guaranteed(grouped, method, form, spread):
    """What the record of a method says of means and covariances."""
    options = {"method": method} | ({} if form is None else {METHODS[method].forms: form})
    record = METHODS[method]
    return record.guarantee(record.options(**options)).expect([grouped], None if spread is None else [spread])


def covariance_of(grouped, method, form=None):
    return guaranteed(grouped, method, form, spread_for(form, 3.0)).covariance


def limit_of(grouped, method, form=None, spread=None):
    return guaranteed(grouped, method, form, spread)


RANDOM = [
    ("micro_perturbation", "independent"),
    ("micro_perturbation", "centred"),
    ("micro_perturbation", "published"),
    ("pca", "expected"),
    ("gaussian", "expected"),
]


@pytest.mark.parametrize("apart", [3.0, 0.0])
@pytest.mark.parametrize(("method", "form"), RANDOM)
def test_sampling_limits_and_expectations_hold(method, form, apart):
    """4000 releases: mean of the moments within Z standard errors, their variance too.

    With group means far apart their products with the noise count most, with
    means that differ by chance only the noise alone.
    """
    grouped, mean, covariance = simulate(method, form, apart=apart)
    times = len(mean)
    limit = limit_of(grouped, method, form, spread=spread_for(form, apart))
    target = covariance_of(grouped, method, form)
    assert np.all(np.abs(covariance.mean(axis=0) - target) <= Z * limit.covariance_error / np.sqrt(times))
    assert np.all(np.abs(mean.mean(axis=0) - grouped.total.mean) <= Z * limit.mean_error / np.sqrt(times) + 1e-12)
    for values, centre, error in (
        (covariance, target, limit.covariance_error),
        (mean, grouped.total.mean, limit.mean_error),
    ):
        square = (values - centre) ** 2
        slack = Z * square.std(axis=0) / np.sqrt(times)
        assert np.all(np.abs(square.mean(axis=0) - error**2) <= slack + 1e-20)


@pytest.mark.parametrize("apart", [3.0, 0.0])
@pytest.mark.parametrize(("method", "form"), RANDOM)
def test_sampling_limits_are_the_sums_written_out(method, form, apart):
    features, order, starts = make(apart)
    n, grouped = len(features), GroupedMoments.of(features, order, starts)
    averaging = np.zeros((n, n))
    covariances = np.empty((n, 3, 3))
    for members in naive.groups_of(order, starts):
        if form == "centred":
            averaging[np.ix_(members, members)] = 1 / len(members)
        own = naive.scatter(features[members]) / len(members) * n / (n - 1)
        covariances[members] = own if form == "expected" else s_delta(grouped, form)
    mean, covariance = naive.standard_errors(naive.centroid(features, order, starts), covariances, averaging)
    limit = limit_of(grouped, method, form, spread=spread_for(form, apart))
    assert np.allclose(limit.mean_error, mean, rtol=1e-10, atol=1e-14)
    assert np.allclose(limit.covariance_error, covariance, rtol=1e-10)


@pytest.mark.parametrize("form", ["independent", "centred"])
def test_parts_with_noise_of_their_own_are_the_sums_written_out(form):
    """Expected covariance and standard errors of a table whose two parts have noise of a covariance each."""
    features, order, starts = make()
    cut = 7
    halves = [(order[: starts[cut]], starts[: cut + 1]), (order[starts[cut] :], starts[cut:] - starts[cut])]
    averaging, covariances, scopes = np.zeros((len(features),) * 2), np.empty((len(features), 3, 3)), []
    for rows, begins in halves:
        grouped = GroupedMoments.of(features[rows], np.arange(len(rows)), begins)
        scopes.append((grouped, s_delta(grouped, form)))
        covariances[rows] = scopes[-1][1]
    for members in naive.groups_of(order, starts) if form == "centred" else ():
        averaging[np.ix_(members, members)] = 1 / len(members)
    mean, covariance = naive.standard_errors(naive.centroid(features, order, starts), covariances, averaging)
    limit = expect_scopes(scopes, form)
    assert np.allclose(limit.mean_error, mean, rtol=1e-10, atol=1e-14)
    assert np.allclose(limit.covariance_error, covariance, rtol=1e-10)
    left = np.eye(len(features)) - averaging
    left -= left.mean(axis=0)
    added = np.einsum("ij,jab,ij->ab", left, covariances, left) / (len(features) - 1)
    between = np.cov(naive.centroid(features, order, starts).T)
    assert np.allclose(limit.covariance, between + added, rtol=1e-10)
    if form == "independent":  # each part is unbiased; the table gets what the parts' means move
        assert np.all(np.diag(between + added) > np.diag(np.cov(features.T)))


def test_group_of_all_variance_stays_within_its_own_limit():
    """One outlier among 300: its group of three is a chi-square with 3 degrees of freedom, whose tail is known.

    Where the table is spread evenly, the limit is hardly wider than the normal one.
    """
    features = np.full((300, 1), 1e-9) * np.arange(300)[:, None]
    features[0] = 1e6
    spread = GroupSpread.of(features, np.arange(300), np.arange(0, 301, 3))
    grouped = GroupedMoments.of(features, np.arange(300), np.arange(0, 301, 3))
    limit = limit_of(grouped, "pca", "expected", spread=spread)
    unit = limit.covariance_scale[0, 0] / 2  # of the chi-square, which the group's mean makes non-central
    other = float(spread.square[0, 0] / spread.largest[0, 0] ** 2)  # 3 u²/V
    chance = 1e-5
    reach = covariance_limit(limit.covariance_error, limit.covariance_scale, chance)[0, 0] / unit
    law = ncx2(3, other)
    assert law.sf(law.mean() + reach) + law.cdf(law.mean() - reach) < chance
    chi = chi2(3)
    assert chi.sf(3 + 6 * np.sqrt(6)) > 4e-4  # what six standard errors let through of noise alone
    assert chi.sf(3 + covariance_limit(np.sqrt(6.0), 2.0, chance)) < chance
    even = np.random.default_rng(2).normal(size=(5_000, 1))
    grouped = GroupedMoments.of(even, np.arange(5_000), np.arange(0, 5_001, 5))
    limit = limit_of(grouped, "micro_perturbation", "independent")
    assert covariance_limit(limit.covariance_error, limit.covariance_scale, 2e-9) < 6.9 * limit.covariance_error


@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 9, 30), (100, 100, 100)])
@pytest.mark.parametrize("between", [0.0, 0.9])
def test_limits_hold_for_sums_of_products_of_correlated_normals(sizes, between):
    """200,000 draws of Σ_g Σ_i (e_ij e_ih) with three covariances: the rate beyond is below the stated chance."""
    rng, chance, times = np.random.default_rng(3), 1e-3, 200_000
    total, error, largest = np.zeros(times), 0.0, 0.0
    for n, wide in zip(sizes, (10.0, 3.0, 1.0), strict=True):
        v = np.array([[wide**2, between * wide], [between * wide, 1.0]])
        # the sum of n products, from its two chi-squares
        root = np.sqrt(np.linalg.det(v) + v[0, 1] ** 2)
        plus, minus = (root + v[0, 1]) / 2, (root - v[0, 1]) / 2
        total += plus * (rng.chisquare(n, times) - n) - minus * (rng.chisquare(n, times) - n)
        error += n * product_variance(v)[0, 1]
        largest = max(largest, form_eigenvalue(v)[0, 1])
    reach = covariance_limit(np.sqrt(error), 2 * largest, chance)
    assert np.isclose(total.var(), error, rtol=0.05)
    assert np.mean(np.abs(total) > reach) <= chance
    assert reach < 12 * np.sqrt(error)


@pytest.mark.parametrize(("method", "form"), [("micro_perturbation", "independent"), ("pca", "expected")])
def test_the_simulation_would_see_a_limit_that_is_15_percent_off(method, form):
    """Power of the test above: its slack is below 0.32 of every variance, so errors x 1.15 (variance x 1.32) fail."""
    grouped, _, covariance = simulate(method, form)
    square = (covariance - covariance_of(grouped, method, form)) ** 2
    assert np.all(Z * square.std(axis=0) / np.sqrt(len(square)) < 0.32 * square.mean(axis=0))


def test_published_noise_is_biased_as_predicted_others_are_not():
    """With 4000 releases the published excess is over 20 standard errors; the unbiased forms stay within Z."""
    off = {}
    for form in ("independent", "centred", "published"):
        grouped, _, covariance = simulate("micro_perturbation", form)
        error = np.diag(limit_of(grouped, "micro_perturbation", form).covariance_error) / np.sqrt(len(covariance))
        off[form] = np.diag(covariance.mean(axis=0) - grouped.total.covariance) / error
    assert np.all(np.abs(off["independent"]) < Z)
    assert np.all(np.abs(off["centred"]) < Z)
    assert np.all(off["published"] > 20)


def unbiased(features, covariances):
    """Whether each entry of the mean covariance lies within Z standard errors, taken from the releases, of S_X."""
    off = covariances.mean(axis=0) - np.cov(features.T)
    return np.abs(off) <= Z * covariances.std(axis=0) / np.sqrt(len(covariances))


def test_draws_scatter_over_n_is_unbiased_less_one_is_rejected():
    """Gaussian and pca "in expectation", groups of five: fails by chance under 6 x 5.7e-7.

    Power: with W/(n-1), drawn independently, the excess of each variance is
    over 17 standard errors of 10,000 releases, so that the chance to find it
    within 5 is below 1e-30.
    """
    rng = np.random.default_rng(8)
    order, starts = shuffled_groups([5] * 8, rng)
    features = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3))
    times = 10_000
    many = tiled(features, order, starts, times)
    draws = np.random.default_rng(9).standard_normal(len(many[0]) * 3)
    covariances = {}
    for name, factor in {"over n": 40 / 39, "published": 5 / 4}.items():
        new = np.empty_like(many[0])
        draw_groups(*many, draws, factor, new)
        covariances[name] = moments_of(new.reshape(times, 40, 3))[1]
    again = np.stack(
        [
            synthesize(features, order, starts, "gaussian", rng=rng, moments="expected", n_table=40)
            for _ in range(times // 4)
        ]
    )
    assert unbiased(features, covariances["over n"]).all()
    assert unbiased(features, moments_of(again)[1]).all()
    assert not unbiased(features, covariances["published"]).diagonal().any()
    excess = covariances["published"].mean(axis=0) - np.cov(features.T)
    error = covariances["published"].std(axis=0) / np.sqrt(times)
    assert np.all(np.diag(excess) > 17 * np.diag(error))
    within = GroupedMoments.of(features, order, starts).within
    predicted = within / (5 - 1) * (1 - 5 / 40) / (40 - 1)
    assert np.all(np.abs(excess - predicted) <= Z * error)


def make_grouped():
    return GroupedMoments.of(*make())


@pytest.mark.parametrize("form", ["independent", "centred"])
def test_foreign_noise_is_accounted_for(form):
    noise = (1.0, 4.0, 9.0)
    grouped, mean, covariance = simulate("micro_perturbation", form, noise=noise)
    limit = expect_scopes([(grouped, np.diag(noise))], form)
    target = limit.covariance
    assert np.all(np.abs(covariance.mean(axis=0) - target) <= Z * limit.covariance_error / np.sqrt(len(mean)))
    square = (covariance - target) ** 2
    slack = Z * square.std(axis=0) / np.sqrt(len(mean))
    assert np.all(np.abs(square.mean(axis=0) - limit.covariance_error**2) <= slack)


EXACT = [
    ("centroid", None),
    ("gaussian", None),
    ("gaussian", "exact"),
    ("pca", "exact"),
    ("micro_perturbation", "exact"),
    ("r_microhybrid", None),
]


@pytest.mark.parametrize(("method", "form"), EXACT)
def test_exact_methods_no_sampling_error_and_meet_expectation(method, form):
    grouped, mean, covariance = simulate(method, form, times=20)
    limit = limit_of(grouped, method, form)
    assert not limit.mean_error.any() and not limit.covariance_error.any()
    close(mean, grouped.total.mean[None], np.sqrt(np.diag(grouped.total.covariance)), 1e-12)
    close(covariance, covariance_of(grouped, method, form)[None], sizes_of(grouped.total.covariance), 1e-12)


def test_spread_is_that_of_the_twin():
    features, order, starts = make()
    spread = GroupSpread.of(features, order, starts)
    for name, value in naive.spread(features, order, starts).items():
        assert np.allclose(getattr(spread, name), value, rtol=1e-10, atol=1e-10 * np.abs(value).max())


def test_forms_without_method_and_missing_spread_are_errors():
    grouped = make_grouped()
    for method in ("pca", "gaussian"):
        with pytest.raises(JobError, match="need a GroupSpread"):
            limit_of(grouped, method, "expected")
    for method, form in (("pca", "centred"), ("micro_perturbation", "expected")):
        with pytest.raises(ValidationError, match="Input should be"):
            limit_of(grouped, method, form)
