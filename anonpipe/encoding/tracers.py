"""Sketches of an input for the release logs, filled while it is scanned; see `anonpipe.storage.sketch`.

Records and identifiers are compared by their values alone. Contents stay equal if columns are renamed or reordered, if
numbers or dates are stored as text, and if the case of texts changes; excerpts of them also if columns join or leave.

Identifiers that number rows (1, 2, …; A001, …) agree in any two tables. So they are also counted with a number added:
where as many of these agree, the identifier is no evidence. Its pairs with values of the row can be.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column, Kind
from anonpipe.encoding.row_hash import (
    add_column,
    add_fingerprints,
    fingerprint,
    keyed_rows,
    lanes_of,
    text_words,
    value_words,
)
from anonpipe.encoding.values import is_supported, plain, positions, present
from anonpipe.errors import InputError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import mix
from anonpipe.rng import keyed, number_keys
from anonpipe.storage.sketch import (
    MAX_UNIT_SUMS,
    HashArray,
    Sketch,
    UnitSums,
    border_of,
    buckets_for,
    common_contents,
    merge_sums,
)
from anonpipe.types import BoolArray

MOST_OF_RECORDS = 4_096  # Contents in a sketch of whole records or of an identifier: all, or 2,048 at least
MOST_OF_PARTS = 16_384  # Contents in all sketches of records without one column together; a single one has 256 to 1,024
MOST_OF_EXCERPTS = 512
EXCERPTS = (2, 3)  # Values of a record in an excerpt of it
FULL_CELL = 16  # Mean records of an excerpt, above which it distinguishes no persons and is counted no further
MOST_COLUMNS = 8  # Of which excerpts are taken; no name decides which
SHIFTS = (1, 10, 12)  # Added to numbers: periods of 2 to 6, 10 and 12 rows, and sorted rows, agree as much as unshifted
_FEWEST_NEXT = 0.02  # Share of values whose shifted ones occur, from which a column numbers rows
_MOST_ROWS = 4  # Mean rows of a value, up to which a column that is dropped numbers rows
_KINDS = (Kind.CONTINUOUS, Kind.DATE, Kind.INTEGER, Kind.ORDINAL, Kind.CATEGORICAL, Kind.BINARY)  # Most values first
_SEEDS = np.array([0x243F6A8885A308D3, 0x13198A2E03707344], dtype=np.uint64)  # Of the two lanes, whatever the column

_NUMBER = r"^[+-]?\d{1,15}(\.\d{1,12})?$"
_DATE = r"^\d{4}-\d{2}-\d{2}$"


@dataclass
class Tracer:
    """Sketches of an input, filled batch by batch."""

    names: list[str]  # The columns to read: all that have a type of single values
    columns: Mapping[str, Column]  # The job's
    key: bytes  # Of the steward's secret
    sketches: dict[str, Sketch] = field(default_factory=dict)
    fingerprint: tuple[int, int] = (0, 0)  # Of released columns and identifiers

    @classmethod
    def of(cls, schema: pa.Schema, columns: Mapping[str, Column], key: bytes) -> Tracer:
        """For an input of this schema."""
        names = [f.name for f in schema if f.name in columns and is_supported(f.type)]
        return cls(names, columns, key)

    def add(self, batch: pa.RecordBatch, first_row: int = 0) -> HashArray:
        """Count rows of the input; returns the lanes of their released content, shape (n_rows, 2)."""
        lanes, identifiers, released = (np.zeros((batch.num_rows, 2), dtype=np.uint64) for _ in range(3))
        parts: dict[str, HashArray] = {}
        dropped: dict[str, HashArray] = {}
        words: dict[str, tuple[HashArray, BoolArray]] = {}
        numbers: dict[str, tuple[HashArray, BoolArray]] = {}
        for name in self.names:
            role, of_column = self.columns[name].role, lanes_of([name], batch, self.columns)
            column = comparable_words(batch.column(name))
            values = _value_lanes(*column)
            if not role.released:
                kind = "identifier" if role.names_persons else "dropped"
                for shift in (0, *SHIFTS):
                    shifted = _value_lanes(column[0] + np.uint64(shift), column[1])[column[1]]
                    self._count(_subject(_shifted(kind, shift), [name]), shifted, MOST_OF_RECORDS)
            if role.names_persons:
                identifiers += of_column
                numbers[name] = column
                continue
            words[name] = column
            if role.released:
                lanes += of_column
                released += values
                parts[name] = values
            else:
                dropped[name] = values
        most = min(1_024, max(256, MOST_OF_PARTS // max(1, len(parts))))
        self._count(_subject("record", parts), released, MOST_OF_RECORDS)
        if dropped:
            self._count(_subject("with dropped", [*parts, *dropped]), sum(dropped.values(), released), MOST_OF_RECORDS)
        for name, values in parts.items() if len(parts) > 1 else ():
            self._count(_subject("without one", [other for other in parts if other != name]), released - values, most)
        self._count_excerpts(words, numbers)
        for part in (lanes, identifiers):
            self.fingerprint = add_fingerprints(self.fingerprint, fingerprint(part, first_row))
        return lanes

    def _count_excerpts(
        self, columns: Mapping[str, tuple[HashArray, BoolArray]], identifiers: Mapping[str, tuple[HashArray, BoolArray]]
    ) -> None:
        """Count pairs and triples of values: some are the same whatever columns join, leave or change."""
        names = sorted(columns, key=lambda name: _KINDS.index(self.columns[name].kind))[:MOST_COLUMNS]
        key = keyed(self.key, "values of excerpts")
        values = {name: (number_keys(key, columns[name][0]), columns[name][1]) for name in names}
        for size in EXCERPTS:
            for subset in itertools.combinations(names, size):
                self._count_excerpt(_subject(f"excerpt of {size}", subset), [values[name] for name in subset])
        for identifier, shift in itertools.product(identifiers, (0, *SHIFTS)):
            words, valid = identifiers[identifier]
            numbers = number_keys(key, words + np.uint64(shift)), valid
            for name in names:
                subject = json.dumps([_shifted("numbered", shift), identifier, name])
                self._count_excerpt(subject, [numbers, values[name]])

    def _count_excerpt(self, subject: str, columns: list[tuple[HashArray, BoolArray]]) -> None:
        """Count two or three values of each row together."""
        (a, in_a), (b, in_b), *third = columns
        c, in_c = third[0] if third else (np.zeros_like(a), in_b)
        numbers, sketch = np.empty(len(a), dtype=np.uint64), self.sketches.get(subject, Sketch.empty(MOST_OF_EXCERPTS))
        count = _excerpts(a, b, c, in_a & in_b & in_c, border_of(sketch.level), numbers)
        sketch = sketch.add(numbers[:count])
        crowded = sketch.counts.sum() > FULL_CELL * max(64, len(sketch.counts))
        self.sketches[subject] = Sketch.nothing(MOST_OF_EXCERPTS) if crowded else sketch

    def _count(self, subject: str, lanes: HashArray, most: int) -> None:
        numbers = keyed_rows(lanes, self.key, keyed(self.key, "second"))
        self.sketches[subject] = self.sketches.get(subject, Sketch.empty(most)).add(numbers)


def _subject(kind: str, names: Iterable[str]) -> str:
    """What a sketch is of; only those of comparable kinds are compared."""
    return json.dumps([kind, *sorted(names)])


def _shifted(kind: str, shift: int) -> str:
    """A kind of sketches in which a number was added to values."""
    return f"{kind} +{shift}" if shift else kind


def comparable_sketches(sketches: Mapping[str, Sketch]) -> dict[str, Sketch]:
    """The sketches of a whole input that are evidence of its records."""
    # Excerpts with a dropped column that numbers rows are none; pairs with an identifier only where it numbers rows.
    subjects = {subject: json.loads(subject) for subject in sketches}
    row_numbers = {
        (kind, names[0])
        for subject, (kind, *names) in subjects.items()
        if kind in ("identifier", "dropped") and _numbers_rows(kind, names[0], sketches)
    }

    def is_evidence(kind: str, names: list[str]) -> bool:
        if kind.startswith("numbered"):
            return ("identifier", names[0]) in row_numbers
        if kind.startswith("excerpt"):
            return not any(("dropped", name) in row_numbers for name in names)
        return not kind.startswith("dropped")

    return {subject: sketches[subject] for subject, (kind, *names) in subjects.items() if is_evidence(kind, names)}


def _numbers_rows(kind: str, name: str, sketches: Mapping[str, Sketch]) -> bool:
    """Whether many values of a column follow each other."""
    values, *shifted = (sketches[_subject(_shifted(kind, shift), [name])] for shift in (0, *SHIFTS))
    if kind == "dropped" and values.counts.sum() > _MOST_ROWS * len(values.counts):
        return False
    return max(common_contents(values, other) for other in shifted) > _FEWEST_NEXT * len(values.numbers)


def comparable_words(array: pa.Array) -> tuple[HashArray, BoolArray]:
    """`value_words` in which numbers and ISO dates in texts equal those of other types, and case does not matter."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = array.dictionary_encode()
    if not pa.types.is_dictionary(array.type):
        return value_words(array)
    entries = plain(array.dictionary)
    words = _text_words(entries) if pa.types.is_string(entries.type) else value_words(entries)[0]
    return np.append(words, np.uint64(0))[positions(array.indices, len(words))], present(array)


