"""Microaggregation as scikit-learn knows its clusterers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import anonpipe
from anonpipe.estimators import Microaggregation
from anonpipe.methods.grouping import METHODS, cluster, information_loss

OWN_GROUP = "fit_transform keeps each record to its own group, of k or more; a record that comes later has none"
EXPECTED = {
    "check_clustering": "three blobs are to be found as three clusters; groups of k are as many as k allows",
    "check_transformer_general": OWN_GROUP,
    "check_transformer_data_not_an_array": OWN_GROUP,
}
"""The only checks of scikit-learn that fail, and why that is right."""


@pytest.mark.parametrize("method", ["mdav", "crest"])  # groups of records, and of classes
def test_the_checks_of_scikit_learn(method):
    made = check_estimator(Microaggregation(method, k=2), expected_failed_checks=EXPECTED, on_skip=None)
    assert len(made) > 40
    failed = {each["check_name"] for each in made if each["status"] == "xfail"}
    assert failed == set(EXPECTED) if method == "mdav" else failed <= set(EXPECTED)  # else a reason above is none
    assert "synthesize" in Microaggregation().get_params() and all(
        name in Microaggregation.__doc__ for name in EXPECTED
    )


def _table(method, rows=120):
    rng = np.random.default_rng(3)
    features = rng.normal(size=(rows, 1 if method == "optimal_univariate" else 2))
    return features, np.where(rng.random(rows) < 0.5, "yes", "no") if METHODS[method].classes else None


@pytest.mark.parametrize("method", [name for name in METHODS if name != "rhs"])
def test_groups_are_those_of_the_method(method):
    features, classes = _table(method)
    made = Microaggregation(method, k=4, random_state=7).fit(features, classes)
    assert np.bincount(made.labels_).min() >= 4 and made.n_groups_ == len(np.unique(made.labels_))
    assert made.information_loss_ == information_loss(features, made.labels_)
    again = clone(made).fit_predict(features, classes)
    assert np.array_equal(again, made.labels_)
    if not METHODS[method].draws:
        codes = None if classes is None else np.unique(classes, return_inverse=True)[1]
        plain = cluster(features, 4, method, rng=np.random.default_rng(0), classes=codes)
        assert np.array_equal(plain, made.labels_)


def test_blobs_are_groups_where_k_is_their_size():
    features, blobs = make_blobs(48, centers=np.array([[0, 0], [30, 0], [0, 30]]), random_state=2)
    labels = Microaggregation(k=16).fit_predict(features)
    assert len({(int(a), int(b)) for a, b in zip(labels, blobs, strict=True)}) == 3


def test_options_refinement_and_blocks_reach_the_method():
    features, _ = _table("mdav", 400)
    plain = Microaggregation(k=4).fit(features)
    better = Microaggregation(k=4, refine="quick", random_state=0).fit(features)
    assert better.information_loss_ < plain.information_loss_ and np.bincount(better.labels_).min() >= 4
    blocks = cluster(features, 4, "mdav", rng=np.random.default_rng(0), block_rows=50)
    assert np.array_equal(Microaggregation(k=4, block_rows=50).fit_predict(features), blocks)
    ordered = cluster(features, 4, "mhm", rng=np.random.default_rng(0), order="md")
    assert np.array_equal(Microaggregation("mhm", k=4, options={"order": "md"}).fit_predict(features), ordered)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"method": "nonesuch"}, "allowed are mdav"),
        ({"options": {"nonesuch": 1}}, "has no option 'nonesuch'"),
        ({"k": 0}, "k is 0"),
        ({"synthesize": "histogram"}, "synthesize is 'histogram'; allowed are centroid, "),
        ({"refine": "hard"}, "refine is 'hard'; allowed are None, quick, normal"),
        ({"k": 200}, "minimum of 200 is required"),
        ({"method": "crest"}, "requires y to be passed"),
        ({"method": "crest", "refine": "quick"}, "leave refine at None"),
        ({"block_rows": 4}, "under k=5"),
    ],
)
def test_what_does_not_fit_is_refused(given, told):
    features, classes = _table("crest")
    y = classes if given.get("refine") else None
    with pytest.raises(ValueError, match=told):
        Microaggregation(**given).fit(features, y)


def test_in_a_pipeline_and_from_the_package():
    frame = pd.DataFrame(_table("mdav")[0], columns=["a", "b"]) * [1.0, 1e6]
    made = make_pipeline(StandardScaler(), anonpipe.Microaggregation(k=3)).fit_predict(frame)
    assert np.bincount(made).min() >= 3
    alone = Microaggregation(k=3).fit(frame)
    assert list(alone.feature_names_in_) == ["a", "b"] and not np.array_equal(alone.labels_, made)
    assert anonpipe.Microaggregation(method="mst", k=3).get_params() == {
        "method": "mst", "k": 3, "refine": None, "block_rows": None, "options": None, "synthesize": "centroid",
        "random_state": None,
    }  # fmt: skip


def test_states_of_any_kind_give_the_same_groups_again():
    features, _ = _table("condensation")
    for state in (3, np.random.RandomState(3), np.random.default_rng(3)):
        first = Microaggregation("condensation", k=4, random_state=state).fit_predict(features)
        assert np.bincount(first).min() >= 4
    one, two, other = (Microaggregation("condensation", k=4, random_state=s).fit_predict(features) for s in (1, 1, 2))
    assert np.array_equal(one, two) and not np.array_equal(one, other)


def test_records_are_replaced_by_the_centroid_of_their_own_group():
    features, _ = _table("mdav")
    made = Microaggregation(k=4).fit(features)
    released = made.released_
    centroids = np.stack([features[made.labels_ == group].mean(axis=0) for group in range(made.n_groups_)])
    assert np.allclose(released, centroids[made.labels_])
    assert np.array_equal(Microaggregation(k=4).fit_transform(features), released)
    assert np.unique(released, axis=0, return_counts=True)[1].min() >= 4
    later = features[:20] + 0.1
    distances = ((later[:, None, :] - centroids[None]) ** 2).sum(axis=2)
    assert np.allclose(made.transform(later), centroids[distances.argmin(axis=1)])
    assert np.array_equal(made.transform(released), released)


@pytest.mark.parametrize("synthesize", ["gaussian", "pca"])
def test_draws_keep_means_and_covariance_of_each_group(synthesize):
    features, _ = _table("mdav")
    made = Microaggregation(k=8, synthesize=synthesize, random_state=5).fit(features)
    again = Microaggregation(k=8, synthesize=synthesize, random_state=5).fit_transform(features)
    assert np.array_equal(made.released_, again)
    assert not np.isclose(made.released_, features).any(axis=1).any()
    for group in range(made.n_groups_):
        members = made.labels_ == group
        assert np.allclose(made.released_[members].mean(axis=0), features[members].mean(axis=0))
        assert np.allclose(np.cov(made.released_[members].T), np.cov(features[members].T))
    nearest = made.transform(features[:10])
    assert all((made.released_ == row).all(axis=1).any() for row in nearest)


def test_frames_come_out_where_they_are_asked_for():
    frame = pd.DataFrame(_table("mdav")[0], columns=["a", "b"], index=range(5, 125))
    made = Microaggregation(k=3).set_output(transform="pandas")
    released = made.fit_transform(frame)
    assert list(released.columns) == ["a", "b"] == list(made.get_feature_names_out())
    assert released.index.equals(frame.index) and made.transform(frame[:7]).shape == (7, 2)


def test_k_is_found_by_a_grid_search_over_a_pipeline():
    features, labels = make_blobs(200, centers=[[0, 0], [6, 6]], random_state=1)
    steps = make_pipeline(StandardScaler(), Microaggregation(), LogisticRegression())
    found = GridSearchCV(steps, {"microaggregation__k": [3, 100], "microaggregation__refine": [None, "quick"]}, cv=3)
    found.fit(features, labels)
    assert found.best_params_["microaggregation__k"] == 3 and found.best_score_ > 0.95
    mixed = make_pipeline(Microaggregation("crest", k=5), LogisticRegression()).fit(features, labels)
    assert mixed.score(features, labels) > 0.5


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"k": "5"}, "k has type str; give a whole number"),
        ({"k": None}, "k has type NoneType"),
        ({"block_rows": 20.5}, "block_rows has type float; give a whole number"),
        ({"method": ["mdav"]}, "method has type list; give a text"),
        ({"options": [1]}, "options has type list; give a mapping"),
        ({"synthesize": None}, "synthesize has type NoneType; give a text"),
    ],
)
def test_wrong_types_are_named(given, told):
    with pytest.raises(TypeError, match=told):
        Microaggregation(**given).fit(_table("mdav")[0])
