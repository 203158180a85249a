"""Columns of every type that can be released, with values on their steps, as hypothesis strategies."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import strategies as st

from anonpipe.columns import Column

DAY = dt.date(1970, 1, 1)


def _dictionary(values: st.SearchStrategy, kind: pa.DataType):
    return values, pa.dictionary(pa.int16(), kind)


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
_DAYS = st.integers(-20_000, 40_000)
_DATES = _DAYS.map(lambda days: DAY + dt.timedelta(days=days))
_TIMES = _DAYS.map(lambda days: dt.datetime(1970, 1, 1) + dt.timedelta(days=days))
_ZONED_DAYS = st.integers(-20_000, 24_000)  # Arrow knows no summer time after 2037
_MIDNIGHTS = _ZONED_DAYS.map(
    lambda days: dt.datetime(1970, 1, 1, tzinfo=ZoneInfo("Europe/Helsinki")) + dt.timedelta(days)
)

NUMERIC = {
    **{
        str(kind): (st.integers(*limits), kind, Column(kind="integer"))
        for kind, limits in {
            pa.int8(): (-128, 127),
            pa.int16(): (-(2**15), 2**15 - 1),
            pa.int32(): (-(2**31), 2**31 - 1),
            pa.int64(): (-(2**53), 2**53),
            pa.uint8(): (0, 255),
            pa.uint16(): (0, 2**16 - 1),
            pa.uint32(): (0, 2**32 - 1),
            pa.uint64(): (0, 2**53),
        }.items()
    },
    "float16": (st.floats(width=16, allow_nan=False, allow_infinity=False), pa.float16(), Column(kind="continuous")),
    "float32": (st.floats(width=32, allow_nan=False, allow_infinity=False), pa.float32(), Column(kind="continuous")),
    "float64": (st.floats(-1e150, 1e150), pa.float64(), Column(kind="continuous")),
    "tenths": (
        st.integers(-10_000, 10_000).map(lambda n: n / 10),
        pa.float64(),
        Column(kind="continuous", step=0.1, bounds=(-1000, 1000)),
    ),
    "fives": (st.integers(-100, 100).map(lambda n: 5 * n), pa.int16(), Column(kind="integer", step=5)),
    "integer as float": (st.integers(-(2**40), 2**40).map(float), pa.float64(), Column(kind="integer")),
    **{
        f"decimal{kind.bit_width}": (
            st.integers(-(10**7) + 1, 10**7 - 1).map(lambda n: Decimal(n).scaleb(-2)),
            kind,
            Column(kind="continuous"),
        )
        for kind in (pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(15, 2), pa.decimal256(40, 2))
    },
    "date32": (_DATES, pa.date32(), Column(kind="date", bounds=("1900-01-01", None))),
    "date64": (_DATES, pa.date64(), Column(kind="date")),
    **{
        f"timestamp {unit} {zone}": (times, pa.timestamp(unit, zone), Column(kind="date"))
        for unit in ("s", "ms", "us", "ns")
        for zone, times in ((None, _TIMES), ("Europe/Helsinki", _MIDNIGHTS))
    },
    "hours": (
        st.integers(-50_000, 50_000).map(lambda n: dt.datetime(1970, 1, 1) + dt.timedelta(hours=n)),
        pa.timestamp("us"),
        Column(kind="date", step=1 / 24),
    ),
    "dictionary of int32": (st.integers(-100, 100), pa.dictionary(pa.int16(), pa.int32()), Column(kind="integer")),
}
NUMERIC["date32"] = (st.integers(-25_000, 40_000).map(lambda d: DAY + dt.timedelta(days=d)), *NUMERIC["date32"][1:])

CODED = {
    "bool": (st.booleans(), pa.bool_()),
    "string": (_TEXT, pa.string()),
    "large_string": (_TEXT, pa.large_string()),
    "string_view": (_TEXT, pa.string_view()),
    "int8": (st.integers(-5, 5), pa.int8()),
    "uint64": (st.integers(2**64 - 5, 2**64 - 1), pa.uint64()),
    "float32": (
        st.sampled_from([-1.5, 0.0, 0.1, 2.0]).map(lambda v: float(pa.scalar(v, pa.float32()).as_py())),
        pa.float32(),
    ),
    "float16": (st.sampled_from([-1.5, 0.0, 2.0]), pa.float16()),
    "date32": (_DATES, pa.date32()),
    "timestamp": (_TIMES, pa.timestamp("ns", "UTC")),
    "decimal": (st.integers(-50, 50).map(lambda n: Decimal(n).scaleb(-1)), pa.decimal128(38, 1)),
    "dictionary": (_TEXT, pa.dictionary(pa.int8(), pa.string())),
    "dictionary of large_string": (_TEXT, pa.dictionary(pa.uint32(), pa.large_string())),
    "dictionary of int64": (st.integers(), pa.dictionary(pa.int32(), pa.int64())),
}
CODED["dictionary of int64"] = (st.integers(-(2**63), 2**63 - 1), CODED["dictionary of int64"][1])


def array(values: list, kind: pa.DataType) -> pa.Array:
    """Python values in any type."""
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    labels = list(dict.fromkeys(value for value in values if value is not None))
    index = [None if value is None else labels.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(index, kind.index_type), pa.array(labels, kind.value_type))