def _text_words(texts: pa.Array) -> HashArray:
    texts = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    words = text_words(texts, digits=15).copy()
    for pattern, standard in ((_NUMBER, "0"), (_DATE, "1970-01-01")):
        matching = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
        chosen = matching.to_numpy(zero_copy_only=False)
        if chosen.any():
            found = pc.if_else(matching, texts, standard)
            number = pattern == _NUMBER
            values = found.cast(pa.float64()) if number else pc.strptime(found, "%Y-%m-%d", "s", error_is_null=True)
            words[chosen] = value_words(values)[0][chosen]
    return words


def _value_lanes(words: HashArray, valid: BoolArray) -> HashArray:
    """Two numbers of each value, whatever its column is called; zeros for a null. Shape (n_rows, 2)."""
    lanes = np.zeros((len(words), 2), dtype=np.uint64)
    add_column(lanes, words, valid, _SEEDS)
    lanes[~valid] = 0
    return lanes


@kernel
def _excerpts(a: HashArray, b: HashArray, c: HashArray, there: BoolArray, border: np.uint64, out: HashArray) -> int:
    """Numbers of the sums of three values, shape (n,), those up to a border, into `out`; returns how many."""
    count = 0
    for row in range(len(a)):
        number = mix(a[row] + b[row] + c[row])
        if number <= border and there[row]:
            out[count] = number
            count += 1
    return count


