"""Hashes of values and of rows: the one place that says when two values, or two rows, are the same.

- *In any width.* `value_words` gives a 64-bit word of each value of an Arrow column: equal for equal numbers of any
  type (to the seven digits that single precision has), equal times in any unit, equal texts in any encoding. On it rest
  `row_lanes`, two sums over a row's columns, whatever their order, and all that follows from them: whether an input
  changed (`fingerprint`), which records a table holds (`population`), and keyed numbers of its rows (`keyed_rows`).
- *To the last bit.* `exact_rows` and `exact_sums` are of cells as they lie in the staging.

Words and lanes are not keyed, and tell of the values: they stay in memory. What is kept in a file is a sum over many
rows, or keyed. Identifiers, of which two in 10^8 must not have one digest, have 128 bits (`encoding.identifiers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column
from anonpipe.encoding.values import (
    as_dictionary,
    date_counts,
    is_date,
    is_supported,
    plain,
    positions,
    present,
    units_per_day,
)
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import mix
from anonpipe.rng import keyed, number_keys
from anonpipe.storage.sketch import HashArray
from anonpipe.types import BoolArray, FloatArray, IntArray

_MODULUS = 2**64
_NANOSECONDS = 86_400_000_000_000  # Of a day
_INT64_DIGITS = 18
_BEYOND_INT64 = 2.0**63
_NAN_WORD = 0x7FF8000000000000
_POPULATION, _HELD_OUT = b"population, of no place", b"population, held out"


def value_words(array: pa.Array) -> tuple[HashArray, BoolArray]:
    """A 64-bit word for each value, and whether there is a value; neither encoding nor width matter."""
    if pa.types.is_dictionary(array.type):
        of_values = np.append(_words(plain(array.dictionary)), np.uint64(0))
        return of_values[positions(array.indices, len(of_values) - 1)], present(array)
    return _words(plain(array)), present(array)


def _words(array: pa.Array) -> HashArray:
    """A word for each plain value; the same for equal numbers of any type, and equal times in any unit."""
    kind = array.type
    if pa.types.is_string(kind):
        return text_words(array)
    if is_date(kind):
        return date_counts(array).view(np.uint64) * np.uint64(_NANOSECONDS // units_per_day(kind))
    if pa.types.is_decimal(kind):
        exact = kind.scale == 0 and kind.precision <= _INT64_DIGITS
        array = array.cast(pa.int64() if exact else pa.float64(), safe=False)
    stored = pc.fill_null(array, False if pa.types.is_boolean(kind) else 0).to_numpy(zero_copy_only=False)
    if np.issubdtype(stored.dtype, np.floating):
        return number_words(stored.astype(np.float64))
    if kind == pa.uint64():
        return np.asarray(stored)
    return np.asarray(stored.astype(np.int64)).view(np.uint64)


def number_words(values: FloatArray) -> HashArray:
    """A word for each float, whatever its width: the whole number, else the bits of the nearest single one."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32).astype(np.float64)
    found = np.where((values == np.rint(values)) | np.isinf(single), values, single)
    whole = (found == np.rint(found)) & (np.abs(found) < _BEYOND_INT64)
    words = found.view(np.uint64).copy()
    words[np.isnan(values)] = np.uint64(_NAN_WORD)
    words[whole] = found[whole].astype(np.int64).view(np.uint64)
    return words


def text_words(array: pa.Array, digits: int = 0) -> HashArray:
    """A word for each text; with `digits` so many last ones count as a number that is added to a word of the rest."""
    _, offsets, data = array.buffers()
    begin = array.offset
    ends = np.frombuffer(offsets, dtype=np.int32)[begin : begin + len(array) + 1] if len(array) else np.zeros(1)
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return np.asarray(_hash_texts(ends.astype(np.int64), content, digits))


def lanes_of(names: Iterable[str], batch: pa.RecordBatch, columns: Mapping[str, Column]) -> HashArray:
    """Two numbers of each row's content in some columns, shape (n_rows, 2); neither their order nor types matter."""
    lanes = np.zeros((batch.num_rows, 2), dtype=np.uint64)
    for name in names:
        array = batch.column(name)
        words = value_words(as_dictionary(array) if columns[name].staged_as_codes else array)
        add_column(lanes, *words, _seeds(name))
    return lanes


def row_lanes(batch: pa.RecordBatch, columns: Mapping[str, Column]) -> HashArray:
    """`lanes_of` the released columns."""
    return lanes_of(
        [name for name in batch.schema.names if name in columns and columns[name].role.released], batch, columns
    )


def identifier_lanes(batch: pa.RecordBatch, columns: Mapping[str, Column]) -> HashArray:
    """`lanes_of` the identifiers."""
    known = [each for each in batch.schema if each.name in columns and columns[each.name].role.names_persons]
    return lanes_of([each.name for each in known if is_supported(each.type)], batch, columns)


