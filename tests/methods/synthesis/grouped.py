"""Groups for the tests: random, and all the awkward kinds."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from anonpipe.kernels.points import sort_groups


def shuffled_groups(sizes, rng):
    """order and starts of groups of the given sizes whose records lie anywhere in the table."""
    return sort_groups(rng.permutation(np.repeat(np.arange(len(sizes)), sizes)))


def tiled(features, order, starts, times):
    """The same groups again and again, so that one call makes many independent draws."""
    n = len(features)
    shift = n * np.arange(times)[:, None]
    again = np.concatenate([(starts[:-1] + shift).ravel(), [n * times]])
    return np.tile(features, (times, 1)), (order + shift).ravel(), again


@st.composite
def groupings(draw, smallest=1, largest=14, widest=6):
    """Points and groups; columns in units far apart, constant, collinear or whole-numbered, records repeated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(smallest, largest), min_size=1, max_size=6))
    width = draw(st.integers(1, widest))
    features = rng.normal(size=(sum(sizes), width)) * 10.0 ** rng.integers(-8, 8, width)
    order, starts = shuffled_groups(sizes, rng)
    if draw(st.booleans()):
        features[:, rng.integers(width)] = draw(st.sampled_from([0.0, 0.1, -1e9 / 3]))
    if draw(st.booleans()):
        features[:, -1] = 3 * features[:, 0]
    if draw(st.booleans()):
        features[:, 0] = rng.integers(-2, 3, len(features)) + 1000
    if draw(st.booleans()):
        features[order] = features[order[starts[np.repeat(np.arange(len(sizes)), sizes)]]]
    elif draw(st.booleans()):
        features[order[1::2]] = features[order[0::2][: len(features) // 2]]
    return features, order, starts
