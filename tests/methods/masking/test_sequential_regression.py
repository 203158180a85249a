from __future__ import annotations

from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError
from anonpipe.methods.masking import _sequential_regression
from anonpipe.methods.masking import _sequential_regression as logistic
from anonpipe.methods.masking._sequential_regression import Logit, Slope, improved, sequential_regression
from tests.in_memory import mask, run_steps
from tests.methods.masking.tables import KEY, correlated, run
from tests.naive import mask as naive


def mixed(rows, seed=0, categories=3):
    """Two numbers, a binary column and the dummies of a category, all related."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    yes = x[:, 0] + rng.logistic(size=rows) > 0.5
    utilities = np.column_stack([x[:, 0] * c + yes * (c == 1) for c in range(categories)]) + rng.gumbel(
        size=(rows, categories)
    )
    code = utilities.argmax(axis=1)
    dummies = np.where(code[:, None] == np.arange(categories), 1.0, -1.0)
    return np.column_stack([x[:, 0] * 3 + 10, np.where(yes, 1.0, -1.0), x[:, 1], dummies]), ((1,), (3, 4, 5))


def fitted(scores, codes, count, penalty):
    fit = Logit.start(np.arange(scores.shape[1]), np.bincount(codes, minlength=count), penalty)
    for _ in range(60):
        fit = improved(fit, Slope.of(fit, scores, codes), len(codes))
        if fit.done:
            return fit
    raise AssertionError("no maximum")


def test_numbers_are_those_of_the_twin():
    features, parts = correlated(30, 4), [9, 21]
    new = run(features, "sequential_regression", parts)
    assert np.allclose(new, naive.sequential_regression(features.tolist(), parts, KEY, (), 1e-3), rtol=0, atol=1e-8)


def test_binary_columns_are_those_of_the_twin():
    features, _ = mixed(60)
    features, parts = np.ascontiguousarray(features[:, :3]), [25, 35]
    new = run(features, "sequential_regression", parts, categories=((1,),), penalty=0.5)
    assert np.allclose(new, naive.sequential_regression(features.tolist(), parts, KEY, (1,), 0.5), rtol=0, atol=1e-6)


@pytest.mark.parametrize("count", [2, 3])
def test_logistic_regression_is_that_of_the_twin(count):
    rng = np.random.default_rng(count)
    scores = rng.normal(size=(24, 2))
    codes = (scores @ rng.normal(size=(2, count)) + rng.gumbel(size=(24, count))).argmax(axis=1)
    wanted = naive.logistic(scores.tolist(), codes.tolist(), count, 0.5)
    assert np.allclose(fitted(scores, codes, count, 0.5).coefficients.T, wanted, rtol=0, atol=1e-5)


@given(seed=st.integers(0, 10**6), count=st.integers(2, 5), width=st.integers(0, 4), rows=st.integers(6, 80))
@settings(max_examples=60, deadline=None)
def test_a_regression_ends_at_a_maximum_in_any_split(seed, count, width, rows):
    """At the maximum expected counts are the true ones, also where predictors tell categories apart."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=(rows, width)), rng.integers(0, 3))
    codes = np.append(np.arange(count), rng.integers(0, count, rows))[:rows]
    if width:
        scores[:, 0] = codes * rng.integers(0, 2)
    fit = fitted(scores, codes, count, 1e-3)
    assert np.allclose(fit.chances(scores).sum(axis=0), np.bincount(codes, minlength=count), atol=1e-6 * rows)
    cut = rng.integers(0, rows + 1)
    parts = Slope.of(fit, scores[:cut], codes[:cut]).merge(Slope.of(fit, scores[cut:], codes[cut:]))
    whole = Slope.of(fit, scores, codes)
    assert np.allclose(parts.gradient, whole.gradient, atol=1e-9 * rows)
    assert np.allclose(parts.precision, whole.precision, atol=1e-9 * rows)


def test_second_derivatives_are_those_of_the_gradient():
    features, _ = mixed(50)
    scores, codes = features[:, [0, 2]] / 5, features[:, 3:].argmax(axis=1)
    fit = Logit.start(np.arange(2), np.bincount(codes), 1e-3)
    at = Slope.of(fit, scores, codes)
    rng = np.random.default_rng(7)
    direction = rng.normal(size=fit.coefficients.shape)
    moved = Logit(fit.predictors, fit.coefficients + 1e-6 * direction, 1e-3, fit.precision, fit.trusted)
    change = (Slope.of(moved, scores, codes).gradient - at.gradient) / 1e-6
    assert np.allclose(change.T.ravel(), -at.precision @ direction.T.ravel(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"rounds": 3}, {"parameters": "drawn"}])