def _seeds(name: str) -> HashArray:
    """One number for each lane, from the column's name."""
    return np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype="<u8").astype(np.uint64)


def fingerprint(lanes: HashArray, first_row: int) -> tuple[int, int]:
    """Two sums modulo 2^64 of the hashes of consecutive rows, each bound to its place in the input."""
    sums = sum_rows(lanes, np.uint64(first_row))
    return int(sums[0]), int(sums[1])


def population(lanes: HashArray, kept: BoolArray | None = None) -> tuple[int, int]:
    """The same wherever the rows stand; rows that are not kept count apart."""
    mixed = number_keys(_POPULATION, lanes.reshape(-1)).reshape(lanes.shape)
    if kept is not None:
        mixed[~kept] = number_keys(_HELD_OUT, mixed[~kept].reshape(-1)).reshape(-1, lanes.shape[1])
    sums = mixed.sum(axis=0, dtype=np.uint64)
    return int(sums[0]), int(sums[1])


def add_fingerprints(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The fingerprint, or the population, of two sets of rows together."""
    return (a[0] + b[0]) % _MODULUS, (a[1] + b[1]) % _MODULUS


def keyed_rows(lanes: HashArray, first: bytes, second: bytes) -> HashArray:
    """A keyed number of each row's content, shape (n_rows,): without the keys it tells nothing of the row."""
    return number_keys(first, lanes[:, 0] + number_keys(second, lanes[:, 1]))


def _keyed_cells(cells: FloatArray, keys: Sequence[bytes]) -> HashArray:
    """A keyed number of each row of cells, shape (n_rows,); numbers count to seven digits."""
    numbers = np.zeros(len(cells), dtype=np.uint64)
    for column, key in zip(cells.T, keys, strict=True):
        numbers += number_keys(key, number_words(np.ascontiguousarray(column)))
    return numbers


def exact_rows(cells: FloatArray, groups: IntArray | None = None) -> HashArray:
    """A number of each row, shape (n_rows,), equal where rows are to the last bit, and their groups (n_rows,) if given.

    Others have the same with a probability of 1 in 2^64. Numbers of rows and of groups add up to those of both.
    """
    columns = {str(place): _bits(column) for place, column in enumerate(cells.T)}
    if groups is not None:
        columns["group"] = np.ascontiguousarray(groups, dtype=np.int64).view(np.uint64)
    rows, every = np.zeros((len(cells), 1), dtype=np.uint64), np.ones(len(cells), dtype=np.bool_)
    for name, words in columns.items():
        add_column(rows, words, every, _seeds(name)[:1])
    return rows[:, 0]


def exact_sums(cells: FloatArray) -> list[int]:
    """Of each column a sum modulo 2^64 over its values: the same for the same values in any order."""
    every, sums = np.ones(len(cells), dtype=np.bool_), []
    for column in cells.T:
        numbers = np.zeros((len(cells), 1), dtype=np.uint64)
        add_column(numbers, _bits(column), every, _seeds("")[:1])
        sums.append(int(numbers.sum(dtype=np.uint64)))
    return sums


def _bits(values: FloatArray) -> HashArray:
    """The bits of floats, of one NaN and one zero."""
    one_zero = np.ascontiguousarray(values, dtype=np.float64) + 0.0
    words = one_zero.view(np.uint64)
    words[np.isnan(one_zero)] = np.uint64(_NAN_WORD)
    return words


# --- Hashing of column values and their order-aware, layout-independent sum -------------------------------------------
# None of this is cryptographic: it distinguishes inputs, it does not hide them.

_FNV_START = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_NULL = np.uint64(0x6E756C6C6E756C6C)


@kernel
def _hash_texts(offsets: IntArray, data: npt.NDArray[np.uint8], digits: int) -> HashArray:
    """Up to so many last digits of each text as a number, plus FNV-1a of the rest, mixed; offsets (n + 1,)."""
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    for i in range(len(out)):
        rest, number, unit = offsets[i + 1], np.uint64(0), np.uint64(1)
        while rest > max(offsets[i], offsets[i + 1] - digits) and 48 <= data[rest - 1] <= 57:
            rest -= 1
            number += np.uint64(data[rest] - 48) * unit
            unit *= np.uint64(10)
        state = _FNV_START
        for at in range(offsets[i], rest):
            state = (state ^ np.uint64(data[at])) * _FNV_PRIME
        out[i] = number + mix(state) if rest > offsets[i] or rest == offsets[i + 1] else number
    return out


@kernel
def add_column(rows: HashArray, hashes: HashArray, valid: BoolArray, seeds: HashArray) -> None:
    """Add one column to rows (n, lanes), in place, in any order of columns; hashes, valid (n,), seeds (lanes,)."""
    for i in range(len(rows)):
        for lane in range(len(seeds)):
            if valid[i]:
                rows[i, lane] += mix(hashes[i] ^ seeds[lane])
            else:
                rows[i, lane] += mix(mix(seeds[lane] ^ _NULL))


@kernel
def sum_rows(rows: HashArray, first_row: np.uint64) -> HashArray:
    """Sum of the rows' hashes modulo 2^64, each bound to its place in the input; rows (n, lanes), returns (lanes,)."""
    total = np.zeros(rows.shape[1], dtype=np.uint64)
    for i in range(len(rows)):
        place = mix(first_row + np.uint64(i))
        for lane in range(len(total)):
            total[lane] += mix(rows[i, lane] ^ place)
    return total


# --- What identifies a record by its content alone: keys and an order that no place in a file decides -----------------
# Everything random or order-dependent in a run follows from these, so that the same records give the same release in
# whatever order, file layout or numeric width they come.

LUMP = 64  # Equal rows of a unit that are sampled and routed together

_APART = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Contents:
    """The content of consecutive rows of a unit, as keyed numbers."""

    rows: HashArray  # A keyed number of each row's content, shape (n,)
    # How many rows of the unit with the same content are counted before it, shape (n,): equal rows are exchangeable, so
    # that it does not matter which of them is counted first
    copies: npt.NDArray[np.uint32]

    def __getitem__(self, part: slice) -> Contents:
        return Contents(self.rows[part], self.copies[part])

    def keys(self, key: bytes, lump: int = 1) -> HashArray:
        """A number for each row, drawn by `key`, shape (n,); up to `lump` equal rows have one number."""
        lumps = (self.copies // np.uint32(lump)).astype(np.uint64)
        return number_keys(key, self.rows + lumps * _APART)


def contents_of(lanes: Iterable[HashArray], key: bytes) -> Contents:
    """The contents of a unit."""
    first, second = keyed(key, "content"), keyed(key, "content, second lane")
    parts = [keyed_rows(each, first, second) for each in lanes]
    rows = np.concatenate([np.empty(0, dtype=np.uint64), *parts])
    return Contents(rows, copy_numbers(rows))


def copy_numbers(numbers: HashArray) -> npt.NDArray[np.uint32]:
    """How many equal numbers stand before each, shape (n,)."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: len(ordered)]
    lengths = np.diff(np.append(begins, len(ordered)))
    copies = np.empty(len(numbers), dtype=np.uint32)
    copies[order] = np.arange(len(ordered)) - np.repeat(begins, lengths)
    return copies


def column_keys(key: bytes, names: Sequence[str]) -> list[bytes]:
    """A key for each column, by its name."""
    return [keyed(key, "order of rows", name) for name in names]


def canonical_order(cells: FloatArray, keys: Sequence[bytes]) -> IntArray:
    """An order of rows that follows from their values alone, shape (n_rows,)."""
    # By a keyed number of the row's content, so that the order tells nothing of the values; rows that agree in it
    # (numbers count to seven digits) by the cells themselves. Equal rows are exchangeable.
    numbers = _keyed_cells(cells, keys)
    order = np.argsort(numbers, kind="stable")
    alike = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    one, other = cells[order[alike]], cells[order[alike + 1]]
    if ((one == other) | (np.isnan(one) & np.isnan(other))).all():
        return order
    return np.lexsort((*cells.T[::-1], numbers))


# --- Groups whose records lie in several partitions: numbers that name the same group everywhere, and counts by them --

_POSITIVE = np.uint64(2**63 - 1)


def row_numbers(cells: FloatArray, groups: IntArray | None = None) -> IntArray:
    """A number of each row and group (n_rows,), 0 or more; the same for others with a probability of 1 in 2^63."""
    return np.asarray((exact_rows(cells, groups) & _POSITIVE).astype(np.int64))


def counted(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """The numbers that occur, ascending, and how often each does."""
    found, counts = np.unique(numbers, return_counts=True)
    return found, counts


def added(parts: Sequence[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    """What `counted` found of the parts of a table, as of the whole."""
    numbers, counts = (np.concatenate(side) for side in zip(*parts, strict=True))
    found, which = np.unique(numbers, return_inverse=True)
    return found, np.bincount(which.reshape(-1), weights=counts, minlength=len(found)).astype(np.int64)


def looked_up(numbers: IntArray, counts: IntArray, asked: IntArray) -> IntArray:
    """How often each of the numbers asked occurs; 0 for those that do not."""
    at = np.minimum(np.searchsorted(numbers, asked), len(numbers) - 1)
    return np.where(numbers[at] == asked, counts[at], 0)
