"""Laws that hold for every synthesizer, and the dispatcher."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import AnonpipeError, InputError, JobError
from anonpipe.methods.synthesis import METHODS, _gaussian, noise_scatter, synthesize
from anonpipe.moments import GroupedMoments, exact_factor, noise_factor, s_delta
from tests.methods.synthesis.grouped import groupings, shuffled_groups

CASES = [
    ("centroid", "mean"),
    ("centroid", "median"),
    ("gaussian", "exact"),
    ("gaussian", "expected"),
    ("pca", "exact"),
    ("pca", "expected"),
    ("micro_perturbation", "independent"),
    ("micro_perturbation", "centred"),
    ("micro_perturbation", "published"),
    ("micro_perturbation", "exact"),
    ("r_microhybrid", "rank"),
    ("histogram", "exact"),
    ("histogram", "expected"),
]
ON_FEATURES = [case for case in CASES if METHODS[case[0]].takes == "features"]
RANDOM = [case for case in CASES if METHODS[case[0]].draws]
DEFAULT = {"gaussian": "exact", "pca": "exact", "micro_perturbation": "independent", "r_microhybrid": "rank"} | {
    "centroid": "mean",
    "histogram": "exact",
}


def run(method, form, features, order, starts, seed=1):
    options = {}
    if method in ("gaussian", "pca"):
        options = {"moments": form} | ({"n_table": len(features) + 1} if form == "expected" else {})
    elif method == "micro_perturbation":
        grouped = GroupedMoments.of(features, order, starts)
        if form == "exact":
            noise = noise_scatter(starts, features.shape[1], rng=np.random.default_rng(seed))
            options = {"form": form, "factor": exact_factor(noise, grouped.within)}
        else:
            options = {"form": form, "factor": noise_factor(s_delta(grouped, form))}
    elif method == "r_microhybrid":
        options = {"kept": np.sin(np.arange(len(features), dtype=float))[:, None], "rule": form}
    elif method == "centroid":
        options = {"statistics": [form] * features.shape[1]}
    else:
        options = {"counts": form}
        features = np.unique(features, return_inverse=True)[1].reshape(features.shape).astype(np.int64)
    return synthesize(features, order, starts, method, rng=np.random.default_rng(seed), **options)


def cases_of(method):
    return groupings(smallest=3 if method == "r_microhybrid" else 1)


@pytest.mark.parametrize(("method", "form"), CASES)
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_all_are_repeatable_finite_and_leave_their_input(method, form, data):
    case = data.draw(cases_of(method))
    before = [a.copy() for a in case]
    new = run(method, form, *case)
    assert new.shape == case[0].shape and np.isfinite(new).all()
    assert new.dtype == (np.float64 if METHODS[method].takes == "features" else np.int64)
    assert new.tobytes() == run(method, form, *case).tobytes()
    assert all(np.array_equal(a, b) for a, b in zip(before, case, strict=True))


@pytest.mark.parametrize(("method", "form"), ON_FEATURES)
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_constant_columns_stay_and_promised_group_means_hold(method, form, data):
    features, order, starts = data.draw(cases_of(method))
    new = run(method, form, features, order, starts)
    for j in np.flatnonzero(np.ptp(features, axis=0) == 0):
        assert np.array_equal(new[:, j], features[:, j])
    if form not in ("independent", "published", "expected", "median"):
        for a, b in pairwise(starts):
            group, made = features[order[a:b]], new[order[a:b]]
            assert np.allclose(made.mean(axis=0), group.mean(axis=0), rtol=1e-11, atol=1e-11 * np.ptp(features))


@pytest.mark.parametrize(("method", "form"), ON_FEATURES)
@pytest.mark.parametrize("sizes", [[1], [2], [3], [1, 1, 1], [2, 1, 3], [7]])
@pytest.mark.parametrize("width", [1, 3, 50])
def test_the_smallest_groups_and_the_widest_tables(method, form, sizes, width):
    rng = np.random.default_rng(width)
    features = rng.normal(size=(sum(sizes), width))
    features[:, width // 2] = features[:, 0]
    order, starts = shuffled_groups(sizes, rng)
    if method == "r_microhybrid" and min(sizes) < 3:
        with pytest.raises(InputError, match=f"{sum(size < 3 for size in sizes)} of {len(sizes)} groups"):
            run(method, form, features, order, starts)
        return
    new = run(method, form, features, order, starts)
    assert np.allclose(new[:, width // 2], new[:, 0], rtol=0, atol=1e-7)
    alone = order[starts[:-1][np.diff(starts) == 1]]
    if form not in ("independent", "published"):
        assert np.array_equal(new[alone], features[alone])


@pytest.mark.parametrize(("method", "form"), RANDOM)
def test_draws_come_from_the_generator_alone_whatever_the_pieces(method, form, monkeypatch):
    rng = np.random.default_rng(2)
    order, starts = shuffled_groups(rng.integers(3 if method == "r_microhybrid" else 1, 9, 50), rng)
    features = rng.normal(size=(len(order), 3))
    whole = run(method, form, features, order, starts)
    monkeypatch.setattr(_gaussian.draw_in_chunks, "__defaults__", (7,))
    again = run(method, form, features, order, starts)
    if form == "exact" and method == "micro_perturbation":  # its factor is summed piece by piece
        assert np.allclose(again, whole, rtol=0, atol=1e-12)
    else:
        assert again.tobytes() == whole.tobytes()
    assert not np.array_equal(run(method, form, features, order, starts, seed=2), whole)


@pytest.mark.parametrize(("method", "form"), ON_FEATURES)
def test_groups_stay_in_their_own_region(method, form):
    """Groups a million apart: a record given to another group's place would show."""
    rng = np.random.default_rng(3)
    order, starts = shuffled_groups([5] * 40, rng)
    group = np.empty(200, dtype=np.int64)
    group[order] = np.repeat(np.arange(40), 5)
    features = rng.normal(size=(200, 2)) + 1e6 * group[:, None]
    new = run(method, form, features, order, starts)
    assert np.array_equal(np.rint(new[:, 0] / 1e6), group)


