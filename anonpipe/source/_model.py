"""The input as an immutable description: its files, their units of work, and its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Unit:
    """A run of consecutive rows that one task reads."""

    index: int  # Its number, in the order of the rows
    path: str  # The file's local path or URL
    format: str  # `parquet`, `csv`, or `statistics` for SPSS, Stata and SAS
    row_groups: tuple[int, ...]  # The file's row groups in it, for Parquet
    # first_row, rows: where it begins in the whole input, and its number of rows
    first_row: int
    rows: int
    keys: tuple[str | None, ...] = ()  # Texts of the columns that the file's folders name; see `Source.keys`


@dataclass(frozen=True)
class Labels:
    """What a file of SPSS, Stata or SAS says of a column."""

    text: str = ""  # What the column is; empty for nothing
    # Of a column that is read as its labels, the value that each label stands for
    codes: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """An input that was opened and found readable."""

    units: tuple[Unit, ...]  # In the order of the rows
    schema: pa.Schema  # Of every file and the keys of its folders, without metadata
    # rows, bytes: of all files together
    rows: int
    bytes: int
    # paths, stamps: the files, and what tells a changed file (time of change or entity tag)
    paths: tuple[str, ...]
    stamps: tuple[str, ...]
    delimiter: str = ","  # Between the fields of a CSV
    # Of each column that pandas reads in a nullable type of its own, this type
    pandas_types: dict[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()  # Columns that stand in the names of folders, and not in the files
    # Of columns that a file of SPSS, Stata or SAS has labels of
    labels: Mapping[str, Labels] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """JSON-able content that changes when a file is changed, added or taken away."""
        return {
            "paths": list(self.paths),
            "stamps": list(self.stamps),
            "rows": self.rows,
            "bytes": self.bytes,
            "schema": self.schema.to_string(),
        }
