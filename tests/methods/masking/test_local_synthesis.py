"""Local synthesis over parts: groups of k, moments of groups that span parts, categories, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError, JobError
from anonpipe.methods.latent_classes import class_e_step
from anonpipe.methods.masking import MASKERS, _local_synthesis
from anonpipe.methods.masking._draws import category_codes, dummies, fit_categories, starts_of
from anonpipe.methods.mixture import (
    TOLERANCE,
    agglomerate,
    assign,
    bic,
    constraints,
    correcting_maps,
    fit,
    group_statistics,
    hard_statistics,
    m_step,
    on_sample,
    select,
)
from tests.in_memory import run_steps
from tests.methods.masking.tables import KEY, correlated, splits
from tests.naive import local_synthesis as naive

QUICK = {"components": 3, "shape": "full", "classes": 2}


def steps_of(k, **options):
    return MASKERS["local_synthesis"].steps(k=k, **{**QUICK, **options})


def run(features, k, parts=None, **options):
    """Synthetic points and labels."""
    made = run_steps(features, steps_of(k, **options), key=KEY, parts=parts or [len(features)])
    return made[:, :-1], made[:, -1].astype(int)


def mixed(rows, seed=0, width=3):
    """Numbers in three heaps; an attribute of two categories and one of three, which have to do with the numbers."""
    rng = np.random.default_rng(seed)
    heap = rng.integers(0, 3, rows)
    numbers = rng.normal(size=(rows, width)) @ rng.normal(size=(width, width)) + 4 * heap[:, None]
    two = np.where(rng.random(rows) < 1 / (1 + np.exp(-numbers[:, 0])), 1.0, -1.0)
    three = np.full((rows, 3), -1.0)
    three[np.arange(rows), (heap + (rng.random(rows) < 0.2)) % 3] = 1.0
    return np.column_stack([numbers, two, three]), ((width,), tuple(range(width + 1, width + 4)))


def assert_groups_kept(features, made, labels, k, tolerance=1e-9):
    """Sizes, and every group's means and covariance in parts of its own spread (or a millionth of the table's)."""
    counts = np.bincount(labels)
    assert counts.min() >= min(k, len(features))
    table = np.where(features.std(axis=0) > 0, features.std(axis=0), 1.0)
    for g in range(len(counts)):
        old, new = features[labels == g], made[labels == g]
        scale = np.maximum(old.std(axis=0), 1e-6 * table)
        assert (np.abs(new.mean(axis=0) - old.mean(axis=0)) <= tolerance * scale).all()
        error = np.abs(np.cov(new.T, bias=True) - np.cov(old.T, bias=True))
        assert (error <= tolerance * np.outer(scale, scale)).all()


@given(st.data(), st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_any_split_keeps_every_group_and_the_table(data, seed):
    features, categories = mixed(240, seed)
    before = features.copy()
    made, labels = run(features, 30, data.draw(splits(len(features))), categories=categories)
    assert np.array_equal(features, before)
    assert_groups_kept(features, made, labels, 30)
    assert np.abs(np.cov(made.T) - np.cov(features.T)).max() < 1e-9


@pytest.mark.parametrize("rows", [10, 19, 20, 29, 30, 31])
def test_tables_of_few_groups(rows):
    """k to 3k + 1 records of five numbers, k = 10."""
    features = correlated(rows, 5, seed=rows)
    made, labels = run(features, 10, [3, rows - 3])
    assert_groups_kept(features, made, labels, 10)
    assert labels.max() + 1 <= rows // 10
    assert not np.isclose(made, features).any()


SHAPES = {
    "constant": lambda p: np.column_stack([p, np.full(len(p), 3.3)]),
    "collinear": lambda p: np.column_stack([p, p[:, 0] - 2 * p[:, 1]]),
    "all constant": lambda p: np.full_like(p, 0.1),
    "duplicates": lambda p: p[np.arange(len(p)) % 7],
    "ties": lambda p: np.round(p),
    "heavy": lambda p: p**3,
    "other units": lambda p: p * [1e-6, 1.0, 1e7] + [0.0, 1e4, 0.0],
}


@pytest.mark.parametrize(
    ("kind", "tails"), [*zip(SHAPES, ["gaussian", "t"] * 4, strict=False), ("heavy", "gaussian"), ("constant", "t")]
)
def test_awkward_columns(kind, tails):
    features = np.ascontiguousarray(SHAPES[kind](mixed(120)[0][:, :3]))
    made, labels = run(features, 15, [50, 70], tails=tails)
    assert_groups_kept(features, made, labels, 15)


def test_many_columns_by_principal_components():
    features = correlated(300, 20) + 5 * np.arange(300)[:, None] % 3
    made, labels = run(features, 50, [100, 200], variance_share=0.9)
    assert_groups_kept(features, made, labels, 50)


@pytest.mark.parametrize("key", range(4))
def test_zeros_of_all_but_two_records_leave_categories_room(key):
    """Two numbers that are nearly one where they are not zero, and a category of these two records alone."""
    rng, rows = np.random.default_rng(key), 600
    days, costs, other = np.zeros(rows), np.zeros(rows), rng.integers(0, 3, rows)
    days[:2], costs[:2] = [1.0, 1.0002], [1.0, 1.0]
    three = np.full((rows, 4), -1.0)
    three[np.arange(rows), np.where(days > 0, 3, other)] = 1.0
    features = np.column_stack([rng.normal(size=rows), days, costs, three])
    steps = steps_of(20, components=1, categories=(tuple(range(3, 7)),))
    made = run_steps(features, steps, key=bytes([key]) * 32, parts=[200, 400])
    assert_groups_kept(features, made[:, :-1], made[:, -1].astype(int), 20, tolerance=1e-7)


def test_groups_smaller_than_the_columns_stay_in_their_span():
    features = correlated(60, 12)
    made, labels = run(features, 6, components=8)
    assert_groups_kept(features, made, labels, 6)
    smallest = int(np.bincount(labels).argmin())
    if (labels == smallest).sum() <= 12:
        both = np.concatenate([features[labels == smallest], made[labels == smallest]])
        rank = np.linalg.matrix_rank(features[labels == smallest] - features[labels == smallest].mean(axis=0))
        assert np.linalg.matrix_rank(both - both.mean(axis=0), tol=1e-6) == rank


def test_a_category_that_only_one_record_has():
    features, categories = mixed(200)
    features[:, categories[1]] = [1.0, -1.0, -1.0]
    features[17, categories[1]] = [-1.0, -1.0, 1.0]
    made, labels = run(features, 20, [80, 120], categories=categories)
    assert_groups_kept(features, made, labels, 20)


def test_drawn_categories_stay_near_what_they_stand_for():
    features, categories = mixed(900)
    made, labels = run(features, 60, categories=categories, classes=3)
    for columns in categories:
        near = np.abs(np.abs(made[:, columns]) - 1.0)
        assert np.quantile(near, 0.9) < 0.5
        shares = (made[:, columns] > 0).mean(axis=0)
        assert np.abs(shares - (features[:, columns] > 0).mean(axis=0)).max() < 0.05
    assert len(set(labels)) == 3


def watched(steps, name):
    """The steps, and a list that gets what the named one is given and what it learns."""
    at, seen = [step.name for step in steps].index(name), []

    @wraps(steps[at].finish)
    def finish(counted, **arguments):
        learnt = steps[at].finish(counted, **arguments)
        seen.append((counted, learnt))
        return learnt

    return (*steps[:at], replace(steps[at], finish=finish), *steps[at + 1 :]), seen


def test_mixture_is_of_fit_to_sample_and_groups_of_twin(monkeypatch):
    """Chosen on 90 of the sample's 200 records, fitted to all of it, and every record of 300 assigned."""
    monkeypatch.setattr(_local_synthesis, "CHOICE_ROWS", 90)
    monkeypatch.setattr(_local_synthesis, "SAMPLE_ROWS", 200)
    features = np.ascontiguousarray(mixed(300)[0][:, :3])
    features[:9] += 60.0  # a component of 9, which lacks 11
    options = {"k": 20, "components": 4, "shape": "full"}
    steps, seen = watched(MASKERS["local_synthesis"].steps(**options, iterations=7), "mixture")
    made = run_steps(features, steps, key=KEY, parts=[120, 0, 180])
    ((sample, found),) = seen
    scores = found.view.scores(features)
    assert len(sample.keys) == 200 and (np.diff(sample.keys) > 0).all()
    assert {tuple(row) for row in sample.scores} < {tuple(row) for row in scores}
    chosen = select(sample.scores[:90], 20, 300, numbers=[4], shapes=["full"])
    bounds = on_sample(chosen.constraints, 200, 300)
    wanted = fit(sample.scores, chosen.mixture, bounds, iterations=7).mixture
    assert np.array_equal(found.mixture.means, wanted.means)
    assert np.array_equal(found.mixture.weights, wanted.weights)
    first = np.bincount(assign(scores, wanted), minlength=4)
    assert 0 < first.min() < 20
    assert made[:, -1].astype(int).tolist() == naive.groups_of(scores.tolist(), wanted, 20)


