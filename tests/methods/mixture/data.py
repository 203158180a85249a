"""Tables and mixtures for the tests."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import strategies as st

from anonpipe.methods.mixture import Mixture
from tests.methods.grouping.data import reference_folder

KINDS = ("normal", "constant column", "collinear", "duplicated", "whole numbers", "heavy", "all equal")


def table(rows, width, seed, kind="normal"):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, width)) + 2 * rng.integers(0, 3, rows)[:, None]
    if kind == "constant column":
        features[:, 0] = 4.0
    elif kind == "collinear":
        features[:, -1] = 2 * features[:, 0]
    elif kind == "duplicated":
        features = features[rng.integers(0, max(1, rows // 4), rows)]
    elif kind == "whole numbers":
        features = np.round(features)
    elif kind == "heavy":
        features = features**5
    elif kind == "all equal":
        features[:] = -2.5
    return np.ascontiguousarray(features)


@st.composite
def tables(draw, least_rows=1, most_rows=120, widths=(1, 2, 4)):
    """(features, seed)."""
    seed = draw(st.integers(0, 2**32 - 1))
    rows = draw(st.integers(least_rows, most_rows))
    return table(rows, draw(st.sampled_from(widths)), seed, draw(st.sampled_from(KINDS))), seed


def random_mixture(groups, width, seed, degrees=np.inf, diagonal=False, apart=2.0):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(groups, 3.0))
    roots = 0.4 * rng.normal(size=(groups, width, width)) + np.eye(width)
    covariances = np.einsum("gjm,ghm->gjh", roots, roots)
    if diagonal:
        covariances = covariances * np.eye(width)
    means = apart * rng.normal(size=(groups, width))
    return Mixture(weights, means, covariances, np.full(groups, float(degrees)), diagonal)


def sample_of(mixture, rows, seed):
    """Records of a mixture of normal or t components, and the component of each."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(mixture.n_groups, rows, p=mixture.weights)
    roots = np.linalg.cholesky(mixture.covariances)
    normal = np.einsum("ijh,ih->ij", roots[labels], rng.normal(size=(rows, mixture.means.shape[1])))
    degrees = mixture.degrees[labels]
    if np.isfinite(degrees).all():
        normal /= np.sqrt(rng.chisquare(degrees) / degrees)[:, None]
    return np.ascontiguousarray(mixture.means[labels] + normal), labels


def thyroid():
    """z-scores of the 1,947 patients whose five numbers and sex are known and whose age is possible."""
    path = reference_folder() / "data" / "thyroid_train2800.csv"
    if not path.exists():
        pytest.skip("thyroid_train2800.csv is not at hand; set ANONPIPE_BENCH_DATA")
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["sex"] in ("F", "M")]
    names = ("age", "TSH", "T3", "T4U", "FTI")
    features = np.array([[float(row[name] or "nan") for name in names] for row in rows])
    features = features[np.isfinite(features).all(axis=1) & (features[:, 0] < 400)]
    return np.ascontiguousarray((features - features.mean(axis=0)) / features.std(axis=0))
