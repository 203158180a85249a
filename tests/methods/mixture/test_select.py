from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from anonpipe.errors import InputError
from anonpipe.methods import mixture as module
from anonpipe.methods.mixture import (
    SHAPES,
    agglomerate,
    assign,
    bic,
    constraints,
    e_step,
    evenly_spaced,
    fit,
    hard_statistics,
    m_step,
    select,
)
from tests.methods.mixture.data import KINDS, random_mixture, sample_of, table, thyroid


class Candidate(NamedTuple):
    """What a choice tells of one shape and number of components."""

    shape: str
    groups: int
    bic: float
    log_likelihood: float
    passes: int
    converged: bool


def candidates(chosen):
    return tuple(
        Candidate(
            run.bounds.shape,
            run.fit.mixture.n_groups,
            run.bic,
            run.fit.log_likelihoods[-1],
            len(run.fit.log_likelihoods),
            run.fit.converged,
        )
        for run in chosen.runs
    )


def test_the_number_of_separated_components_is_found():
    truth = random_mixture(4, 2, seed=11, apart=12.0)
    features, labels = sample_of(truth, 800, seed=1)
    chosen = select(features, 30, 800, numbers=range(1, 8))
    assert chosen.mixture.n_groups == 4
    found = assign(features, chosen.mixture)
    assert len(set(zip(found.tolist(), labels.tolist(), strict=True))) == 4


def test_the_shape_is_found():
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(300, 3)), 8 + rng.normal(size=(300, 3))])
    chosen = select(features, 30, 600, shapes=SHAPES, numbers=(1, 2, 3))
    assert (chosen.constraints.shape, chosen.mixture.n_groups) == ("spherical", 2)


def test_candidates_tell_what_was_tried():
    features = table(90, 2, seed=2)
    chosen = select(features, 10, 90, numbers=range(2, 20), shapes=("tied", "full"))
    assert [(c.shape, c.groups) for c in candidates(chosen)] == [(s, g) for s in ("tied", "full") for g in range(2, 9)]
    best = max(candidates(chosen), key=lambda c: c.bic)
    assert (best.shape, best.groups) == (chosen.constraints.shape, chosen.mixture.n_groups)
    likelihood = e_step(features, chosen.mixture).log_likelihood
    assert best.log_likelihood == pytest.approx(likelihood, rel=1e-12)
    assert best.bic == bic(best.log_likelihood, chosen.constraints.parameters(best.groups), 90)
    again = select(features, 10, 90, numbers=range(2, 20), shapes=("tied", "full"))
    assert candidates(again) == candidates(chosen)
    assert (again.mixture.covariances == chosen.mixture.covariances).all()


def test_larger_numbers_left_out_once_two_in_turn_do_not_help():
    truth = random_mixture(3, 2, seed=11, apart=12.0)
    features, _ = sample_of(truth, 600, seed=1)
    all_tried, few_tried = (select(features, 20, 600, idle=idle, shapes=("full",)) for idle in (None, 2))
    assert [c.groups for c in candidates(all_tried)] == list(range(2, 11))
    assert [c.groups for c in candidates(few_tried)] == [2, 3, 4, 5]
    assert few_tried.mixture.n_groups == all_tried.mixture.n_groups == 3


def test_candidates_that_went_on_are_those_of_a_long_fit():
    """The same as from the start of the short run without a stop; the others have taken as many passes as that."""
    features = sample_of(random_mixture(3, 2, seed=3, apart=2.0), 900, seed=1)[0]
    chosen = select(features, 20, 900, shapes=("full", "vev"), starts=(60,))
    ended = [c for c in candidates(chosen) if c.converged or c.passes > 25]
    assert len(ended) >= 4
    assert all(c.passes == 25 for c in candidates(chosen) if c not in ended)
    for one in ended:
        bounds = constraints(20, 900, one.groups, features.var(axis=0), shape=one.shape)
        start = m_step(hard_statistics(features, agglomerate(features, 10, [60])[0][one.groups - 1]), bounds)
        whole = fit(features, start, bounds)
        assert (one.passes, one.log_likelihood) == (len(whole.log_likelihoods), whole.log_likelihoods[-1])