@dataclass
class UnitTracer:
    """Sums of an input, filled batch by batch."""

    unit: str  # The column that names persons, or whatever k counts
    names: list[str]  # The released columns, by name; two more counts are of whole records
    columns: Mapping[str, Column]  # The job's
    key: bytes  # Of the steward's secret
    sums: UnitSums  # What was counted

    @classmethod
    def of(cls, unit: str, columns: Mapping[str, Column], key: bytes, at_least: int) -> UnitTracer:
        """For inputs of these columns, of which so many changed units are to be distinguished from fewer."""
        names = sorted(name for name, column in columns.items() if column.role.released)
        return cls(unit, names, columns, key, UnitSums.empty(buckets_for(2 * at_least)))

    def add(self, batch: pa.RecordBatch, kept: BoolArray | None = None) -> None:
        """Count rows of the input, but those that are held out."""
        batch = batch if kept is None else batch.filter(pa.array(kept))
        lanes = {name: lanes_of([name], batch, self.columns) for name in [self.unit, *self.names]}
        unit, none = lanes.pop(self.unit), np.zeros((batch.num_rows, 2), dtype=np.uint64)
        combinations = self._numbers(sum((lanes[name] for name in self._unchanged), none), "combination")
        distinct, which = np.unique(combinations, return_inverse=True)
        places, record = self._numbers(unit, "unit"), sum(lanes.values(), none)
        counts = [(places, self._numbers(lanes[name] + unit, "value")) for name in self.names]
        counts.append((places, self._numbers(record + unit, "value")))
        # by content alone: numbers of rows that are given again every night are taken for other persons
        counts.append((self._numbers(record, "record"), self._numbers(record, "value")))
        buckets = self.sums.sums.shape[1]
        parts = [self.sums]
        for at, (name, each) in enumerate(zip([*self.names, "units", "contents"], counts, strict=True)):
            marks = number_keys(keyed(self.key, "count", str(at), name), distinct)
            parts.append(UnitSums.of(marks, which.reshape(-1), at, *each, buckets))
        self.sums = merge_sums(parts)
        if self.sums.sums.size > MAX_UNIT_SUMS:
            raise InputError(
                "repeat.growing counts changed persons among the records of each combination of the columns that are "
                f"released unchanged ({', '.join(map(repr, self._unchanged))}), and there are too many; mask or "
                "coarsen one of them"
            )

    @property
    def _unchanged(self) -> list[str]:
        return [name for name in self.names if self.columns[name].role.unchanged]

    def _numbers(self, lanes: HashArray, what: str) -> HashArray:
        return keyed_rows(lanes, keyed(self.key, what), keyed(self.key, what, "second"))
