import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.grouping import class_disclosure, compound_classes, crest_per_class
from anonpipe.methods.grouping._crest import class_tree
from tests.methods.grouping.classed import class_problems, diabetes, run, unit_columns
from tests.naive import spanning_tree as naive

METHODS = ("crest", "crest_partial")


@settings(deadline=None)
@given(class_problems(), st.sampled_from(METHODS))
def test_sizes(problem, method):
    features, k, classes, shares = problem
    before = features.copy(), classes.copy(), shares.copy()
    labels = run(method, features, k, classes, shares)
    assert np.bincount(labels).min() >= k
    assert all((a == b).all() for a, b in zip(before, (features, classes, shares), strict=True))
    assert (run(method, features, k, classes, shares) == labels).all()


@settings(deadline=None, max_examples=100)
@given(class_problems(most_rows=22), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.integers(2, 9), st.booleans())
def test_crest_is_the_same_as_the_naive_twin(problem, alpha, b, tied):
    features, k, classes, shares = problem
    features = np.round(features * 4) if tied else features
    expected = naive.crest(features, k, classes, shares, alpha, b)
    assert (run("crest", features, k, classes, shares, alpha=alpha, neighbours=b) == expected).all()


@pytest.mark.parametrize("b", [2, 3, 4, 6, 12, 60])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_the_tree_is_the_same_as_that_of_the_naive_twin(b, width):
    rng = np.random.default_rng(10 * b + width)
    features = rng.normal(size=(36, width))
    classes = rng.integers(0, 3, 36)
    shares = np.bincount(classes) / 36
    unit = np.sqrt((np.ptp(features, axis=0) ** 2).sum())
    for alpha in (0.1, 0.5, 0.9):
        parent, length, joined = class_tree(features, classes, shares, b, alpha, unit)
        assert [(parent[v], v) for v in joined[1:]] == naive.class_tree(features, classes, shares, b, alpha)
        assert length[1:] == pytest.approx(np.linalg.norm(features - features[parent], axis=1)[1:])


@settings(deadline=None, max_examples=80)
@given(class_problems(most_rows=30), st.booleans())
def test_crest_partial_is_the_same_as_the_naive_twin(problem, tied):
    features, k, classes, shares = problem
    features = np.round(features * 4) if tied else features
    expected = naive.crest_partial(features, k, classes, shares)
    assert (run("crest_partial", features, k, classes, shares) == expected).all()


def test_distance_alone_is_crest_partial():
    rng = np.random.default_rng(3)
    features, classes = rng.normal(size=(400, 4)), rng.integers(0, 3, 400)
    assert (run("crest", features, 4, classes, alpha=1.0) == run("crest_partial", features, 4, classes)).all()


def test_scale_and_offset_change_nothing():
    rng = np.random.default_rng(4)
    features, classes = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    labels = run("crest", features, 4, classes)
    assert (run("crest", 1024 * features, 4, classes) == labels).all()


def test_nine_patients_in_columns_of_one_class():
    """As in figures 1 and 2: by distance every group has one class, by CREST the shares of all."""
    features = np.array([[a, 1.2 * c] for a in range(3) for c in range(3)])
    classes = np.array([0, 1, 1] * 3)
    plain = class_disclosure(run("mst", features, 3), classes)
    assert (plain.n_groups, plain.homogeneous_share) == (3, 1)
    found = class_disclosure(run("crest", features, 3, classes), classes)
    assert (found.n_groups, found.homogeneous_share, found.chi_square) == (2, 0, 0)


@pytest.mark.parametrize("k", [3, 5, 10])
def test_diabetes_classes_mix_as_in_table_1(k):
    """Chi-square of the benchmark, partial and full CREST stand at 2.27 : 2.04 : 1.37 there."""
    features, classes = diabetes()
    features = unit_columns(features)
    figures = {
        method: class_disclosure(run(method, features, k, None if method == "mst" else classes), classes)
        for method in ("mst", *METHODS)
    }
    assert figures["mst"].chi_square > figures["crest_partial"].chi_square > figures["crest"].chi_square
    assert figures["crest"].chi_square < 0.8 * figures["crest_partial"].chi_square
    assert figures["crest"].homogeneous_share < 0.5 * figures["mst"].homogeneous_share


def test_one_grouping_an_attribute():
    rng = np.random.default_rng(5)
    features, classes = rng.normal(size=(200, 3)), rng.integers(0, 2, (200, 3))
    labels = crest_per_class(features, 4, classes, rng=rng)
    assert labels.shape == (200, 3)
    for a in range(3):
        assert (labels[:, a] == run("crest", features, 4, classes[:, a])).all()
    blocks = crest_per_class(features, 4, classes, rng=rng, block_rows=50, alpha=0.3, neighbours=3)
    assert (blocks[:, 1] == run("crest", features, 4, classes[:, 1], block_rows=50, alpha=0.3, neighbours=3)).all()
    assert (labels[:, 0] != run("crest", features, 4, compound_classes(classes))).any()
    with pytest.raises(ValueError, match=r"shape \(200,\)"):
        crest_per_class(features, 4, classes[:, 0], rng=rng)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"alpha": -0.1}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"alpha": 2}, "alpha"),
        ({"neighbours": 1}, "2 or more"),
    ],
)
def test_wrong_options_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        run("crest", np.zeros((4, 1)), 2, np.zeros(4, dtype=int), **options)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e99])
@pytest.mark.parametrize("method", ["crest", "crest_partial", "mst_t_close", "class_mdav", "class_kd_tree"])
def test_extreme_scales(method, scale):
    rng = np.random.default_rng(0)
    features, classes = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    features *= scale / np.abs(features).max()
    labels = run(method, features, 3, classes, block_rows=50)
    assert np.bincount(labels).min() >= 3
    assert labels.max() >= 6
