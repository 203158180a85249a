"""Tables for the laws: any sizes and splits, ties, constant and dependent columns."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from anonpipe.methods.masking import MASKERS
from tests.in_memory import run_steps

KEY = b"a key of tests only, 32 bytes..."


def run(features, method, parts=None, key=KEY, **options):
    """A masker with a known key, so that a twin can draw the same."""
    return run_steps(features, MASKERS[method].steps(**options), key=key, parts=parts or [len(features)])


@st.composite
def tables(draw, least=2, most=60, widths=(1, 2, 3, 50)):
    rows = draw(st.one_of(st.sampled_from([least, least + 1]), st.integers(least, most)))
    width = draw(st.sampled_from(widths))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features = rng.normal(size=(rows, width)) @ rng.normal(size=(width, width))
    shape = draw(st.sampled_from(["normal", "tied", "constant", "one constant", "collinear", "binary", "far", "heavy"]))
    if shape == "tied":
        features = np.round(features)
    elif shape == "constant":
        features[:] = 3.1
    elif shape == "one constant":
        features[:, 0] = 1.1
    elif shape == "collinear":
        features[:, -1] = 2 * features[:, 0] - 1
    elif shape == "binary":
        features = np.where(features > 0, 1.0, -1.0)
    elif shape == "far":
        features = features * 1e-3 + 1e6
    elif shape == "heavy":
        features = features**3
    return np.ascontiguousarray(features)


@st.composite
def splits(draw, rows, least=0):
    """Rows of each part, some of them none where `least` allows."""
    parts, left = [], rows
    while left > 0:
        size = draw(st.integers(least, max(least, left)))
        if left - size < least and size < left:
            size = left
        parts.append(size)
        left -= size
        if len(parts) == 6:
            parts[-1] += left
            break
    return parts


@st.composite
def split_tables(draw, least=2, **options):
    features = draw(tables(least=least, **options))
    return features, draw(splits(len(features)))


def correlated(rows, width, seed=0):
    """Normal, all columns correlated, of different spread and mean."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(rows, width)) @ rng.normal(size=(width, width))
    return np.ascontiguousarray(mixed * np.geomspace(1, 30, width) + np.arange(width))