def bic_of_short_run(features, start, bounds):
    """Of 25 passes from a mixture."""
    ended = fit(features, start, bounds, tolerance=TOLERANCE, iterations=25)
    number = start.n_groups
    return bic(ended.log_likelihoods[-1], bounds.parameters(number), len(features)), ended.mixture


@pytest.mark.parametrize("heaps", [1, 3, 12])
def test_more_records_show_more_components(heaps, monkeypatch):
    """Of as many as have the largest BIC where numbers grow by half, and each has 400 records or more."""
    monkeypatch.setattr(_local_synthesis, "CHOICE_ROWS", 120)
    rng = np.random.default_rng(heaps)
    features = rng.normal(size=(8_000, 2)) + 9.0 * rng.normal(size=(heaps, 2))[rng.integers(heaps, size=8_000)]
    steps, seen = watched(MASKERS["local_synthesis"].steps(k=5, shape="full"), "mixture")
    run_steps(features, steps, key=KEY, parts=[8_000])
    ((sample, found),) = seen
    few = select(sample.scores[:120], 5, 8_000, shapes=["full"], idle=2)
    kept = few.constraints
    best, mixture = bic_of_short_run(sample.scores, few.mixture, kept)
    number, first = few.mixture.n_groups, sample.scores[::4]
    while (number := math.ceil(1.5 * number)) <= 20:
        bounds = constraints(5, 8_000, number, sample.scores.var(axis=0))
        labels = agglomerate(first, number, (150,))[0][number - 1]
        latest, larger = bic_of_short_run(sample.scores, m_step(hard_statistics(first, labels), bounds), bounds)
        if latest <= best:
            break
        best, mixture, kept = latest, larger, bounds
    assert found.mixture.n_groups == mixture.n_groups
    assert mixture.n_groups > few.mixture.n_groups if heaps == 12 else mixture.n_groups == few.mixture.n_groups
    ended = fit(sample.scores, mixture, kept, tolerance=TOLERANCE, iterations=50).mixture
    assert np.allclose(found.mixture.means, ended.means, atol=1e-9)


