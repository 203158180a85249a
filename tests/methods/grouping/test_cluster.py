import inspect
import pickle

import numpy as np
import pytest

from anonpipe.errors import AnonpipeError
from anonpipe.methods.grouping import METHODS, cluster
from anonpipe.methods.options import GroupingOptions
from anonpipe.methods.record import Grouping
from tests.methods.grouping.classed import REFUSING


def rng():
    return np.random.default_rng(0)


class Named(GroupingOptions):
    """Options by hand."""


def record(function, **told):
    return Grouping(
        function=function, options=None, published="", reference="doi:", cost="", sizes="", largest=None, **told
    )


@pytest.mark.parametrize("told", [{}, {"summary": "Done.", "options": None}, {"summary": "Done.", "options": Named}])
def test_a_method_gives_summary_or_options(told):
    with pytest.raises(TypeError, match="give summary, or options"):
        Grouping(function=rng, published="", reference="", cost="", **told)


def test_registry_is_complete():
    for name, entry in METHODS.items():
        assert entry.name == name == entry.function.__name__
        assert "doi:" in entry.reference
        parameters = inspect.signature(entry.function).parameters
        assert "rng" in parameters
        assert ("classes" in parameters) == ("class_shares" in parameters) == entry.classes


def test_options_of_every_method_can_be_pickled():
    for entry in METHODS.values():
        options = entry.options(method=entry.name)
        assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("features", "k", "text"),
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
def test_wrong_points_are_refused(features, k, text):
    with pytest.raises(ValueError, match=text):
        cluster(features, k, rng=rng())


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="allowed are mdav, "):
        cluster(np.zeros((4, 1)), 2, "ward", rng=rng())
    with pytest.raises(ValueError, match="'blockrows'; allowed are block_rows"):
        cluster(np.zeros((4, 1)), 2, "mdav", rng=rng(), blockrows=3)
    with pytest.raises(ValueError, match="allowed are iterations, block_rows"):
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
    def broken(features, k, *, rng):
        return labels

    monkeypatch.setitem(METHODS, "broken", record(broken))
    with pytest.raises(AnonpipeError, match=text):
        cluster(np.zeros((4, 1)), 2, "broken", rng=rng())


def test_other_layouts_give_the_same():
    features = np.random.default_rng(0).integers(0, 50, size=(100, 3))
    whole = cluster(features.astype(float), 3, rng=rng())
    assert (cluster(np.asfortranarray(features), 3, rng=rng()) == whole).all()


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e99])
def test_extreme_scales(scale):
    features = np.random.default_rng(0).normal(size=(300, 3))
    features *= scale / np.abs(features).max()
    for method in [name for name in METHODS if name not in REFUSING]:
        options = {"classes": np.arange(300) % 2} if METHODS[method].classes else {}
        labels = cluster(features, 3, method, rng=rng(), block_rows=50, **options)
        assert np.bincount(labels).min() >= 3 and labels.max() >= 6


def test_classes_go_to_the_methods_that_need_them(monkeypatch):
    seen = []

    def split(features, k, *, rng, classes, class_shares):
        seen.append((classes.tolist(), class_shares.tolist()))
        return np.zeros(len(features), dtype=np.int64)

    monkeypatch.setitem(METHODS, "split", record(split, classes=True))
    features = np.arange(4.0)[:, None]
    classes = np.array([0, 1, 1, 1])
    assert cluster(features, 2, "split", rng=rng(), classes=classes).tolist() == [0, 0, 0, 0]
    assert cluster(features, 2, "split", rng=rng(), classes=classes, block_rows=2).max() == 1
    cluster(features, 2, "split", rng=rng(), classes=classes, class_shares=np.array([0.5, 0.5]))
    assert seen == [
        ([0, 1, 1, 1], [0.25, 0.75]),
        ([0, 1], [0.25, 0.75]),
        ([1, 1], [0.25, 0.75]),
        ([0, 1, 1, 1], [0.5, 0.5]),
    ]
    for wrong, text in [
        ({}, "split needs classes"),
        ({"classes": classes[:3]}, "shape"),
        ({"classes": classes / 2}, "float64"),
        ({"classes": classes - 1}, "negative"),
        ({"classes": classes, "class_shares": np.array([1.0])}, "without a share"),
        ({"classes": classes, "class_shares": np.array([0.4, 0.4])}, "sum to 1"),
    ]:
        with pytest.raises(ValueError, match=text):
            cluster(features, 2, "split", rng=rng(), **wrong)
    with pytest.raises(ValueError, match="mdav does not use classes"):
        cluster(features, 2, "mdav", rng=rng(), classes=classes)
