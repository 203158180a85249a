"""A line of totals at the end of a table, which would count as a person and be masked with the others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.errors import InputError

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
    sums: dict[str, float] = field(default_factory=dict)  # Of the columns of numbers, over all rows
    last: dict[str, float] = field(default_factory=dict)  # The numbers of the last row
    word: bool = False  # Whether the last row has a word for totals
    rows: int = 0

    def add(self, batch: pa.RecordBatch, names: Sequence[str] | None = None) -> Self:
        """Take the next rows; of numbers those in the named columns, all if not given. No other value is kept."""
        if not batch.num_rows:
            return self
        self.last, end = {}, batch.num_rows - 1
        for name in batch.schema.names if names is None else names:
            column = batch.column(name)
            if not (pa.types.is_integer(column.type) or column.type in (pa.float32(), pa.float64())):
                continue
            self.sums[name] = self.sums.get(name, 0.0) + float(pc.sum(column).as_py() or 0.0)
            value = column[end].as_py()
            if value is not None and math.isfinite(value):
                self.last[name] = float(value)
        text = batch.column(self.key)[end].as_py() if self.key in batch.schema.names else None
        self.word = isinstance(text, str) and _WORD.fullmatch(text) is not None
        self.rows += batch.num_rows
        return self

    @classmethod
    def joined(cls, parts: Iterable[TotalLine]) -> TotalLine:
        """That of consecutive parts of a table together."""
        whole = cls("")
        for part in (part for part in parts if part.rows):
            sums = {name: total + whole.sums.get(name, 0.0) for name, total in part.sums.items()}
            whole = cls(part.key, sums, part.last, part.word, part.rows + whole.rows)
        return whole

    def warnings(self) -> list[str]:
        """What to tell of the last row: its number and names of columns, no value."""
        if self.rows < FEWEST:
            return []
        sums = [name for name, value in self.last.items() if value and math.isclose(value, self.sums[name] - value)]
        if not self.word and (len(sums) < 2 or len(self.last) - len(sums) > 1):  # one number may be a key
            return []
        what = f"a word for them in column {self.key!r}" if self.word else f"the sums of {', '.join(map(repr, sums))}"
        return [
            f"row {self.rows:,}, the last one, looks like a line of totals ({what}). It counts as a person, and its "
            "values are masked with those of the others: delete the line in the file, leave it out by a query, or "
            "write input.last_row: record if it is a record"
        ]

    def check(self, last_row: str | None) -> None:
        """Refuse a line of totals, unless the job says that the last row is a record."""
        for text in self.warnings() if last_row is None else ():
            raise InputError(text)
