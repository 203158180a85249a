"""Draws by rank, and samples of drawn records."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.methods.masking._draws import DrawnSample, averaged_by_rank
from tests.in_memory import mask


def _parts(run, parts):
    edges = [at * len(run) // parts for at in range(parts + 1)]
    return [run[low:high] for low, high in pairwise(edges)]


def twin(values, k):
    """The same word by word, of runs of common and of rare values."""
    counts = Counter(values)
    runs = []
    for common, run in groupby(sorted(counts), key=lambda value: counts[value] >= k):
        distinct = list(run)
        runs += (
            [(True, [v] * counts[v]) for v in distinct]
            if common
            else [(False, [v for v in distinct for _ in range(counts[v])])]
        )
    out = []
    for at, (common, run) in enumerate(runs):
        if common:
            out += run
        elif len(run) >= k:
            out += [np.mean(part) for part in _parts(run, len(run) // k) for _ in part]
        else:
            beside = [runs[near][1][0] for near in (at - 1, at + 1) if 0 <= near < len(runs)]
            mean = np.mean(run)
            out += [min(beside, key=lambda value: abs(value - mean), default=mean)] * len(run)
    return out


@given(st.lists(st.integers(0, 30), min_size=1, max_size=120), st.integers(1, 9))
def test_averages_are_those_of_the_twin(values, k):
    found = averaged_by_rank(np.array(values, dtype=float), k)
    assert np.allclose(found, twin(values, k) if k > 1 else sorted(values), atol=1e-9)


@given(st.lists(st.integers(0, 30), min_size=12, max_size=120), st.integers(2, 9))
def test_nothing_is_held_by_fewer_than_k_and_common_values_stay(values, k):
    released = Counter(averaged_by_rank(np.array(values, dtype=float), k).tolist())
    common = {value for value, count in Counter(values).items() if count >= k}
    assert min(released.values()) >= k and common <= set(released)


def test_a_mean_of_neighbours_is_kept():
    values = np.random.default_rng(1).lognormal(size=1_003)
    found = averaged_by_rank(values, 5)
    assert found.mean() == pytest.approx(values.mean(), rel=1e-12)
    assert not set(found) & set(values) and found.max() < values.max()


def test_a_planted_value_is_not_handed_on():
    features = np.random.default_rng(2).normal(size=(500, 2))
    features[7, 0] = 98765.43
    handed = mask(features, "data_shuffle", rng=np.random.default_rng(3))
    averaged = mask(features, "data_shuffle", rng=np.random.default_rng(3), k=5)
    assert 98765.43 in handed and 98765.43 not in averaged and not np.isin(averaged, features).any()


@pytest.mark.parametrize("size", [1, 40, 400, 1_000])
def test_the_sample_is_of_the_smallest_keys_of_all_records(size):
    scores, parts, taken, whole = np.arange(400.0)[:, None], [7, 0, 293, 100], [], None
    for place, part in enumerate(np.split(scores, np.cumsum(parts)[:-1])):
        taken.append(np.random.default_rng(place).integers(2**62, size=len(part)))
        codes = np.arange(len(part))[:, None]
        found = DrawnSample.of(part, codes, size, len(scores), np.random.default_rng(place))
        whole = found if whole is None else whole.merge(found)
    order = np.argsort(np.concatenate(taken))[:size]
    assert whole.scores[:, 0].tolist() == scores[order, 0].tolist()
    assert whole.codes[:, 0].tolist() == np.concatenate([np.arange(n) for n in parts])[order].tolist()
    assert whole.first(5).keys.tolist() == whole.keys[:5].tolist()


def test_parts_of_a_large_table_hand_on_few_records():
    rng = np.random.default_rng(0)
    part = DrawnSample.of(np.zeros((10_000, 1)), np.zeros((10_000, 0), dtype=np.int64), 100, 1_000_000, rng)
    assert len(part.keys) <= 20