def test_mixed_tables_keep_coding_shares_and_relations(options):
    features, categories = mixed(20_000)
    new = mask(
        features, "sequential_regression", rng=np.random.default_rng(8), partitions=[5_000, 15_000],
        categories=categories, **options,
    )  # fmt: skip
    assert set(np.unique(new[:, [1, 3, 4, 5]])) == {-1.0, 1.0}
    assert ((new[:, 3:] > 0).sum(axis=1) == 1).all()
    spread = features.std(axis=0)
    assert (np.abs(new.mean(axis=0) - features.mean(axis=0)) < 0.06 * spread).all()
    assert np.abs(np.corrcoef(new.T) - np.corrcoef(features.T)).max() < 0.06
    assert not np.isclose(new[:, 0], features[:, 0]).any()


def test_nothing_of_a_record_enters_its_own_draws():
    features = correlated(3_000, 3)
    new = mask(features, "sequential_regression", rng=np.random.default_rng(9))
    for j in range(3):
        assert abs(np.corrcoef(features[:, j], new[:, j])[0, 1]) < 5.5 / np.sqrt(3_000)


def test_categories_that_do_not_occur_are_never_drawn():
    features, _ = mixed(300, categories=3)
    features = np.column_stack([features, np.full(300, -1.0), np.full(300, 1.0)])
    new = run(features, "sequential_regression", [100, 200], categories=((1,), (3, 4, 5, 6), (7,)))
    assert (new[:, 6] == -1).all() and (new[:, 7] == 1).all()


def test_category_told_by_another_column_regresses_finitely():
    features, _ = mixed(200)
    features[:, 2] = features[:, 1] * 5
    new = run(features, "sequential_regression", [80, 120], categories=((1,), (3, 4, 5)), rounds=2)
    assert np.isfinite(new).all()
    assert np.mean(np.sign(new[:, 2]) == new[:, 1]) > 0.9


@pytest.mark.parametrize("wrong", [0.0, np.sqrt(2), 3.0])
def test_wrong_coding_is_refused(wrong):
    features, categories = mixed(50)
    features[7, 1] = wrong
    with pytest.raises(InputError, match="coded"):
        run(features, "sequential_regression", categories=categories)


def test_two_dummies_at_once_are_refused():
    features, categories = mixed(50)
    features[7, 3:] = 1.0
    with pytest.raises(InputError, match="coded"):
        run(features, "sequential_regression", categories=categories)


def test_drawn_parameters_need_records():
    with pytest.raises(InputError, match="more records"):
        run(correlated(4, 5), "sequential_regression", parameters="drawn")


def test_a_regression_without_end_is_given_up(monkeypatch):
    features, categories = mixed(100)
    monkeypatch.setattr(logistic, "MOST_PASSES", 2)
    monkeypatch.setattr(_sequential_regression, "LEAST_SAMPLED", 10**9)  # no start near the maximum
    with pytest.raises(InputError, match="no maximum in 2 passes"):
        run(features, "sequential_regression", categories=categories)


def learnt(features, parts, categories):
    """What the regressions of a table in parts end at."""
    steps, seen = sequential_regression(categories=categories), []

    @wraps(steps[1].finish)
    def finish(counted, **arguments):
        seen.append(steps[1].finish(counted, **arguments))
        return seen[-1]

    run_steps(features, (steps[0], replace(steps[1], finish=finish), *steps[2:]), key=KEY, parts=parts)
    return seen[-1]


def test_start_on_sample_ends_at_same_maximum_in_fewer_passes(monkeypatch):
    features, categories = mixed(20_000)
    monkeypatch.setattr(_sequential_regression, "SAMPLE_ROWS", 2_000)
    with_start = learnt(features, [15_000, 5_000], categories)
    monkeypatch.setattr(_sequential_regression, "LEAST_SAMPLED", 10**9)
    without = learnt(features, [15_000, 5_000], categories)
    for found, wanted in zip(with_start.fits, without.fits, strict=True):
        if isinstance(wanted, Logit):
            assert np.allclose(found.coefficients, wanted.coefficients, rtol=0, atol=1e-6)
    assert with_start.passes < without.passes


def test_a_category_that_the_sample_lacks_is_fitted_all_the_same(monkeypatch):
    features, categories = mixed(3_000)
    features[:, 3:] = np.where(np.arange(3_000)[:, None] < 2, [-1.0, -1.0, 1.0], features[:, 3:])
    features[2:, 3:] = np.where(features[2:, 5:] > 0, [-1.0, 1.0, -1.0], features[2:, 3:])
    monkeypatch.setattr(_sequential_regression, "SAMPLE_ROWS", 300)
    chain = learnt(features, [1_000, 2_000], categories)
    chances = chain.fits[-1].chances(chain.scores(features)).mean(axis=0)
    assert chances[2] == pytest.approx(2 / 3_000, rel=1e-3)
