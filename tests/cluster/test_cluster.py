import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.cluster import METHODS, Method, _registry, cluster
from anonpipe.errors import AnonpipeError
from tests.cluster.data import grouping_problems


def rng():
    return np.random.default_rng(0)


@settings(deadline=None, max_examples=60)
@given(grouping_problems(), st.sampled_from(sorted(METHODS)), st.booleans())
def test_every_method_keeps_the_promise(problem, method, blocks):
    points, k = problem
    before = points.copy()
    options = {"block_rows": max(2 * k, len(points) // 3)} if blocks else {}
    labels = cluster(points, k, method, rng=rng(), **options)
    assert labels.dtype == np.int64
    assert np.bincount(labels).min() >= k
    assert len(labels) == len(points)
    assert (points == before).all()
    assert (cluster(points, k, method, rng=rng(), **options) == labels).all()


def test_registry_is_complete():
    for name, entry in METHODS.items():
        assert entry.name == name == entry.function.__name__
        assert "doi:" in entry.reference
        assert "rng" in inspect.signature(entry.function).parameters
        assert entry.options


@pytest.mark.parametrize(
    ("points", "k", "text"),
    [
        (np.zeros(5), 2, "1 dimensions"),
        (np.array([[0.0], [np.nan], [1.0]]), 2, "NaN"),
        (np.array([[0.0], [np.inf], [1.0]]), 2, "infinity"),
        (np.array([[0.0], [1e101], [1.0]]), 2, "1e100"),
        (np.zeros((3, 1)), 4, "k is 4 for 3 records"),
        (np.zeros((3, 1)), 0, "k is 0 for 3 records"),
        (np.zeros((0, 2)), 1, "k is 1 for 0 records"),
    ],
)
def test_wrong_points_are_refused(points, k, text):
    with pytest.raises(ValueError, match=text):
        cluster(points, k, rng=rng())


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="allowed are mdav, kmeans"):
        cluster(np.zeros((4, 1)), 2, "ward", rng=rng())
    with pytest.raises(ValueError, match="'blockrows'; allowed are block_rows"):
        cluster(np.zeros((4, 1)), 2, "mdav", rng=rng(), blockrows=3)
    with pytest.raises(ValueError, match="allowed are block_rows, iterations"):
        cluster(np.zeros((4, 1)), 2, "kmeans", rng=rng(), refine=1)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (np.array([0, 0, 0, 1]), "1 of 2 groups under k=2"),
        (np.array([0, 0, 2, 2]), "1 of 3 groups under k=2"),
        (np.array([0, 0, -1, 0]), "1 records without a group"),
        (np.array([0, 0, 9, 9]), "beyond"),
        (np.array([0, 0, 0]), "shape"),
        (np.array([0.0, 0.0, 0.0, 0.0]), "float64"),
    ],
)
def test_a_broken_method_is_caught(monkeypatch, labels, text):
    def broken(points, k, *, rng):
        return labels

    entry = Method(broken, "broken", "none", "doi:none", "none", (), "none")
    monkeypatch.setitem(_registry.METHODS, "broken", entry)
    with pytest.raises(AnonpipeError, match=text):
        cluster(np.zeros((4, 1)), 2, "broken", rng=rng())


def test_other_layouts_give_the_same():
    points = np.random.default_rng(0).integers(0, 50, size=(100, 3))
    whole = cluster(points.astype(float), 3, rng=rng())
    assert (cluster(np.asfortranarray(points), 3, rng=rng()) == whole).all()


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e99])
def test_extreme_scales(scale):
    points = np.random.default_rng(0).normal(size=(300, 3))
    points *= scale / np.abs(points).max()
    for method in METHODS:
        labels = cluster(points, 3, method, rng=rng(), block_rows=50)
        assert np.bincount(labels).min() >= 3
