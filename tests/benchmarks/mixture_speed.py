"""Seconds of one EM iteration a million rows, beside scikit-learn's GaussianMixture in the same run.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python -m tests.benchmarks.mixture_speed [--rows 1000000] [--groups 30]

Both get the same rows, the same start and one thread; scikit-learn is fed in
pieces of 100,000 rows, as its whole-table E-step holds n x groups numbers.
Two tables: separated clusters, where most posteriors are negligible, and one
cloud, where none is.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.mixture import GaussianMixture
from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky
from threadpoolctl import threadpool_limits

from anonpipe.methods.mixture import constraints, e_step, hard_statistics, m_step

PIECE = 100_000
TYPES = {"full": "full", "tied": "tied", "diagonal": "diag"}


def table(rows, width, groups, separation):
    """Correlated columns in clusters `separation` standard deviations apart, and the cluster of each row."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, groups, rows)
    features = rng.normal(size=(rows, width)) @ (np.eye(width) + 0.3 * rng.normal(size=(width, width)))
    features += separation * rng.normal(size=(groups, width))[labels]
    return np.ascontiguousarray(features), labels


def theirs(features, start, shape):
    """Seconds of their E- and M-step; the M-step of a piece stands for the sums that it would merge."""
    model = GaussianMixture(len(start.weights), covariance_type=TYPES[shape])
    model.weights_, model.means_ = start.weights, start.means
    diagonals = np.diagonal(start.covariances, axis1=1, axis2=2)
    model.covariances_ = {"full": start.covariances, "tied": start.covariances[0], "diagonal": diagonals}[shape]
    model.precisions_cholesky_ = _compute_precision_cholesky(model.covariances_, TYPES[shape])
    before = time.perf_counter()
    likelihood = 0.0
    for low in range(0, len(features), PIECE):
        piece = features[low : low + PIECE]
        mean, posteriors = model._e_step(piece)
        likelihood += mean * len(piece)
        model.__class__._m_step(_copy(model), piece, posteriors)
    return time.perf_counter() - before, likelihood


def _copy(model):
    other = GaussianMixture(model.n_components, covariance_type=model.covariance_type)
    other.__dict__.update(model.__dict__)
    return other


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=30)
    options = parser.parse_args()
    print(f"{'columns':>8}{'table':>11}{'shape':>10}{'seconds':>9}{'sklearn':>9}{'ratio':>7}{'likelihood differs':>20}")
    for width in (5, 12):
        for name, separation in (("separated", 3.0), ("cloud", 0.3)):
            features, labels = table(options.rows, width, options.groups, separation)
            for shape in TYPES:
                bounds = constraints(1, len(features), options.groups, features.var(axis=0), shape=shape)
                first = hard_statistics(features[:PIECE], labels[:PIECE], diagonal=shape == "diagonal")
                start = m_step(first, bounds)
                e_step(features[:300], start)
                before = time.perf_counter()
                statistics = e_step(features, start)
                m_step(statistics, bounds)
                seconds = time.perf_counter() - before
                with threadpool_limits(1):
                    other, likelihood = theirs(features, start, shape)
                differs = abs(statistics.log_likelihood / likelihood - 1)
                print(
                    f"{width:8}{name:>11}{shape:>10}{seconds:9.2f}{other:9.2f}{seconds / other:7.2f}{differs:20.1e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
