from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.methods import executor
from anonpipe.methods.masking import MASKERS, RECORDS, Reduce
from anonpipe.moments import Moments
from anonpipe.storage.records import from_bytes, to_bytes


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    elif isinstance(a, tuple | list):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif hasattr(a, "__dataclass_fields__"):
        for name in a.__dataclass_fields__:
            same(getattr(a, name), getattr(b, name))
    else:
        assert a == b


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("noise", {"form": "exact"}),
        ("data_shuffle", {"conditioning": (0,)}),
        ("data_shuffle", {}),
        ("spectral_swap", {}),
        ("suppression", {"outside": 2.0}),
        ("sequential_regression", {"categories": ((3,),), "rounds": 2}),
        ("generalize", {"k": 5}),
    ],
)
def test_all_that_maskers_count_and_learn_comes_back_bit_by_bit(method, options):
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=(60, 3)), np.where(rng.random(60) < 0.4, 1.0, -1.0)])
    params, place = None, executor.Place(0, lambda stream: rng, lambda: features)
    for step in MASKERS[method].steps(**options):
        while isinstance(step, Reduce):
            statistic = executor.statistic(step, features, params, place)
            same(from_bytes(to_bytes(statistic), RECORDS), statistic)
            params = executor.learnt(step, [statistic], params, rng)
            same(from_bytes(to_bytes(params), RECORDS), params)
            if step.again is None or not step.again(params):
                break
        if not isinstance(step, Reduce) and step.name in ("draw", "add"):
            features = step.function(features, params=params, rng=rng) if method == "noise" else features


def test_only_what_is_allowed_is_built():
    content = to_bytes(Moments.of(np.ones((3, 2))))
    with pytest.raises(TypeError, match="Moments"):
        from_bytes(content, [])
    with pytest.raises(TypeError, match="object cannot be saved"):
        to_bytes((1, object()))
    assert b"pickle" not in content
    with pytest.raises(TypeError, match="array of references"):
        from_bytes(to_bytes(np.ones(1)).replace(b"<f8", b"|O8"), [])


KINDS = [pa.string(), pa.int64(), pa.float64(), pa.decimal128(12, 3), pa.date32(), pa.timestamp("ns", "Asia/Tokyo")]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_arrow_columns_and_schemas_keep_type_and_values(kind):
    column = pa.array([3, None, 1, 2], pa.int32()).cast(pa.int64())
    column = column.cast(pa.string()).cast(kind) if pa.types.is_decimal(kind) else _of_numbers(column, kind)
    schema = pa.schema([pa.field("é x", kind, nullable=False), ("b", pa.dictionary(pa.int8(), kind, ordered=True))])
    one, sliced, told = from_bytes(to_bytes((column, column[1:3], schema)), [])
    assert one.equals(column) and one.type == kind and sliced.equals(column[1:3]) and told.equals(schema)


def _of_numbers(column, kind):
    if pa.types.is_temporal(kind):
        return (column.cast(pa.int32()) if kind.bit_width == 32 else column).view(kind)
    return column.cast(kind)


class Pair(NamedTuple):
    total: int
    rest: tuple[float, ...]


def test_arrays_come_back_in_their_form_each_with_own_memory():
    table = np.arange(12.0).reshape(3, 4)
    arrays = [
        table, np.asfortranarray(table), table[:, ::2], table.T, np.array(3), np.empty((0, 4)), np.array([True, False]),
        np.array(["é", "xyz"]), np.array(["2020-02-29"], dtype="M8[D]"), np.arange(3, dtype=">i2"), table[::-1],
    ]  # fmt: skip
    again = from_bytes(to_bytes(arrays), [])
    for one, other in zip(arrays, again, strict=True):
        same(other, one)
        assert other.flags.writeable and other.flags.aligned and other.flags.owndata
        assert other.flags.fnc == one.flags.fnc
    for refused in (np.array([object()]), np.zeros(2, dtype=[("a", "i4")])):
        with pytest.raises(TypeError, match="give one of plain values"):
            to_bytes([refused])


@given(
    st.dictionaries(st.integers() | st.text(), st.floats() | st.integers(-(2**3000), 2**3000)), st.lists(st.floats())
)
def test_numbers_keys_and_named_tuples_come_back_bit_by_bit(content, floats):
    value = {"a": content, 3: Pair(2**2000, tuple(floats))}
    again = from_bytes(to_bytes(value), [Pair])
    assert repr(again) == repr(value) and type(again[3]) is Pair and to_bytes(again) == to_bytes(value)


def test_models_are_checked_when_they_are_read():
    column = Column(kind="integer", bounds=(0, 9))
    content = to_bytes([column])
    assert from_bytes(content, [Column]) == [column]
    with pytest.raises(TypeError, match="Column"):
        from_bytes(content, [])
