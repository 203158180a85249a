"""Arrow arrays as numbers and as plain category values; and numbers as Arrow arrays again.

Numbers are in natural units: days since 1970-01-01 for dates and timestamps, by the clock of their zone. NaN counts as
missing throughout.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column
from anonpipe.errors import InputError
from anonpipe.types import BoolArray, FloatArray, IntArray

_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_WHOLE = 1e-9
_ROUNDING = 1e-14


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, whatever their encoding: dictionaries opened, narrow and view types widened."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return pa.float32() if pa.types.is_float16(kind) else kind


def is_number(kind: pa.DataType) -> bool:
    """Whether plain values are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_date(kind: pa.DataType) -> bool:
    """Whether plain values are dates or points in time."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_supported(kind: pa.DataType) -> bool:
    """Whether a released column may have this type."""
    plain = plain_type(kind)
    return is_number(plain) or is_date(plain) or bool(pa.types.is_boolean(plain) or pa.types.is_string(plain))


def plain(array: pa.Array) -> pa.Array:
    """The values without their encoding, NaN as null."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    wanted = plain_type(array.type)
    if array.type != wanted:
        array = array.cast(wanted)
    if pa.types.is_floating(wanted):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, wanted), array)
    return array


def as_dictionary(array: pa.Array) -> pa.DictionaryArray:
    """The values once each, and where they stand; a dictionary is left as it is."""
    return array if pa.types.is_dictionary(array.type) else plain(array).dictionary_encode()


def present(array: pa.Array) -> BoolArray:
    """Whether there is a value: neither null nor NaN, nor an index to a null or NaN."""
    if pa.types.is_dictionary(array.type):
        of_values = np.append(present(array.dictionary), False)
        return np.asarray(of_values[positions(array.indices, len(of_values) - 1)])
    return np.asarray(plain(array).is_valid().to_numpy(zero_copy_only=False))


