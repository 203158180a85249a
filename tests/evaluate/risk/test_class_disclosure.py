from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.evaluate.risk import ClassShares
from anonpipe.evaluate.risk._class_disclosure import class_risk, random_groups
from anonpipe.methods.grouping import class_disclosure
from anonpipe.verify.output_control import disclosive
from tests.naive import attacks as naive


@pytest.mark.parametrize(
    ("sizes", "classes"),
    [([3, 3], [0, 0, 0, 1, 1, 1]), ([2, 2, 3], [0, 0, 0, 0, 1, 1, 2]), ([1, 4], [0, 0, 0, 1, 1]), ([5], [0] * 5)],
)
def test_random_groups_as_all_ways_to_deal(sizes, classes):
    found = random_groups(np.array(sizes), np.bincount(classes) / len(classes))
    assert found == pytest.approx(naive.random_groups(sizes, classes))


def test_random_groups_as_drawn():
    rng = np.random.default_rng(0)
    classes, labels = rng.permutation(np.repeat([0, 1, 2], [700, 280, 20])), np.repeat(np.arange(200), 5)
    drawn = [class_disclosure(labels, rng.permutation(classes)) for _ in range(40)]
    homogeneous, single, chi_square = random_groups(np.full(200, 5), np.array([0.7, 0.28, 0.02]))
    assert np.mean([d.homogeneous_share for d in drawn]) == pytest.approx(homogeneous, abs=0.02)
    assert np.mean([d.single_records / 1000 for d in drawn]) == pytest.approx(single, abs=0.01)
    assert np.mean([d.chi_square for d in drawn]) == pytest.approx(chi_square, abs=0.1)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_single_records_are_counted_and_merge(seed, n):
    rng = np.random.default_rng(seed)
    labels, classes = rng.integers(0, 5, n), rng.integers(0, 4, n)
    shares = np.full(4, 0.25)
    pairs = list(zip(labels.tolist(), classes.tolist(), strict=True))
    whole = class_disclosure(labels, classes, shares)
    assert whole.single_records == sum(pairs.count(pair) == 1 for pair in pairs)
    parts = [class_disclosure(labels[w], classes[w], shares) for w in (labels < 2, labels >= 2) if w.any()]
    merged = parts[0].merge(parts[1]) if len(parts) == 2 else parts[0]
    assert astuple(merged) == pytest.approx(astuple(whole))


def test_measurements():
    labels, classes = np.repeat([0, 1, 2], 3), np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    told = class_disclosure(labels, classes)
    shares = np.array([4, 5]) / 9
    measured = {m.name: m for m in class_risk("c", ClassShares(told, shares, np.full(3, 3)))}
    assert measured["sensitive.c.homogeneity"].value == pytest.approx(6 / 9)
    assert measured["sensitive.c.homogeneity"].baseline == pytest.approx((4 + 10) / 84)
    assert measured["sensitive.c.singles"].value == pytest.approx(1 / 9)
    assert disclosive(measured["sensitive.c.singles"]) and not disclosive(measured["sensitive.c.homogeneity"])
    assert measured["sensitive.c.chi_square"].value == pytest.approx(told.chi_square)
    assert measured["sensitive.c.chi_square"].baseline == pytest.approx(6 / 8)
    assert measured["sensitive.c.divergence"].value == pytest.approx(told.mean_divergence)
    assert measured["sensitive.c.divergence_worst"].value == pytest.approx(told.largest_divergence)
    assert measured["sensitive.c.distinct_l"].value == 1 and measured["sensitive.c.distinct_l"].better == "higher"
    assert measured["sensitive.c.entropy_l"].value == pytest.approx(1)
    assert measured["sensitive.c.t"].value == pytest.approx(5 / 9)
    assert measured["sensitive.c.t_ordered"].value == pytest.approx(5 / 9)
    assert all(m.baseline is None for m in class_risk("c", ClassShares(told, shares, None)))