def test_a_sample_starts_the_fit_of_the_table():
    truth = random_mixture(3, 3, seed=5, apart=8.0)
    features, _ = sample_of(truth, 20_000, seed=2)
    chosen = select(np.ascontiguousarray(features[evenly_spaced(20_000, 1_500)]), 400, 20_000, numbers=(2, 3, 4))
    assert chosen.mixture.n_groups == 3
    assert chosen.constraints.least_weight == 400 / 20_000
    whole = fit(features, chosen.mixture, chosen.constraints, tolerance=1e-8)
    assert whole.log_likelihoods[-1] > whole.log_likelihoods[0]
    order, true_order = np.argsort(whole.mixture.means[:, 0]), np.argsort(truth.means[:, 0])
    assert whole.mixture.means[order] == pytest.approx(truth.means[true_order], abs=0.1)


def test_one_component_where_no_more_fit():
    assert select(table(20, 2, seed=1), 10, 20).mixture.n_groups == 1
    assert select(table(1, 2, seed=1), 1, 1).mixture.n_groups == 1


def literal_spread(rows):
    """Records times log determinant of their covariance, a tenth of a record of unit covariance added."""
    count, width = rows.shape
    scatter = (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0))
    return count * np.linalg.slogdet((scatter + 0.1 * np.eye(width)) / (count + 0.1))[1]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_two_groups_that_raise_the_spread_least_join(width):
    sample = np.random.default_rng(width).normal(size=(40, width))
    scaled = (sample - sample.mean(axis=0)) / sample.std(axis=0)
    groups = [[row] for row in range(40)]
    levels = agglomerate(sample, 40, [40])[0]
    for labels in levels[::-1]:
        assert {frozenset(np.flatnonzero(labels == at).tolist()) for at in set(labels.tolist())} == set(
            map(frozenset, groups)
        )
        pairs = [(a, b) for b in range(len(groups)) for a in range(b)]
        if pairs:
            rise = [
                literal_spread(scaled[groups[a] + groups[b]])
                - literal_spread(scaled[groups[a]])
                - literal_spread(scaled[groups[b]])
                for a, b in pairs
            ]
            a, b = pairs[int(np.argmin(rise))]
            groups[a] += groups.pop(b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 2, 9, 60])
def test_agglomeration_of_awkward_samples(kind, rows):
    sample = table(rows, 3, seed=rows, kind=kind)
    most = min(rows, 7)
    levels = agglomerate(sample, most, [20])[0]
    assert levels.shape == (most, rows)
    for groups, labels in enumerate(levels, 1):
        used = np.unique(labels)
        assert used.tolist() == list(range(len(used)))
        # Equal records may leave fewer small groups than were asked for, never more.
        assert len(used) <= groups
    for coarse, fine in pairwise(levels):
        pairs = set(zip(fine.tolist(), coarse.tolist(), strict=True))
        assert len(pairs) == len(set(fine.tolist()))


def test_agglomeration_finds_ellipses_that_balls_would_cut():
    rng = np.random.default_rng(0)
    long = rng.normal(size=(150, 2)) * (10, 0.3)
    features = np.concatenate([long, long[::-1] + np.array([0, 4])])
    labels = agglomerate(features, 2)[0][1]
    agree = (labels == np.repeat([0, 1], 150)).mean()
    assert max(agree, 1 - agree) > 0.97


def test_what_is_refused():
    with pytest.raises(InputError, match="no rows"):
        select(np.zeros((0, 2)), 2, 10)
    with pytest.raises(InputError, match="one or more shapes"):
        select(table(30, 2, seed=1), 2, 30, shapes=())
    with pytest.raises(InputError, match="numbers to start from"):
        select(table(30, 2, seed=1), 2, 30, starts=())


def test_six_thyroid_table_clusters_have_the_published_sizes(monkeypatch):
    monkeypatch.setattr(module, "TOLERANCE", 1e-7)
    monkeypatch.setattr(module, "LONG_PASSES", 1_000)
    features = thyroid()
    published = np.sort([179, 232, 440, 325, 708, 63])
    assert len(features) == published.sum()
    chosen = select(features, 60, len(features), numbers=(6,), shapes=("full",))
    sizes = np.sort(np.bincount(assign(features, chosen.mixture), minlength=6))
    # One optimum of several; within 3 % of the records cluster by cluster.
    assert np.abs(sizes - published).max() < 0.03 * len(features)
