"""Components divided by categories: what groups keep then, the twin of the choice, and what is not divided."""

from __future__ import annotations

import numpy as np
import pytest

from anonpipe.methods.latent_classes import LatentClasses, draw_categories
from anonpipe.methods.masking import MASKERS, _local_synthesis
from anonpipe.methods.masking._draws import DrawnSample, dummies, starts_of
from anonpipe.methods.masking._local_synthesis import ClassCounts, Divisions, MixtureGroups, divide
from tests.in_memory import run_steps
from tests.methods.masking.tables import KEY

CATEGORIES = ((2,), (3, 4, 5))
K = 8


def table(rows, seed=0, unlike=True):
    """Two numbers whose covariance differs by the second attribute; attributes of two and three categories."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, 2, rows), rng.choice(3, rows, p=[0.5, 0.3, 0.2])])
    features = np.zeros((rows, 6))
    features[:, :2] = rng.normal(size=(rows, 2))
    if unlike:
        features[:, 1] += np.array([0.0, 0.9, -0.9])[codes[:, 1]] * features[:, 0]
    dummies(codes, CATEGORIES, features)
    return features, codes


def sample_of(features, codes):
    return DrawnSample(len(codes), np.arange(len(codes)), np.ascontiguousarray(features[:, :2]), codes)


def run(features, parts):
    steps = MASKERS["local_synthesis"].steps(k=K, categories=CATEGORIES, components=1, shape="full", classes=2)
    made = run_steps(features, steps, key=KEY, parts=parts)
    return made[:, :-1], made[:, -1].astype(int)


def divided(sample, labels, least):
    """The twin of `divide`: the parts of records, by loops over categories and pairs of columns."""
    seen = np.column_stack([sample.scores, *[(c == np.bincount(c).argmax()) * 1.0 for c in sample.codes.T]])
    numbers, found, waiting = sample.scores.shape[1], [], [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    while waiting:
        rows, best = waiting.pop(0), (0.0, None)
        for at, codes in enumerate(sample.codes[rows].T):
            large = [c for c in range(3) if (codes == c).sum() >= least]
            rest = [c for c in range(3) if c not in large]
            parts = [[c] for c in large]
            if large and sum((codes == c).sum() for c in rest) >= least:
                parts.append(rest)
            elif large:
                max(parts, key=lambda part: (codes == part[0]).sum()).extend(rest)
            if len(parts) < 2:
                continue
            members = [rows[np.isin(codes, part)] for part in parts]
            columns = [c for c in range(seen.shape[1]) if c != numbers + at]
            moments = [np.cov(seen[each][:, columns].T, bias=True) for each in members]
            common = sum(len(m) * each for m, each in zip(members, moments, strict=True)) / len(rows)
            sd = np.sqrt(np.diag(common))
            differences = chance = 0.0
            for a, first in enumerate(columns):
                for b in range(len(columns)):
                    if (a == b and first >= numbers) or min(sd[a], sd[b]) < 1e-9:
                        continue
                    chance += (len(parts) - 1) * (1 + (common[a, b] / sd[a] / sd[b]) ** 2)
                    for each, moment in zip(members, moments, strict=True):
                        differences += len(each) * ((moment[a, b] - common[a, b]) / sd[a] / sd[b]) ** 2
            if differences - chance > max(6 * chance**0.5, best[0]):
                best = differences - chance, members
        if best[1] is None:
            found.append(sorted(rows.tolist()))
        else:
            waiting += best[1]
    return sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_divisions_are_those_of_the_twin(seed):
    features, codes = table(900, seed)
    labels = np.where(np.random.default_rng(seed).random(900) < 0.7, 0, 1)
    found = divide(sample_of(features, codes), labels, 2, starts_of(CATEGORIES), 60)
    nodes = found.leaves(labels, features, CATEGORIES)
    assert found.components[nodes].tolist() == labels.tolist()
    assert sorted(np.flatnonzero(nodes == node).tolist() for node in np.unique(nodes)) == divided(
        sample_of(features, codes), labels, 60
    )
    assert len(np.unique(nodes)) > 2


def test_covariances_by_category_are_kept_in_any_parts():
    features, codes = table(4_000)
    made, labels = run(features, [1_500, 0, 2_500])
    assert np.bincount(labels).min() >= _local_synthesis._LEAST
    released = made[:, 3:6].argmax(axis=1)
    assert np.array_equal(released, codes[:, 1])
    for code in range(3):
        old, new = (each[codes[:, 1] == code][:, :3] for each in (features, made))
        assert np.allclose(np.cov(old.T), np.cov(new.T), atol=1e-9)
        assert np.allclose(old.mean(axis=0), new.mean(axis=0), atol=1e-9)
        assert np.abs(old - new).max(axis=1).min() > 1e-6
    again, _ = run(features, [4_000])
    assert np.allclose(np.cov(made.T), np.cov(again.T), atol=1e-9)


def test_without_divisions_they_are_not_kept(monkeypatch):
    monkeypatch.setattr(_local_synthesis, "_LEAST", 10_000)
    features, codes = table(4_000)
    made, labels = run(features, [4_000])
    assert set(labels) == {0}
    off = [np.cov(each[codes[:, 1] == 1][:, :2].T)[0, 1] for each in (features, made)]
    assert abs(off[1] - off[0]) > 0.3


def test_equal_covariances_divide_nothing():
    for seed in range(20):
        features, codes = table(3_000, seed, unlike=False)
        found = divide(sample_of(features, codes), np.zeros(3_000, int), 1, starts_of(CATEGORIES), 100)
        assert (found.attributes == -1).all()


@pytest.mark.parametrize("rows", [K, 2 * K, 3 * K, 2 * 400 - 1])
def test_small_tables_are_not_divided(rows):
    _, labels = run(table(rows)[0], [rows])
    assert set(labels) == {0}


def test_constant_columns_and_duplicates_divide():
    features, codes = table(2_000)
    found = divide(sample_of(np.repeat(features, 2, axis=0), np.repeat(codes, 2, axis=0)), np.zeros(4_000, int), 1,
                   starts_of(CATEGORIES), 100)  # fmt: skip
    assert found.attributes[0] == 1
    features[:, 0] = 3.0
    features[:, 1] *= 1 + codes[:, 1]
    found = divide(sample_of(features, codes), np.zeros(2_000, int), 1, starts_of(CATEGORIES), 100)
    assert found.attributes[0] == 1


def test_parts_below_k_and_components_with_moves_are_undivided():
    divisions = Divisions(np.array([0, 1, -1, -1, -1, -1]), np.array([[2, 3], [4, 5], *[[0, 0]] * 4]),
                          np.array([0, 1, 0, 0, 1, 1]))  # fmt: skip
    mixture = type("Two", (), {"n_groups": 2})()
    groups = MixtureGroups(None, mixture, None, divisions)
    found = _local_synthesis._repair(ClassCounts(np.array([0, 0, 30, 4, 20, 25])), params=groups, k=5)
    assert found.counts.tolist() == [34, 0, 0, 0, 20, 25]
    assert found.divisions.attributes.tolist() == [-1, 1, -1, -1, -1, -1]
    assert found.of_components.tolist() == [34, 45] and found.sizes.tolist() == [34, 20, 25]


def test_categories_of_a_node_are_those_of_all_its_records():
    features, codes = table(3_000, 3)
    found = divide(sample_of(features, codes), np.zeros(3_000, int), 1, starts_of(CATEGORIES), 100)
    nodes = found.leaves(np.zeros(3_000, int), features, CATEGORIES)
    known = found.categories(2)
    for node in np.unique(nodes):
        inside = codes[nodes == node]
        for at in range(2):
            alike = len(set(inside[:, at].tolist())) == 1
            assert known[node, at] == (inside[0, at] if alike else -1)


def test_a_category_that_the_sample_has_not_goes_with_the_others():
    features, codes = table(3_000, 1)
    few = codes[:, 1] != 2
    found = divide(sample_of(features[few], codes[few]), np.zeros(few.sum(), int), 1, starts_of(CATEGORIES), 100)
    nodes = found.leaves(np.zeros(3_000, int), features, CATEGORIES)
    assert (found.attributes[nodes] == -1).all() and found.attributes[0] == 1
    assert set(nodes[~few]) <= set(nodes[few])


def test_drawn_categories_given_known_ones_follow_bayes():
    classes = LatentClasses(
        np.array([[0.4], [-0.4]]), np.array([[0.9, 0.1, 0.7, 0.2, 0.1], [0.3, 0.7, 0.1, 0.2, 0.7]]), np.array([0, 2, 5])
    )
    known = np.full((40_000, 2), -1)
    known[:20_000, 0] = 1
    made = draw_categories(np.zeros((40_000, 0)), classes, known, rng=np.random.default_rng(2))
    assert (made[:20_000, 0] == 1).all() and (known[20_000:] == -1).all()
    prior = np.exp([0.4, -0.4]) / np.exp([0.4, -0.4]).sum()
    for rows, weights in ((slice(0, 20_000), prior * [0.1, 0.7]), (slice(20_000, None), prior)):
        wanted = weights / weights.sum() @ classes.shares[:, 2:]
        shares = np.bincount(made[rows, 1], minlength=3) / 20_000
        assert np.abs(shares - wanted).max() < 0.015
    assert np.array_equal(
        draw_categories(np.zeros((9, 0)), classes, rng=np.random.default_rng(5)),
        draw_categories(np.zeros((9, 0)), classes, np.full((9, 2), -1), rng=np.random.default_rng(5)),
    )
