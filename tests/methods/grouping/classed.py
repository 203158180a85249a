"""Classes for grouping problems, and the diabetes table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from anonpipe.methods.grouping import cluster
from tests.methods.grouping.data import grouping_problems, reference_folder

REFUSING = ("rhs", "optimal_univariate")
"""Methods that cannot group all records: the one makes small groups, the other takes one column."""


@st.composite
def class_problems(draw, most_rows=60):
    """(features, k, classes, shares): one to four classes, even, skewed, sorted by the first column or alone."""
    features, k = draw(grouping_problems(most_rows=most_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["even", "skewed", "sorted", "one"]))
    classes = rng.integers(0, n_classes, len(features))
    if kind == "skewed":
        classes = np.where(rng.random(len(features)) < 0.85, 0, classes)
    elif kind == "sorted":
        classes = np.sort(classes)[np.argsort(np.argsort(features[:, 0], kind="stable"))]
    elif kind == "one":
        classes[:] = 0
    shares = np.bincount(classes, minlength=n_classes) / len(classes)
    if draw(st.booleans()):
        # As in one block of a table that has other shares.
        shares = 0.7 * shares + 0.3 / n_classes
    return features, k, classes.astype(np.int64), shares


def run(method, features, k, classes=None, shares=None, **options):
    return cluster(features, k, method, rng=np.random.default_rng(0), classes=classes, class_shares=shares, **options)


def diabetes():
    """(attributes, class) of the 768 x 8 diabetes table; the test is skipped where it is not at hand."""
    path = reference_folder() / "data" / "pima.csv"
    if not path.exists():
        pytest.skip("pima.csv is not at hand; set ANONPIPE_BENCH_DATA")
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)


def unit_columns(features):
    """Columns scaled to [0, 1]."""
    return np.ascontiguousarray((features - features.min(axis=0)) / np.ptp(features, axis=0))


def compound_classes(classes):
    """Li and Sarkar 2013, section 8: every combination of several classes that occurs is a class of its own."""
    return np.unique(classes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def crest_per_class(features, k, classes, *, rng, block_rows=None, **options):
    """Li and Sarkar 2013, section 8, the other approach: `crest` for each of several class attributes alone."""
    classes = np.asarray(classes)
    if classes.ndim != 2 or len(classes) != len(features) or classes.shape[1] < 1:
        raise ValueError(f"classes has shape {classes.shape}; give ({len(features)}, n_attributes) with 1 or more")
    columns = [cluster(features, k, "crest", rng=rng, block_rows=block_rows, classes=c, **options) for c in classes.T]
    return np.stack(columns, axis=1)
