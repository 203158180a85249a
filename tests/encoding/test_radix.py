"""The histogram of numbers: a function of the numbers alone, whatever their order, parts and merges."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding.quantiles import MOST_BINS, Radix, keys_of, values_of
from anonpipe.storage.records import from_bytes as read
from anonpipe.storage.records import to_bytes

NUMBERS = st.floats(-1e150, 1e150, allow_nan=False) | st.integers(-50, 50).map(float) | st.just(-0.0)
ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 3)), max_size=60)


def histogram(rows, most):
    values, places = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows], dtype=np.int64)
    return Radix.of(values, places, most)


def key(value):
    """The key of a number, by the sign of its bits."""
    [bits] = np.array([value + 0.0]).view(np.uint64).tolist()
    return 2**64 - 1 - bits if bits >> 63 else bits + 2**63


def naive(rows, most):
    """Every level tried, every bin a dictionary entry."""
    for level in range(64):
        bins = {}
        for value, place in rows:
            bins.setdefault((place, key(value) >> level), []).append(key(value))
        if len(bins) <= most or level == 63:
            found = sorted(bins.items())
            told = [(p, len(k), min(k), max(k), k.count(min(k)), sum(k) % 2**64) for (p, _), k in found]
            return (level if rows else 0), told


@settings(deadline=None, max_examples=150)
@given(ROWS, st.integers(1, 12))
def test_as_the_literal_twin(rows, most):
    found = histogram(rows, most)
    level, told = naive(rows, most)
    columns = (found.places, found.counts, found.low, found.high, found.at_low, found.sums)
    assert found.level == level
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == told


@settings(deadline=None, max_examples=150)
@given(ROWS, st.integers(1, 12), st.randoms())
def test_any_order_any_parts_and_any_merges_give_the_same_bytes(rows, most, chance):
    shuffled = chance.sample(rows, len(rows))
    cuts = sorted(chance.randint(0, len(rows)) for _ in range(chance.randint(0, 5)))
    parts = [histogram(shuffled[a:b], most) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    while len(parts) > 1:  # any tree of merges
        parts.append(parts.pop(chance.randrange(len(parts))).merge(parts.pop(chance.randrange(len(parts))), most))
    assert to_bytes(parts[0]) == to_bytes(histogram(rows, most))


@settings(deadline=None, max_examples=100)
@given(ROWS)
def test_places_joined_are_numbers_counted_together(rows):
    found = histogram(rows, 1_000).moved(np.array([1, 0, -1, 1]))
    joined = [(value, [1, 0, -1, 1][place]) for value, place in rows if place != 2]
    assert to_bytes(found) == to_bytes(histogram(joined, 1_000))


def test_keys_keep_order_and_come_back():
    values = np.array([-1e150, -2.0, -5e-324, 0.0, 5e-324, 1e-300, 0.1, 1.0, np.nextafter(1.0, 2.0), 1e9 + 1e-6, 1e150])
    keys = keys_of(values)
    assert (np.diff(keys.astype(object)) > 0).all()
    assert np.array_equal(values_of(keys), values)
    assert keys_of(np.array([-0.0]))[0] == keys_of(np.array([0.0]))[0]


@pytest.mark.parametrize("shape", ["lognormal", "normal", "near a billion"])
def test_many_numbers_are_bounded_and_keep_their_mean(shape):
    rng = np.random.default_rng(1)
    values = {"lognormal": np.exp(rng.normal(3, 2, 200_000)), "normal": rng.normal(size=200_000)}.get(shape)
    values = 1e9 + rng.random(200_000) if values is None else values
    found = reduce(Radix.merge, map(Radix.of, np.array_split(values, 7)))
    assert MOST_BINS / 4 < len(found.counts) <= MOST_BINS and found.total == len(values)
    assert np.isclose(found.counts @ found.means / found.total, values.mean(), rtol=1e-12)
    ranked = np.sort(values)
    ends = np.cumsum(found.counts)
    assert np.array_equal(found.largest, ranked[ends - 1])


def test_more_places_than_bins_leave_a_bin_or_two_each():
    found = Radix.of(np.tile([-1.0, 1.0, 2.0], 20), np.repeat(np.arange(20), 3), most=4)
    assert found.level == 63 and found.counts.tolist() == [1, 2] * 20
    assert found.at(3).smallest.tolist() == [-1.0, 1.0]


def test_it_can_be_kept():
    found = Radix.of(np.array([1.0, 2.0, 2.0]))
    assert to_bytes(read(to_bytes(found), [Radix])) == to_bytes(found)