def test_latent_classes_of_a_larger_sample_are_more_likely_there(monkeypatch):
    monkeypatch.setattr(_local_synthesis, "CHOICE_ROWS", 150)
    features, categories = mixed(1_200)
    steps, seen = watched(steps_of(30, categories=categories), "mixture")
    run_steps(features, steps, key=KEY, parts=[500, 700])
    ((sample, found),) = seen
    starts = starts_of(categories)
    few = fit_categories(sample.first(150), sample.first(150), starts, 30, 1_200, 2)
    likelihood = [class_e_step(sample.scores, sample.codes, c).log_likelihood for c in (few, found.classes)]
    assert likelihood[1] > likelihood[0]


def test_the_choice_is_that_of_select_on_the_sample():
    features = np.ascontiguousarray(mixed(150)[0][:, :3])
    steps, seen = watched(MASKERS["local_synthesis"].steps(k=20), "mixture")
    run_steps(features, steps, key=KEY, parts=[150])
    found = seen[0][1]
    wanted = select(found.view.scores(features), 20, 150).mixture
    assert found.mixture.n_groups == wanted.n_groups
    order, other = np.lexsort(found.mixture.means.T), np.lexsort(wanted.means.T)
    assert np.allclose(found.mixture.means[order], wanted.means[other], atol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_the_last_map_is_that_of_the_twin(seed):
    features, categories = mixed(150, seed)
    steps = steps_of(25, categories=categories)
    at = [step.name for step in steps].index("synthesize")
    drawn = run_steps(features, steps[: at + 1], key=KEY, parts=[40, 110])
    made = run_steps(features, steps, key=KEY, parts=[40, 110])
    wanted = naive.corrected(features.tolist(), drawn[:, :-1].tolist(), drawn[:, -1].astype(int).tolist())
    assert np.array_equal(made[:, -1], drawn[:, -1])
    assert np.allclose(made[:, :-1], wanted, rtol=0, atol=1e-8)


def test_draws_of_the_right_moments_stay_as_they_are():
    features, labels = correlated(80, 4), np.arange(80) % 2
    here = group_statistics(features, labels, 2)
    maps = correcting_maps(here, here)
    assert np.allclose(maps.matrices, np.eye(4), atol=1e-9) and np.array_equal(maps.origins, maps.targets)


def test_draws_that_do_not_vary_where_records_do_are_refused():
    features, labels = correlated(30, 2), np.zeros(30, dtype=np.int64)
    flat = features.copy()
    flat[:, 1] = flat[:, 0]
    with pytest.raises(InputError, match="fewer directions"):
        correcting_maps(group_statistics(features, labels, 1), group_statistics(flat, labels, 1))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=20))
