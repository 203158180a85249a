import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError
from anonpipe.methods import mixture as module
from anonpipe.methods.mixture import Movable, assign, check_sizes, movable, moves, numbering
from tests.methods.grouping.data import grouping_problems
from tests.methods.mixture.data import random_mixture, sample_of
from tests.methods.mixture.in_memory import gaussian_mixture, repaired
from tests.naive import mixture as naive


@st.composite
def repairs(draw):
    """(features, mixture, k): some groups of the assignment are under k, and all can be filled."""
    seed = draw(st.integers(0, 2**32 - 1))
    groups = draw(st.integers(2, 6))
    mixture = random_mixture(groups, 2, seed, degrees=draw(st.sampled_from([np.inf, 5.0])), apart=1.5)
    features, _ = sample_of(mixture, draw(st.integers(groups, 90)), seed)
    return features, mixture, draw(st.integers(1, len(features) // groups))


def repaired_in_pieces(features, mixture, k, cuts):
    pieces = np.split(features, cuts)
    labels = [assign(piece, mixture) for piece in pieces]
    counts = np.bincount(np.concatenate(labels), minlength=mixture.n_groups)
    reports = [
        movable(piece, own, mixture, counts, k, source)
        for source, (piece, own) in enumerate(zip(pieces, labels, strict=True))
    ]
    merged = reports[0]
    for report in reports[1:]:
        merged = merged.merge(report)
    decided = moves(merged, counts, k)
    new = np.concatenate([decided.applied(own, source) for source, own in enumerate(labels)])
    return new, counts, decided


@settings(deadline=None, max_examples=60)
@given(repairs(), st.lists(st.integers(0, 90), max_size=4))
def test_pieces_repair_as_the_naive_whole(problem, cuts):
    features, mixture, k = problem
    logs = np.array(
        [
            [
                math.log(w) + naive.log_density(x, *c)
                for w, *c in zip(mixture.weights, mixture.means, mixture.covariances, mixture.degrees, strict=True)
            ]
            for x in features
        ]
    )
    labels = assign(features, mixture)
    assert (labels == logs.argmax(axis=1)).all()
    expected = naive.repair(logs.tolist(), labels, k)
    new, counts, decided = repaired_in_pieces(features, mixture, k, sorted(min(c, len(features)) for c in cuts))
    assert new.tolist() == expected
    after = np.bincount(new, minlength=mixture.n_groups)
    assert ((after >= k) | (counts == 0)).all()
    assert (after[counts == 0] == 0).all()
    # No more moves than records were lacking, and none out of a group under k.
    assert len(decided.rows) == (new != labels).sum() == np.maximum(k - counts[counts > 0], 0).sum()
    assert (after[counts >= k] >= k).all()


def test_the_cheapest_records_move():
    mixture = random_mixture(2, 1, seed=0)
    mixture = type(mixture)(np.array([0.5, 0.5]), np.array([[0.0], [10.0]]), np.ones((2, 1, 1)), np.full(2, np.inf))
    features = np.array([[0.0], [4.0], [1.0], [3.0], [10.0], [2.0]])
    assert repaired(features, mixture, 3).tolist() == [0, 1, 0, 1, 1, 0]


def test_reports_are_short():
    mixture = random_mixture(3, 2, seed=1)
    features, _ = sample_of(mixture, 5_000, seed=1)
    labels = assign(features, mixture)
    counts = np.bincount(labels, minlength=3)
    k = int(counts.min()) + 7
    report = movable(features, labels, mixture, counts, k)
    assert 7 <= len(report.costs) <= 14
    assert (report.costs >= 0).all()
    none = np.zeros(0, dtype=np.int64)
    nothing = Movable(np.zeros(0), none, none, none, none, report.most)
    assert report.merge(nothing).rows.tolist() == report.rows.tolist()


def test_reports_do_not_depend_on_rows_looked_at_together(monkeypatch):
    mixture = random_mixture(4, 2, seed=3, apart=1.0)
    features, _ = sample_of(mixture, 700, seed=1)
    labels = assign(features, mixture)
    counts = np.bincount(labels, minlength=4)
    k = int(np.sort(counts)[1]) + 9
    whole = movable(features, labels, mixture, counts, k)
    monkeypatch.setattr(module, "_FIRST_ROWS", 3)
    monkeypatch.setattr(module, "_NUMBERS", 60)
    pieces = movable(features, labels, mixture, counts, k)
    assert len(np.unique(whole.targets)) == 2
    for name in ("costs", "targets", "donors", "rows"):
        assert (getattr(pieces, name) == getattr(whole, name)).all()


def test_empty_groups_are_dropped():
    mixture = random_mixture(3, 1, seed=1)
    mixture = type(mixture)(
        np.full(3, 1 / 3), np.array([[0.0], [500.0], [9.0]]), np.ones((3, 1, 1)), np.full(3, np.inf)
    )
    features = np.array([[0.0], [1.0], [8.0], [9.0]])
    assert repaired(features, mixture, 2).tolist() == [0, 0, 1, 1]
    assert numbering(np.array([2, 0, 2])).tolist() == [0, -1, 1]


def test_what_is_refused():
    mixture = random_mixture(2, 1, seed=1)
    features = np.concatenate([mixture.means, mixture.means])
    with pytest.raises(InputError, match="do not fill 2 groups of 3"):
        repaired(features, mixture, 3)
    check_sizes(np.array([3, 0, 4]), 3)
    with pytest.raises(InputError, match="2 of 3 groups"):
        check_sizes(np.array([1, 2, 4]), 3)


@settings(deadline=None, max_examples=20)
@given(grouping_problems(most_rows=60), st.sampled_from([("full",), ("vev", "diagonal"), ("spherical", "eev", "tied")]))
def test_groups_of_a_table(problem, shapes):
    features, k = problem
    deviations = features.std(axis=0)
    features = features / np.where(deviations > 0, deviations, 1.0)  # as in runs: "eev" rounds small variances away
    before = features.copy()
    labels = gaussian_mixture(features, k, rng=np.random.default_rng(0), most_groups=4, shapes=shapes)
    assert (features == before).all()
    assert labels.dtype == np.int64
    assert labels.shape == (len(features),)
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    again = gaussian_mixture(features, k, rng=np.random.default_rng(9), most_groups=4, shapes=shapes)
    assert (again == labels).all()


@pytest.mark.parametrize("degrees", [3.0, None])
@pytest.mark.parametrize(("rows", "width", "k"), [(45, 18, 9), (61, 1, 30), (5_000, 2, 700)])
def test_wide_narrow_and_sampled_tables(rows, width, k, degrees):
    mixture = random_mixture(3, width, seed=4, apart=4.0)
    features, _ = sample_of(mixture, rows, seed=4)
    labels = gaussian_mixture(features, k, rng=np.random.default_rng(0), most_groups=3, degrees=degrees)
    assert np.bincount(labels).min() >= k
