"""Points for the laws: any sizes, ties, constant columns, duplicates."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from anonpipe.kernels.points import block_order


@st.composite
def grouping_problems(draw, most_rows=120):
    """(features, k), biased to sizes where the number of groups changes."""
    k = draw(st.integers(1, 7))
    rows = draw(
        st.one_of(st.sampled_from([k, 2 * k - 1, 2 * k, 3 * k - 1, 3 * k, 4 * k + 1]), st.integers(k, most_rows))
    )
    width = draw(st.sampled_from([1, 2, 3, 10, 50]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features = rng.normal(size=(rows, width))
    shape = draw(st.sampled_from(["normal", "tied", "constant", "duplicated", "one constant column", "heavy"]))
    if shape == "tied":
        features = np.round(features)
    elif shape == "constant":
        features[:] = 3.0
    elif shape == "duplicated":
        features = features[rng.integers(0, max(1, rows // 3), rows)]
    elif shape == "one constant column":
        features[:, 0] = 1.0
    elif shape == "heavy":
        features = features**5
    return np.ascontiguousarray(features), k


def principal_blocks(features, rows, turned=False):
    """The block of each record, of `block_order`."""
    order, starts = block_order(features, rows, turned=turned)
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return labels


def standardized(features):
    spread = features.std(axis=0)
    return np.ascontiguousarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def reference_folder() -> Path:
    """Where the benchmark data lie: ANONPIPE_BENCH_DATA, else beside the repository."""
    return Path(os.environ.get("ANONPIPE_BENCH_DATA", Path(__file__).parents[4] / "shared"))


def tarragona():
    """z-scores of the 834 x 13 benchmark table; the test is skipped where it is not at hand."""
    path = reference_folder() / "data" / "tarragona.csv"
    if not path.exists():
        pytest.skip("tarragona.csv is not at hand; set ANONPIPE_BENCH_DATA")
    return standardized(np.genfromtxt(path, delimiter=",", skip_header=1))