@settings(max_examples=20, deadline=None)
def test_codes_become_columns_and_codes_again(codes):
    columns = ((1,), (0, 2, 4, 5))
    out = np.zeros((len(codes), 6))
    dummies(np.array(codes), columns, out)
    assert category_codes(out, columns).tolist() == [list(each) for each in codes]
    assert (out[:, 3] == 0).all() and starts_of(columns).tolist() == [0, 2, 6]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"k": 0}, JobError, "k=0"),
        ({"components": 0}, JobError, "components=0"),
        ({"classes": 0}, JobError, "classes=0"),
        ({"iterations": 0}, JobError, "iterations=0"),
        ({"shape": "round"}, JobError, "shape='round'"),
        ({"tails": "short"}, JobError, "tails='short'"),
        ({"variance_share": 0.0}, JobError, "variance_share"),
        ({"categories": ((0,), (0,))}, JobError, "each once"),
        ({"categories": ((9,),)}, JobError, "exist"),
        ({"categories": ((0,), (1,))}, JobError, "needs a column of numbers"),
        ({"categories": ((0,),)}, InputError, "other numbers than -1 and \\+1"),
        ({"k": 21}, InputError, "no group of 21"),
    ],
)
def test_what_is_not_allowed_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        run(correlated(20, 2), **{"k": 5, **options})


def test_component_number_beyond_the_records_is_lowered():
    features = correlated(35, 2)
    _, labels = run(features, 10, components=9)
    assert labels.max() + 1 <= 3 and np.bincount(labels).min() >= 10
