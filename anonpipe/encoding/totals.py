"""A line of totals at the end of a table, which would count as a person and be masked with the others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

FEWEST = 20  # Rows below which nothing is said

_WORD = re.compile(
    r"\W*((grand|over|sub)?\W*total(s|e|en|i|t)?( g[ée]n[ée]ral| general)?|sums?|summe|gesamt(summe|zahl)?|insgesamt|"
    r"somme|ensemble|suma|soma|som|totaal|razem|yhteens[äa]|i alt)\W*",
    re.IGNORECASE,
)


@dataclass
class TotalLine:
    """Finds out whether the last row of a table is a line of totals: by a word for it, or as its numbers are sums."""

    key: str  # The table's first column, where the word stands
    sums: dict[str, float] = field(default_factory=dict)  # Of the columns of numbers
    last: pa.RecordBatch | None = None  # The last row
    rows: int = 0

    def add(self, batch: pa.RecordBatch) -> Self:
        """Take the next rows."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
                self.sums[name] = self.sums.get(name, 0.0) + float(pc.sum(column).as_py() or 0.0)
        self.rows += batch.num_rows
        self.last = batch.slice(batch.num_rows - 1) if batch.num_rows else self.last
        return self

    @classmethod
    def joined(cls, parts: Iterable[TotalLine]) -> TotalLine:
        """That of consecutive parts of a table together."""
        whole = cls("")
        for part in parts:
            sums = {name: total + whole.sums.get(name, 0.0) for name, total in part.sums.items()}
            whole = cls(part.key, sums or whole.sums, part.last or whole.last, part.rows + whole.rows)
        return whole

    def warnings(self) -> list[str]:
        """What to tell of the last row: its number and names of columns, no value."""
        if self.last is None or self.rows < FEWEST:
            return []
        row = self.last.to_pylist()[0]
        numbers = {name: row[name] for name in self.sums if row[name] is not None and math.isfinite(row[name])}
        sums = [name for name, value in numbers.items() if value and math.isclose(value, self.sums[name] - value)]
        word = isinstance(row.get(self.key), str) and _WORD.fullmatch(row[self.key])
        if not word and (len(sums) < 2 or len(numbers) - len(sums) > 1):  # one number may be a key
            return []
        what = f"a word for them in column {self.key!r}" if word else f"the sums of {', '.join(map(repr, sums))}"
        return [
            f"row {self.rows:,}, the last one, looks like a line of totals ({what}). It counts as a person, and its "
            "values are masked with those of the others: delete the line in the file, or leave it out by a query"
        ]