@pytest.mark.parametrize("method", METHODS)
def test_the_registry_says_what_the_function_takes(method):
    entry = METHODS[method]
    parameters = inspect.signature(entry.function).parameters.values()
    keywords = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert ("rng" in keywords) == entry.draws
    keywords.pop("rng", None)
    assert set(entry.about) == set(keywords)
    assert set(entry.required) == {name for name, p in keywords.items() if p.default is p.empty}
    assert entry.name == method == entry.function.__name__
    assert entry.keeps and entry.reference and entry.cost and entry.published


def test_what_the_registry_promises_by_default_is_so():
    rng = np.random.default_rng(4)
    order, starts = shuffled_groups([5] * 20, rng)
    features = rng.normal(size=(100, 2))
    for method, entry in METHODS.items():
        new = run(method, DEFAULT[method], features, order, starts)
        groups = [(features[order[a : a + 5]], new[order[a : a + 5]]) for a in range(0, 100, 5)]
        exact = all(np.allclose(np.cov(x.T), np.cov(y.T)) and np.allclose(x.mean(0), y.mean(0)) for x, y in groups)
        guarantee = entry.options and entry.guarantee(entry.options(method=method))
        assert bool(guarantee and guarantee.scope == "group") == exact
        table = np.allclose(np.cov(features.T), np.cov(new.T)) and np.allclose(features.mean(0), new.mean(0))
        if guarantee:
            told = guarantee.expect([GroupedMoments.of(features, order, starts)], None)
            kept = np.allclose(told.covariance, np.cov(features.T)) and not told.covariance_error.any()
            assert kept == table
        assert entry.identical_rows == all(np.ptp(y, axis=0).max() == 0 for _, y in groups)


