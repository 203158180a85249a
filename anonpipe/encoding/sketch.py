"""The sketches of an input, counted while it is scanned; see `anonpipe.storage.sketch`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anonpipe.columns import Column
from anonpipe.encoding.row_hash import column_lanes, keyed_rows
from anonpipe.encoding.values import is_supported, present
from anonpipe.rng import keyed
from anonpipe.storage.sketch import HashArray, Sketch

MOST = 4_096  # Contents in a sketch of whole records or of an identifier: all, or 2,048 at least

MOST_OF_PARTS = 16_384  # Contents in all sketches of records without one column together; a single one has 256 to 1,024


@dataclass
class Tracer:
    """Sketches of an input, filled batch by batch."""

    names: list[str]  # The columns to read: all that have a type of single values
    columns: Mapping[str, Column]  # The job's
    key: bytes  # Of the steward's secret
    sketches: dict[str, Sketch] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: pa.Schema, columns: Mapping[str, Column], key: bytes) -> Tracer:
        """For an input of this schema."""
        names = [f.name for f in schema if f.name in columns and is_supported(f.type)]
        return cls(names, columns, key)

    def add(self, batch: pa.RecordBatch) -> HashArray:
        """Count rows of the input; returns the lanes of their released content, shape (n_rows, 2)."""
        released, everything = (np.zeros((batch.num_rows, 2), dtype=np.uint64) for _ in range(2))
        parts: dict[str, HashArray] = {}
        dropped: list[str] = []
        for name in self.names:
            lanes, role = column_lanes(name, batch, self.columns), self.columns[name].role
            if role.names_persons:
                there = present(batch.column(name))
                self._count(_subject("identifier", [name]), lanes[there], MOST)
                continue
            everything += lanes
            if role.released:
                released += lanes
                parts[name] = lanes
            else:
                dropped.append(name)
        most = min(1_024, max(256, MOST_OF_PARTS // max(1, len(parts))))
        self._count(_subject("record", parts), released, MOST)
        if dropped:
            self._count(_subject("record", [*parts, *dropped]), everything, MOST)
        for name, lanes in parts.items() if len(parts) > 1 else ():
            self._count(_subject("record", [each for each in parts if each != name]), released - lanes, most)
        return released

    def _count(self, subject: str, lanes: HashArray, most: int) -> None:
        numbers = keyed_rows(lanes, self.key, keyed(self.key, "second"))
        self.sketches[subject] = self.sketches.get(subject, Sketch.empty(most)).add(numbers)


def _subject(what: str, names: Iterable[str]) -> str:
    """What a sketch is of: two of the same subject can be held against each other."""
    return json.dumps([what, *sorted(names)])
