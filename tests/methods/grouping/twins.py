"""What every method of a published recipe is tried on."""

from __future__ import annotations

import numpy as np

from anonpipe.methods.grouping import cluster


def run(method, features, k, **options):
    return cluster(features, k, method, rng=np.random.default_rng(0), **options)


def whole_numbers(features):
    """Sums and squares of whole numbers are exact in any order, so that ties are ties for everybody."""
    return np.round(features * 4)


def assert_same(method, twin, features, k, **options):
    before = features.copy()
    labels = run(method, features, k, **options)
    assert labels.dtype == np.int64
    assert (labels == twin(features, k, **options)).all()
    assert (features == before).all()


def assert_same_on_plain_tables(method, twin, **options):
    for rows in (2, 3, 5, 6, 9, 10, 50, 83):
        for width in (1, 2, 10, 50):
            features = np.random.default_rng(rows).normal(size=(rows, width))
            for k in (1, 2, 3, 5):
                if k <= rows:
                    assert_same(method, twin, features, k, **options)