CANARY = 987654.321
GOOD = (np.array([[CANARY], [1.0], [2.0]]), np.array([0, 1, 2]), np.array([0, 2, 3]))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (
            {"method": "median"},
            JobError,
            "known are: centroid, gaussian, .* r_microhybrid, histogram",
        ),
        ({"sharpness": 1}, JobError, "no option sharpness; its options: statistics"),
        ({"method": "pca", "moment": "exact"}, JobError, "its options: moments, n_table"),
        ({"method": "pca", "moments": "both"}, JobError, "should be 'exact' or 'expected'"),
        ({"method": "pca", "moments": "expected"}, JobError, "needs n_table"),
        ({"method": "pca", "moments": "expected", "n_table": 2}, JobError, "needs n_table"),
        ({"method": "pca", "n_table": 10}, JobError, "leave it out"),
        ({"method": "gaussian", "moments": "expected"}, JobError, "needs n_table"),
        ({"method": "gaussian", "n_table": 10}, JobError, "leave it out"),
        ({"statistics": ["mean", "mode"]}, JobError, "2 statistics for 1 columns"),
        ({"statistics": ["mode"]}, JobError, "mean or median"),
        ({"method": "r_microhybrid"}, JobError, "needs the option kept"),
        ({"method": "r_microhybrid", "kept": np.full((3, 1), CANARY), "rule": "none"}, JobError, "'argus' or 'rank'"),
        ({"method": "r_microhybrid", "kept": np.full((3, 1), CANARY)}, InputError, "2 of 2 groups .* asks for 4 rec"),
        ({"method": "r_microhybrid", "kept": np.full((2, 1), CANARY)}, InputError, "3 rows"),
        ({"method": "r_microhybrid", "kept": np.full(3, CANARY)}, InputError, "3 rows"),
        ({"method": "r_microhybrid", "kept": np.full((3, 1), 987654)}, InputError, "float64"),
        ({"method": "r_microhybrid", "kept": np.array([[np.inf], [CANARY], [1]])}, InputError, "1 of 3 records"),
        ({"method": "histogram"}, InputError, "codes are an int64 table"),
        ({"method": "histogram", "features": np.array([[987654], [1], [2]]), "counts": "all"}, JobError, "'expected'"),
        ({"method": "histogram", "features": np.array([987654, 1, 2])}, InputError, "1 dimensions"),
        ({"features": np.array([[987654], [1], [2]])}, InputError, "float64"),
        ({"method": "micro_perturbation"}, JobError, "needs the option factor"),
        ({"method": "micro_perturbation", "factor": np.eye(2)}, InputError, "1 x 1"),
        ({"method": "micro_perturbation", "factor": np.array([[np.nan]])}, InputError, "finite"),
        ({"method": "micro_perturbation", "factor": np.eye(1), "form": "free"}, JobError, "'independent', 'centred'"),
        ({"features": np.array([[CANARY], [np.nan], [1.0]])}, InputError, "1 of 3 records"),
        ({"features": np.array([CANARY, 1.0, 2.0])}, InputError, "1 dimensions"),
        ({"features": np.array([[1], [2], [3]])}, InputError, "int64"),
        ({"order": np.array([0, 1, 1])}, InputError, "each of 3 records once"),
        ({"order": np.array([0, 1, 3])}, InputError, "each of 3 records once"),
        ({"order": np.array([-1, 0, 1])}, InputError, "each of 3 records once"),
        ({"order": np.array([0.0, 1.0, 2.0])}, InputError, "int64"),
        ({"starts": np.array([0, 0, 3])}, InputError, "groups of at least one"),
        ({"starts": np.array([0, 2])}, InputError, "groups of at least one"),
        ({"starts": np.array([], dtype=np.int64)}, InputError, "groups of at least one"),
    ],
)
def test_what_is_wrong_is_refused_without_a_value_of_the_data(change, error, says):
    options = dict(change)
    features, order, starts = (options.pop(n, g) for n, g in zip(("features", "order", "starts"), GOOD, strict=True))
    with pytest.raises(error, match=says) as caught:
        method = options.pop("method", "centroid")
        synthesize(features, order, starts, method, rng=np.random.default_rng(1), **options)
    assert isinstance(caught.value, AnonpipeError)
    assert "987654" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 20))
def test_draws_are_cut_between_groups(per_group, most):
    pieces = list(_gaussian.draw_in_chunks(np.array(per_group), np.random.default_rng(5), most))
    assert [first for first, _, _ in pieces] == [0, *(after for _, after, _ in pieces[:-1])]
    assert pieces[-1][1] == len(per_group)
    for first, after, draws in pieces:
        assert len(draws) == sum(per_group[first:after])
        assert len(draws) <= most or after == first + 1
        assert after == len(per_group) or len(draws) + per_group[after] > most
    together = np.concatenate([draws for _, _, draws in pieces])
    assert np.array_equal(together, np.random.default_rng(5).standard_normal(sum(per_group)))
