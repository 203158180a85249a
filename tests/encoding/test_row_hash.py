from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.row_hash import (
    add_fingerprints,
    exact_rows,
    exact_sums,
    fingerprint,
    keyed_rows,
    lanes_of,
    number_words,
    population,
    row_lanes,
    value_words,
)

COLUMNS = {"n": Column(kind="continuous"), "s": Column(kind="categorical"), "i": Column(kind="integer")}


def batch(rows, seed=0):
    rng = np.random.default_rng(seed)
    holes = rng.random(rows) < 0.2
    numbers = pa.array(np.round(rng.normal(size=rows), 1).astype(np.float32).astype(float), mask=holes)
    return pa.record_batch({"n": numbers, "s": rng.choice(["a", "b", "c"], rows), "i": rng.integers(0, 9, rows)})


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(0, 99), st.integers(0, 60))
def test_rows_are_the_same_in_any_order_cut_and_width(rows, seed, at):
    rng, given_ = np.random.default_rng(seed), batch(rows, seed)
    lanes, at = row_lanes(given_, COLUMNS), min(at, rows)
    order = rng.permutation(rows)
    narrow = pa.record_batch(
        {"s": given_["s"].dictionary_encode(), "i": given_["i"].cast(pa.uint8()), "n": given_["n"].cast(pa.float32())}
    )
    assert np.array_equal(row_lanes(narrow, COLUMNS), lanes)
    assert np.array_equal(row_lanes(given_.take(pa.array(order)), COLUMNS), lanes[order])
    assert np.array_equal(sum(lanes_of([name], given_, COLUMNS) for name in COLUMNS), lanes)
    assert (
        population(lanes[order])
        == population(lanes)
        == add_fingerprints(population(lanes[:at]), population(lanes[at:]))
    )
    parts = add_fingerprints(fingerprint(lanes[:at], 5), fingerprint(lanes[at:], 5 + at))
    assert parts == fingerprint(lanes, 5) and fingerprint(lanes, 6) != fingerprint(lanes, 5)
    rows_of = {tuple(row.values()) for row in given_.to_pylist()}
    assert len(np.unique(keyed_rows(lanes, b"a" * 16, b"b" * 16))) == len(np.unique(lanes, axis=0)) == len(rows_of)
    kept = rng.random(rows) < 0.5
    assert (population(lanes, kept) == population(lanes)) == bool(kept.all())


VALUES = st.floats(allow_nan=True, width=64) | st.sampled_from([0.0, -0.0, 1.0, 2.0**53, 2.0**63, 1e300])


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_exact_numbers_agree_where_rows_do(rows, random):
    cells = np.array(rows)
    found = exact_rows(cells)
    for one, a in zip(found, cells, strict=True):
        for other, b in zip(found, cells, strict=True):
            assert (one == other) == np.array_equal(a, b, equal_nan=True)
    assert exact_sums(cells) == exact_sums(np.array(random.sample(rows, len(rows))))
    groups = np.arange(len(cells))
    assert np.array_equal(exact_rows(cells, groups), found + exact_rows(cells[:, :0], groups))
    assert len(np.unique(exact_rows(cells[:, :0], groups))) == len(cells)


def test_the_place_of_a_value_counts():
    assert exact_rows(np.array([[1.0, 2.0]])) != exact_rows(np.array([[2.0, 1.0]]))
    one = np.array([[1.0], [1.0], [2.0], [2.0]])
    assert exact_sums(one) != exact_sums(np.array([[1.0], [1.0], [1.0], [2.0]]))


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_words_of_numbers_are_those_of_their_single_precision(value):
    near = np.nextafter(value, np.inf) if value != np.rint(value) else value
    assert number_words(np.array([near]))[0] == number_words(np.array([value]))[0]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(20, 0), pa.decimal128(23, 3)]
)
def test_words_of_whole_numbers_are_those_of_any_type(kind):
    whole = pa.array([0, 3, None, 100], pa.int64())
    assert np.array_equal(value_words(whole.cast(kind))[0][[0, 1, 3]], [0, 3, 100])
    assert value_words(whole.cast(kind))[1].tolist() == [True, True, False, True]