def positions(array: pa.Array, null: int) -> IntArray:
    """Whole numbers as int64, with a number of their own for nulls."""
    filled = pc.fill_null(array.cast(pa.int64()), null)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def numbers(array: pa.Array) -> FloatArray:
    """The values as float64, NaN where missing, shape (n,); of texts of days their days."""
    array, wrong = of_days(array)
    if wrong:
        raise InputError(f"{wrong:,} texts of a column of dates are no ISO dates such as 1990-01-31; correct the input")
    if not is_date(array.type):
        return np.array(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    array = by_clock(array)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    counts = date_counts(array)
    per_day = units_per_day(array.type)
    days = counts // per_day + (counts % per_day) / per_day
    days[missing] = np.nan
    return np.asarray(days, dtype=np.float64)


def cut_to_days(array: pa.Array, step: float | None) -> pa.Array:
    """Points in time as their days, where they are released in steps of whole days; others as they are."""
    if not pa.types.is_timestamp(plain_type(array.type)) or (step or 1.0) % 1.0:
        return array
    return pc.floor_temporal(by_clock(plain(array)), unit="day")


def by_clock(array: pa.Array) -> pa.Array:
    """Points in time as a clock of their zone shows them, without a zone; of an unknown zone that of UTC."""
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    with suppress(pa.ArrowInvalid):
        return pc.local_timestamp(array) if zone else array
    return array.cast(pa.timestamp(array.type.unit))


def _in_zone(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The points in time of a zone at which its clock shows these; of those that it never shows the next."""
    if pa.types.is_timestamp(kind) and kind.tz:
        with suppress(pa.ArrowInvalid):
            clock = array.view(pa.timestamp(kind.unit))
            return pc.assume_timezone(clock, kind.tz, ambiguous="earliest", nonexistent="latest")
    return array.view(kind)


def date_counts(array: pa.Array) -> npt.NDArray[np.int64]:
    """The stored numbers of dates or timestamps; anything where null."""
    stored = array.view(pa.int32()) if pa.types.is_date32(array.type) else array.view(pa.int64())
    return np.asarray(pc.fill_null(stored, 0).to_numpy(zero_copy_only=False), dtype=np.int64)


ISO_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"  # How a text of a day is written; others are no dates
_FIRST_DAY, _LAST_DAY = -719_162.0, 2_932_896.0  # 0001-01-01 and 9999-12-31: what has four digits of a year


def of_days(array: pa.Array) -> tuple[pa.Array, int]:
    """Texts of days (1990-01-31) as dates, null where a text is none, and how many are none; others as they are."""
    array = plain(array)
    if not pa.types.is_string(array.type):
        return array, 0
    texts = array.dictionary_encode()
    days = _as_days(texts.dictionary)
    found = days.take(texts.indices)
    return found, found.null_count - array.null_count


def _as_days(texts: pa.Array) -> pa.Array:
    """Distinct texts as dates, null where they are none."""
    formed = pc.if_else(pc.match_substring_regex(texts, ISO_DAY), texts, pa.scalar(None, pa.string()))
    try:
        return formed.cast(pa.date32())
    except pa.ArrowInvalid:  # days that no month has: each by itself
        return pa.array([_day(text) for text in formed.to_pylist()], pa.date32())


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        return None


def units_per_day(kind: pa.DataType) -> int:
    """How many of a date or timestamp type's units make one day."""
    if pa.types.is_date32(kind):
        return 1
    return _PER_DAY["ms"] if pa.types.is_date64(kind) else _PER_DAY[kind.unit]


def from_numbers(values: FloatArray, field: pa.Field, step: float | None) -> pa.Array:
    """Numbers as an array of the field's type."""
    plain = plain_type(field.type)
    plain = pa.date32() if pa.types.is_string(plain) else plain  # days
    missing = np.isnan(values) if field.nullable else np.zeros(len(values), dtype=bool)
    present = np.where(missing, 0.0, values)
    if is_date(plain):
        days = step or 1.0
        counts = _integers(present / days, np.int64) * round(days * units_per_day(plain))
        array = pa.array(counts.astype(np.int32) if pa.types.is_date32(plain) else counts, mask=missing)
        array = _in_zone(array, plain)
    elif pa.types.is_floating(plain):
        array = pa.array(present.astype(plain.to_pandas_dtype()), mask=missing)
    elif pa.types.is_decimal(plain):
        array = _decimals(present, plain, missing)
    else:
        array = pa.array(_integers(present, plain.to_pandas_dtype()), mask=missing)
    return encoded(array, field.type)


def _integers(values: FloatArray, dtype: type[np.integer]) -> npt.NDArray[np.integer]:
    limits = np.iinfo(dtype)
    top = float(limits.max)
    if top > limits.max:  # 2^63 and 2^64 are no numbers of the type: take the next float below
        top = np.nextafter(top, 0.0)
    return np.asarray(np.clip(np.rint(values), float(limits.min), top).astype(dtype))


def _decimals(values: FloatArray, kind: pa.DataType, missing: BoolArray) -> pa.Array:
    """Decimals, which are stored as the whole numbers of their last place."""
    limit = np.nextafter(10.0**kind.precision, 0.0)
    counts = np.trunc(np.clip(np.rint(values * 10.0**kind.scale), -limit, limit))
    whole = pa.decimal256 if pa.types.is_decimal256(kind) else pa.decimal128
    stored = pa.array(counts).cast(whole(kind.precision, 0)).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [pa.array(~missing).buffers()[1], stored])


def encoded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A plain array in the wanted type; a dictionary holds the values that occur, in their order of occurrence."""
    if pa.types.is_string(plain_type(kind)) and is_date(array.type):
        array = array.cast(pa.string())
    if not pa.types.is_dictionary(kind):
        return array if array.type == kind else array.cast(kind)
    found = array.dictionary_encode()
    values, indices = found.dictionary.cast(kind.value_type), found.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)


def level_array(name: str, levels: tuple[bool | int | float | str, ...], kind: pa.DataType) -> pa.Array:
    """Declared categories in the column's plain type."""
    plain = plain_type(kind)
    textual = pa.types.is_string(plain) or is_date(plain)
    if any(isinstance(level, str) != textual for level in levels):
        raise InputError(
            f"column {name!r} holds {plain}, and some of its declared levels or events are of another type; "
            "write text and dates in quotes (YAML reads a bare yes, no, on or off as true or false), numbers without"
        )
    found = None
    with suppress(pa.ArrowException, ValueError, TypeError):
        found = pa.array(list(levels)).cast(plain)
    if found is None or len(found.unique()) != len(levels):
        raise InputError(
            f"the declared levels or events of column {name!r} do not fit its type {plain}; correct the list"
        )
    return found


@dataclass(frozen=True)
class Grid:
    """The values that a released number may take."""

    step: float | None  # Values are multiples of it counted from `origin`; None for no steps
    low: float  # Lower limit, -inf for none
    high: float  # Upper limit, inf for none
    origin: float = 0.0  # Zero, unless all values are as far from the multiples
    heaps: FloatArray | None = None  # The values that nearly all records have, ascending; None where these are many
    none_between: bool = False  # Whether nothing lies between heaps, however far apart: no clock shows 1380
    declared: Grid | None = None  # That of the job, if these steps are multiples of its: so that digits are the same

    def round(self, values: FloatArray) -> FloatArray:
        """The nearest permissible values, of heaps those near to one; NaN stays."""
        rounded = self._on_steps(values)
        return self.on_heaps(rounded if self.declared is None else self.declared.round(rounded))

    def on_heaps(self, values: FloatArray, highest: FloatArray | float = np.inf) -> FloatArray:
        """Values at the nearest heap that is not too high; far from all, as tails are, where they were; shape (n,)."""
        if self.heaps is None:
            return values
        at, gaps = np.clip(np.searchsorted(self.heaps, values), 1, len(self.heaps) - 1), np.diff(self.heaps)
        below, above = self.heaps[at - 1], self.heaps[at]
        nearest = np.where((above - values < values - below) & ~(above > highest), above, below)
        far = gaps.max() if self.none_between else np.median(gaps)
        return np.where((np.abs(nearest - values) <= far) & ~(nearest > highest), nearest, values)

    def _on_steps(self, values: FloatArray) -> FloatArray:
        if self.step is None:
            return np.clip(values, self.low, self.high)
        if self.origin:
            low, high = self.low - self.origin, self.high - self.origin
            return np.asarray(Grid(self.step, low, high)._on_steps(values - self.origin) + self.origin)
        inverse = round(1.0 / self.step)
        by_division = inverse > 0 and abs(1.0 / self.step - inverse) < _WHOLE * inverse
        counts = np.rint(values * inverse if by_division else values / self.step)
        counts = np.clip(counts, *self._counts())
        return np.asarray(counts / inverse if by_division else counts * self.step) + 0.0

    def scaled(self, values: FloatArray) -> FloatArray:
        """Values from the origin, and those of heaps as their places among them."""
        if self.heaps is None:
            return values - self.origin
        beyond = np.minimum(values - self.heaps[0], 0.0) + np.maximum(values - self.heaps[-1], 0.0)
        place = np.interp(values, self.heaps, np.arange(len(self.heaps), dtype=np.float64))
        return np.asarray(place + beyond / np.median(np.diff(self.heaps)))

    @property
    def mirrored(self) -> Grid:
        """That of the same values with the other sign."""
        heaps = None if self.heaps is None else -self.heaps[::-1]
        declared = None if self.declared is None else self.declared.mirrored
        return Grid(self.step, -self.high, -self.low, -self.origin, heaps, self.none_between, declared)

    def end(self, limit: float, inclusive: bool) -> float:
        """Where permissible values up to a limit, or below it, end: half a step above the last of them."""
        if self.step is None:
            return limit if inclusive else float(np.nextafter(limit, -np.inf))
        steps = (limit - self.origin) / self.step
        whole = round(steps)
        if abs(steps - whole) > _ROUNDING * max(1.0, abs(steps)):
            whole, inclusive = math.floor(steps), True
        return (whole + (0.5 if inclusive else -0.5)) * self.step + self.origin

    def _counts(self) -> tuple[float, float]:
        """The smallest and the largest permissible number of steps."""
        low, high = self.low / (self.step or 1.0), self.high / (self.step or 1.0)
        if np.isfinite(low):
            low = np.ceil(low - _ROUNDING * max(1.0, abs(low)))
        if np.isfinite(high):
            high = np.floor(high + _ROUNDING * max(1.0, abs(high)))
        return low, high

    @property
    def empty(self) -> bool:
        """Whether no value is permissible."""
        if self.step is None:
            return self.low > self.high
        low, high = self._counts()
        return low > high


def grid_of(column: Column, kind: pa.DataType) -> Grid:
    """What the job declares and the type can hold, together."""
    low, high = column.numeric_bounds
    smallest, least, most = _type_limits(kind)
    return Grid(
        column.resolution or smallest,
        least if low is None else max(low, least),
        most if high is None else min(high, most),
    )


def _type_limits(kind: pa.DataType) -> tuple[float | None, float, float]:
    """The smallest step, the smallest and the largest value of a type, in natural units."""
    plain = plain_type(kind)
    if pa.types.is_string(plain):
        return 1.0, _FIRST_DAY, _LAST_DAY
    if pa.types.is_integer(plain):
        limits = np.iinfo(plain.to_pandas_dtype())
        return 1.0, float(limits.min), float(limits.max)
    if pa.types.is_decimal(plain):
        unit = 10.0**-plain.scale
        top = 10.0 ** (plain.precision - plain.scale) - unit
        return unit, -top, top
    if is_date(plain):
        per_day = units_per_day(plain)
        top = (2.0**31 - 1 if per_day == 1 else 2.0**62) / per_day
        return 1.0 if pa.types.is_date64(plain) else 1.0 / per_day, -top, top
    opened = kind.value_type if pa.types.is_dictionary(kind) else kind
    top = math.inf if opened == pa.float64() else float(np.finfo(opened.to_pandas_dtype()).max)
    return None, -top, top


def check_grid(name: str, column: Column, kind: pa.DataType) -> None:
    """Refuse steps that the type cannot hold and bounds without any step between them."""
    plain, step = plain_type(kind), column.step
    smallest = _type_limits(kind)[0]
    if step is not None and smallest and abs(step / smallest - round(step / smallest)) > _WHOLE * step / smallest:
        raise InputError(
            f"column {name!r} holds {plain}, which cannot take steps of {step:g}; give a multiple of {smallest:g}"
        )
    if grid_of(column, kind).empty:
        raise InputError(
            f"no value of column {name!r} ({plain}) lies within its declared bounds and on its steps; "
            "widen bounds or lower step"
        )


# --- What a Parquet file says of pandas' nullable types, kept so that pandas reads a release as it reads the original -
# Of the metadata that pandas writes, nothing but such a type is taken, and only where it is one of the list for the
# column's own type: the rest may hold an index with its values, counts of rows and categories, columns that are
# dropped, and whatever else a frame was given along.

_KEY = b"pandas"

# By Arrow's name of a type the type of pandas that holds nulls besides
_NULLABLE = {
    **{f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float": "Float32",
    "double": "Float64",
    "bool": "boolean",
    "string": "string",
}


def is_index(name: str) -> bool:
    """Whether a column has the name that pandas stores a frame's index without a name under."""
    return re.fullmatch(r"__index_level_\d+__", name) is not None


def nullable_types(schema: pa.Schema) -> dict[str, str]:
    """Columns that pandas reads in a type of its own which holds nulls, and this type."""
    try:
        metadata = json.loads((schema.metadata or {}).get(_KEY, b"{}"))
        entries = [(each["field_name"], each["numpy_type"]) for each in metadata.get("columns", ())]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # of another program, or damaged
        return {}
    kinds = {field.name: field.type for field in schema}
    return {
        name: kind
        for name, kind in entries
        if isinstance(name, str) and name in kinds and kind in _permitted(kinds[name])
    }


def _permitted(kind: pa.DataType) -> tuple[str, ...]:
    """The types that pandas may read values of this type in; none for dictionaries, which are read as categories."""
    if pa.types.is_dictionary(kind):
        return ()
    nullable = _NULLABLE.get(str(plain_type(kind)))
    return (f"{kind}[pyarrow]",) if nullable is None else (nullable, f"{kind}[pyarrow]")


def with_nullable_types(schema: pa.Schema, types: Mapping[str, str]) -> pa.Schema:
    """The schema of a release with what pandas needs for these types, made from a table without rows or index."""
    wanted = {field.name: types[field.name] for field in schema if types.get(field.name) in _permitted(field.type)}
    if not wanted:
        return schema
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    frame = pa.schema(fields).empty_table().to_pandas().astype(wanted)
    made: dict[str, Any] = pa.Table.from_pandas(frame, pa.schema(fields), preserve_index=False).schema.pandas_metadata
    for entry, field in zip(made["columns"], schema, strict=True):
        if pa.types.is_dictionary(field.type):  # Arrow's own schema tells of it, without the number of its categories
            entry |= {"pandas_type": "object", "numpy_type": "object", "metadata": None}
    return schema.with_metadata({_KEY: json.dumps(made, sort_keys=True).encode()})
