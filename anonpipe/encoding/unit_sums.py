"""The keyed sums of an input's units, counted while it is scanned; see `anonpipe.storage.sketch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anonpipe.columns import Column
from anonpipe.encoding.row_hash import HashArray, column_lanes, keyed_rows
from anonpipe.errors import InputError
from anonpipe.rng import keyed, number_keys
from anonpipe.storage.sketch import MOST, UnitSums, buckets_for, merge_sums
from anonpipe.types import BoolArray


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
        """For inputs of these columns, of which so many changed units are to be told from fewer."""
        names = sorted(name for name, column in columns.items() if column.role.released)
        return cls(unit, names, columns, key, UnitSums.empty(buckets_for(2 * at_least)))

    def add(self, batch: pa.RecordBatch, kept: BoolArray | None = None) -> None:
        """Count rows of the input, but those that are held out."""
        batch = batch if kept is None else batch.filter(pa.array(kept))
        lanes = {name: column_lanes(name, batch, self.columns) for name in [self.unit, *self.names]}
        unit, none = lanes.pop(self.unit), np.zeros((batch.num_rows, 2), dtype=np.uint64)
        combinations = self._numbers(sum((lanes[name] for name in self._unchanged), none), "combination")
        distinct, which = np.unique(combinations, return_inverse=True)
        places, record = self._numbers(unit, "unit"), sum(lanes.values(), none)
        counts = [(places, self._numbers(lanes[name] + unit, "value")) for name in self.names]
        counts.append((places, self._numbers(record + unit, "value")))
        # by content alone: numbers of rows that are given anew every night are taken for other persons
        counts.append((self._numbers(record, "record"), self._numbers(record, "value")))
        buckets = self.sums.sums.shape[1]
        parts = [self.sums]
        for at, (name, each) in enumerate(zip([*self.names, "units", "contents"], counts, strict=True)):
            marks = number_keys(keyed(self.key, "count", str(at), name), distinct)
            parts.append(UnitSums.of(marks, which.reshape(-1), at, *each, buckets))
        self.sums = merge_sums(parts)
        if self.sums.sums.size > MOST:
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
