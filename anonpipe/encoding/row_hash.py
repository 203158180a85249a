"""Hashes of values and of rows: the one place that says when two values, or two rows, are the same.

Two senses of the same:

- *In any width.* `value_words` gives a 64-bit word of each value of an Arrow
  column: equal for equal numbers of any type (to the seven digits that single
  precision has), equal times in any unit, equal texts in any encoding. On it
  rest `row_lanes`, two sums over a row's columns (numbers of the columns'
  names beside their values', so that no order of columns matters), and all
  that follows from them: whether an input changed (`fingerprint`), which
  records a table holds (`population`), and keyed numbers of its rows
  (`keyed_rows`), from which sampling, order and sketches come.
- *To the last bit.* `exact_rows` and `exact_sums` are of cells as they lie in
  the staging.

Words and lanes are not keyed, and tell of the values: they stay in memory.
What is kept in a file is a sum over many rows, or keyed. Identifiers, of which
two in 10^8 must not have one digest, have 128 bits from a keyed hash of texts
(`anonpipe.encoding.identifiers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column
from anonpipe.encoding._row_hash_kernel import add_column, hash_texts, sum_rows
from anonpipe.encoding.values import as_dictionary, date_counts, is_date, plain, positions, present, units_per_day
from anonpipe.rng import number_keys
from anonpipe.types import BoolArray, FloatArray, IntArray

HashArray = npt.NDArray[np.uint64]

_MODULUS = 2**64
_NANOSECONDS = 86_400_000_000_000  # Of a day
_INT64_DIGITS = 18
_BEYOND_INT64 = 2.0**63
_NAN_WORD = 0x7FF8000000000000
_POPULATION, _HELD_OUT = b"population, of no place", b"population, held out"


def value_words(array: pa.Array) -> tuple[HashArray, BoolArray]:
    """A 64-bit word for each value, and whether there is a value; neither encoding nor width matter.

    Examples
    --------
    >>> values = pa.array(["b", "a", "b"])
    >>> bool((value_words(values)[0] == value_words(values.dictionary_encode())[0]).all())
    True
    """
    if pa.types.is_dictionary(array.type):
        of_values = np.append(_words(plain(array.dictionary)), np.uint64(0))
        return of_values[positions(array.indices, len(of_values) - 1)], present(array)
    return _words(plain(array)), present(array)


def _words(array: pa.Array) -> HashArray:
    """A word for each plain value; the same for equal numbers of any type, and equal times in any unit."""
    kind = array.type
    if pa.types.is_string(kind):
        return _text_words(array)
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
    """A word for each float: the whole number itself, else the bits of the nearest single-precision float.

    So a table that is written with other widths has the same words.

    Examples
    --------
    >>> number_words(np.array([3.0, -0.0])).tolist()
    [3, 0]
    >>> bool((number_words(np.array([0.1])) == number_words(np.array([0.1], dtype=np.float32).astype(float))).all())
    True
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32).astype(np.float64)
    found = np.where((values == np.rint(values)) | np.isinf(single), values, single)
    whole = (found == np.rint(found)) & (np.abs(found) < _BEYOND_INT64)
    words = found.view(np.uint64).copy()
    words[np.isnan(values)] = np.uint64(_NAN_WORD)
    words[whole] = found[whole].astype(np.int64).view(np.uint64)
    return words


def _text_words(array: pa.Array) -> HashArray:
    _, offsets, data = array.buffers()
    begin = array.offset
    ends = np.frombuffer(offsets, dtype=np.int32)[begin : begin + len(array) + 1] if len(array) else np.zeros(1)
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return np.asarray(hash_texts(ends.astype(np.int64), content))


def column_lanes(name: str, batch: pa.RecordBatch, columns: Mapping[str, Column]) -> HashArray:
    """Two numbers of each row's value in one column, shape (n_rows, 2): what it adds to `row_lanes`."""
    lanes = np.zeros((batch.num_rows, 2), dtype=np.uint64)
    _add(lanes, name, batch.column(name), columns[name])
    return lanes


def row_lanes(batch: pa.RecordBatch, columns: Mapping[str, Column]) -> HashArray:
    """Two numbers of each row's released content, shape (n_rows, 2); neither order of columns nor types matter."""
    lanes = np.zeros((batch.num_rows, 2), dtype=np.uint64)
    for name in batch.schema.names:
        if name in columns and columns[name].role.released:
            _add(lanes, name, batch.column(name), columns[name])
    return lanes


def _add(lanes: HashArray, name: str, array: pa.Array, column: Column) -> None:
    """Add a column to the lanes of its rows, in place."""
    add_column(lanes, *value_words(as_dictionary(array) if column.staged_as_codes else array), _seeds(name))


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


def keyed_cells(cells: FloatArray, keys: Sequence[bytes]) -> HashArray:
    """A keyed number of each row of cells, shape (n_rows,); numbers count to seven digits."""
    numbers = np.zeros(len(cells), dtype=np.uint64)
    for column, key in zip(cells.T, keys, strict=True):
        numbers += number_keys(key, number_words(np.ascontiguousarray(column)))
    return numbers


def exact_rows(cells: FloatArray, groups: IntArray | None = None) -> HashArray:
    """A number of each row, equal where rows are to the last bit, and their groups if given; shape (n_rows,).

    Rows that differ have the same number with a probability of 1 in 2^64.
    Numbers of rows alone and of groups alone add up to those of both.

    Shapes: groups (n_rows,).

    Examples
    --------
    >>> found = exact_rows(np.array([[1.0, np.nan, 0.0], [1.0, 2.0, 0.0], [1.0, np.nan, -0.0]]))
    >>> bool(found[0] == found[2]), bool(found[0] == found[1])
    (True, False)
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
